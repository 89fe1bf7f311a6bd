//! Connections over a radio whose SINR predicts each change of the rate: a window over a bottleneck with a buffer.
//! Their events are generated from a seed while they run.

use crate::kernel::Event;
use crate::live::{self, Course};
use crate::models::Model;
use crate::random::{self, Random, Totals};
use hotcc_host_algo::{HostAlgo, INFINITE_SSTHRESH, View};

const ACKS_PER_ROUND: u32 = 8;

struct Radio {
    base_us: f64,
    /// Bytes/s of one bit/s/Hz.
    bandwidth: f64,
    sinr_db: f64,
    /// Bytes/s; follows from the SINR of the round before.
    rate: f64,
    /// Capacity of the buffer, relative to that of the path without it.
    buffer: f64,
    rounds_left: u64,
}

impl Radio {
    fn new(random: &mut Random) -> Self {
        Self {
            base_us: random.scale(5e3, 2e5),
            bandwidth: random.scale(2e5, 1e8),
            sinr_db: 10.0,
            rate: 1.0,
            buffer: random.scale(0.1, 4.0),
            rounds_left: 0,
        }
    }

    /// Returns the events of the next round.
    fn round(&mut self, random: &mut Random, sock: &View) -> Vec<Event> {
        self.rate = self.bandwidth * (1.0 + 10f64.powf(self.sinr_db / 10.0)).log2();
        if self.rounds_left == 0 {
            self.sinr_db = random.between(0, 25) as f64;
            self.rounds_left = random.between(4, 40);
        }
        self.rounds_left -= 1;
        let sinr_q8 = (self.sinr_db * 256.0) as i16 + random.between(0, 40) as i16;
        let radio = Event::Radio { sinr_q8, average_q8: 0, age_ms: 0, max_age_ms: 30_000 };
        let bytes = f64::from(sock.snd_cwnd) * f64::from(sock.mss);
        let rtt_us = self.base_us.max(bytes / self.rate * 1e6);
        let ack = Event::Ack {
            after_us: (rtt_us / f64::from(ACKS_PER_ROUND)) as u64,
            acked: sock.snd_cwnd.div_ceil(ACKS_PER_ROUND),
            rtt_us: Some(rtt_us as u32),
        };
        let mut events = vec![radio];
        let overflows = bytes > self.rate * self.base_us / 1e6 * (1.0 + self.buffer);
        let lost = overflows || random.once_in(30);
        events.extend(lost.then_some(Event::Recovery));
        events.extend([ack; ACKS_PER_ROUND as usize]);
        events.extend(lost.then_some(Event::Complete));
        if random.once_in(50) {
            events.extend([Event::AppLimited(true), ack, Event::AppLimited(false)]);
        }
        events
    }
}

impl Course for Radio {
    fn begin(random: &mut Random) -> (Self, View) {
        let radio = Self::new(random);
        let start = View { snd_cwnd: 10, snd_ssthresh: INFINITE_SSTHRESH, mss: 1448, ..random::start(random) };
        (radio, View { snd_cwnd_clamp: u32::MAX, ..start })
    }

    fn step(&mut self, random: &mut Random, sock: &View) -> Vec<Event> {
        self.round(random, sock)
    }
}

/// Runs `connections` connections of `rounds` rounds from seeds `seed..`; `model` makes the model for each.
/// Panics at the first difference, with the shortest script found that shows one.
pub fn check<M: Model + Clone>(
    algo: &HostAlgo,
    seed: u64,
    connections: u64,
    rounds: usize,
    model: impl Fn(&mut Random) -> M,
) -> Totals {
    live::check::<Radio, M>(algo, seed, connections, rounds, model)
}
