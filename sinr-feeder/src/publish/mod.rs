//! Sends published readings on to other hosts, under the name of their UE.

mod nats;
pub(crate) mod peer;
pub mod spec;

use crate::condition::DatedReading;
use crate::reading::Sent;
use hotcc_abi::clock::monotonic_ns;
use std::fmt::Debug;
use std::pin::Pin;
use std::time::SystemTime;

/// Sends readings to another host.
pub trait Publisher: Debug + Send {
    /// Sends a reading of the UE `id`, or drops it if it cannot be sent immediately: the next reading is worth more
    /// than a late one.
    fn send(&mut self, id: &str, reading: &DatedReading);

    /// Returns its name in logs and metrics.
    fn name(&self) -> String;

    /// Returns how many readings were sent and dropped.
    fn counts(&self) -> (u64, u64);

    /// Sends the readings that still wait, and ends.
    fn finish(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// One run of a sender: distinguishes its messages from those of an earlier run, and from each other.
#[derive(Debug)]
struct Session {
    id: u64,
    began_ns: u64,
    counter: u64,
}

/// If the wall clock differs by more than this from the time expected since the session's start, it was set meanwhile.
const CLOCK_SET_US: u64 = 60_000_000;

impl Session {
    /// Starts a session now.
    fn begin() -> Self {
        Self::begin_at(unix_us(), monotonic_ns())
    }

    /// Starts a session. Its number is the time of the start, in us since 1970, so that a later session has a greater
    /// number.
    fn begin_at(unix_us: u64, now_ns: u64) -> Self {
        Self { id: unix_us, began_ns: now_ns, counter: 0 }
    }

    /// Returns the stamp and the counter of the next message, which is sent at `now_ns`.
    fn next(&mut self, now_ns: u64) -> (Sent, u64) {
        self.next_at(unix_us(), now_ns)
    }

    /// As [`Self::next`], with the time of day given. If the clock was set, or the host slept, starts another session
    /// first: receivers compare the sender's time with the time of day, and only a new session makes it right again.
    fn next_at(&mut self, unix_us: u64, now_ns: u64) -> (Sent, u64) {
        let since_us = |began_ns| now_ns.saturating_sub(began_ns) / 1000;
        if unix_us.abs_diff(self.id.saturating_add(since_us(self.began_ns))) > CLOCK_SET_US {
            *self = Self::begin_at(unix_us, now_ns);
        }
        self.counter += 1;
        (Sent { session: self.id, at_us: since_us(self.began_ns) }, self.counter)
    }
}

/// Returns the time of day, in us since 1970.
pub(crate) fn unix_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_micros() as u64)
}

/// Returns the age of a reading in ms, with a resolution of 1 us.
fn age_ms(made_ns: u64, now_ns: u64) -> f64 {
    (now_ns.saturating_sub(made_ns) / 1000) as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At boot, the time of day may not be set yet.
    #[test]
    fn a_clock_that_is_set_begins_another_session() {
        const DAY_US: u64 = 86_400_000_000;
        let mut session = Session::begin_at(DAY_US, 5_000_000);
        let mut next = |unix_us, now_ms: u64| session.next_at(unix_us, now_ms * 1_000_000);
        assert_eq!(next(DAY_US + 1_000_000, 1005), (Sent { session: DAY_US, at_us: 1_000_000 }, 1));
        assert_eq!(next(DAY_US + 30_000_000, 2005), (Sent { session: DAY_US, at_us: 2_000_000 }, 2));
        let set = 20_000 * DAY_US;
        assert_eq!(next(set, 3005), (Sent { session: set, at_us: 0 }, 1));
        assert_eq!(next(set + 1000, 3006), (Sent { session: set, at_us: 1000 }, 2));
        assert_eq!(next(set - DAY_US, 3007), (Sent { session: set - DAY_US, at_us: 0 }, 1));
    }
}
