//! DCM+ (Hamamreh 2020, eqs 4 to 7, section III): Westwood+'s estimate, W that tracks ssthresh, growth by the ratio of
//! successive RTTs. Eq 6 scales the retransmission timeout, which a congestion control in Linux cannot do.

use super::growth::Growth;
use super::named::{counters, tunables};
use super::rate_ca::{Limits, Rates};
use super::westwood::{Base, Cascade, LimitedCounts, Sampler, Thresholds, eq4_range, least, take};
use super::{Model, SAMPLE, chosen, close, show};
use crate::examples::Alone;
use hotcc_host_algo::ca_state::LOSS;
use hotcc_host_algo::{EVENT_LOSS, Flow, View};
use std::ops::RangeInclusive;

/// Value of `estimate`: BWE, or the newest sample if that is more.
const GREATER: u32 = 0;
/// Value of `lower`: W and ssthresh are only lowered while there is a queue.
const QUEUE: u32 = 0;

tunables! {
    /// Shortest time a bandwidth sample spans, microseconds.
    min_sample_us = 50_000 / 50_000;
    /// Time after which RTTmin expires if not seen, us; 0: never.
    base_window_us = 3_600_000_000 / 0;
    /// The 2 of eq 7's first branch, permille.
    slow_start_permille = 2000 / 2000;
    /// The 2 of eq 7's second branch, permille.
    avoidance_permille = 2000 / 2000;
    /// Least rate_CA, permille.
    rate_min_permille = 500 / 0;
    /// Greatest rate_CA, permille.
    rate_max_permille = 2000 / 1_000_000;
    /// RTT over RTTmin from which ssthresh takes effect, permille; 0: never.
    onset_permille = 1250 / 0;
    /// ssthresh follows from the greater of BWE and the newest sample (0), or from BWE (1).
    estimate = 0 / 1;
    /// W and ssthresh are lowered only while there is a queue (0) or always (1).
    lower = 0 / 1;
}

counters! {
    /// Changes of ssthresh and W.
    TrackingCounts {
        first: "first samples",
        early: "samples before ssthresh is in force",
        held: "samples that leave W alone while ssthresh is in force",
        raised: "thresholds raised",
        lowered: "thresholds lowered",
        kept: "thresholds that no queue lowers",
        kept_windows: "windows that no queue lowers",
        newest: "thresholds of the newest sample",
        followed: "windows moved to ssthresh",
        still: "windows at ssthresh already",
        onsets: "thresholds put in force by the RTT",
        pauses: "slow starts that the first ACKs of a round ended",
        onsets_above: "thresholds put in force above the window",
        losses: "thresholds put in force by a loss",
    }
}

/// The change that the hook just called made to W and ssthresh.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A sample ended while W tracks ssthresh.
    Tracked { window: u32, ssthresh: u32, lowers: bool },
    /// ssthresh took effect.
    Onset { window: u32 },
}

/// The algorithm's own bandwidths in 1/256 byte/s.
#[derive(Clone, Copy, Debug)]
struct Own {
    first: u64,
    second: u64,
    newest: u64,
}

/// The filter and the newest sample.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    filter: Cascade,
    newest: f64,
}

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct Dcmplus {
    tunables: Tunables,
    others: Vec<Tunables>,
    base: Base,
    sampler: Sampler,
    estimate: Estimate,
    thresholds: Thresholds,
    rates: Rates,
    growth: Growth,
    tracking: bool,
    /// Least RTT of the current round; `queue` is whether that of the last round showed a queue.
    round_least_us: Option<u32>,
    round_acks: u32,
    queue: bool,
    /// Whether a sample ended with the hook just called; and, if rounding decides whether an application-limited one is
    /// filtered, the result of the other decision.
    sampled: bool,
    other: Option<Estimate>,
    step: Option<Step>,
    limited: LimitedCounts,
    counts: TrackingCounts,
    coarse_bandwidths: u64,
    sample_ties: u64,
    tracking_ties: u64,
}

impl Dcmplus {
    /// Returns a connection before `init`; it may change to `others` while it runs.
    #[must_use]
    pub fn new(tunables: Tunables, others: Vec<Tunables>) -> Self {
        Self {
            tunables,
            others,
            base: Base::default(),
            sampler: Sampler::default(),
            estimate: Estimate::default(),
            thresholds: Thresholds::default(),
            rates: Rates::default(),
            growth: Growth::default(),
            tracking: false,
            round_least_us: None,
            round_acks: 0,
            queue: false,
            sampled: false,
            other: None,
            step: None,
            limited: LimitedCounts::default(),
            counts: TrackingCounts::default(),
            coarse_bandwidths: 0,
            sample_ties: 0,
            tracking_ties: 0,
        }
    }

    fn limits(&self) -> Limits {
        Limits { min_permille: self.tunables.rate_min_permille, max_permille: self.tunables.rate_max_permille }
    }

    fn eq4(&mut self, bandwidth: Option<f64>, sock: &View) -> u32 {
        self.thresholds.eq4(bandwidth, self.base.us, sock)
    }

    /// Filters a sample that ended, unless it shows the application's rate instead of the path's.
    fn take(&mut self, sample: f64, app_limited: bool) {
        self.sampled = true;
        let taken = take(self.estimate.filter, sample, app_limited, &mut self.limited);
        self.counts.first += u64::from(taken.first);
        let newest = self.estimate.newest;
        let of = |filter, skipped| Estimate { filter, newest: if skipped { newest } else { sample } };
        self.estimate = of(taken.now, taken.skipped);
        self.other = taken.other.map(|filter| of(filter, !taken.skipped));
    }

    /// Returns the bandwidth that ssthresh is computed from.
    fn bandwidth(&self) -> Option<f64> {
        let newest = if self.tunables.estimate == GREATER { self.estimate.newest } else { 0.0 };
        self.estimate.filter.known().map(|filtered| filtered.max(newest))
    }

    /// Returns whether every RTT of the round shows a queue. A single one may come from a delayed ACK.
    fn has_queue(&self) -> bool {
        let (least, onset) = (self.round_least_us.map(u64::from), u64::from(self.tunables.onset_permille));
        onset > 0 && least.zip(self.base.us).is_some_and(|(least, base)| least * 1000 > u64::from(base) * onset)
    }

    /// Moves W to the present ssthresh (section III). Below the path's capacity, though, a sample only shows what W
    /// was, so `default` lowers W only if there is a queue.
    fn track(&mut self, sock: &mut View) {
        let lowers = self.tunables.lower != QUEUE || self.queue;
        self.step = Some(Step::Tracked { window: sock.snd_cwnd, ssthresh: sock.snd_ssthresh, lowers });
        let present = self.eq4(self.bandwidth(), sock);
        let c = &mut self.counts;
        c.newest += u64::from(self.tunables.estimate == GREATER && self.estimate.filter.second < self.estimate.newest);
        c.raised += u64::from(present > sock.snd_ssthresh);
        c.lowered += u64::from(present < sock.snd_ssthresh && lowers);
        c.kept += u64::from(present < sock.snd_ssthresh && !lowers);
        c.kept_windows += u64::from(present < sock.snd_cwnd && !lowers);
        let (window, ssthresh) = tracked(present, sock.snd_ssthresh, sock.snd_cwnd, lowers);
        let window = window.min(sock.snd_cwnd_clamp);
        c.followed += u64::from(window != sock.snd_cwnd);
        c.still += u64::from(window == sock.snd_cwnd);
        (sock.snd_cwnd, sock.snd_ssthresh) = (window, ssthresh);
    }

    /// Lets ssthresh take effect if the RTT shows a queue.
    fn start_tracking(&mut self, sock: &mut View) {
        let free = sock.may_grow() && sock.app_limited == 0;
        if self.tracking || !free || !self.queue {
            return;
        }
        self.counts.onsets += 1;
        self.tracking = true;
        self.step = Some(Step::Onset { window: sock.snd_cwnd });
        sock.snd_ssthresh = self.eq4(self.bandwidth(), sock);
        self.counts.onsets_above += u64::from(sock.snd_ssthresh > sock.snd_cwnd);
        sock.snd_cwnd = sock.snd_cwnd.min(sock.snd_ssthresh);
        self.growth.clear();
    }

    /// Compares BWE's two stages and the newest sample.
    fn reconcile_bandwidth(&mut self, own: Own) -> Result<(), String> {
        let compare = |estimate: &Estimate| {
            let newest = own.newest as f64 / 256.0;
            if !close(newest, estimate.newest, 1e-12, SAMPLE) {
                return Err(format!("newest sample {newest} bytes/s, the model has {}", estimate.newest));
            }
            estimate.filter.compare(own.first, own.second)
        };
        let coarse = compare(&self.estimate).or_else(|difference| {
            let Some(other) = self.other else { return Err(difference) };
            let coarse = compare(&other).map_err(|_| difference)?;
            self.sample_ties += 1;
            self.estimate = other;
            Ok(coarse)
        })?;
        self.other = None;
        self.coarse_bandwidths += u64::from(std::mem::take(&mut self.sampled) && coarse);
        Ok(())
    }

    /// Returns the possible results of eq 4 with the algorithm's own bandwidths.
    fn eq4_of(&self, own: Own, sock: &View, window: u32) -> RangeInclusive<u32> {
        let newest = if self.tunables.estimate == GREATER { own.newest } else { 0 };
        eq4_range(own.second.max(newest), self.base.us, sock.mss, window)
    }

    /// Compares ssthresh and W after a sample or a round's end moved them, with the results from the algorithm's own
    /// bandwidths.
    fn reconcile_step(&mut self, step: Step, want: &View, got: &View, own: Own) -> Result<(), String> {
        let (Step::Tracked { window, .. } | Step::Onset { window }) = step;
        // eq 4 may be rounded down by a segment
        let both = self.eq4_of(own, got, window).map(|present| match step {
            Step::Tracked { window, ssthresh, lowers } => tracked(present, ssthresh, window, lowers),
            Step::Onset { window } => (window.min(present), present),
        });
        let allowed: Vec<(u32, u32)> = both.map(|(window, s)| (window.min(got.snd_cwnd_clamp), s)).collect();
        if !allowed.contains(&(got.snd_cwnd, got.snd_ssthresh)) {
            return Err(format!(
                "{}; the model has {}; by its bandwidths W and ssthresh are one of {allowed:?}",
                show(got),
                show(want)
            ));
        }
        self.tracking_ties += u64::from(got.snd_ssthresh != want.snd_ssthresh);
        if let Step::Tracked { window, .. } = step
            && got.snd_cwnd != window
        {
            self.growth.clear();
        }
        Ok(())
    }
}

/// Returns W and ssthresh for the present result of eq 4.
fn tracked(present: u32, ssthresh: u32, window: u32, lowers: bool) -> (u32, u32) {
    if lowers { (present.max(2), present) } else { (present.max(window), present.max(ssthresh)) }
}

impl Model for Dcmplus {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
        }
    }

    fn init(&mut self, sock: &mut View) {
        (self.estimate, self.tracking) = (Estimate::default(), false);
        self.base.restart(sock);
        (self.round_least_us, self.round_acks, self.queue) = (None, 0, false);
        self.sampler.restart(sock);
        self.thresholds.restart();
        self.rates.restart(sock);
        self.growth.clear();
    }

    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        // in the loss state, the old queue may remain, so RTTmin does not expire
        let window_us = if sock.ca_state as u8 == LOSS { 0 } else { self.tunables.base_window_us };
        self.base.sample(sock, rtt_us, window_us);
        self.round_least_us = least(self.round_least_us, rtt_us);
        if let Some(sample) = self.sampler.sample(sock, rtt_us, self.tunables.min_sample_us) {
            let app_limited = self.sampler.app_limited || sock.app_limited != 0;
            self.sampler.restart(sock);
            self.take(sample, app_limited);
            let free = sock.may_grow() && !app_limited;
            self.counts.early += u64::from(!self.tracking);
            self.counts.held += u64::from(self.tracking && !free);
            if self.tracking && free {
                self.track(sock);
            }
        }
        if !self.tracking {
            self.round_acks += 1;
            if self.round_acks == 8 && self.has_queue() && sock.app_limited == 0 && sock.may_grow() {
                self.counts.pauses += u64::from(sock.in_slow_start());
                sock.snd_ssthresh = sock.snd_ssthresh.min(sock.snd_cwnd.max(2));
            }
        }
        if self.rates.round_over(sock) {
            self.rates.update(sock.srtt_us, self.limits());
            self.queue = self.has_queue();
            (self.round_least_us, self.round_acks) = (None, 0);
            self.start_tracking(sock);
        }
    }

    /// Applies eq 7.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        let factors = [self.tunables.slow_start_permille, self.tunables.avoidance_permille];
        self.growth.ack(sock, acked, &self.rates, factors);
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.counts.losses += u64::from(!self.tracking);
        self.tracking = true;
        self.growth.clear();
        let segments = self.eq4(self.bandwidth(), sock);
        self.thresholds.lose(segments, sock)
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        if sock.ca_state as u8 == LOSS {
            self.base.confirm(sock);
        }
        self.thresholds.undo(sock)
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        if state == LOSS {
            self.growth.clear();
            self.thresholds.enter_loss(self.bandwidth(), &mut self.base, self.tunables.base_window_us, sock);
        }
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        self.tracking |= event == EVENT_LOSS;
        self.thresholds.cwnd_event(event, self.bandwidth(), &mut self.base, self.tunables.base_window_us, sock);
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.base.agree(flow.private("base_us"))?;
        let tracking = flow.private("tracking") != 0;
        if tracking != self.tracking {
            return Err(format!("ssthresh in force: {tracking}; the model has {}", self.tracking));
        }
        let [first, second, newest] =
            ["bandwidth.first_q8", "bandwidth.second_q8", "newest_q8"].map(|name| flow.private(name));
        let own = Own { first, second, newest };
        self.reconcile_bandwidth(own)?;
        self.rates.reconcile(flow.private("rate_q16"), flow.private("inverse_q16"))?;
        let mut want = *want;
        if let Some(step) = self.step.take() {
            self.reconcile_step(step, &want, got, own)?;
            (want.snd_cwnd, want.snd_ssthresh) = (got.snd_cwnd, got.snd_ssthresh);
        }
        let by_bandwidth = self.eq4_of(own, got, got.snd_cwnd);
        self.thresholds.reconcile(&want, got, flow.private("loss_ssthresh"), &by_bandwidth)?;
        self.growth.reconcile(&want, got)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        self.thresholds.reconcile_asked(want, got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        let own = vec![
            ("thresholds rounded the other way", self.thresholds.ties),
            ("samples that left a bandwidth beyond 0.1 %", self.coarse_bandwidths),
            ("application-limited samples ranked the other way", self.sample_ties),
            ("rates whose inverse is beyond 0.1 %", self.rates.coarse),
            ("tracked thresholds rounded the other way", self.tracking_ties),
        ];
        [own, self.growth.rounding.named()].concat()
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        [
            self.sampler.counts.named(),
            self.limited.named(),
            self.base.counts.named(),
            self.thresholds.counts.named(),
            self.rates.counts.named(),
            self.growth.counts.named(),
            self.counts.named(),
        ]
        .concat()
    }
}

impl Alone for Dcmplus {
    fn go_on(&mut self, sock: &View) {
        if let Some(Step::Tracked { window, .. }) = self.step.take()
            && sock.snd_cwnd != window
        {
            self.growth.clear();
        }
        self.other = None;
        self.thresholds.go_on();
        self.rates.go_on();
        self.growth.go_on(sock);
    }

    fn field(&self, name: &str) -> f64 {
        match name {
            "bandwidth.first_q8" => self.estimate.filter.first,
            "bandwidth.second_q8" => self.estimate.filter.second,
            "newest_q8" => self.estimate.newest,
            "base_us" => self.base.us.unwrap_or(0).into(),
            "rate_q16" => self.rates.rate,
            "inverse_q16" => 1.0 / self.rates.rate,
            "tracking" => u32::from(self.tracking).into(),
            "loss_ssthresh" => self.thresholds.remembered().unwrap_or(0).into(),
            _ => panic!("no field {name}"),
        }
    }
}
