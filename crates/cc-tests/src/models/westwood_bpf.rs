//! TCP Westwood as first published (Hamamreh 2020, Algorithm 1, eqs 3 and 4): a bandwidth sample per ACK.

use super::named::tunables;
use super::westwood::{Base, RenoCounts, Thresholds, Tustin, eq4_range, reno_growth};
use super::{Model, chosen, show};
use crate::examples::Alone;
use hotcc_host_algo::ca_state::LOSS;
use hotcc_host_algo::{Flow, View};

tunables! {
    /// tau of the filter, ms.
    tau_ms = 500 / 500;
    /// Time after which RTTmin expires if not seen, us; 0: never.
    base_window_us = 10_000_000 / 0;
}

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct WestwoodBpf {
    tunables: Tunables,
    /// Tunables that it may change to while it runs.
    others: Vec<Tunables>,
    base: Base,
    filter: Tustin,
    thresholds: Thresholds,
    growth: RenoCounts,
}

impl WestwoodBpf {
    /// Returns a connection before `init`; it may change to `others` while it runs.
    #[must_use]
    pub fn new(tunables: Tunables, others: Vec<Tunables>) -> Self {
        Self {
            tunables,
            others,
            base: Base::default(),
            filter: Tustin::default(),
            thresholds: Thresholds::default(),
            growth: RenoCounts::default(),
        }
    }
}

impl Model for WestwoodBpf {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
        }
    }

    fn init(&mut self, sock: &mut View) {
        self.base.restart(sock);
        self.filter.restart(sock);
        self.thresholds.restart();
    }

    /// Applies Algorithm 1 line 2.
    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        self.base.sample(sock, rtt_us, self.tunables.base_window_us);
        let spans_rtt = self.filter.elapsed_us(sock) >= u64::from(sock.srtt_us >> 3);
        self.filter.ack(sock, self.tunables.tau_ms, spans_rtt);
    }

    /// Applies line 3.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        reno_growth(sock, acked, &mut self.growth);
    }

    /// Applies lines 6 and 7.
    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        let segments = self.thresholds.eq4(self.filter.known(), self.base.us, sock);
        self.thresholds.lose(segments, sock)
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.thresholds.undo(sock)
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        if state == LOSS {
            self.thresholds.enter_loss(self.filter.known(), &mut self.base, self.tunables.base_window_us, sock);
        }
    }

    /// Applies lines 6 and 11.
    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        self.filter.cwnd_event(event, sock);
        self.thresholds.cwnd_event(event, self.filter.known(), &mut self.base, self.tunables.base_window_us, sock);
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        if (want.snd_cwnd, want.snd_cwnd_cnt) != (got.snd_cwnd, got.snd_cwnd_cnt) {
            return Err(format!("{}; the model has {}", show(got), show(want))); // NewReno's growth, in whole numbers
        }
        self.base.agree(flow.private("base_us"))?;
        let bandwidth_q8 = flow.private("bandwidth_q8");
        self.filter.reconcile(bandwidth_q8)?;
        let own = eq4_range(bandwidth_q8, self.base.us, got.mss, got.snd_cwnd);
        self.thresholds.reconcile(want, got, flow.private("loss_ssthresh"), &own)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        self.thresholds.reconcile_asked(want, got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("thresholds rounded the other way", self.thresholds.ties),
            ("samples that left a bandwidth beyond 0.1 %", self.filter.coarse),
        ]
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        [self.filter.counts.named(), self.base.counts.named(), self.thresholds.counts.named(), self.growth.named()]
            .concat()
    }
}

impl Alone for WestwoodBpf {
    fn go_on(&mut self, _: &View) {
        self.thresholds.go_on();
    }

    fn field(&self, name: &str) -> f64 {
        match name {
            "bandwidth_q8" => self.filter.bandwidth,
            "base_us" => self.base.us.unwrap_or(0).into(),
            "loss_ssthresh" => self.thresholds.remembered().unwrap_or(0).into(),
            _ => panic!("no field {name}"),
        }
    }
}
