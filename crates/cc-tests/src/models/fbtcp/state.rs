//! FB-TCP's state of one connection, and how each event changes it.

mod drain;
mod losses;

use super::rows::{self, Action, RENO, SEVERE};
use super::{Coverage, Tunables};
use crate::models::{FAST, elapsed_us, slow_start};
use hotcc_host_algo::View;
use hotcc_host_algo::ca_state::{CWR, RECOVERY};

/// Largest rate, bytes/s; a larger one counts as this one.
const RATE_LIMIT: f64 = (1u64 << 39) as f64;
/// Least W, ssthresh and maxCwnd, segments.
const MIN_WINDOW: u32 = 2;
/// Largest maxCwnd, segments.
const MAX_WINDOW: f64 = 0x7fff_ffff_u32 as f64;
/// Least number of segments that losses are counted over.
const SPAN: f64 = 100.0;
/// Resolution of CSI and CAD.
const Q16: f64 = 1.0 / 65_536.0;

/// baseRtt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Base {
    pub(super) rtt_us: u32,
    /// When the base was last seen or taken over, or a drain to measure it last ended.
    seen_us: u64,
}

/// maxCwnd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct UpperBound {
    pub(super) segments: u32,
    since_us: u64,
}

/// The interval that the delivery rate DP is taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Interval {
    start_us: u64,
    delivered: u32,
    app_limited: bool,
}

/// A round, which lasts until everything sent before it began is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Round {
    end: u32,
    samples: u32,
    least_rtt_us: Option<u32>,
}

/// The span that losses are counted over: the connection's counters at its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Span {
    lost: u32,
    delivered: u32,
}

/// What a row adds to W over a round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Step {
    /// The whole step, as the round began, segments.
    whole: u32,
    /// W as the round began, segments.
    window: u32,
    /// Part of the step not added to W yet, segments.
    left: u32,
    /// Growth earned and not added to W yet, segments times W.
    account: f64,
}

/// The W and ssthresh that the end of a recovery restores.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Restore {
    window: u32,
    ssthresh: u32,
}

/// maxCwnd by eq 1 for one interval, in whole segments: from the real-valued rate, and from one in whole bytes/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) exact: u32,
    pub(super) truncated: u32,
    app_limited: bool,
}

/// One connection.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) base: Option<Base>,
    pub(super) max: Option<UpperBound>,
    /// The row last applied; `repeat` is the number of successive rounds in it.
    pub(super) rule: u32,
    pub(super) repeat: u32,
    /// CSI of the round that the last ACK ended, in whole 2^-16; `None` if it ended no round or applied no row.
    pub(super) csi_q16: Option<f64>,
    interval: Interval,
    round: Round,
    span: Span,
    /// Remaining rounds in which W grows as in Divergence.
    loss_hold: u32,
    drain: Option<drain::Drain>,
    step: Step,
    restore: Option<Restore>,
    /// Number of rounds that would have matched another row with a real-valued CSI.
    pub(super) rows_decided_by_resolution: u64,
    pub(super) coverage: Coverage,
}

/// Returns `permille` of W, in whole segments.
fn part(window: u32, permille: u32) -> u32 {
    (f64::from(window) * f64::from(permille) / 1000.0).floor() as u32
}

fn three_quarters(window: u32) -> u32 {
    (f64::from(window) * 3.0 / 4.0).floor() as u32
}

impl State {
    pub(super) fn step_left(&self) -> u32 {
        self.step.left
    }

    /// Returns whether the two states will act alike from now on.
    pub(super) fn same(&self, other: &Self) -> bool {
        (self.base, self.max, self.rule, self.repeat) == (other.base, other.max, other.rule, other.repeat)
            && (self.interval, self.round, self.span) == (other.interval, other.round, other.span)
            && (self.loss_hold, self.drain) == (other.loss_hold, other.drain)
            && (self.step, self.restore) == (other.step, other.restore)
    }

    /// Handles `init`: resets the state and keeps W.
    pub(super) fn start(&mut self, sock: &mut View) {
        let (coverage, ties) = (std::mem::take(&mut self.coverage), self.rows_decided_by_resolution);
        *self = Self { coverage, rows_decided_by_resolution: ties, ..Self::default() };
        self.coverage.add(if sock.data_segs_out == 0 { "fresh starts" } else { "takeovers" });
        self.step.window = sock.snd_cwnd;
        if sock.data_segs_out > 0 && ![0, u32::MAX].contains(&sock.min_rtt_us) {
            self.coverage.add("bases brought along");
            self.base = Some(Base { rtt_us: sock.min_rtt_us, seen_us: sock.now_us });
        }
        self.restart(sock);
    }

    /// Cuts a drain short, and restarts the interval, the round and the span of losses.
    pub(super) fn restart(&mut self, sock: &mut View) {
        self.cut_drain_short(sock);
        self.start_interval(sock);
        self.start_round(sock);
        self.start_span(sock);
    }

    fn start_interval(&mut self, sock: &View) {
        let limited = sock.app_limited != 0 || self.drain.is_some();
        self.interval = Interval { start_us: sock.now_us, delivered: sock.delivered, app_limited: limited };
    }

    fn start_round(&mut self, sock: &View) {
        self.round = Round { end: sock.snd_nxt, samples: 0, least_rtt_us: None };
    }

    fn start_span(&mut self, sock: &View) {
        self.span = Span { lost: sock.lost, delivered: sock.delivered };
    }

    /// Updates baseRtt and minRtt of eq 4.
    pub(super) fn take_rtt(&mut self, t: &Tunables, sock: &View, rtt_us: Option<u32>) {
        // an RTT of zero is no valid sample: no path is that short
        let Some(rtt) = rtt_us.filter(|&r| r > 0) else { return };
        let now = sock.now_us;
        self.base = Some(match self.base {
            None => {
                self.coverage.add("first bases");
                Base { rtt_us: rtt, seen_us: now }
            }
            Some(base) if rtt <= base.rtt_us => {
                self.coverage.add(if rtt == base.rtt_us { "bases seen again" } else { "bases lowered" });
                Base { rtt_us: rtt, seen_us: now }
            }
            // so near that rows C1 to C5 take the path for empty
            Some(base) if u64::from(rtt) * u64::from(t.csi_full) <= u64::from(base.rtt_us) * 1000 => {
                self.coverage.add("bases nearly seen again");
                Base { seen_us: now, ..base }
            }
            Some(base) => base,
        });
        self.round.samples += 1;
        self.round.least_rtt_us = Some(self.round.least_rtt_us.map_or(rtt, |least| least.min(rtt)));
    }

    /// Returns the sample of eq 1 if an interval is over, and starts the next interval.
    pub(super) fn take_delivery_rate(&mut self, t: &Tunables, sock: &View) -> Option<Sample> {
        let elapsed = elapsed_us(self.interval.start_us, sock.now_us);
        let base = self.base?;
        if elapsed < u64::from(t.dp_interval_us) {
            return None;
        }
        let segments = sock.delivered.wrapping_sub(self.interval.delivered);
        let rate = f64::from(segments) * f64::from(sock.mss) * 1e6 / elapsed as f64;
        self.coverage.add("DP samples");
        if rate > FAST {
            self.coverage.add("DP samples over 100 Gbit/s");
        }
        let rho = f64::from(t.rho_permille) / 1000.0;
        let segments_of = |rate: f64| rate * f64::from(base.rtt_us) / 1e6 / f64::from(sock.mss);
        let bound = segments_of((rate.min(RATE_LIMIT) * rho).min(RATE_LIMIT));
        // in the algorithm DP is in whole bytes/s, and its product with rho may be, too
        let resolution = segments_of(rho + 1.0);
        let whole = |bound: f64| bound.clamp(f64::from(MIN_WINDOW), MAX_WINDOW) as u32;
        if bound < f64::from(MIN_WINDOW) {
            self.coverage.add("DP samples of less than two segments");
        }
        let app_limited = self.interval.app_limited || sock.app_limited != 0 || self.drain.is_some();
        self.start_interval(sock);
        let (exact, truncated) = (whole(bound * (1.0 + 1e-12)), whole(bound * (1.0 - 1e-12) - resolution));
        Some(Sample { exact, truncated, app_limited })
    }

    /// Updates maxCwnd, a running maximum. If `max_window_us` is set, a smaller estimate replaces one of that age.
    pub(super) fn bound(&mut self, t: &Tunables, sock: &View, segments: u32, sample: Sample) {
        let now = sock.now_us;
        let known = self.max.map_or(0, |m| m.segments);
        if sample.app_limited && segments < known {
            self.coverage.add("application-limited DP samples ignored");
            return;
        }
        if sample.app_limited {
            self.coverage.add("application-limited DP samples counted");
        }
        let fresh = UpperBound { segments, since_us: now };
        self.max = Some(match self.max {
            Some(max) if segments < max.segments => {
                if t.max_window_us != 0 && elapsed_us(max.since_us, now) >= u64::from(t.max_window_us) {
                    self.coverage.add("maxCwnd aged");
                    fresh
                } else {
                    self.coverage.add("maxCwnd kept");
                    max
                }
            }
            _ => {
                self.coverage.add("maxCwnd found or raised");
                fresh
            }
        });
    }

    /// Ends the round if this ACK completes it.
    pub(super) fn end_round(&mut self, t: &Tunables, sock: &mut View) {
        self.csi_q16 = None;
        if (sock.snd_una.wrapping_sub(self.round.end) as i32) < 0 {
            return;
        }
        self.coverage.add("rounds");
        self.step.left = 0;
        self.close_round(t, sock);
        (self.step.whole, self.step.window) = (self.step.left, sock.snd_cwnd);
        self.start_round(sock);
    }

    /// Records that no row was applied; the next row starts counting its rounds.
    fn no_rule(&mut self) {
        (self.rule, self.repeat) = (0, 0);
    }

    fn close_round(&mut self, t: &Tunables, sock: &mut View) {
        let held = self.loss_hold > 0;
        self.loss_hold = self.loss_hold.saturating_sub(1);
        // in a recovery, rows change the window that its end restores
        let recovering = self.restore.is_some() && sock.ca_state == u32::from(RECOVERY);
        let ruled = sock.may_grow() || recovering;
        if !recovering && matches!(sock.ca_state as u8, CWR | RECOVERY) {
            self.coverage.add("rounds without rules");
            self.no_rule();
            return;
        }
        if self.drain.is_some() {
            self.end_drain_round(sock);
            self.no_rule();
            return;
        }
        if ruled && self.ends_over_loss_cap(t, sock) {
            self.coverage.add(if recovering {
                "rounds over the loss cap in recovery"
            } else {
                "rounds over the loss cap"
            });
            self.no_rule();
            return;
        }
        if !recovering {
            if sock.in_slow_start() {
                self.leave_slow_start(t, sock);
            }
            if sock.in_slow_start() {
                self.coverage.add("rounds in slow start");
                self.no_rule();
                return;
            }
        }
        if ruled && self.begin_drain(t, sock) {
            self.no_rule();
            return;
        }
        let (Some(base), Some(max)) = (self.base, self.max) else {
            self.coverage.add("rounds before maxCwnd is known");
            self.no_rule();
            return;
        };
        if !ruled || !sock.cwnd_limited() {
            self.coverage.add(if ruled { "rounds not limited by the window" } else { "rounds without rules" });
            self.no_rule();
            return;
        }
        match self.round.least_rtt_us {
            Some(least) if self.round.samples >= t.min_samples => self.apply_row(t, sock, base, max, least, held),
            _ => {
                self.coverage.add(rows::name(RENO));
                (self.rule, self.repeat) = (RENO, 0);
                self.raise(sock, 1);
            }
        }
    }

    /// Returns W or, in a recovery, in which PRR sets W, the window that its end restores.
    fn window(&self, sock: &View) -> u32 {
        match &self.restore {
            Some(restore) if sock.ca_state == u32::from(RECOVERY) => restore.window,
            _ => sock.snd_cwnd,
        }
    }

    /// Raises W over the round that begins. In a recovery, raises the window that its end restores, at once.
    fn raise(&mut self, sock: &mut View, segments: u32) {
        match &mut self.restore {
            Some(restore) if sock.ca_state == u32::from(RECOVERY) => {
                self.coverage.add("windows raised in a recovery");
                restore.window = restore.window.saturating_add(segments).min(sock.snd_cwnd_clamp);
                sock.snd_ssthresh = restore.window.max(MIN_WINDOW);
            }
            _ => self.step.left = segments,
        }
    }

    fn lower(&mut self, sock: &mut View, to: u32) {
        let to = to.max(MIN_WINDOW);
        match &mut self.restore {
            Some(restore) if sock.ca_state == u32::from(RECOVERY) => {
                self.coverage.add("windows lowered in a recovery");
                restore.window = to.min(sock.snd_cwnd_clamp);
                sock.snd_ssthresh = restore.window.max(MIN_WINDOW);
            }
            _ => {
                sock.snd_cwnd = to;
                Self::stay_out_of_slow_start(sock);
            }
        }
    }

    /// Returns whether too many segments were lost, once enough were sent. If so, W falls by twice the lost share, and
    /// maxCwnd is limited to the new W.
    fn ends_over_loss_cap(&mut self, t: &Tunables, sock: &mut View) -> bool {
        let lost = f64::from(sock.lost.wrapping_sub(self.span.lost));
        let delivered = f64::from(sock.delivered.wrapping_sub(self.span.delivered));
        if lost + delivered < SPAN {
            self.coverage.add("spans of several rounds");
            return false;
        }
        self.start_span(sock);
        // a Poisson process of that mean seldom exceeds it by two standard deviations; permille, whole numbers
        let mean = i128::from(t.loss_cap_permille) * (lost + delivered) as i128;
        let excess = 1000 * lost as i128 - mean;
        if t.loss_cap_permille == 0 || excess <= 0 || excess * excess <= 4000 * mean {
            return false;
        }
        let stays = (delivered - lost).max((delivered / 2.0).floor());
        let left = (f64::from(self.window(sock)) * stays / (lost + delivered)).floor() as u32;
        self.lower(sock, left);
        if let Some(max) = &mut self.max {
            max.segments = max.segments.min(left.max(MIN_WINDOW));
        }
        self.loss_hold = t.hold_rounds;
        true
    }

    /// Limits ssthresh after W fell: to at most W, so that slow start does not undo it, and to at least 3/4 of W.
    fn stay_out_of_slow_start(sock: &mut View) {
        sock.snd_ssthresh = sock.snd_ssthresh.min(sock.snd_cwnd).max(three_quarters(sock.snd_cwnd)).max(MIN_WINDOW);
    }

    /// Returns the CSI of eq 4, real-valued and rounded down to whole 2^-16.
    fn congestion_status(base_us: u32, least_us: u32) -> (f64, f64) {
        let csi = (f64::from(base_us) / f64::from(least_us)).min(1.0);
        (csi, (csi / Q16).floor() * Q16)
    }

    /// Ends slow start at a W of `slow_start_exit` (section IV.A), or if there is a queue and W is over maxCwnd.
    fn leave_slow_start(&mut self, t: &Tunables, sock: &mut View) {
        let queue = || {
            let (max, base, least) = (self.max?, self.base?, self.round.least_rtt_us?);
            let (_, csi) = Self::congestion_status(base.rtt_us, least);
            Some(sock.snd_cwnd > max.segments && csi * 1000.0 < f64::from(t.csi_high))
        };
        if sock.snd_cwnd >= t.slow_start_exit {
            self.coverage.add("slow starts left for W");
        } else if t.exit_on_queue != 0 && queue() == Some(true) {
            self.coverage.add("slow starts left for a queue");
        } else {
            return;
        }
        sock.snd_ssthresh = sock.snd_cwnd.max(MIN_WINDOW);
    }

    /// Applies eqs 2 to 6 and the tables.
    fn apply_row(&mut self, t: &Tunables, sock: &mut View, base: Base, max: UpperBound, least_us: u32, held: bool) {
        let segments_now = self.window(sock);
        let window = f64::from(segments_now);
        let convergence = !held && segments_now <= max.segments; // eq 5
        let (real, csi) = Self::congestion_status(base.rtt_us, least_us);
        let row_of = |csi: f64, resolution: f64| {
            let target = (window * csi).floor(); // eq 3, whole segments
            let cad = target / window; // eq 6
            let cad = if resolution > 0.0 { (cad / resolution).floor() * resolution } else { cad };
            rows::row(t, convergence, csi, window - target, cad) // eq 2
        };
        let row = row_of(csi, Q16);
        self.rows_decided_by_resolution += u64::from(row != row_of(real, 0.0));
        self.csi_q16 = Some(csi / Q16);
        self.repeat = if row == self.rule % SEVERE { self.repeat + 1 } else { 1 };
        let severe = rows::patience(t, row).is_some_and(|rounds| self.repeat >= rounds);
        self.rule = row + if severe { SEVERE } else { 0 };
        self.count_row(t);
        let decreased = match rows::action(t, row, severe) {
            Action::More(segments) => {
                let limit = (f64::from(max.segments) + 1.0 - window).max(1.0);
                if t.limit_step != 0 && convergence && f64::from(segments) > limit {
                    self.coverage.add("steps limited to maxCwnd");
                    self.raise(sock, limit as u32);
                } else {
                    self.raise(sock, segments);
                }
                None
            }
            Action::Keep => None,
            Action::Less(segments) => Some(segments_now.saturating_sub(segments)),
            Action::Times(permille) => Some(part(segments_now, permille)),
            Action::Over(divisor) => Some(segments_now / divisor.max(1)),
        };
        if let Some(segments) = decreased {
            if segments < MIN_WINDOW {
                self.coverage.add("decreases to the minimum");
            }
            self.lower(sock, segments);
        }
        if severe {
            self.repeat = 0;
            if let (Some(kept), Some(max)) = (rows::upper_bound_kept(t, row), &mut self.max) {
                max.segments = part(max.segments, kept).max(MIN_WINDOW);
            }
        }
    }

    fn count_row(&mut self, t: &Tunables) {
        self.coverage.add(rows::name(self.rule));
        let unreachable = match self.rule % SEVERE {
            8 => "C8 with the paper's thresholds",
            11 => "C11 with the paper's thresholds",
            13 => "C13 with the paper's thresholds",
            _ => return,
        };
        if t.has_the_papers_thresholds() {
            self.coverage.add(unreachable);
        }
    }

    pub(super) fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        if !sock.cwnd_limited() {
            self.coverage.add("ACKs while not limited by the window");
            return;
        }
        if sock.in_slow_start() {
            self.coverage.add("slow start ACKs");
            slow_start(sock, acked);
            return;
        }
        self.coverage.add("ACKs after slow start");
        // spreads the step evenly over the W of the round's start, and adds each whole segment once it is earned
        let price = f64::from(self.step.window.max(1));
        self.step.account += f64::from(self.step.whole) * f64::from(acked);
        let earned = (self.step.account / price).floor();
        self.step.account -= earned * price;
        let paid = earned.min(f64::from(self.step.left));
        if paid < earned {
            self.coverage.add("steps paid out before their round ended");
        }
        if paid > 0.0 {
            self.coverage.add(if paid > 1.0 { "ACKs that add several segments" } else { "ACKs that add one segment" });
        }
        let grown = f64::from(sock.snd_cwnd) + paid;
        if grown > f64::from(sock.snd_cwnd_clamp) {
            self.coverage.add("steps cut at the clamp");
        }
        sock.snd_cwnd = grown.min(f64::from(sock.snd_cwnd_clamp)) as u32;
        self.step.left -= paid as u32;
    }
}
