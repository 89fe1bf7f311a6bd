//! A link with a constant rate, for tests of disciplines.

use super::Queue;
use super::packet::{Ecn, Header, Kind, Parameters, Queued};

pub(super) const MS: u64 = 1_000_000;

/// A packet's time of arrival, and the packet.
pub(super) type Arrival = (u64, Header);

/// Returns packets of 1500 bytes at regular intervals.
pub(super) fn packets(count: u64, interval_ns: u64, ecn: Ecn, flow: u32) -> Vec<Arrival> {
    (0..count).map(|n| (n * interval_ns, Header { bytes: 1500, ecn, flow })).collect()
}

/// Merges arrivals, in order of time.
pub(super) fn together(a: Vec<Arrival>, b: Vec<Arrival>) -> Vec<Arrival> {
    let mut all: Vec<_> = a.into_iter().chain(b).collect();
    all.sort_by_key(|(at_ns, _)| *at_ns);
    all
}

/// A queue, and what has happened to packets: the times at which they were taken from it, and the packets.
pub(super) struct Run {
    queue: Queue<()>,
    pub sent: Vec<(u64, Queued<()>)>,
    pub dropped: Vec<(u64, Queued<()>)>,
}

impl Run {
    pub fn of(kind: Kind, change: impl FnOnce(&mut Parameters)) -> Self {
        Self::with_limit(kind, u64::MAX, change)
    }

    pub fn with_limit(kind: Kind, limit_bytes: u64, change: impl FnOnce(&mut Parameters)) -> Self {
        let mut parameters = Parameters::of_linux(kind, 1500, 1);
        change(&mut parameters);
        Self { queue: Queue::new(limit_bytes, Some(parameters)), sent: Vec::new(), dropped: Vec::new() }
    }

    /// Serves a packet of 1500 bytes in `service_ns`, others in proportion, until the queue is empty.
    pub fn serve(mut self, service_ns: u64, arrivals: Vec<Arrival>) -> Self {
        let mut free_ns = 0;
        for (at_ns, header) in arrivals {
            self.send_until(at_ns, &mut free_ns, service_ns);
            let mut dropped = Vec::new();
            self.queue.enqueue(at_ns, 0, Queued { came_ns: at_ns, header, marked: false, item: () }, &mut dropped);
            self.dropped.extend(dropped.into_iter().map(|packet| (at_ns, packet)));
            free_ns = free_ns.max(at_ns);
        }
        self.send_until(u64::MAX, &mut free_ns, service_ns);
        self
    }

    fn send_until(&mut self, until_ns: u64, free_ns: &mut u64, service_ns: u64) {
        while *free_ns < until_ns && !self.queue.is_empty() {
            let mut dropped = Vec::new();
            let sent = self.queue.dequeue(*free_ns, &mut dropped);
            self.dropped.extend(dropped.into_iter().map(|packet| (*free_ns, packet)));
            if let Some(packet) = sent {
                let bytes = u64::from(packet.header.bytes);
                self.sent.push((*free_ns, packet));
                *free_ns += service_ns * bytes / 1500;
            }
        }
    }
}
