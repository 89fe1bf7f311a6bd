//! A cell: links that share the air. Each link has its own queue; the links whose queues are not empty take turns.
//!
//! A turn lasts one millisecond, LTE's transmission time interval. It ends earlier if the queue becomes empty, so the
//! other links get the time that a link does not use. In its turn a link has the whole cell, at the rate that the link
//! has when the turn begins. When a packet leaves depends on which other links send until then, so this is known only
//! at that time.

use crate::link_model::{LinkModel, MILLIBITS_PER_BYTE, NS_PER_MS};
use std::collections::VecDeque;

const TURN_NS: u64 = 1_000_000;

/// A packet that was served.
#[derive(Debug, PartialEq)]
pub struct Served<T> {
    /// Time at which it left the queue.
    pub at_ns: u64,
    /// How much longer this took than if the link had been alone in the cell.
    pub wait_ns: u64,
    /// The value that was passed to [`Cell::join`] with the packet.
    pub item: T,
}

#[derive(Debug)]
struct Waiting<T> {
    came_ns: u64,
    bytes: u32,
    left_millibits: u64,
    item: T,
}

#[derive(Debug)]
struct Queue<T> {
    link: usize,
    packets: VecDeque<Waiting<T>>,
    left_millibits: u64,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Index of the queue that has the turn.
    queue: usize,
    rate_bps: u64,
    until_ns: u64,
}

/// A cell, with its state. `T` is a value that accompanies each packet.
#[derive(Debug)]
pub struct Cell<T> {
    queues: Vec<Queue<T>>,
    /// Time until which everything is served.
    now_ns: u64,
    turn: Option<Turn>,
    /// Index of the queue that has the next turn, if it is not empty.
    next: usize,
}

impl<T> Cell<T> {
    /// Creates an empty cell at time 0. `links` are indices of the links that share it.
    pub fn new(links: impl IntoIterator<Item = usize>) -> Self {
        let queue = |link| Queue { link, packets: VecDeque::new(), left_millibits: 0 };
        Self { queues: links.into_iter().map(queue).collect(), now_ns: 0, turn: None, next: 0 }
    }

    /// Returns the bytes that wait in a link's queue.
    #[must_use]
    pub fn queue_bytes(&self, link: usize) -> u32 {
        self.queue(link).map_or(0, |queue| (queue.left_millibits / MILLIBITS_PER_BYTE) as u32)
    }

    /// Returns for how long the first packet in a link's queue has waited so far.
    #[must_use]
    pub fn waited_ns(&self, link: usize) -> u64 {
        self.queue(link).and_then(|q| q.packets.front()).map_or(0, |first| self.now_ns.saturating_sub(first.came_ns))
    }

    /// Adds a packet to its link's queue. The cell must have been served until `now_ns`.
    pub fn join(&mut self, link: usize, now_ns: u64, bytes: u32, item: T) {
        let left_millibits = u64::from(bytes) * MILLIBITS_PER_BYTE;
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.link == link) {
            queue.left_millibits += left_millibits;
            queue.packets.push_back(Waiting { came_ns: now_ns, bytes, left_millibits, item });
        }
    }

    /// Serves the queues until `until_ns`. `links` are all links of the plan, in its order.
    pub fn serve(&mut self, until_ns: u64, links: &[LinkModel]) -> Vec<Served<T>> {
        let mut served = Vec::new();
        while self.now_ns < until_ns {
            let Some(turn) = self.turn.or_else(|| self.begin_turn(links)) else {
                self.now_ns = self.rates_change_ns(links).unwrap_or(until_ns).min(until_ns);
                continue;
            };
            self.turn = Some(turn);
            let end_ns = turn.until_ns.min(until_ns);
            served.extend(self.serve_first(&turn, end_ns));
            if self.now_ns >= turn.until_ns || self.queues[turn.queue].packets.is_empty() {
                self.turn = None;
            }
        }
        served
    }

    /// Returns the time of the next possible event if no packet arrives; `None` if no packet waits.
    #[must_use]
    pub fn next_ns(&mut self, links: &[LinkModel]) -> Option<u64> {
        self.turn = self.turn.or_else(|| self.begin_turn(links));
        match self.turn {
            Some(turn) => Some(turn.until_ns.min(self.now_ns + self.takes_ns(&turn))),
            None => self.rates_change_ns(links),
        }
    }

    /// Returns the items of the packets that still wait.
    pub fn into_waiting(self) -> impl Iterator<Item = T> {
        self.queues.into_iter().flat_map(|queue| queue.packets).map(|packet| packet.item)
    }

    fn queue(&self, link: usize) -> Option<&Queue<T>> {
        self.queues.iter().find(|queue| queue.link == link)
    }

    fn begin_turn(&mut self, links: &[LinkModel]) -> Option<Turn> {
        for offset in 0..self.queues.len() {
            let at = (self.next + offset) % self.queues.len();
            let queue = &self.queues[at];
            let rate_bps = links[queue.link].rate_at(self.now_ns).0;
            if rate_bps > 0 && !queue.packets.is_empty() {
                self.next = at + 1;
                return Some(Turn { queue: at, rate_bps, until_ns: self.now_ns + TURN_NS });
            }
        }
        None
    }

    /// Returns the earliest time at which the rate of a link with waiting packets may change.
    fn rates_change_ns(&self, links: &[LinkModel]) -> Option<u64> {
        let waiting = self.queues.iter().filter(|queue| !queue.packets.is_empty());
        waiting.filter_map(|queue| links[queue.link].rate_at(self.now_ns).1).min()
    }

    /// Returns how long the first packet of the turn's queue still takes.
    fn takes_ns(&self, turn: &Turn) -> u64 {
        let first = self.queues[turn.queue].packets.front();
        first.map_or(0, |packet| (packet.left_millibits * NS_PER_MS).div_ceil(turn.rate_bps))
    }

    /// Serves the first packet of the turn, or the part of it that can be served until `end_ns`.
    fn serve_first(&mut self, turn: &Turn, end_ns: u64) -> Option<Served<T>> {
        let done_ns = self.now_ns + self.takes_ns(turn);
        let queue = &mut self.queues[turn.queue];
        if done_ns > end_ns {
            let millibits = turn.rate_bps * (end_ns - self.now_ns) / NS_PER_MS;
            queue.packets.front_mut()?.left_millibits -= millibits;
            queue.left_millibits -= millibits;
            self.now_ns = end_ns;
            return None;
        }
        let packet = queue.packets.pop_front()?;
        queue.left_millibits -= packet.left_millibits;
        self.now_ns = done_ns;
        let alone_ns = u64::from(packet.bytes) * MILLIBITS_PER_BYTE * NS_PER_MS / turn.rate_bps;
        Some(Served { at_ns: done_ns, wait_ns: (done_ns - packet.came_ns).saturating_sub(alone_ns), item: packet.item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{PlannedLink, PlannedPhase};

    /// Returns links with these rates; a step is 10 ms.
    fn links(rates: &[&[(u32, u64)]]) -> Vec<LinkModel> {
        let link = |rates: &&[(u32, u64)]| {
            LinkModel::new(&PlannedLink {
                step_ns: 10_000_000,
                rates: rates.to_vec(),
                phases: vec![PlannedPhase::default()],
                ..PlannedLink::default()
            })
        };
        rates.iter().map(link).collect()
    }

    /// Returns the bytes that each link was served.
    fn bytes<const N: usize>(served: &[Served<(usize, u32)>]) -> [u32; N] {
        let mut bytes = [0; N];
        for (link, of) in served.iter().map(|s| s.item) {
            bytes[link] += of;
        }
        bytes
    }

    fn fill(cell: &mut Cell<(usize, u32)>, link: usize, packets: u32) {
        (0..packets).for_each(|_| cell.join(link, 0, 500, (link, 500)));
    }

    #[test]
    fn backlogged_links_get_equal_airtime() {
        let links = links(&[&[(100, 8_000_000)], &[(100, 16_000_000)], &[(100, 8_000_000)]]);
        let mut cell = Cell::new(0..3);
        fill(&mut cell, 0, 1000);
        fill(&mut cell, 1, 1000);
        // 50 turns each, of 1000 and 2000 bytes; the third link has no packets
        assert_eq!(bytes(&cell.serve(100_000_000, &links)), [50_000, 100_000, 0]);
        assert_eq!((cell.queue_bytes(0), cell.queue_bytes(2)), (450_000, 0));
    }

    #[test]
    fn unused_airtime_goes_to_other_links() {
        let links = links(&[&[(100, 8_000_000)], &[(100, 8_000_000)]]);
        let mut cell = Cell::new(0..2);
        fill(&mut cell, 0, 1000);
        fill(&mut cell, 1, 1);
        let served = cell.serve(10_000_000, &links);
        // two packets in the first link's turn; then the second link's only packet, which ends its turn
        let first: Vec<_> = served.iter().take(4).map(|s| (s.at_ns / 1000, s.wait_ns / 1000, s.item.0)).collect();
        assert_eq!(first, [(500, 0, 0), (1000, 500, 0), (1500, 1000, 1), (2000, 1500, 0)]);
        assert_eq!(bytes(&served), [9_500, 500]);
    }

    #[test]
    fn service_does_not_depend_on_the_polling_interval() {
        let links = links(&[&[(1, 7_654_321), (99, 3_333_333)], &[(100, 1_000_001)]]);
        let often = |step_ns: u64| {
            let mut cell = Cell::new(0..2);
            fill(&mut cell, 0, 50);
            fill(&mut cell, 1, 50);
            let looks = (1..=300_000_000 / step_ns).flat_map(|n| cell.serve(n * step_ns, &links));
            looks.map(|s| (s.at_ns / 100, s.item.0)).collect::<Vec<_>>()
        };
        assert_eq!(often(300_000_000).len(), 100);
        for step_ns in [100_000, 1_000_000, 7_000_000] {
            let apart = |(a, b): (&(u64, usize), &(u64, usize))| a.1 == b.1 && a.0.abs_diff(b.0) <= 10;
            assert!(often(step_ns).iter().zip(&often(300_000_000)).all(apart), "1 us apart at most: {step_ns}");
        }
    }

    #[test]
    fn an_unreachable_link_does_not_block_others() {
        let links = links(&[&[(2, 0), (98, 8_000_000)], &[(100, 8_000_000)]]);
        let mut cell = Cell::new(0..2);
        fill(&mut cell, 0, 2);
        assert_eq!(cell.next_ns(&links), Some(10_000_000), "the rate may change then");
        fill(&mut cell, 1, 10);
        assert_eq!(cell.next_ns(&links), Some(500_000));
        assert_eq!(bytes(&cell.serve(20_000_000, &links)), [0, 5_000]);
        assert_eq!((cell.queue_bytes(0), cell.waited_ns(0)), (1000, 20_000_000));
        assert_eq!(bytes(&cell.serve(21_000_000, &links)), [1_000, 0]);
        assert_eq!(cell.next_ns(&links), None);
        assert_eq!(cell.into_waiting().count(), 0);
    }
}
