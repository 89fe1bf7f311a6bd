//! FQ-CoDel, RFC 8290: a queue with CoDel for each flow; the queues take turns, and those of flows that send little
//! come first.

use super::codel::Codel;
use super::packet::{Fifo, Parameters, Queued};
use crate::splitmix::mixed;
use std::collections::VecDeque;

const FLOWS: u64 = 1024;
/// Maximum number of packets that are dropped at once from the longest queue.
const DROP_BATCH: usize = 64;

#[derive(Debug)]
struct Flow<T> {
    queue: Fifo<T>,
    codel: Codel,
    /// Bytes that the flow may still send in its turn.
    credit_bytes: i64,
    /// Whether it is in one of the lists.
    is_listed: bool,
}

#[derive(Debug)]
pub(super) struct FqCodel<T> {
    flows: Vec<Flow<T>>,
    /// Flows that have just begun to send, by index: they come first.
    new: VecDeque<usize>,
    /// Other flows with packets, by index.
    old: VecDeque<usize>,
    quantum_bytes: i64,
    seed: u64,
    bytes: u64,
}

impl<T> FqCodel<T> {
    pub fn new(parameters: &Parameters) -> Self {
        let flow = || Flow { queue: Fifo::default(), codel: Codel::new(parameters), credit_bytes: 0, is_listed: false };
        Self {
            flows: (0..FLOWS).map(|_| flow()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum_bytes: parameters.mtu_bytes.into(),
            seed: parameters.seed,
            bytes: 0,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn oldest_ns(&self) -> Option<u64> {
        self.new.iter().chain(&self.old).filter_map(|at| self.flows[*at].queue.oldest_ns()).min()
    }

    pub fn drain(&mut self) -> Vec<Queued<T>> {
        self.bytes = 0;
        self.flows.iter_mut().flat_map(|flow| flow.queue.drain()).collect()
    }

    pub fn enqueue(&mut self, packet: Queued<T>) {
        let at = (mixed(self.seed ^ u64::from(packet.header.flow)) % FLOWS) as usize;
        let flow = &mut self.flows[at];
        self.bytes += u64::from(packet.header.bytes);
        flow.queue.push(packet);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.credit_bytes = self.quantum_bytes;
            self.new.push_back(at);
        }
    }

    /// Drops from the head of the longest queue until all packets fit: each time half of the queue, but at most a
    /// batch.
    pub fn shrink(&mut self, limit_bytes: u64, dropped: &mut Vec<Queued<T>>) {
        while self.bytes > limit_bytes {
            // the first of several longest ones
            let Some(longest) = self.flows.iter_mut().rev().max_by_key(|flow| flow.queue.bytes) else { return };
            let half_bytes = longest.queue.bytes / 2;
            let mut freed_bytes = 0;
            for _ in 0..DROP_BATCH {
                let Some(packet) = longest.queue.pop() else { break };
                freed_bytes += u64::from(packet.header.bytes);
                longest.codel.count += 1; // so that CoDel reacts more strongly, too
                dropped.push(packet);
                if freed_bytes >= half_bytes {
                    break;
                }
            }
            self.bytes -= freed_bytes;
        }
    }

    pub fn dequeue(&mut self, now_ns: u64, dropped: &mut Vec<Queued<T>>) -> Option<Queued<T>> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let at = *list.front()?;
            let flow = &mut self.flows[at];
            if flow.credit_bytes <= 0 {
                flow.credit_bytes += self.quantum_bytes;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            let (own_bytes, others_bytes) = (flow.queue.bytes, self.bytes - flow.queue.bytes);
            let packet = flow.codel.dequeue(now_ns, &mut flow.queue, others_bytes, dropped);
            self.bytes -= own_bytes - flow.queue.bytes;
            let Some(packet) = packet else {
                list.pop_front();
                // it waits for the other flows once, or it could become new again and again, and starve them
                if is_new && !self.old.is_empty() {
                    self.old.push_back(at);
                } else {
                    flow.is_listed = false;
                }
                continue;
            };
            flow.credit_bytes -= i64::from(packet.header.bytes);
            return Some(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Ecn, Kind};
    use super::super::testing::{MS, Run, packets, together};

    #[test]
    fn a_flow_that_sends_little_does_not_wait_for_one_that_fills_the_queue() {
        // flow 1 sends twice what the link carries; flow 2 sends a packet every 50 ms
        let arrivals = together(packets(2000, MS, Ecn::NotEct, 1), packets(40, 50 * MS, Ecn::NotEct, 2));
        let run = Run::of(Kind::FqCodel, |_| {}).serve(2 * MS, arrivals);
        let waits = |flow: u32| {
            let of = run.sent.iter().filter(move |(_, packet)| packet.header.flow == flow);
            of.map(|(at_ns, packet)| at_ns - packet.came_ns)
        };
        assert!(waits(2).max().is_some_and(|wait_ns| wait_ns <= 2 * MS), "at most the packet that is being sent");
        assert!(waits(1).max().is_some_and(|wait_ns| wait_ns > 100 * MS));
        assert!(run.dropped.iter().all(|(_, packet)| packet.header.flow == 1));
        assert!(run.dropped.len() > 50);
    }

    #[test]
    fn flows_that_fill_the_queue_get_equal_shares_of_bytes() {
        let mut large = packets(2000, MS, Ecn::NotEct, 1);
        let small = packets(6000, MS / 3, Ecn::NotEct, 2);
        large.iter_mut().for_each(|arrival| arrival.1.bytes = 1500);
        let small =
            small.into_iter().map(|(at, header)| (at, super::super::packet::Header { bytes: 500, ..header })).collect();
        let run = Run::of(Kind::FqCodel, |_| {}).serve(MS, together(large, small));
        let bytes = |flow: u32| {
            let of = run.sent.iter().filter(move |(at_ns, p)| p.header.flow == flow && *at_ns < 2000 * MS);
            of.map(|(_, packet)| u64::from(packet.header.bytes)).sum::<u64>() as f64
        };
        assert!((0.99..1.01).contains(&(bytes(1) / bytes(2))), "{} {}", bytes(1), bytes(2));
    }

    #[test]
    fn a_full_queue_drops_from_the_longest_flow() {
        let arrivals = together(packets(300, 1, Ecn::NotEct, 1), packets(10, 30, Ecn::NotEct, 2));
        let run = Run::with_limit(Kind::FqCodel, 100 * 1500, |_| {}).serve(MS, arrivals);
        assert!(run.dropped.iter().all(|(_, packet)| packet.header.flow == 1));
        // 310 packets for 100 places: half of the longest queue goes at a time
        assert!((210..=260).contains(&run.dropped.len()), "{}", run.dropped.len());
        assert_eq!(run.sent.iter().filter(|(_, packet)| packet.header.flow == 2).count(), 10);
    }
}
