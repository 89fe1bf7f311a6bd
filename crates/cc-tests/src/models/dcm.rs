//! DCM (Hamamreh 2020, eqs 1 to 4): Westwood's estimate, growth by the ratio of successive RTTs, a restart on a new
//! path.

use super::growth::Growth;
use super::named::{counters, tunables};
use super::rate_ca::{Limits, Q16, Rates};
use super::westwood::{Base, Thresholds, Tustin, eq4_range};
use super::{Model, chosen, show};
use crate::examples::Alone;
use hotcc_host_algo::ca_state::LOSS;
use hotcc_host_algo::{Flow, View};

tunables! {
    /// tau of the bandwidth's filter, ms.
    tau_ms = 500 / 500;
    /// Time after which RTTmin expires if not seen, us; 0: never.
    base_window_us = 10_000_000 / 0;
    /// The 0.9 of eq 2, permille.
    slow_start_permille = 900 / 900;
    /// beta of eq 1, permille.
    path_permille = 800 / 800;
    /// Least rate_CA, permille.
    rate_min_permille = 500 / 0;
    /// Greatest rate_CA, permille.
    rate_max_permille = 2000 / 1_000_000;
}

counters! {
    /// Changes of the path.
    PathCounts {
        first: "paths seen for the first time",
        changes: "path changes",
        again: "path changes while the path before was measured",
        unmeasured: "rounds without an RTT on a new path",
        applied: "windows set on a new path",
        dropped: "new paths measured while W was not free to grow",
        raised: "windows raised on a new path",
        old_unknown: "windows set without an RTT of the old path",
    }
}

/// The measurement of a new path.
#[derive(Clone, Copy, Debug, Default)]
struct Measurement {
    /// RTT_old of eq 1, 1/8 us; 0: none.
    old_srtt: u32,
    /// Whether all that was sent on the old path has been acknowledged.
    has_begun: bool,
}

/// An application of case 1, eq 1, in the hook just called.
#[derive(Clone, Copy, Debug)]
struct NewPath {
    /// W before.
    window: u32,
    /// rate_CA of the two paths.
    rate: f64,
}

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct Dcm {
    tunables: Tunables,
    others: Vec<Tunables>,
    base: Base,
    filter: Tustin,
    thresholds: Thresholds,
    rates: Rates,
    growth: Growth,
    /// Generation in the path map.
    generation: u32,
    /// Generation when the map was last read.
    known_generation: Option<u32>,
    measurement: Option<Measurement>,
    step: Option<NewPath>,
    path: PathCounts,
    /// Windows on a new path that were rounded the other way.
    path_ties: u64,
    /// Those that are more than a segment off: a ratio of RTTs has 16 fraction bits.
    coarse_path_windows: u64,
}

impl Dcm {
    /// Returns a connection before `init`; it may change to `others` while it runs.
    #[must_use]
    pub fn new(tunables: Tunables, others: Vec<Tunables>) -> Self {
        Self {
            tunables,
            others,
            base: Base::default(),
            filter: Tustin::default(),
            thresholds: Thresholds::default(),
            rates: Rates::default(),
            growth: Growth::default(),
            generation: 0,
            known_generation: None,
            measurement: None,
            step: None,
            path: PathCounts::default(),
            path_ties: 0,
            coarse_path_windows: 0,
        }
    }

    fn limits(&self) -> Limits {
        Limits { min_permille: self.tunables.rate_min_permille, max_permille: self.tunables.rate_max_permille }
    }

    /// Returns whether the map's generation has changed since it was last read.
    fn path_changed(&mut self) -> bool {
        let before = self.known_generation.replace(self.generation);
        self.path.first += u64::from(before.is_none());
        before.is_some_and(|b| b != self.generation)
    }

    fn forget_path(&mut self, sock: &View) {
        self.base.forget();
        self.filter.restart(sock);
    }

    /// Restarts RTTmin and BWE. They restart again after the next round, and the one after that measures the new path.
    /// `srtt` is the old path's, 1/8 us.
    fn leave_path(&mut self, sock: &View, srtt: u32) {
        self.path.changes += 1;
        self.path.again += u64::from(self.measurement.is_some());
        self.forget_path(sock);
        // if the path changes again during the measurement, the first path's RTT counts
        let old_srtt = self.measurement.map_or(srtt, |m| m.old_srtt);
        self.measurement = Some(Measurement { old_srtt, has_begun: false });
    }

    /// Applies eq 1, at the end of the round that measured the new path.
    fn enter_path(&mut self, sock: &mut View) {
        let Some(Measurement { old_srtt, has_begun }) = self.measurement else { return };
        if !has_begun {
            self.measurement = Some(Measurement { old_srtt, has_begun: true });
            self.forget_path(sock);
            return;
        }
        // RTT_new of eq 1
        let Some(rtt) = self.base.us else {
            self.path.unmeasured += 1;
            return;
        };
        self.measurement = None;
        if !sock.may_grow() {
            self.path.dropped += 1; // the end of the recovery sets ssthresh
            return;
        }
        self.path.applied += 1;
        self.path.old_unknown += u64::from(old_srtt == 0);
        let ratio = if old_srtt == 0 { 1.0 } else { f64::from(old_srtt) / 8.0 / f64::from(rtt) };
        let rate = self.limits().clamp(ratio);
        self.step = Some(NewPath { window: sock.snd_cwnd, rate });
        sock.snd_ssthresh = self.thresholds.eq4(self.filter.known(), self.base.us, sock);
        let window = self.path_window(rate, sock.snd_ssthresh).floor();
        self.path.raised += u64::from(window > f64::from(sock.snd_cwnd));
        sock.snd_cwnd = bounded(window, sock);
        self.growth.clear();
        self.rates.forget();
    }

    /// Returns W by eq 1 before rounding.
    fn path_window(&self, rate: f64, ssthresh: u32) -> f64 {
        rate * f64::from(ssthresh) * f64::from(self.tunables.path_permille) / 1000.0
    }

    /// Compares W and ssthresh after eq 1. They follow from the algorithm's own ssthresh, which its bandwidth bounds.
    fn reconcile_path(&mut self, step: NewPath, want: &View, got: &View, bandwidth_q8: u64) -> Result<(), String> {
        let own = eq4_range(bandwidth_q8, self.base.us, got.mss, step.window);
        let exact = self.path_window(step.rate, got.snd_ssthresh);
        let resolution = self.path_window(Q16, got.snd_ssthresh);
        let windows = bounded(exact - resolution - 1.0, got)..=bounded(exact + resolution, got);
        if !own.contains(&got.snd_ssthresh) || !windows.contains(&got.snd_cwnd) {
            return Err(format!(
                "{}; the model has {}; by its bandwidth ssthresh {own:?}, W {windows:?}",
                show(got),
                show(want)
            ));
        }
        self.path_ties += u64::from(got.snd_ssthresh != want.snd_ssthresh || got.snd_cwnd != want.snd_cwnd);
        self.coarse_path_windows += u64::from(got.snd_cwnd.abs_diff(bounded(exact, got)) > 1);
        Ok(())
    }
}

/// Returns W in whole segments, at least 2 and within the clamp.
fn bounded(window: f64, sock: &View) -> u32 {
    window.max(2.0).min(f64::from(sock.snd_cwnd_clamp)) as u32
}

impl Model for Dcm {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
        }
    }

    fn init(&mut self, sock: &mut View) {
        (self.known_generation, self.measurement) = (None, None);
        self.base.restart(sock);
        self.filter.restart(sock);
        self.thresholds.restart();
        self.rates.restart(sock);
        self.growth.clear();
    }

    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        // its age is checked once per round
        self.base.sample(sock, rtt_us, 0);
        let over = self.rates.round_over(sock);
        self.filter.ack(sock, self.tunables.tau_ms, over);
        if !over {
            return;
        }
        self.base.sample(sock, rtt_us, self.tunables.base_window_us);
        // the RTT while the path was certainly still the old one: not that of the round in which it changed
        let srtt = self.rates.latest_srtt();
        self.rates.update(sock.srtt_us, self.limits());
        if self.path_changed() {
            self.leave_path(sock, srtt);
        } else {
            self.enter_path(sock);
        }
    }

    /// Applies case 2, eq 2.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        self.growth.ack(sock, acked, &self.rates, [self.tunables.slow_start_permille, 1000]);
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.growth.clear();
        let segments = self.thresholds.eq4(self.filter.known(), self.base.us, sock);
        self.thresholds.lose(segments, sock)
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.thresholds.undo(sock)
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        if state == LOSS {
            self.growth.clear();
            self.thresholds.enter_loss(self.filter.known(), &mut self.base, self.tunables.base_window_us, sock);
        }
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        self.filter.cwnd_event(event, sock);
        self.thresholds.cwnd_event(event, self.filter.known(), &mut self.base, self.tunables.base_window_us, sock);
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn set_path(&mut self, generation: u32) {
        self.generation = generation;
    }

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.base.agree(flow.private("base_us"))?;
        let bandwidth_q8 = flow.private("bandwidth_q8");
        self.filter.reconcile(bandwidth_q8)?;
        self.rates.reconcile(flow.private("rate_q16"), flow.private("inverse_q16"))?;
        let mut want = *want;
        if let Some(step) = self.step.take() {
            self.reconcile_path(step, &want, got, bandwidth_q8)?;
            (want.snd_cwnd, want.snd_ssthresh) = (got.snd_cwnd, got.snd_ssthresh);
        }
        let own = eq4_range(bandwidth_q8, self.base.us, got.mss, got.snd_cwnd);
        self.thresholds.reconcile(&want, got, flow.private("loss_ssthresh"), &own)?;
        self.growth.reconcile(&want, got)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        self.thresholds.reconcile_asked(want, got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        let own = vec![
            ("thresholds rounded the other way", self.thresholds.ties),
            ("samples that left a bandwidth beyond 0.1 %", self.filter.coarse),
            ("rates whose inverse is beyond 0.1 %", self.rates.coarse),
            ("windows on a new path rounded the other way", self.path_ties),
            ("windows on a new path beyond a segment", self.coarse_path_windows),
        ];
        [own, self.growth.rounding.named()].concat()
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        [
            self.filter.counts.named(),
            self.base.counts.named(),
            self.thresholds.counts.named(),
            self.rates.counts.named(),
            self.growth.counts.named(),
            self.path.named(),
        ]
        .concat()
    }
}

impl Alone for Dcm {
    fn go_on(&mut self, sock: &View) {
        self.step = None;
        self.thresholds.go_on();
        self.rates.go_on();
        self.growth.go_on(sock);
    }

    fn field(&self, name: &str) -> f64 {
        match name {
            "bandwidth_q8" => self.filter.bandwidth,
            "base_us" => self.base.us.unwrap_or(0).into(),
            "rate_q16" => self.rates.rate,
            "inverse_q16" => 1.0 / self.rates.rate,
            "loss_ssthresh" => self.thresholds.remembered().unwrap_or(0).into(),
            _ => panic!("no field {name}"),
        }
    }
}
