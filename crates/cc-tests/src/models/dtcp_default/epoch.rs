//! The end of an epoch: bandwidths, room and fall, N.

use super::base::Base;
use super::link::Link;
use super::state::{Choices, State, World};
use crate::models::interval::{Interval, Q16, Q22};
use crate::models::{Q8, SAMPLE};
use hotcc_host_algo::View;

/// Largest N, whatever W.
const N_LIMIT: f64 = (1 << 20) as f64;
/// Least Q/W by bandwidth: keeps one epoch's growth of N representable.
const QUEUE_FLOOR: f64 = -1024.0;
/// Highest rate, bytes/s: 4.4 Tbit/s.
const RATE_LIMIT: f64 = (1u64 << 39) as f64;

impl World {
    /// Returns alpha, the target share of W in the queue.
    pub(super) fn alpha(&self) -> Interval {
        Interval::point(f64::from(self.tunables.alpha_permille) / 1000.0).down(Q22)
    }

    /// Returns BW_0: eqs 6 and 7 with S = 0.
    fn expected(&self, filtered: Interval, sample: Interval) -> Interval {
        let g = f64::from(self.tunables.g_permille) / 1000.0;
        (filtered.down(SAMPLE) * (1.0 - g) + sample * g).about(SAMPLE)
    }

    /// Returns the filter after a sample, by eq 5 or eq 4.
    fn filter(&self, before: &State, sample: Interval) -> Interval {
        let kept = f64::from(self.tunables.filter_permille) / 1000.0;
        let new = if self.tunables.filter == 0 { sample } else { (sample + before.sample) * 0.5 };
        (before.filtered * kept + new * (1.0 - kept)).down(Q8)
    }
}

impl State {
    pub(super) fn end_epoch(&mut self, world: &World, sock: &View, elapsed_us: u64, choices: &mut Choices) {
        self.coverage.epochs += 1;
        let app_limited = self.epoch.app_limited || sock.app_limited != 0;
        let delivered = sock.delivered.wrapping_sub(self.epoch.delivered);
        let lost = sock.lost.wrapping_sub(self.epoch.lost) as u16; // the algorithm keeps 16 bits
        let bytes = u128::from(delivered) * u128::from(sock.mss);
        let rate = bytes * 1_000_000 / u128::from(elapsed_us.max(1)); // eq 1, in whole bytes/s
        let sample = Interval::point((rate as f64).min(RATE_LIMIT));
        let queue = self.base.queue(self.base.least_us());
        if self.path.replace(world.path).is_some_and(|path| path != world.path) && world.tunables.base_window_s != 0 {
            self.coverage.base_changes += 1;
            self.base = Base::new(sock.now_us);
            self.link = Link::default();
        }
        self.watch_start(world, sock, delivered, choices);
        self.count_losses(delivered, lost);
        self.restart_epoch(sock);
        (self.hold, self.room) = (false, false);
        if app_limited && !choices.decide(self.filtered.is_below(sample)) {
            self.coverage.app_limited_ignored += 1;
            self.weight.forecast = Interval::ZERO;
            return;
        }
        if !app_limited {
            let busy = !choices.decide(queue.is_below(world.alpha() * 0.25));
            self.judge(world.expected(self.filtered, self.sample), sample, busy, choices);
        }
        if self.filtered.high == 0.0 {
            self.coverage.first_samples += 1;
            self.filtered = sample;
        } else {
            self.filtered = world.filter(self, sample);
        }
        self.sample = sample;
        self.weight.forecast = Interval::ZERO;
        if app_limited {
            self.coverage.app_limited_filtered += 1;
        } else if self.window.low < self.ssthresh.low {
            self.coverage.slow_start_epochs += 1;
        } else if !sock.may_grow() {
            self.coverage.recovery_epochs += 1;
        } else {
            self.update_n(world, sock, queue, lost > 0, choices);
            self.look_for_base(world, sock, choices);
        }
    }

    /// Returns Q/W of eqs 10 and 11, with BW_0 for BW_E.
    fn ratio(&self, world: &World, sock: &View, expected: Interval) -> Interval {
        let by_bandwidth = ((expected - self.sample) / expected).about(Q22).map(|q| q.max(QUEUE_FLOOR));
        let by_rtt = self.base.queue(Some(sock.srtt_us >> 3));
        match world.tunables.queue {
            0 => by_bandwidth,
            1 => by_rtt,
            _ => by_bandwidth.max(by_rtt),
        }
    }

    fn update_n(&mut self, world: &World, sock: &View, queue: Interval, lost: bool, choices: &mut Choices) {
        self.coverage.updates += 1;
        let (before, one) = (self.n, Interval::point(1.0));
        let mut limit = self.window * 0.25;
        if world.tunables.n_max != 0 {
            limit = limit.min(Interval::point(f64::from(world.tunables.n_max)));
        }
        let losing = self.loses_much(world, choices);
        if losing {
            self.coverage.losing += 1;
            limit = limit.min(before);
        }
        let limit = limit.min(Interval::point(N_LIMIT));
        let change = self.room_and_fall(world, sock, queue, [lost, losing], choices);
        if let Some(ratio) = change {
            let alpha = f64::from(world.tunables.alpha_permille) / 1000.0;
            // N Q is rounded, and then divided by alpha
            self.n = (before + one - before * ratio * (1.0 / alpha)).about((1.0 / alpha + 2.0) * Q16);
        }
        self.n = self.n.min(limit).max(one);
        self.coverage.n_grew += u64::from(self.n.low > before.high);
        self.coverage.n_fell += u64::from(self.n.high < before.low);
        self.coverage.n_at_one += u64::from(self.n == one);
        self.coverage.n_at_limit += u64::from(self.n == limit);
    }

    /// Adds the signal's part to Q/W; without a bandwidth there is none. W follows a fall of more than alpha, and room
    /// of alpha.
    fn room_and_fall(
        &mut self,
        world: &World,
        sock: &View,
        queue: Interval,
        [lost, losing]: [bool; 2],
        choices: &mut Choices,
    ) -> Option<Interval> {
        let (alpha, expected) = (world.alpha(), world.expected(self.filtered, self.sample));
        let g = f64::from(world.tunables.g_permille) / 1000.0;
        let queued = !choices.decide(queue.is_below(alpha * 0.25));
        let term = (self.signal_term(world, sock, queued || losing) * g).towards_zero(1.0);
        if choices.decide(expected.is_below(Interval::point(1.0))) {
            self.coverage.no_bandwidth += 1;
            return None;
        }
        let term = self.believed(term, expected, choices);
        let (mut room, mut fall) = (Interval::ZERO, Interval::ZERO);
        if queued {
            fall = (Interval::ZERO - term).max(Interval::ZERO) / expected;
        } else {
            self.coverage.falls_idle += u64::from(term.high < 0.0);
        }
        let long = !choices.decide(queue.is_below(alpha));
        if lost || losing || long {
            self.coverage.rooms_lost += u64::from(lost && term.low > 0.0);
            self.coverage.rooms_losing += u64::from(losing && term.low > 0.0);
            self.coverage.rooms_queued += u64::from(long && term.low > 0.0);
        } else {
            let unused = (self.sample - expected).max(Interval::ZERO);
            room = ((term - unused).max(Interval::ZERO) / expected).down(Q22).max(Interval::ZERO);
        }
        fall = if fall == Interval::ZERO { fall } else { fall.down(Q22).max(Interval::ZERO) };
        self.room = choices.decide(Interval::ZERO.is_below(room));
        self.coverage.room += u64::from(self.room);
        self.coverage.falls += u64::from(fall.low > 0.0);
        let full = room != Interval::ZERO && !choices.decide(room.is_below(alpha));
        room = room.min(alpha);
        self.coverage.full_room += u64::from(full);
        if choices.decide(alpha.is_below(fall)) {
            self.follow(world, sock, expected + term, false);
        } else if full {
            self.follow(world, sock, expected + term, true);
        }
        self.hold = choices.decide(alpha.is_below(queue + fall));
        self.coverage.held += u64::from(self.hold);
        Some(self.ratio(world, sock, expected) + fall - room)
    }

    /// Moves W to where the path holds a queue of 3 alpha at the predicted bandwidth.
    fn follow(&mut self, world: &World, sock: &View, foretold: Interval, up: bool) {
        let Some(base) = self.base.us else { return };
        let queue = 1.0 + 3.0 * f64::from(world.tunables.alpha_permille) / 1000.0;
        let segments = foretold.max(Interval::ZERO) * (f64::from(base) / 1e6 / f64::from(sock.mss) * queue);
        let window = segments.down(1.0).max(Interval::ZERO);
        let before = self.window;
        if up {
            self.raise_window(window, sock);
            self.coverage.windows_raised += u64::from(self.window.low > before.high);
        } else {
            self.lower_window(window);
            self.ssthresh = self.ssthresh.min(self.window.max(Interval::point(2.0)));
            self.coverage.windows_lowered += u64::from(self.window.high < before.low);
        }
    }
}
