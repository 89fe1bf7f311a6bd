//! FB-TCP (Poorzare and Calveras, IEEE Access 2021, section IV): equations 1 to 10 and Tables 1 to 6.
//!
//! In the algorithm, windows, round-trip times and the values compared with thresholds are whole numbers. The model
//! rounds at the same places, counts the rounds in which this decides on the row, and otherwise must agree exactly.
//! Only the delivery rate of eq 1 is real-valued in the model. If the algorithm's resolution of one byte/s decides on a
//! whole segment of maxCwnd, the model continues with both values until the algorithm has shown which one it took.

mod agreement;
pub mod rows;
mod state;
mod tunables;

pub use tunables::Tunables;

use super::{Model, chosen};
use hotcc_host_algo::ca_state::{CWR, LOSS};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, EVENT_TX_START, Flow, View};
use state::State;
use std::collections::BTreeMap;

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct Fbtcp {
    /// Tunables in force.
    pub tunables: Tunables,
    /// Tunables that `retune` chooses from while the connection runs.
    pub others: Vec<Tunables>,
    /// The state and connection by the equations.
    own: Hypothesis,
    /// The same if a rounding went the other way, until the algorithm has shown that it did not.
    rounded: Vec<Hypothesis>,
    /// Whether the algorithm's result of the last hook was compared with the model's.
    compared: bool,
    bounds_rounded: u64,
}

/// A state, and the connection as the last hook left it.
#[derive(Clone, Debug, Default)]
struct Hypothesis {
    state: State,
    sock: View,
}

/// How often each branch was taken.
#[derive(Clone, Debug, Default)]
struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    fn add(&mut self, branch: &'static str) {
        *self.0.entry(branch).or_default() += 1;
    }
}

impl Fbtcp {
    /// Returns the model of a connection before `init`.
    #[must_use]
    pub fn new(tunables: Tunables) -> Self {
        Self {
            tunables,
            others: Vec::new(),
            own: Hypothesis::default(),
            rounded: Vec::new(),
            compared: true,
            bounds_rounded: 0,
        }
    }

    /// Returns a field of the state by its name in the algorithm's state.
    ///
    /// # Panics
    /// If the field is unknown.
    #[must_use]
    pub fn field(&self, name: &str) -> u64 {
        let state = &self.own.state;
        match name {
            "max_cwnd" => state.max.map_or(0, |m| m.segments.into()),
            "base_us" => state.base.map_or(0, |b| b.rtt_us.into()),
            "csi_q16" => state.csi_q16.map_or(0, |csi| csi as u64),
            "rule" => state.rule.into(),
            "repeat" => state.repeat.into(),
            "step_left" => state.step_left().into(),
            _ => panic!("no state field {name}"),
        }
    }

    /// Runs a hook for every hypothesis on the same connection, and leaves the result by the equations in `sock`.
    fn each<R>(&mut self, sock: &mut View, hook: impl Fn(&Tunables, &mut State, &mut View) -> R) -> R {
        self.drop_unless_compared();
        for other in &mut self.rounded {
            other.sock = *sock;
            hook(&self.tunables, &mut other.state, &mut other.sock);
        }
        let result = hook(&self.tunables, &mut self.own.state, sock);
        self.own.sock = *sock;
        result
    }

    /// Drops the other hypotheses if the last hook was not compared: then no algorithm decides between them.
    fn drop_unless_compared(&mut self) {
        if !std::mem::take(&mut self.compared) {
            self.rounded.clear();
        }
    }
}

impl Model for Fbtcp {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.tunables = other;
            self.own.state.coverage.add("tunables changed");
        }
    }

    fn init(&mut self, sock: &mut View) {
        self.each(sock, |_, state, sock| state.start(sock));
    }

    fn release(&mut self, sock: &mut View) {
        self.each(sock, |_, _, _| ());
    }

    /// Handles the RTT, the delivery rate and the end of a round, in this order: an ACK's samples belong to the round
    /// that it ends.
    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        self.drop_unless_compared();
        let t = self.tunables;
        let mut rounded = Vec::new();
        let mut hook = |before: &mut Hypothesis| {
            let Hypothesis { state, sock } = before;
            state.take_rtt(&t, sock, rtt_us);
            if let Some(sample) = state.take_delivery_rate(&t, sock) {
                if sample.exact != sample.truncated {
                    let mut other = Hypothesis { state: state.clone(), sock: *sock };
                    other.state.bound(&t, sock, sample.truncated, sample);
                    other.state.end_round(&t, &mut other.sock);
                    rounded.push(other);
                }
                state.bound(&t, sock, sample.exact, sample);
            }
            state.end_round(&t, sock);
        };
        self.own.sock = *sock;
        hook(&mut self.own);
        for other in &mut self.rounded {
            other.sock = *sock;
            hook(other);
        }
        self.rounded.append(&mut rounded);
        *sock = self.own.sock;
    }

    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        self.each(sock, |_, state, sock| state.cong_avoid(sock, acked));
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.each(sock, |_, state, sock| state.ssthresh(sock))
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.each(sock, |_, state, sock| state.undo(sock))
    }

    fn set_state(&mut self, sock: &mut View, entered: u8) {
        self.each(sock, |t, state, sock| match entered {
            CWR => state.enter_cwr(t, sock),
            LOSS => state.enter_loss(sock),
            _ => {}
        });
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        self.each(sock, |_, state, sock| match event {
            EVENT_TX_START => {
                state.coverage.add("restarts after idling");
                state.restart(sock);
            }
            EVENT_COMPLETE_CWR => state.complete(sock),
            EVENT_LOSS => state.time_out(sock, sock.snd_cwnd),
            _ => {}
        });
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn agree(&mut self, _: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.compare(got, flow)
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        if want == got { Ok(()) } else { Err(format!("ssthresh() is {got}, the model's {want}")) }
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("maxCwnd rounded the other way", self.bounds_rounded),
            ("rows decided by the resolution of CSI", self.own.state.rows_decided_by_resolution),
        ]
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        self.own.state.coverage.0.iter().map(|(branch, times)| (*branch, *times)).collect()
    }
}
