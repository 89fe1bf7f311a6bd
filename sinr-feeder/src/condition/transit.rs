//! Estimates how long a reading was in transit from another host.
//!
//! The clocks of the two hosts differ. The smallest difference seen between the receiver's and the sender's clock is
//! the clocks' offset plus the shortest delay. Any time that a message takes beyond that is delay, in a queue or on a
//! slow path. LEDBAT (RFC 6817) detects a queue in this way. The constant part of the delay cannot be seen, and is not
//! part of the age.

use crate::reading::Sent;

/// Length of an interval. Clocks drift apart, so the smallest difference is that of the current and the previous
/// interval.
const INTERVAL_NS: u64 = 60_000_000_000;

/// The state of the path from one sender.
#[derive(Debug, Clone, Default)]
pub(super) struct Transit {
    session: Option<u64>,
    interval_began_ns: u64,
    least_ns: i128,
    least_before_ns: i128,
}

impl Transit {
    /// Returns how much longer than the fastest one this message, which arrived at `now_ns`, was in transit, in ms.
    pub(super) fn excess_ms(&mut self, sent: Sent, now_ns: u64) -> f64 {
        let difference_ns = i128::from(now_ns) - i128::from(sent.at_us) * 1000;
        if self.session != Some(sent.session) {
            *self = Self {
                session: Some(sent.session),
                interval_began_ns: now_ns,
                least_ns: difference_ns,
                least_before_ns: difference_ns,
            };
        } else if now_ns.saturating_sub(self.interval_began_ns) > INTERVAL_NS {
            self.least_before_ns = self.least_ns;
            self.least_ns = difference_ns;
            self.interval_began_ns = now_ns;
        }
        self.least_ns = self.least_ns.min(difference_ns);
        (difference_ns - self.least_ns.min(self.least_before_ns)) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sent(session: u64, at_ms: u64) -> Sent {
        Sent { session, at_us: at_ms * 1000 }
    }

    #[test]
    fn delays_are_detected_regardless_of_clock_offsets() {
        for offset_ms in [0u64, 1_000_000] {
            let mut transit = Transit::default();
            // Sent every 100 ms, 5 ms in transit; the fourth waited for 2 s in a queue.
            let mut came = |sent_ms: u64, took_ms: u64| {
                transit.excess_ms(sent(1, sent_ms + offset_ms), (10_000 + sent_ms + took_ms) * MS)
            };
            assert_eq!([came(0, 5), came(100, 5), came(200, 9)], [0.0, 0.0, 4.0]);
            assert_eq!(came(300, 2005), 2000.0);
            assert_eq!(came(400, 3), 0.0);
            assert_eq!(came(500, 5), 2.0);
        }
    }

    #[test]
    fn an_outage_is_no_drift() {
        let mut transit = Transit::default();
        assert_eq!(transit.excess_ms(sent(1, 0), 5 * MS), 0.0);
        // A message that was queued for ten minutes is ten minutes late, although the interval has ended.
        assert_eq!(transit.excess_ms(sent(1, 100), 600_105 * MS), 600_000.0);
        assert_eq!(transit.excess_ms(sent(1, 600_200), 600_205 * MS), 0.0);
    }

    #[test]
    fn clocks_may_drift_and_senders_start_again() {
        let mut transit = Transit::default();
        // The sender's clock is 100 ppm slow: without intervals, each 100 s would look like another 10 ms of delay.
        let worst =
            (0..10_000u64).map(|i| transit.excess_ms(sent(1, i * 100), i * 100 * MS + i * 10_000)).fold(0.0, f64::max);
        assert!(worst < 13.0, "{worst}"); // two intervals of 6 ms
        assert_eq!(transit.excess_ms(sent(2, 0), 2_000_000 * MS), 0.0);
    }
}
