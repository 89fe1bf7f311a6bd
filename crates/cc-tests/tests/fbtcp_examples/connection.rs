//! One connection under FB-TCP or under its model, with the same events for both.

use hotcc_cc_tests::models::Model as _;
use hotcc_cc_tests::models::fbtcp::{Fbtcp, Tunables};
use hotcc_host_algo::{EVENT_TX_START, Flow, HostAlgo, View};

/// Segments of 1000 bytes throughout.
const MSS: u32 = 1000;

pub enum Subject<'a> {
    Algorithm(Flow<'a>),
    Model(Box<Fbtcp>),
}

/// A connection at 1 s in congestion avoidance that has W segments in flight.
pub struct Connection<'a> {
    pub view: View,
    subject: Subject<'a>,
    /// Sequence number at which the round ends.
    round_end: u32,
}

impl<'a> Connection<'a> {
    pub fn algorithm(algo: &'a HostAlgo, tunables: Tunables, window: u32) -> Self {
        for (name, value) in tunables.named() {
            algo.set_tunable(name, value);
        }
        Self::start(Subject::Algorithm(Flow::new(algo)), window)
    }

    pub fn model(tunables: Tunables, window: u32) -> Self {
        Self::start(Subject::Model(Box::new(Fbtcp::new(tunables))), window)
    }

    fn start(subject: Subject<'a>, window: u32) -> Self {
        let view = View {
            now_us: 1_000_000,
            snd_cwnd: window,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: 2,
            mss: MSS,
            delivered: 5000,
            data_segs_out: 5000,
            is_cwnd_limited: 1,
            snd_una: 0,
            snd_nxt: window * MSS,
            ..View::default()
        };
        let mut connection = Self { view, subject, round_end: view.snd_nxt };
        connection.init();
        assert_eq!(connection.view, view); // a connection keeps its window and threshold
        connection
    }

    /// Calls a hook with the connection as it is and takes over what it changes.
    fn hook<R>(
        &mut self,
        algorithm: impl FnOnce(&mut Flow<'a>) -> R,
        model: impl FnOnce(&mut Fbtcp, &mut View) -> R,
    ) -> R {
        match &mut self.subject {
            Subject::Algorithm(flow) => {
                flow.set(&self.view);
                let result = algorithm(flow);
                self.view = flow.get(&self.view);
                result
            }
            Subject::Model(fbtcp) => model(fbtcp, &mut self.view),
        }
    }

    pub fn init(&mut self) {
        self.round_end = self.view.snd_nxt;
        self.hook(Flow::init, |m, v| m.init(v));
    }

    /// Calls `pkts_acked` after `after_us`: `delivered` segments arrived and `acked` were acknowledged in order.
    fn pkts_acked(&mut self, after_us: u64, delivered: u32, acked: u32, rtt_us: Option<u32>) {
        self.view.now_us += after_us;
        self.view.delivered += delivered;
        self.view.snd_una += acked * MSS;
        if self.view.snd_una >= self.round_end {
            self.round_end = self.view.snd_nxt;
        }
        self.hook(|f| f.pkts_acked(delivered, rtt_us), |m, v| m.pkts_acked(v, rtt_us));
    }

    /// Sends what the window allows.
    fn send(&mut self) {
        self.view.snd_nxt = self.view.snd_nxt.max(self.view.snd_una + self.view.snd_cwnd * MSS);
    }

    /// Delivers segments behind a gap: they count for the delivery rate, but the round makes no progress.
    pub fn deliver(&mut self, after_us: u64, segments: u32, rtt_us: u32) {
        self.pkts_acked(after_us, segments, 0, Some(rtt_us));
    }

    /// Handles one ACK, and returns the new W.
    pub fn ack(&mut self, after_us: u64, acked: u32, rtt_us: Option<u32>) -> u32 {
        self.pkts_acked(after_us, acked, acked, rtt_us);
        self.cong_avoid(acked)
    }

    pub fn cong_avoid(&mut self, acked: u32) -> u32 {
        self.hook(|f| f.cong_avoid(acked), |m, v| m.cong_avoid(v, acked));
        self.send();
        self.view.snd_cwnd
    }

    /// Ends the round with three ACKs, 0.1 ms apart, all with this RTT, and returns the rule. The last ACK is for one
    /// segment, so the next round has W - 1. No step is added to W.
    pub fn round(&mut self, rtt_us: u32) -> u64 {
        let before = self.round_end.saturating_sub(self.view.snd_una) / MSS - 1;
        for acked in [before / 2, before - before / 2, 1] {
            self.pkts_acked(100, acked, acked, Some(rtt_us));
            self.send();
        }
        self.field("rule")
    }

    /// Does the same as [`Self::round`], but `lost` segments of the round are lost.
    pub fn lossy_round(&mut self, lost: u32, rtt_us: u32) -> u64 {
        self.view.lost += lost;
        self.round(rtt_us)
    }

    #[must_use]
    pub fn ssthresh(&mut self) -> u32 {
        self.hook(Flow::ssthresh, |m, v| m.ssthresh(v))
    }

    #[must_use]
    pub fn undo_cwnd(&mut self) -> u32 {
        self.hook(Flow::undo_cwnd, |m, v| m.undo_cwnd(v))
    }

    /// Enters `state`; the hook still sees the old one.
    pub fn enter(&mut self, state: u8) {
        self.hook(|f| f.set_state(state), |m, v| m.set_state(v, state));
        self.view.ca_state = state.into();
    }

    pub fn event(&mut self, event: u32) {
        if event == EVENT_TX_START {
            self.round_end = self.view.snd_nxt;
        }
        self.hook(|f| f.cwnd_event(event), |m, v| m.cwnd_event(v, event));
    }

    pub fn field(&self, name: &str) -> u64 {
        match &self.subject {
            Subject::Algorithm(flow) => flow.private(name),
            Subject::Model(fbtcp) => fbtcp.field(name),
        }
    }

    /// Returns W and ssthresh.
    pub fn window(&self) -> (u32, u32) {
        (self.view.snd_cwnd, self.view.snd_ssthresh)
    }
}
