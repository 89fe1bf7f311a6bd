//! Examples worked by hand, which hold for a model and for its algorithm: one connection under either of them.

pub mod westwood;

use crate::models::{Model, close};
use hotcc_host_algo::{Flow, HostAlgo, INFINITE_SSTHRESH, View};

/// Returns a connection at 1 s with W = 150 segments of 1000 bytes, which sent data before.
#[must_use]
pub fn connection() -> View {
    View {
        now_us: 1_000_000,
        snd_cwnd: 150,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: INFINITE_SSTHRESH,
        mss: 1000,
        delivered: 5000,
        data_segs_out: 5000,
        is_cwnd_limited: 1,
        snd_una: 5_000_000,
        snd_nxt: 5_150_000,
        ..View::default()
    }
}

/// Makes two tests of each example: `model::NAME` and `algorithm::NAME`. An example is a function that takes an
/// `&mut Example` of a [`connection`]; the tunables that it is worked out for are given beside it.
#[macro_export]
macro_rules! on_model_and_algorithm {
    ($name:literal, $model:ident; $($example:ident: $tunables:expr;)*) => {
        mod model {
            use super::*;
            $(
                #[test]
                fn $example() {
                    let model = $model::new($tunables, Vec::new());
                    let connection = $crate::examples::connection();
                    super::$example(&mut $crate::examples::Example::of_model(model, connection));
                }
            )*
        }

        mod algorithm {
            use super::*;
            $(
                #[test]
                fn $example() {
                    let (algo, model) = (hotcc_host_algo::HostAlgo::load($name), $model::new($tunables, Vec::new()));
                    let connection = $crate::examples::connection();
                    super::$example(&mut $crate::examples::Example::of_algorithm(&algo, &model, connection));
                }
            )*
        }
    };
}

/// A model that can run without its algorithm.
pub trait Alone: Model {
    /// Takes the connection after the hook just called as if the algorithm had set it.
    fn go_on(&mut self, sock: &View);
    /// Returns the value of the algorithm's state field of this name, without the scale (`_q8`, `_q16`); panics on an
    /// unknown name.
    fn field(&self, name: &str) -> f64;
}

enum Side<'a, M> {
    Model(Box<M>),
    Algorithm(&'a HostAlgo, Flow<'a>),
}

/// A connection for which the example spells out every ACK.
pub struct Example<'a, M> {
    /// The connection; the example may change it between hooks.
    pub sock: View,
    side: Side<'a, M>,
}

impl<'a, M: Alone> Example<'a, M> {
    /// Creates a connection under a model.
    #[must_use]
    pub fn of_model(model: M, sock: View) -> Self {
        let mut example = Self { sock, side: Side::Model(Box::new(model)) };
        example.init();
        example
    }

    /// Creates a connection under the algorithm, with the tunables of its model.
    #[must_use]
    pub fn of_algorithm(algo: &'a HostAlgo, model: &M, sock: View) -> Self {
        for (name, value) in model.tunables() {
            algo.set_tunable(name, value);
        }
        let mut example = Self { sock, side: Side::Algorithm(algo, Flow::new(algo)) };
        example.init();
        example
    }

    fn hook<T>(&mut self, model: impl FnOnce(&mut M, &mut View) -> T, algorithm: impl FnOnce(&mut Flow<'a>) -> T) -> T {
        match &mut self.side {
            Side::Model(m) => {
                let result = model(m, &mut self.sock);
                m.go_on(&self.sock);
                result
            }
            Side::Algorithm(_, flow) => {
                flow.set(&self.sock);
                let result = algorithm(flow);
                self.sock = flow.get(&self.sock);
                result
            }
        }
    }

    /// Calls `init`: the algorithm takes over the connection.
    pub fn init(&mut self) {
        self.hook(|m, s| m.init(s), |f| f.init());
    }

    /// Acknowledges `acked` segments after this time, in the middle of a round: `pkts_acked`.
    pub fn ack(&mut self, after_us: u64, acked: u32, rtt_us: Option<u32>) {
        self.sock.now_us += after_us;
        self.sock.delivered = self.sock.delivered.wrapping_add(acked);
        self.hook(|m, s| m.pkts_acked(s, rtt_us), |f| f.pkts_acked(acked, rtt_us));
    }

    /// As [`Self::ack`], with the last segment of a round. The next round ends with what has been sent by now.
    pub fn end_round(&mut self, after_us: u64, acked: u32, rtt_us: Option<u32>, srtt_us: u32) {
        self.sock.snd_una = self.sock.snd_nxt;
        self.sock.snd_nxt = self.sock.snd_nxt.wrapping_add(100_000);
        self.sock.srtt_us = 8 * srtt_us;
        self.ack(after_us, acked, rtt_us);
    }

    /// Calls `cong_avoid`.
    pub fn grow(&mut self, acked: u32) {
        self.hook(|m, s| m.cong_avoid(s, acked), |f| f.cong_avoid(acked));
    }

    /// Calls `ssthresh` and returns its result, which is not applied.
    pub fn ssthresh(&mut self) -> u32 {
        self.hook(|m, s| m.ssthresh(s), |f| f.ssthresh())
    }

    /// Calls `undo_cwnd` and returns its result, which is not applied.
    pub fn undo_cwnd(&mut self) -> u32 {
        self.hook(|m, s| m.undo_cwnd(s), |f| f.undo_cwnd())
    }

    /// Calls `set_state`: the connection enters a congestion state.
    pub fn enter(&mut self, state: u8) {
        self.hook(|m, s| m.set_state(s, state), |f| f.set_state(state));
        self.sock.ca_state = state.into();
    }

    /// Calls `cwnd_event`.
    pub fn event(&mut self, event: u32) {
        self.hook(|m, s| m.cwnd_event(s, event), |f| f.cwnd_event(event));
    }

    /// Sets the generation in the path map.
    pub fn path(&mut self, generation: u32) {
        match &mut self.side {
            Side::Model(m) => m.set_path(generation),
            Side::Algorithm(algo, _) => algo.set_path(generation),
        }
    }

    /// Returns W and ssthresh.
    pub fn window(&self) -> (u32, u32) {
        (self.sock.snd_cwnd, self.sock.snd_ssthresh)
    }

    /// Returns a state field without its scale.
    pub fn field(&self, name: &str) -> f64 {
        match &self.side {
            Side::Model(m) => m.field(name),
            Side::Algorithm(_, flow) => flow.private(name) as f64 / scale(name),
        }
    }

    /// Panics unless a state field has the value that was worked out, up to rounding.
    #[track_caller]
    pub fn assert_field(&self, name: &str, want: f64) {
        // a bandwidth is computed from samples of whole bytes/s; other fields have the resolution of their scale;
        // a model has more digits than the value worked out
        let resolution = match (&self.side, scale(name)) {
            (_, 1.0) => 0.0,
            (Side::Model(_), 256.0) => 0.01,
            (Side::Model(_), _) => 1e-6,
            (Side::Algorithm(..), 256.0) => 1.5,
            (Side::Algorithm(..), scale) => 1.0 / scale,
        };
        let got = self.field(name);
        assert!(close(got, want, 1e-9, resolution), "{name} {got}, by hand {want}");
    }
}

fn scale(name: &str) -> f64 {
    match name.rsplit_once("_q").map(|(_, bits)| bits) {
        Some("8") => 256.0,
        Some("16") => 65_536.0,
        _ => 1.0,
    }
}
