//! Connections whose path changes slowly. Their events are generated from a seed while they run: what an ACK
//! acknowledges, and when, follows from W.
//!
//! In [`crate::random`], the number of ACKs in a round and the RTTs of successive rounds are random. Here a queue stays
//! for up to fifty rounds, and the delivery rate is a fraction of W per RTT.

use crate::kernel::Event;
use crate::live::{self, Course};
use crate::models::Model;
use crate::random::{self, Random, Totals};
use hotcc_host_algo::{HostAlgo, INFINITE_SSTHRESH, View};

/// Longest RTT of a path.
const MAX_RTT_US: f64 = 10e6;

/// The network and the application.
struct Path {
    base_us: f64,
    /// RTT without a queue, divided by the RTT.
    emptiness: f64,
    /// Fraction of the RTT by which ACKs of a round differ.
    jitter: f64,
    /// Fraction of W that arrives per RTT.
    share: f64,
    acks_per_round: u32,
    /// Of this many events, some two dozen are not ACKs.
    calm: u64,
    /// ACKs until all of this changes.
    acks_left: u64,
    /// An event, and the number of ACKs before it.
    then: Option<(u64, Event)>,
    /// The very next event.
    now: Option<Event>,
}

impl Path {
    fn new(random: &mut Random) -> Self {
        let mut path = Self {
            base_us: random.scale(100.0, 1e6),
            emptiness: 1.0,
            jitter: 0.0,
            share: 1.0,
            acks_per_round: 1,
            calm: random.pick(&[1000, 20_000]),
            acks_left: 0,
            then: None,
            now: None,
        };
        path.change(random);
        (path.emptiness, path.acks_left) = (1.0, random.between(1, 12)); // its base RTT shows at first
        path
    }

    fn change(&mut self, random: &mut Random) {
        let (low, high) = random.pick(&[
            (1.0, 1.0),
            (0.985, 1.0),
            (0.945, 0.985),
            (0.69, 0.96),
            (0.29, 0.71),
            (0.045, 0.31),
            (0.002, 0.06),
        ]);
        self.emptiness = low + (high - low) * random.unit();
        self.jitter = if random.once_in(4) { 0.0 } else { random.scale(1e-4, 0.1) };
        self.share = random.pick(&[1.0, 1.0, 0.98, 0.95, 0.9, 0.5, 1.1]);
        self.acks_per_round = random.pick(&[1, 2, 4, 4, 4, 5, 5, 6, 9]);
        let rounds = if random.once_in(3) { random.between(32, 50) } else { random.between(1, 8) };
        self.acks_left = rounds * u64::from(self.acks_per_round);
    }

    fn next(&mut self, random: &mut Random, sock: &View) -> Event {
        if let Some(event) = self.now.take() {
            return event;
        }
        match self.then.take() {
            Some((0, event)) => {
                if event == Event::Recovery {
                    self.then = Some((random.between(0, 12), Event::Complete));
                }
                return event;
            }
            Some((acks, event)) => {
                self.then = Some((acks - 1, event));
                return self.ack(random, sock);
            }
            None => {}
        }
        if self.acks_left == 0 {
            self.change(random);
        }
        self.acks_left -= 1;
        // the event that begins something, the one that ends it, and the most ACKs in between
        let (begin, end, acks) = match random.bits() % self.calm {
            0..4 => (Event::Recovery, Event::Complete, 12),
            4..8 => {
                self.now = Some(Event::Lost(random.between(1, 2 * u64::from(sock.snd_cwnd)) as u32));
                (Event::Recovery, Event::Complete, 12)
            }
            8..9 => (Event::Recovery, Event::Undo, 8),
            9..11 => (Event::Cwr, Event::Complete, 8),
            11..12 => (Event::Cwr, Event::Recovery, 4),
            12..14 => (Event::Timeout { ssthresh: true }, Event::Open, 16),
            14..15 => (Event::Timeout { ssthresh: true }, Event::Undo, 4),
            15..17 => (Event::Disorder, Event::Open, 8),
            17..19 => (Event::CwndLimited(false), Event::CwndLimited(true), 16),
            19..21 => (Event::AppLimited(true), Event::AppLimited(false), 16),
            21..22 => {
                return Event::Idle { for_us: random.scale(1e4, 1e8) as u64, restart: random.once_in(2) };
            }
            22..23 => return Event::Retune(random.bits()),
            23..24 if random.once_in(4) => return Event::Return,
            _ => return self.ack(random, sock),
        };
        self.then = Some((random.between(0, acks), end));
        begin
    }

    fn ack(&mut self, random: &mut Random, sock: &View) -> Event {
        let acked = (sock.snd_cwnd / self.acks_per_round).max(1);
        let rtt = (self.base_us / self.emptiness * (1.0 + self.jitter * random.unit())).min(MAX_RTT_US);
        let after_us = f64::from(acked) / f64::from(sock.snd_cwnd) * rtt / self.share;
        let rtt_us = if random.once_in(50) { None } else { Some(rtt as u32) };
        Event::Ack { after_us: after_us as u64, acked, rtt_us }
    }
}

fn start(random: &mut Random) -> View {
    let any = random::start(random);
    let snd_cwnd = match random.between(0, 9) {
        0 => random.between(2, 9) as u32,
        1 => random.scale(2000.0, 100_000.0) as u32,
        _ => random.scale(10.0, 2000.0) as u32,
    };
    let snd_ssthresh = if random.once_in(2) { INFINITE_SSTHRESH } else { random.between(2, snd_cwnd.into()) as u32 };
    let snd_cwnd_clamp = if random.once_in(8) { snd_cwnd + random.between(0, 300) as u32 } else { u32::MAX };
    View { snd_cwnd, snd_ssthresh, snd_cwnd_clamp, max_packets_out: snd_cwnd, ..any }
}

impl Course for Path {
    fn begin(random: &mut Random) -> (Self, View) {
        let start = start(random);
        (Self::new(random), start)
    }

    fn step(&mut self, random: &mut Random, sock: &View) -> Vec<Event> {
        vec![self.next(random, sock)]
    }
}

/// Runs `connections` connections of `length` events from seeds `seed..`; `model` makes the model for each.
/// Panics at the first difference, with the shortest script found that shows one.
pub fn check<M: Model + Clone>(
    algo: &HostAlgo,
    seed: u64,
    connections: u64,
    length: usize,
    model: impl Fn(&mut Random) -> M,
) -> Totals {
    live::check::<Path, M>(algo, seed, connections, length, model)
}
