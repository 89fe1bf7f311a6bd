//! A cell: links that share the air. Each link has its own queue; the links whose queues are not empty take turns.
//!
//! A link with a queueing discipline that shares no air is a cell of its own. It always has the turn.
//!
//! A turn lasts one millisecond, LTE's transmission time interval. It ends earlier if the queue becomes empty, so the
//! other links get the time that a link does not use. In its turn a link has the whole cell, at the rate that the link
//! has when the turn begins. When a packet leaves depends on which other links send until then, so this is known only
//! at that time.

use crate::link_model::{End, LinkModel, MILLIBITS_PER_BYTE, NS_PER_MS};
use crate::plan::Plan;
use crate::queue::{Header, Queue, Queued};

const TURN_NS: u64 = 1_000_000;

/// A packet that has left its queue.
#[derive(Debug, PartialEq)]
pub struct Gone<T> {
    /// Time at which it left the queue.
    pub at_ns: u64,
    /// How much longer this took than if the link had been alone in the cell.
    pub wait_ns: u64,
    /// What happened to it.
    pub end: End,
    /// The value that was passed to [`Cell::join`] with the packet.
    pub item: T,
}

/// A packet that is being sent.
#[derive(Debug)]
struct Sending<T> {
    packet: Queued<T>,
    left_millibits: u64,
}

#[derive(Debug)]
struct LinkQueue<T> {
    link: usize,
    waiting: Queue<T>,
    sending: Option<Sending<T>>,
}

impl<T> LinkQueue<T> {
    fn is_empty(&self) -> bool {
        self.sending.is_none() && self.waiting.is_empty()
    }

    /// Returns the bytes of the packet that is being sent that are still to be sent, rounded down.
    fn sending_bytes(&self) -> u64 {
        self.sending.as_ref().map_or(0, |sending| sending.left_millibits / MILLIBITS_PER_BYTE)
    }
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
    queues: Vec<LinkQueue<T>>,
    /// Time until which everything is served.
    now_ns: u64,
    turn: Option<Turn>,
    /// Index of the queue that has the next turn, if it is not empty.
    next: usize,
    /// Packets that have left their queues since the last call of [`Cell::serve`].
    gone: Vec<Gone<T>>,
}

impl<T> Cell<T> {
    /// Creates a plan's cells at time 0.
    #[must_use]
    pub fn of_plan(plan: &Plan) -> Vec<Self> {
        let queue = |link: usize| {
            let planned = &plan.links[link];
            (link, Queue::new(planned.queue_bytes, planned.discipline))
        };
        plan.cells().into_iter().map(|links| Self::new(links.into_iter().map(queue))).collect()
    }

    /// Creates an empty cell at time 0 from the indices of the links that share it and their queues.
    fn new(links: impl IntoIterator<Item = (usize, Queue<T>)>) -> Self {
        let queues = links.into_iter().map(|(link, waiting)| LinkQueue { link, waiting, sending: None }).collect();
        Self { queues, now_ns: 0, turn: None, next: 0, gone: Vec::new() }
    }

    /// Returns the bytes that wait in a link's queue.
    #[must_use]
    pub fn queue_bytes(&self, link: usize) -> u32 {
        self.queue(link).map_or(0, |queue| (queue.waiting.bytes() + queue.sending_bytes()) as u32)
    }

    /// Adds a packet to its link's queue. The cell must have been served until `now_ns`. If this makes the queue drop
    /// packets, the next [`Cell::serve`] returns them.
    pub fn join(&mut self, link: usize, now_ns: u64, header: Header, item: T) {
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.link == link) else { return };
        let first_ns = queue.sending.as_ref().map(|sending| sending.packet.came_ns).or(queue.waiting.oldest_ns());
        let mut dropped = Vec::new();
        // the packet that is being sent counts until its end
        let ahead_bytes = queue.sending_bytes();
        queue.waiting.enqueue(
            now_ns,
            ahead_bytes,
            Queued { came_ns: now_ns, header, marked: false, item },
            &mut dropped,
        );
        for packet in dropped {
            // a packet that finds no room would have waited for longer than the first one has so far
            let since_ns = if packet.came_ns == now_ns { first_ns.unwrap_or(now_ns) } else { packet.came_ns };
            self.gone.push(Gone { at_ns: now_ns, wait_ns: now_ns - since_ns, end: End::Dropped, item: packet.item });
        }
    }

    /// Serves the queues until `until_ns`. `links` are all links of the plan, in its order. Returns the packets that
    /// have left their queues since the last call.
    pub fn serve(&mut self, until_ns: u64, links: &[LinkModel]) -> Vec<Gone<T>> {
        while self.now_ns < until_ns {
            let Some(turn) = self.turn.or_else(|| self.begin_turn(links)) else {
                self.now_ns = self.rates_change_ns(links).unwrap_or(until_ns).min(until_ns);
                continue;
            };
            self.turn = Some(turn);
            self.serve_first(&turn, turn.until_ns.min(until_ns));
            if self.now_ns >= turn.until_ns || self.queues[turn.queue].is_empty() {
                self.turn = None;
            }
        }
        std::mem::take(&mut self.gone)
    }

    /// Returns the time of the next possible event if no packet arrives; `None` if no packet waits.
    #[must_use]
    pub fn next_ns(&mut self, links: &[LinkModel]) -> Option<u64> {
        loop {
            self.turn = self.turn.or_else(|| self.begin_turn(links));
            let Some(turn) = self.turn else { return self.rates_change_ns(links) };
            if let Some(takes_ns) = self.takes_ns(&turn) {
                return Some(turn.until_ns.min(self.now_ns + takes_ns));
            }
            self.turn = None; // its queue has dropped all packets
        }
    }

    /// Returns the items of the packets that still wait.
    pub fn into_waiting(self) -> impl Iterator<Item = T> {
        self.queues.into_iter().flat_map(|mut queue| {
            let sending = queue.sending.take().map(|sending| sending.packet);
            sending.into_iter().chain(queue.waiting.drain()).map(|packet| packet.item)
        })
    }

    fn queue(&self, link: usize) -> Option<&LinkQueue<T>> {
        self.queues.iter().find(|queue| queue.link == link)
    }

    fn begin_turn(&mut self, links: &[LinkModel]) -> Option<Turn> {
        for offset in 0..self.queues.len() {
            let at = (self.next + offset) % self.queues.len();
            let queue = &self.queues[at];
            let (rate_bps, rate_until_ns) = links[queue.link].rate_at(self.now_ns);
            if rate_bps > 0 && !queue.is_empty() {
                self.next = at + 1;
                let is_alone = self.queues.len() == 1;
                let until_ns = if is_alone { rate_until_ns.unwrap_or(u64::MAX) } else { self.now_ns + TURN_NS };
                return Some(Turn { queue: at, rate_bps, until_ns });
            }
        }
        None
    }

    /// Returns the earliest time at which the rate of a link with waiting packets may change.
    fn rates_change_ns(&self, links: &[LinkModel]) -> Option<u64> {
        let waiting = self.queues.iter().filter(|queue| !queue.is_empty());
        waiting.filter_map(|queue| links[queue.link].rate_at(self.now_ns).1).min()
    }

    /// Returns how long the first packet of the turn's queue still takes; `None` if the queue is empty. The queue
    /// chooses this packet when the link is ready to send it.
    fn takes_ns(&mut self, turn: &Turn) -> Option<u64> {
        let (now_ns, queue) = (self.now_ns, &mut self.queues[turn.queue]);
        if queue.sending.is_none() {
            let mut dropped = Vec::new();
            queue.sending = queue.waiting.dequeue(now_ns, &mut dropped).map(|packet| {
                let left_millibits = u64::from(packet.header.bytes) * MILLIBITS_PER_BYTE;
                Sending { packet, left_millibits }
            });
            let gone =
                |p: Queued<T>| Gone { at_ns: now_ns, wait_ns: now_ns - p.came_ns, end: End::Dropped, item: p.item };
            self.gone.extend(dropped.into_iter().map(gone));
        }
        queue.sending.as_ref().map(|sending| (sending.left_millibits * NS_PER_MS).div_ceil(turn.rate_bps))
    }

    /// Serves the first packet of the turn, or the part of it that can be served until `end_ns`.
    fn serve_first(&mut self, turn: &Turn, end_ns: u64) {
        let Some(takes_ns) = self.takes_ns(turn) else { return };
        let done_ns = self.now_ns + takes_ns;
        let sending = &mut self.queues[turn.queue].sending;
        if done_ns > end_ns {
            if let Some(sending) = sending {
                sending.left_millibits -= turn.rate_bps * (end_ns - self.now_ns) / NS_PER_MS;
            }
            self.now_ns = end_ns;
            return;
        }
        self.now_ns = done_ns;
        let Some(Sending { packet, .. }) = sending.take() else { return };
        let alone_ns = u64::from(packet.header.bytes) * MILLIBITS_PER_BYTE * NS_PER_MS / turn.rate_bps;
        let wait_ns = (done_ns - packet.came_ns).saturating_sub(alone_ns);
        let end = End::Served { marked: packet.marked };
        self.gone.push(Gone { at_ns: done_ns, wait_ns, end, item: packet.item });
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

    fn cell(links: usize) -> Cell<(usize, u32)> {
        Cell::new((0..links).map(|link| (link, Queue::new(u64::MAX, None))))
    }

    /// Returns the bytes that each link was served.
    fn bytes<const N: usize>(served: &[Gone<(usize, u32)>]) -> [u32; N] {
        let mut bytes = [0; N];
        for (link, of) in served.iter().map(|s| s.item) {
            bytes[link] += of;
        }
        bytes
    }

    fn fill(cell: &mut Cell<(usize, u32)>, link: usize, packets: u32) {
        let header = Header { bytes: 500, ..Header::default() };
        (0..packets).for_each(|_| cell.join(link, 0, header, (link, 500)));
    }

    #[test]
    fn backlogged_links_get_equal_airtime() {
        let links = links(&[&[(100, 8_000_000)], &[(100, 16_000_000)], &[(100, 8_000_000)]]);
        let mut cell = cell(3);
        fill(&mut cell, 0, 1000);
        fill(&mut cell, 1, 1000);
        // 50 turns each, of 1000 and 2000 bytes; the third link has no packets
        assert_eq!(bytes(&cell.serve(100_000_000, &links)), [50_000, 100_000, 0]);
        assert_eq!((cell.queue_bytes(0), cell.queue_bytes(2)), (450_000, 0));
    }

    #[test]
    fn unused_airtime_goes_to_other_links() {
        let links = links(&[&[(100, 8_000_000)], &[(100, 8_000_000)]]);
        let mut cell = cell(2);
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
            let mut cell = cell(2);
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
        let mut cell = cell(2);
        fill(&mut cell, 0, 2);
        assert_eq!(cell.next_ns(&links), Some(10_000_000), "the rate may change then");
        fill(&mut cell, 1, 10);
        assert_eq!(cell.next_ns(&links), Some(500_000));
        assert_eq!(bytes(&cell.serve(20_000_000, &links)), [0, 5_000]);
        assert_eq!(cell.queue_bytes(0), 1000);
        assert_eq!(bytes(&cell.serve(21_000_000, &links)), [1_000, 0]);
        assert_eq!(cell.next_ns(&links), None);
        assert_eq!(cell.into_waiting().count(), 0);
    }
}
