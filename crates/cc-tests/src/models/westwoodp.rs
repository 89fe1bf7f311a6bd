//! TCP Westwood+ (Hamamreh 2020, Algorithm 1, eqs 3 and 4; the bandwidth filter of Linux's module).

use super::westwood::{Base, Cascade, LimitedCounts, RenoCounts, Sampler, Thresholds, eq4_range, reno_growth, take};
use super::{Model, reno, show};
use hotcc_host_algo::ca_state::LOSS;
use hotcc_host_algo::{EVENT_COMPLETE_CWR, Flow, View};

/// The model of one connection.
#[derive(Clone, Debug, Default)]
pub struct Westwoodp {
    /// Tunable: shortest time a bandwidth sample spans, microseconds.
    min_sample_us: u32,
    /// Tunable: time after which RTTmin expires if not seen, microseconds; 0: never.
    base_window_us: u32,
    /// Tunable: whether W in a recovery is eq 4 at once; else it is at least half, and eq 4 at the recovery's end.
    eq4_at_once: bool,
    base: Base,
    sampler: Sampler,
    filter: Cascade,
    thresholds: Thresholds,
    growth: RenoCounts,
    /// Whether the hook just called took a sample; and, if rounding decides whether an application-limited one is
    /// filtered, the result of the other decision.
    sampled: bool,
    other: Option<Cascade>,
    limited: LimitedCounts,
    sample_ties: u64,
    first_samples: u64,
    coarse_bandwidths: u64,
}

impl Westwoodp {
    /// Returns a connection before `init`.
    #[must_use]
    pub fn new(min_sample_us: u32, base_window_us: u32, eq4_at_once: bool) -> Self {
        Self { min_sample_us, base_window_us, eq4_at_once, ..Self::default() }
    }

    /// Returns the least W during a recovery.
    fn least_in_recovery(&self, sock: &View) -> u32 {
        if self.eq4_at_once { 0 } else { reno::half(sock.snd_cwnd) }
    }
}

impl Model for Westwoodp {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        vec![
            ("min_sample_us", self.min_sample_us),
            ("base_window_us", self.base_window_us),
            ("recovery", self.eq4_at_once.into()),
        ]
    }

    fn retune(&mut self, choice: u64) {
        self.min_sample_us = [50_000, 1000, 1_000_000][(choice % 3) as usize];
    }

    fn init(&mut self, sock: &mut View) {
        self.filter = Cascade::default();
        self.base.restart(sock);
        self.sampler.restart(sock);
        self.thresholds.restart();
    }

    /// Applies Algorithm 1 line 2: eq 3, one sample per RTT of at least 50 ms.
    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        self.base.sample(sock, rtt_us, self.base_window_us);
        if let Some(sample) = self.sampler.sample(sock, rtt_us, self.min_sample_us) {
            let app_limited = self.sampler.app_limited || sock.app_limited != 0;
            self.sampler.restart(sock);
            self.sampled = true;
            let taken = take(self.filter, sample, app_limited, &mut self.limited);
            (self.filter, self.other) = (taken.now, taken.other);
            self.first_samples += u64::from(taken.first);
        }
    }

    /// Applies line 3.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        reno_growth(sock, acked, &mut self.growth);
    }

    /// Applies lines 6 and 7.
    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        let segments = self.thresholds.eq4(self.filter.known(), self.base.us, sock);
        self.thresholds.lose(segments.max(self.least_in_recovery(sock)), sock)
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.thresholds.undo(sock)
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        if state == LOSS {
            self.thresholds.enter_loss(self.filter.known(), &mut self.base, self.base_window_us, sock);
        }
    }

    /// Applies lines 6 and 11.
    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        if event == EVENT_COMPLETE_CWR && !self.eq4_at_once {
            self.thresholds.renew(self.filter.known(), self.base.us, sock);
        }
        self.thresholds.cwnd_event(event, self.filter.known(), &mut self.base, self.base_window_us, sock);
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.base.agree(flow.private("base_us"))?;
        let [first, second] = ["bandwidth.first_q8", "bandwidth.second_q8"].map(|name| flow.private(name));
        let coarse = self.filter.compare(first, second).or_else(|difference| {
            let Some(other) = self.other else { return Err(difference) };
            let coarse = other.compare(first, second).map_err(|_| difference)?;
            self.sample_ties += 1;
            self.filter = other;
            Ok(coarse)
        })?;
        self.other = None;
        self.coarse_bandwidths += u64::from(std::mem::take(&mut self.sampled) && coarse);
        let own = eq4_range(second, self.base.us, got.mss, got.snd_cwnd);
        let lowered = self.thresholds.lowered(got, &own);
        if want.snd_cwnd_cnt != got.snd_cwnd_cnt || (want.snd_cwnd != got.snd_cwnd && !lowered) {
            return Err(format!("{}; the model has {}", show(got), show(want))); // NewReno's growth, in whole numbers
        }
        let least = if self.thresholds.asked.is_some() { self.least_in_recovery(got) } else { 0 };
        let own = least.max(*own.start())..=least.max(*own.end());
        self.thresholds.reconcile(want, got, flow.private("loss_ssthresh"), &own)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        self.thresholds.reconcile_asked(want, got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("thresholds rounded the other way", self.thresholds.ties),
            ("samples that left a bandwidth beyond 0.1 %", self.coarse_bandwidths),
            ("application-limited samples ranked the other way", self.sample_ties),
        ]
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        let first = vec![("first samples", self.first_samples)];
        [
            self.sampler.counts.named(),
            first,
            self.limited.named(),
            self.base.counts.named(),
            self.thresholds.counts.named(),
            self.thresholds.renewals.named(),
            self.growth.named(),
        ]
        .concat()
    }
}
