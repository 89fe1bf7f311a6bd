//! CoDel, RFC 8289: drops or marks at the head of the queue while packets stay in it for longer than a target.

use super::packet::{Fifo, Parameters, Queued};

/// If the queue becomes bad again within this many intervals, dropping resumes at about the last rate.
const MEMORY_INTERVALS: u64 = 16;

/// CoDel's state for one queue.
#[derive(Clone, Debug)]
pub(super) struct Codel {
    target_ns: u64,
    interval_ns: u64,
    ecn: bool,
    mtu_bytes: u64,
    /// Time from which packets may be dropped, if the delay stays above the target until then.
    drop_from_ns: Option<u64>,
    /// In the dropping state: time of the next drop.
    next_ns: u64,
    /// Drops in this dropping state, which set the time between drops.
    pub count: u64,
    /// `count` when this dropping state began.
    first_count: u64,
    dropping: bool,
}

impl Codel {
    pub fn new(parameters: &Parameters) -> Self {
        Self {
            target_ns: parameters.target_ns,
            interval_ns: parameters.interval_ns,
            ecn: parameters.ecn,
            mtu_bytes: parameters.mtu_bytes.into(),
            drop_from_ns: None,
            next_ns: 0,
            count: 0,
            first_count: 0,
            dropping: false,
        }
    }

    /// Takes the next packet from `queue`. `more_bytes` wait in other queues of the link.
    pub fn dequeue<T>(
        &mut self,
        now_ns: u64,
        queue: &mut Fifo<T>,
        more_bytes: u64,
        dropped: &mut Vec<Queued<T>>,
    ) -> Option<Queued<T>> {
        let (mut packet, mut is_bad) = self.take(now_ns, queue, more_bytes);
        if !self.dropping {
            if !is_bad {
                return packet;
            }
            if !self.signal(&mut packet, dropped) {
                (packet, _) = self.take(now_ns, queue, more_bytes);
            }
            let drops = self.count - self.first_count;
            let is_soon = now_ns.saturating_sub(self.next_ns) < MEMORY_INTERVALS * self.interval_ns;
            self.count = if drops > 1 && is_soon { drops } else { 1 };
            self.first_count = self.count;
            self.next_ns = self.after(now_ns);
            self.dropping = true;
            return packet;
        }
        while is_bad && now_ns >= self.next_ns {
            self.count += 1;
            let stays = self.signal(&mut packet, dropped);
            if !stays {
                (packet, is_bad) = self.take(now_ns, queue, more_bytes);
            }
            if stays || is_bad {
                self.next_ns = self.after(self.next_ns);
            }
            if stays {
                break;
            }
        }
        self.dropping = is_bad;
        packet
    }

    /// Takes the first packet. Returns also whether the queue has been bad for long enough to drop the packet.
    fn take<T>(&mut self, now_ns: u64, queue: &mut Fifo<T>, more_bytes: u64) -> (Option<Queued<T>>, bool) {
        let packet = queue.pop();
        let stayed_ns = packet.as_ref().map_or(0, |packet| now_ns - packet.came_ns);
        if packet.is_none() || stayed_ns < self.target_ns || queue.bytes + more_bytes <= self.mtu_bytes {
            self.drop_from_ns = None;
            return (packet, false);
        }
        let from_ns = *self.drop_from_ns.get_or_insert(now_ns + self.interval_ns);
        (packet, now_ns > from_ns)
    }

    /// Marks the packet, or drops it. Returns whether it stays.
    fn signal<T>(&self, packet: &mut Option<Queued<T>>, dropped: &mut Vec<Queued<T>>) -> bool {
        if self.ecn && packet.as_mut().is_some_and(Queued::mark) {
            return true;
        }
        dropped.extend(packet.take());
        false
    }

    /// Returns the time of the drop that follows one at `ns`: the time between drops shrinks with the square root of
    /// their number.
    fn after(&self, ns: u64) -> u64 {
        ns + (self.interval_ns as f64 / (self.count as f64).sqrt()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Ecn, Kind};
    use super::super::testing::{MS, Run, packets};

    #[test]
    fn drops_come_at_intervals_that_shrink_with_the_square_root_of_their_number() {
        // 1500 bytes arrive every ms, and 1500 bytes leave every 2 ms: the queue only grows
        let run = Run::of(Kind::Codel, |_| {}).serve(2 * MS, packets(2000, MS, Ecn::NotEct, 0));
        let first_ns = run.dropped[0].0;
        // above 5 ms from the sixth packet on, and then for an interval of 100 ms
        assert!((108..=114).contains(&(first_ns / MS)), "{first_ns}");
        let mut expected_ns = first_ns;
        for (n, (at_ns, _)) in run.dropped.iter().enumerate() {
            assert!(at_ns.saturating_sub(expected_ns) <= 2 * MS, "drop {n} at {at_ns}, expected {expected_ns}");
            expected_ns += (100.0 * MS as f64 / ((n + 1) as f64).sqrt()) as u64;
        }
        assert!(run.dropped.len() > 50, "{}", run.dropped.len());
    }

    #[test]
    fn a_burst_that_drains_within_an_interval_loses_nothing() {
        let run = Run::of(Kind::Codel, |_| {}).serve(MS, packets(90, 0, Ecn::NotEct, 0));
        assert_eq!((run.dropped.len(), run.sent.len()), (0, 90));
    }

    #[test]
    fn ecn_capable_packets_are_marked_instead_if_asked_for() {
        let marks = Run::of(Kind::Codel, |p| p.ecn = true).serve(2 * MS, packets(1000, MS, Ecn::Ect0, 0));
        assert_eq!(marks.dropped.len(), 0);
        assert!(marks.sent.iter().filter(|(_, packet)| packet.marked).count() > 10);
        let drops = Run::of(Kind::Codel, |_| {}).serve(2 * MS, packets(1000, MS, Ecn::Ect0, 0));
        assert!(drops.dropped.len() > 10 && drops.sent.iter().all(|(_, packet)| !packet.marked));
    }
}
