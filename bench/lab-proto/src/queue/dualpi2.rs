//! DualPI2, RFC 9332, appendix A: a queue for L4S and one for classic traffic, whose signals are coupled so that flows
//! of both kinds get about equal shares.

use super::packet::{Ecn, Fifo, Parameters, Queued};
use crate::splitmix;

/// Gains of the controller, in 256ths of a hertz: how much the probability changes per second of delay above the
/// target (0.16 Hz), and per second by which the delay has grown (3.2 Hz).
const ALPHA_256: i128 = 41;
const BETA_256: i128 = 819;
/// Coupling factor: the L4S queue's probability is this times the base probability, and the classic queue's is the
/// square of the base probability.
const COUPLING: u64 = 2;
/// Delay above which each packet of the L4S queue is marked.
const STEP_NS: u64 = 1_000_000;
/// Share of the link, in percent, that the classic queue has if both queues are full.
const CLASSIC_PERCENT: i64 = 10;
/// A probability of one.
const ONE: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct DualPi2<T> {
    target_ns: u64,
    update_ns: u64,
    /// Below this queue length, no packet is dropped or marked at random.
    spared_bytes: u64,
    l4s: Fifo<T>,
    classic: Fifo<T>,
    /// Base probability, in units of 2^-32.
    base: u64,
    /// Delay at the latest update.
    last_ns: u64,
    /// Time of the next update.
    due_ns: u64,
    /// If it is positive, it is the classic queue's turn.
    credit: i64,
    first_credit: i64,
    random: u64,
}

impl<T> DualPi2<T> {
    pub fn new(parameters: &Parameters) -> Self {
        let first_credit = i64::from(parameters.mtu_bytes) * (2 * CLASSIC_PERCENT - 100);
        Self {
            target_ns: parameters.target_ns,
            update_ns: parameters.interval_ns,
            spared_bytes: 2 * u64::from(parameters.mtu_bytes),
            l4s: Fifo::default(),
            classic: Fifo::default(),
            base: 0,
            last_ns: 0,
            due_ns: parameters.interval_ns,
            credit: first_credit,
            first_credit,
            random: parameters.seed,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.l4s.bytes + self.classic.bytes
    }

    pub fn oldest_ns(&self) -> Option<u64> {
        [self.l4s.oldest_ns(), self.classic.oldest_ns()].into_iter().flatten().min()
    }

    pub fn drain(&mut self) -> Vec<Queued<T>> {
        self.l4s.drain().into_iter().chain(self.classic.drain()).collect()
    }

    pub fn enqueue(&mut self, now_ns: u64, packet: Queued<T>) {
        self.update(now_ns);
        if matches!(packet.header.ecn, Ecn::Ect1 | Ecn::Ce) {
            self.l4s.push(packet);
        } else {
            self.classic.push(packet);
        }
    }

    pub fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Queued<T>>) -> Option<Queued<T>> {
        self.update(now_ns);
        loop {
            let both = !self.l4s.packets.is_empty() && !self.classic.packets.is_empty();
            if !self.l4s.packets.is_empty() && (!both || self.credit <= 0) {
                let mut packet = self.l4s.pop()?;
                if self.drops_l4s(&mut packet) {
                    dropped.push(packet);
                    continue;
                }
                if now_ns - packet.came_ns > STEP_NS {
                    packet.mark();
                }
                self.spend(both, CLASSIC_PERCENT, &packet);
                return Some(packet);
            }
            let Some(mut packet) = self.classic.pop() else {
                self.credit = self.first_credit;
                return None;
            };
            if self.drops_classic(&mut packet) {
                dropped.push(packet);
                continue;
            }
            self.spend(both, CLASSIC_PERCENT - 100, &packet);
            return Some(packet);
        }
    }

    /// Updates the base probability for each period that has passed. Between the calls the queue does not change, so
    /// its delay at each update is known.
    fn update(&mut self, now_ns: u64) {
        while self.due_ns <= now_ns {
            let delay_ns = self.oldest_ns().map_or(0, |came_ns| self.due_ns - came_ns);
            let above = i128::from(delay_ns) - i128::from(self.target_ns);
            let growth = i128::from(delay_ns) - i128::from(self.last_ns);
            let change = (above * ALPHA_256 + growth * BETA_256) * i128::from(ONE) / (256 * 1_000_000_000);
            self.base = (i128::from(self.base) + change).clamp(0, i128::from(ONE)) as u64;
            self.last_ns = delay_ns;
            self.due_ns += self.update_ns;
        }
    }

    /// Gives the classic queue credit for what the L4S queue sent, and the other way round, while both have packets.
    fn spend(&mut self, both: bool, percent: i64, packet: &Queued<T>) {
        if both {
            self.credit += percent * i64::from(packet.header.bytes);
        }
    }

    fn drops_classic(&mut self, packet: &mut Queued<T>) -> bool {
        if self.bytes() < self.spared_bytes || !self.draws_squared() {
            return false;
        }
        self.is_overloaded() || !packet.mark()
    }

    fn drops_l4s(&mut self, packet: &mut Queued<T>) -> bool {
        if self.bytes() < self.spared_bytes {
            return false;
        }
        if self.is_overloaded() {
            // marks are no longer enough, so both queues drop alike
            return self.draws_squared() || !packet.mark();
        }
        self.draws(self.base * COUPLING) && !packet.mark()
    }

    fn is_overloaded(&self) -> bool {
        self.base * COUPLING > ONE
    }

    fn draws_squared(&mut self) -> bool {
        self.draws(self.base) && self.draws(self.base)
    }

    /// Returns true with this probability.
    fn draws(&mut self, probability: u64) -> bool {
        splitmix::next(&mut self.random) >> 32 < probability
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Ecn, Header, Kind, Parameters, Queued};
    use super::super::testing::{MS, Run, packets, together};
    use super::{DualPi2, ONE};

    #[test]
    fn l4s_packets_are_marked_at_the_step_and_not_below_it() {
        // groups of five, 20 ms apart, of 0.4 ms each: the fourth has waited for 1.2 ms
        let group = |n: u64| packets(5, 0, Ecn::Ect1, 1).into_iter().map(move |(_, header)| (n * 20 * MS, header));
        let run = Run::of(Kind::Dualpi2, |_| {}).serve(MS * 4 / 10, (0..100).flat_map(group).collect());
        assert_eq!((run.dropped.len(), run.sent.len()), (0, 500));
        for (at_ns, packet) in &run.sent {
            assert_eq!(packet.marked, at_ns - packet.came_ns > MS, "{at_ns}");
        }
        assert_eq!(run.sent.iter().filter(|(_, packet)| packet.marked).count(), 200);
    }

    #[test]
    fn signals_of_the_two_queues_are_coupled() {
        let base = ONE / 5;
        let share = |ecn: Ecn| {
            let mut queue = DualPi2::new(&Parameters::of_linux(Kind::Dualpi2, 1500, 7));
            // frozen, and spared from nothing: only the drawing is under test
            (queue.base, queue.due_ns, queue.spared_bytes) = (base, u64::MAX, 0);
            let mut dropped = Vec::new();
            let mut marks = 0;
            for _ in 0..100_000 {
                let header = Header { bytes: 1500, ecn, flow: 0 };
                queue.enqueue(0, Queued { came_ns: 0, header, marked: false, item: () });
                marks += usize::from(queue.dequeue(0, &mut dropped).is_some_and(|packet| packet.marked));
            }
            (marks as f64 / 1e5, dropped.len() as f64 / 1e5)
        };
        let near = |(marks, drops): (f64, f64), wanted: (f64, f64)| {
            assert!((marks - wanted.0).abs() < 0.005 && (drops - wanted.1).abs() < 0.005, "{marks} {drops}");
        };
        near(share(Ecn::Ect1), (0.4, 0.0)); // twice the base
        near(share(Ecn::Ect0), (0.04, 0.0)); // its square
        near(share(Ecn::NotEct), (0.0, 0.04));
    }

    #[test]
    fn the_classic_queue_settles_at_the_target() {
        // 1.05 times what the link carries, for a minute: the drops must take the rest away
        let run = Run::of(Kind::Dualpi2, |_| {}).serve(MS, packets(63_000, MS * 20 / 21, Ecn::NotEct, 1));
        let late = || run.sent.iter().filter(|(at_ns, _)| *at_ns > 30_000 * MS && *at_ns < 60_000 * MS);
        let mean_ns = late().map(|(at_ns, packet)| at_ns - packet.came_ns).sum::<u64>() / late().count() as u64;
        assert!((13..=17).contains(&(mean_ns / MS)), "{mean_ns}");
        let share = run.dropped.len() as f64 / 63_000.0;
        assert!((0.04..0.056).contains(&share), "{share}");
    }

    #[test]
    fn l4s_packets_overtake_classic_ones_but_do_not_starve_them() {
        let arrivals = together(packets(100, 0, Ecn::Ect1, 1), packets(100, 0, Ecn::Ect0, 2));
        let run = Run::of(Kind::Dualpi2, |_| {}).serve(MS / 10, arrivals);
        // before the first update of the probability
        let classic = run.sent.iter().take(100).filter(|(_, packet)| packet.header.flow == 2).count();
        assert!((8..=11).contains(&classic), "{classic} of the first hundred");
    }
}
