//! D-TCP in profile `default` (`n_rule=eq10`): the signal as room or as a fall, from docs/algorithms/dtcp.md.
//!
//! Each hook starts from the algorithm's own numbers before it, so the numbers after it are known up to the rounding of
//! that one step. If that rounding decides a comparison, the model follows both branches until the algorithm's numbers
//! show which one it took.

mod agreement;
mod base;
mod epoch;
mod link;
mod losses;
mod signal;
mod start;
mod state;
mod weight;
mod window;

pub use super::dtcp::Tunables;

use super::interval::Interval;
use super::named::counters;
use super::{Model, chosen, elapsed_us, reno};
use base::Base;
use hotcc_host_algo::ca_state::{CWR, LOSS};
use hotcc_host_algo::{EVENT_TX_START, Flow, View};
use state::{Choices, State, World};

counters! {
    /// How often the limits of fixed point made a difference.
    Rounding {
        forks: "comparisons that rounding decides",
        coarse_n: "N known to less than 1 %",
        coarse_windows: "W known to less than 1 %",
    }
}

/// The model of one connection.
#[derive(Clone, Debug)]
pub struct DtcpDefault {
    /// Tunables that it may change to while it runs.
    pub others: Vec<Tunables>,
    world: World,
    possible: Vec<State>,
    rounding: Rounding,
}

impl DtcpDefault {
    /// Returns a connection before `init`.
    #[must_use]
    pub fn new(tunables: Tunables) -> Self {
        let world = World { tunables, radio: None, path: 0 };
        Self { others: Vec::new(), world, possible: vec![State::new(&View::default())], rounding: Rounding::default() }
    }

    /// Applies a hook to each possible connection, in each way that rounding leaves open.
    fn apply(&mut self, sock: &mut View, hook: impl Fn(&mut State, &World, &View, &mut Choices)) {
        let mut possible = Vec::new();
        for before in &self.possible {
            let (mut answers, mut ways) = (0, 1);
            while answers < ways {
                let (mut state, mut choices) = (before.clone(), Choices { answers, asked: 0 });
                state.window = Interval::point(f64::from(sock.snd_cwnd));
                state.ssthresh = Interval::point(f64::from(sock.snd_ssthresh));
                hook(&mut state, &self.world, sock, &mut choices);
                ways = ways.max(1 << choices.asked);
                possible.push(state);
                answers += 1;
            }
            self.rounding.forks += u64::from(ways > 1);
        }
        self.possible = possible;
    }
}

impl Model for DtcpDefault {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        self.world.tunables.named()
    }

    fn retune(&mut self, choice: u64) {
        if let Some(other) = chosen(&self.others, choice) {
            self.world.tunables = other;
            self.possible.iter_mut().for_each(|s| s.coverage.retuned += 1);
        }
    }

    fn init(&mut self, sock: &mut View) {
        self.apply(sock, |s, world, sock, _| s.begin(world, sock));
    }

    fn release(&mut self, sock: &mut View) {
        self.apply(sock, |s, world, sock, _| {
            if sock.data_segs_out == 0 && sock.snd_cwnd == world.tunables.initial_windows * s.initial_window {
                s.set_window(s.initial_window);
            }
        });
    }

    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        self.apply(sock, |s, world, sock, choices| {
            s.base.sample(rtt_us);
            let elapsed = elapsed_us(s.epoch.start_us, sock.now_us);
            let least = if sock.in_slow_start() { 5000 } else { 20_000 };
            let epoch_us = match world.tunables.epoch_us {
                0 => (sock.srtt_us >> 3).max(least),
                set => set,
            };
            if elapsed >= u64::from(epoch_us) {
                s.end_epoch(world, sock, elapsed, choices);
            }
        });
    }

    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        self.apply(sock, |s, _, sock, _| s.grow(sock, acked));
    }

    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        self.apply(sock, |s, world, sock, choices| {
            s.ssthresh_before = sock.snd_ssthresh;
            s.decrease(world, sock, choices);
        });
        self.possible[0].answer.high as u32
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.apply(sock, |_, _, _, _| ());
        reno::undo_cwnd(sock)
    }

    fn set_state(&mut self, sock: &mut View, state: u8) {
        self.apply(sock, |s, world, sock, _| {
            if state == LOSS {
                if sock.timed_out() {
                    s.time_out(world, sock);
                }
            } else {
                s.ssthresh_before = sock.snd_ssthresh;
            }
            if state == CWR {
                s.coverage.links_settled += u64::from(!s.link.is_new());
                let filtered = s.filtered.down(1.0).max(Interval::ZERO);
                s.link.settle(filtered);
            }
        });
    }

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        self.apply(sock, |s, world, sock, choices| {
            if event == EVENT_TX_START {
                s.coverage.restarts += 1;
                s.base.end_idle();
                if choices.decide(s.base.is_expired(sock.now_us, world.tunables.base_window_s)) {
                    s.coverage.base_idle += 1;
                    s.base = Base::new(sock.now_us);
                }
                s.restart_epoch(sock);
                s.weight.forecast = Interval::ZERO; // it was for the epoch that the silence ended early
            }
        });
    }

    fn set_radio(&mut self, reading: Option<(u64, u32)>) {
        self.world.radio = reading;
    }

    fn set_path(&mut self, generation: u32) {
        self.world.path = generation;
    }

    fn agree(&mut self, _: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        self.compare(got, flow)
    }

    fn agree_on_ssthresh(&mut self, _: u32, got: u32) -> Result<(), String> {
        self.compare_answer(got)
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        self.rounding.named()
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        self.possible[0].coverage.named()
    }
}
