//! A link's queueing delay as a function of time.

use super::rates::Capacity;
use crate::results::Distribution;
use hotcc_lab_proto::records::{POLICED, PacketRecord, QUEUE_DROP};

/// Time between the samples for percentiles.
const TICK_NS: u64 = 1_000_000;

/// The delay that a packet would have found at any time. A packet that joins the queue increases the delay. Until the
/// next packet joins, the delay falls by one second per second, down to 0.
#[derive(Clone, Debug, Default)]
pub(super) struct DelayOverTime {
    joins: Vec<Join>,
    /// Bits that the link will have served, counted from time 0, when it has sent the last packet that joined.
    position_bits: f64,
}

#[derive(Clone, Copy, Debug)]
struct Join {
    at_ns: u64,
    /// Time at which the queue is empty if no other packet joins it.
    empty_ns: u64,
    /// Integral of the delay before `at_ns`, in ns times ns.
    area_before: f64,
}

impl Join {
    fn area_until(&self, until_ns: u64) -> f64 {
        let triangle = |from_ns: u64| (self.empty_ns.saturating_sub(from_ns) as f64).powi(2) / 2.0;
        triangle(self.at_ns) - triangle(until_ns)
    }
}

impl DelayOverTime {
    /// Adds a packet of this link. Packets must be added in order of time.
    pub fn add(&mut self, record: &PacketRecord, capacity: &Capacity) {
        if matches!(record.fate(), QUEUE_DROP | POLICED) {
            return; // no other packet waits for it
        }
        let served_ns = record.time_ns + record.wait_ns;
        let recorded_ns = served_ns + capacity.service_ns(served_ns, record.bytes);
        // the service of a packet itself may include an outage, which the record does not show
        let empty_ns = self.position_after(record, capacity).map_or(recorded_ns, |at_ns| recorded_ns.max(at_ns));
        let area_before = self.joins.last().map_or(0.0, |last| last.area_before + last.area_until(record.time_ns));
        self.joins.push(Join { at_ns: record.time_ns, empty_ns, area_before });
    }

    /// Returns when a link with its own rate has sent the packet. In a cell, the time is later, because other links are
    /// served in between.
    fn position_after(&mut self, record: &PacketRecord, capacity: &Capacity) -> Option<u64> {
        let done_bits = capacity.bits_until(record.time_ns)?;
        self.position_bits = self.position_bits.max(done_bits) + f64::from(record.bytes) * 8.0;
        Some(capacity.ns_at(self.position_bits)?.floor() as u64)
    }

    fn area_until(&self, until_ns: u64) -> f64 {
        let joined = self.joins.partition_point(|join| join.at_ns <= until_ns);
        self.joins[..joined].last().map_or(0.0, |last| last.area_before + last.area_until(until_ns))
    }

    /// Returns the mean over time. Each instant has the same weight, unlike in a mean over packets.
    pub fn mean_ms(&self, from_ns: u64, until_ns: u64) -> f64 {
        let length_ns = until_ns.saturating_sub(from_ns).max(1) as f64;
        (self.area_until(until_ns) - self.area_until(from_ns)) / length_ns / 1e6
    }

    /// Returns the delay that is not exceeded for 95 % of the time.
    pub fn p95_ms(&self, from_ns: u64, until_ns: u64) -> f64 {
        let mut joined = 0;
        let ticks = (from_ns..until_ns).step_by(TICK_NS as usize).map(|at_ns| {
            joined += self.joins[joined..].iter().take_while(|join| join.at_ns <= at_ns).count();
            let last = joined.checked_sub(1).map_or(0, |last| self.joins[last].empty_ns);
            last.saturating_sub(at_ns) as f64 / 1e6
        });
        Distribution::of(ticks.collect()).p95
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab_proto::plan::PlannedLink;
    use hotcc_lab_proto::records::{LOST, SENT};

    const MS_NS: u64 = 1_000_000;

    /// Returns the delay of a link with 1 Mbit/s, at which 1250 bytes take 10 ms.
    fn delay(packets: &[(u8, u64, u64)]) -> DelayOverTime {
        let link = PlannedLink { step_ns: 1000 * MS_NS, rates: vec![(10, 1_000_000)], ..PlannedLink::default() };
        let capacity = Capacity::of(&link);
        let mut delay = DelayOverTime::default();
        for (fate, at_ms, wait_ms) in packets {
            let mut record = PacketRecord::with(*fate, false, true);
            (record.time_ns, record.wait_ns, record.bytes) = (at_ms * MS_NS, wait_ms * MS_NS, 1250);
            delay.add(&record, &capacity);
        }
        delay
    }

    #[test]
    fn a_burst_drains_and_then_nothing_waits() {
        // ten packets at once: 100 ms until the queue is empty, with an average delay of 50 ms
        let burst: Vec<_> = (0..10).map(|packet| (SENT, 200, 10 * packet)).collect();
        let delay = delay(&burst);
        assert_eq!(delay.mean_ms(200 * MS_NS, 300 * MS_NS), 50.0);
        assert_eq!(delay.mean_ms(250 * MS_NS, 300 * MS_NS), 25.0);
        assert_eq!(delay.mean_ms(0, 1000 * MS_NS), 5.0);
        assert_eq!(delay.mean_ms(300 * MS_NS, 1000 * MS_NS), 0.0);
        // in the 100 ms of the burst, the delay exceeds 95 ms for 5 ms; in 10 s, it is 0 for more than 95 % of the time
        assert_eq!(delay.p95_ms(200 * MS_NS, 300 * MS_NS), 95.0);
        assert_eq!(delay.p95_ms(0, 10_000 * MS_NS), 0.0);
    }

    #[test]
    fn an_outage_within_a_packets_own_service_counts() {
        // 1 Mbit/s for 100 ms, an outage of 100 ms, then 1 Mbit/s: half of the packet is sent before the outage, and
        // half after it
        let rates = vec![(1, 1_000_000), (1, 0), (8, 1_000_000)];
        let link = PlannedLink { step_ns: 100 * MS_NS, rates, ..PlannedLink::default() };
        let mut delay = DelayOverTime::default();
        let mut record = PacketRecord::with(SENT, false, true);
        (record.time_ns, record.wait_ns, record.bytes) = (95 * MS_NS, 0, 1250);
        delay.add(&record, &Capacity::of(&link));
        // it takes 110 ms until the packet has left
        assert_eq!(delay.mean_ms(95 * MS_NS, 205 * MS_NS), 55.0);
    }

    #[test]
    fn a_steady_queue_has_the_delay_of_its_packets() {
        // a packet every 10 ms, each of which waits 100 ms; between packets the delay falls from 110 ms to 100 ms
        let steady: Vec<_> = (0..100).map(|packet| (SENT, 10 * packet, 100)).collect();
        assert_eq!(delay(&steady).mean_ms(100 * MS_NS, 900 * MS_NS), 105.0);
    }

    #[test]
    fn packets_dropped_at_the_queue_delay_nothing_but_later_losses_do() {
        let with = |fate| delay(&[(SENT, 0, 0), (fate, 0, 10)]).mean_ms(0, 20 * MS_NS);
        assert_eq!(with(QUEUE_DROP), 2.5);
        assert_eq!(with(LOST), 10.0);
        assert_eq!(delay(&[]).mean_ms(0, MS_NS), 0.0);
    }
}
