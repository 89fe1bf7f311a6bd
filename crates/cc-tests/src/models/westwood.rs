//! Parts that the Westwood family shares (Hamamreh 2020, Algorithm 1, eqs 3 and 4): RTTmin, the filters of the
//! bandwidth, ssthresh after a loss, NewReno's growth.

mod filters;

pub(super) use filters::{Cascade, LimitedCounts, Sampler, Tustin, take};

use super::named::counters;
use super::{reno, show};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, View};
use std::ops::RangeInclusive;

/// Largest ssthresh by eq 4.
const SEGMENTS_LIMIT: u32 = 0x7fff_ffff;

counters! {
    /// Changes of RTTmin.
    BaseCounts {
        inherited: "base RTTs that the connection brought along",
        aged: "base RTTs let go",
    }
}

/// RTTmin: the least sample, until a timeout, or until it was not seen for a while.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    /// Microseconds.
    pub us: Option<u32>,
    seen_us: u64,
    pub counts: BaseCounts,
}

impl Base {
    /// Starts with the kernel's value, at `init`.
    pub fn restart(&mut self, sock: &View) {
        self.us = Some(sock.min_rtt_us).filter(|&us| us != 0 && us != u32::MAX);
        self.seen_us = sock.now_us;
        self.counts.inherited += u64::from(self.us.is_some());
    }

    /// Drops RTTmin until the next sample, as the path has changed.
    pub fn forget(&mut self) {
        self.us = None;
    }

    /// Takes a sample; `window_us` 0: RTTmin never expires.
    pub fn sample(&mut self, sock: &View, rtt_us: Option<u32>, window_us: u32) {
        let Some(rtt) = rtt_us.filter(|&r| r > 0) else { return };
        let old = self.is_old(sock, window_us);
        self.counts.aged += u64::from(old && self.us.is_some_and(|base| base < rtt));
        if old || self.us.is_none_or(|base| rtt <= base) {
            (self.us, self.seen_us) = (Some(rtt), sock.now_us);
        }
    }

    /// Keeps RTTmin, as if a sample had just confirmed it.
    pub fn confirm(&mut self, sock: &View) {
        self.seen_us = sock.now_us;
    }

    fn is_old(&self, sock: &View, window_us: u32) -> bool {
        let unseen_us = sock.now_us.wrapping_sub(self.seen_us) % (1 << 32);
        window_us > 0 && unseen_us >= window_us.into()
    }

    /// Handles a timeout: RTTmin becomes as old as if it had not been seen for the whole window.
    fn expire(&mut self, sock: &View, window_us: u32) {
        self.seen_us = sock.now_us.wrapping_sub(window_us.into());
    }

    /// Compares RTTmin with the algorithm's.
    pub fn agree(&self, own: u64) -> Result<(), String> {
        let mine = self.us.unwrap_or(0);
        if own == u64::from(mine) { Ok(()) } else { Err(format!("RTTmin {own} us, the model has {mine}")) }
    }
}

/// Returns the least RTT with another sample. A sample of zero is ignored: no path has length 0.
pub(super) fn least(base_us: Option<u32>, rtt_us: Option<u32>) -> Option<u32> {
    let rtt_us = rtt_us.filter(|&r| r > 0);
    base_us.into_iter().chain(rtt_us).min()
}

/// Returns the bounds of eq 4 from a bandwidth in 1/256 byte/s, as the bandwidth may be rounded to whole bytes/s.
/// Before bandwidth and RTTmin are known, NewReno's half of `window`.
pub(super) fn eq4_range(bandwidth_q8: u64, base_us: Option<u32>, mss: u32, window: u32) -> RangeInclusive<u32> {
    let (1.., Some(base)) = (bandwidth_q8, base_us) else { return reno::half(window)..=reno::half(window) };
    let segments = |q8: u64| {
        let exact = u128::from(q8) * u128::from(base) / (256 * 1_000_000 * u128::from(mss));
        exact.clamp(2, SEGMENTS_LIMIT.into()) as u32
    };
    segments(bandwidth_q8 >> 8 << 8)..=segments(bandwidth_q8)
}

counters! {
    /// Results of eq 4.
    ThresholdCounts {
        reno: "Reno thresholds",
        bandwidth: "bandwidth thresholds",
        minimum: "thresholds at the minimum",
        above_window: "thresholds above the window",
        losses: "losses",
        loss_ends: "ends of a loss that set ssthresh",
        timeouts: "timeouts that set ssthresh",
        late_timeouts: "timeouts within a recovery",
        undos: "undone losses",
    }
}

counters! {
    /// Results of eq 4 at the end of a recovery.
    RenewalCounts {
        renewed: "thresholds renewed at the recovery's end",
        lowered: "windows lowered at the recovery's end",
    }
}

/// ssthresh by eq 4, and its use after a loss (Algorithm 1 lines 5 to 12).
#[derive(Clone, Debug, Default)]
pub(super) struct Thresholds {
    /// Eq 4 at the last loss, which takes effect when the loss is repaired.
    remembered: Option<u32>,
    /// W in the `ssthresh()` just called.
    pub asked: Option<u32>,
    /// Whether the hook just called computed ssthresh.
    set: bool,
    /// Thresholds that the algorithm rounded the other way.
    pub ties: u64,
    pub counts: ThresholdCounts,
    pub renewals: RenewalCounts,
}

impl Thresholds {
    /// Applies `init`.
    pub fn restart(&mut self) {
        (self.remembered, self.asked, self.set) = (None, None, false);
    }

    /// Returns ssthresh by eq 4, or NewReno's half before BWE and RTTmin are known.
    pub fn eq4(&mut self, bandwidth: Option<f64>, base_us: Option<u32>, sock: &View) -> u32 {
        let (Some(bandwidth), Some(base)) = (bandwidth, base_us) else {
            self.counts.reno += 1;
            return reno::half(sock.snd_cwnd);
        };
        self.counts.bandwidth += 1;
        let segments = bandwidth * f64::from(base) / 1e6 / f64::from(sock.mss);
        self.counts.minimum += u64::from(segments < 2.0);
        self.counts.above_window += u64::from(segments > f64::from(sock.snd_cwnd));
        segments.clamp(2.0, SEGMENTS_LIMIT.into()) as u32
    }

    /// Returns the ssthresh that takes effect when the loss is repaired.
    pub fn remembered(&self) -> Option<u32> {
        self.remembered
    }

    /// Applies `ssthresh()` (lines 6 and 7), except that a loss never raises W.
    pub fn lose(&mut self, segments: u32, sock: &View) -> u32 {
        self.counts.losses += 1;
        self.remembered = Some(segments);
        self.asked = Some(sock.snd_cwnd);
        segments.min(sock.snd_cwnd).max(2)
    }

    /// Ends the recovery: the present result of eq 4 replaces that of the recovery's start, and W falls to it.
    pub fn renew(&mut self, bandwidth: Option<f64>, base_us: Option<u32>, sock: &mut View) {
        if self.remembered.is_some() && bandwidth.is_some() && base_us.is_some() {
            let segments = self.eq4(bandwidth, base_us, sock);
            self.renewals.renewed += 1;
            self.renewals.lowered += u64::from(segments < sock.snd_cwnd);
            (self.remembered, self.set) = (Some(segments), true);
            sock.snd_cwnd = sock.snd_cwnd.min(segments);
        }
    }

    /// Returns whether the algorithm, rounding differently, lowered W to eq 4 in the hook just called.
    pub fn lowered(&self, got: &View, own: &RangeInclusive<u32>) -> bool {
        self.set && got.snd_cwnd == got.snd_ssthresh && own.contains(&got.snd_cwnd)
    }

    /// Applies `undo_cwnd()`: there was no loss.
    pub fn undo(&mut self, sock: &View) -> u32 {
        self.counts.undos += 1;
        self.remembered = None;
        reno::undo_cwnd(sock)
    }

    /// Applies an event. When the loss is repaired, slow start may go up to eq 4 (line 6).
    pub fn cwnd_event(
        &mut self,
        event: u32,
        bandwidth: Option<f64>,
        base: &mut Base,
        base_window_us: u32,
        sock: &mut View,
    ) {
        match event {
            EVENT_COMPLETE_CWR => {
                if let Some(segments) = self.remembered.take() {
                    self.counts.loss_ends += 1;
                    sock.snd_ssthresh = segments;
                }
            }
            EVENT_LOSS => self.time_out(bandwidth, base, base_window_us, sock),
            _ => {}
        }
    }

    /// Applies a timeout: ssthresh is eq 4 of that moment (line 11); line 12, W = 1, is the kernel's own.
    fn time_out(&mut self, bandwidth: Option<f64>, base: &mut Base, base_window_us: u32, sock: &mut View) {
        self.counts.timeouts += 1;
        self.set = true;
        sock.snd_ssthresh = match self.remembered.take() {
            Some(half) if bandwidth.is_none() || base.us.is_none() => half,
            _ => self.eq4(bandwidth, base.us, sock),
        };
        base.expire(sock, base_window_us);
    }

    /// Enters the loss state. A timeout within a recovery is reported only here, when W is 1 already.
    pub fn enter_loss(&mut self, bandwidth: Option<f64>, base: &mut Base, base_window_us: u32, sock: &mut View) {
        if self.remembered.is_some() {
            self.counts.late_timeouts += 1;
            self.time_out(bandwidth, base, base_window_us, sock);
        }
    }

    /// Compares ssthresh and the one `remembered` (0: none), and continues with the algorithm's. If the hook just
    /// called computed one, it is compared with the result from the algorithm's own bandwidth.
    pub fn reconcile(
        &mut self,
        want: &View,
        got: &View,
        remembered: u64,
        own: &RangeInclusive<u32>,
    ) -> Result<(), String> {
        let mine = self.remembered.unwrap_or(0);
        if remembered != u64::from(mine) {
            let fits = u32::try_from(remembered).ok().filter(|r| self.asked.is_some() && own.contains(r));
            let Some(segments) = fits else {
                return Err(format!("remembers ssthresh {remembered}, the model {mine}; by its bandwidth {own:?}"));
            };
            self.ties += 1;
            self.remembered = Some(segments);
        }
        if got.snd_ssthresh != want.snd_ssthresh {
            if !self.set || !own.contains(&got.snd_ssthresh) {
                return Err(format!("{}; the model has {}; by its bandwidth {own:?}", show(got), show(want)));
            }
            self.ties += 1;
        }
        self.set = false;
        Ok(())
    }

    /// Continues without an algorithm to compare with.
    pub fn go_on(&mut self) {
        (self.asked, self.set) = (None, false);
    }

    /// Compares the result of `ssthresh()`.
    pub fn reconcile_asked(&mut self, want: u32, got: u32) -> Result<(), String> {
        let own = self.asked.take().zip(self.remembered).map(|(window, segments)| segments.min(window).max(2));
        if own == Some(got) { Ok(()) } else { Err(format!("ssthresh() is {got}, the model's {want}")) }
    }
}

counters! {
    /// ACKs that grow W as NewReno does.
    RenoCounts {
        slow_start: "slow start ACKs",
        avoidance: "congestion avoidance ACKs",
        unlimited: "ACKs while not limited by the window",
    }
}

/// Grows W as NewReno does (Algorithm 1 line 3).
pub(super) fn reno_growth(sock: &mut View, acked: u32, counts: &mut RenoCounts) {
    let growth = reno::cong_avoid(sock, acked);
    counts.unlimited += u64::from(growth == reno::Growth::default());
    counts.slow_start += u64::from(growth.slow_start);
    counts.avoidance += u64::from(growth.avoidance);
}
