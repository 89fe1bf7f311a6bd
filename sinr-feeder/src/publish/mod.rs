//! Sends published readings on to other hosts, under the name of their UE.

mod nats;
pub(crate) mod peer;
pub mod spec;

use crate::condition::DatedReading;
use crate::reading::Sent;
use hotcc_abi::clock::monotonic_ns;
use nix::time::{ClockId, clock_gettime};
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
    /// How long the host had slept since it booted.
    slept_us: u64,
    counter: u64,
}

/// If the wall clock differs by more than this from the time expected since the session's start, it was set meanwhile.
const CLOCK_SET_US: u64 = 60_000_000;
/// If the host slept for longer than this since the session's start, receivers would take messages for late ones.
const SLEPT_US: u64 = 100_000;

impl Session {
    /// Starts a session now.
    fn begin() -> Self {
        Self::begin_at(unix_us(), monotonic_ns(), slept_us())
    }

    /// Starts a session. Its number is the time of the start, in us since 1970, so that a later session has a greater
    /// number.
    fn begin_at(unix_us: u64, now_ns: u64, slept_us: u64) -> Self {
        Self { id: unix_us, began_ns: now_ns, slept_us, counter: 0 }
    }

    /// Returns the stamp and the counter of the next message, which is sent at `now_ns`.
    fn next(&mut self, now_ns: u64) -> (Sent, u64) {
        self.next_at(unix_us(), now_ns, slept_us())
    }

    /// As [`Self::next`], with the other clocks given. If the clock was set, or the host slept, starts another session
    /// first: receivers compare the sender's time with the time of day and with their own clock, which did not sleep.
    fn next_at(&mut self, unix_us: u64, now_ns: u64, slept_us: u64) -> (Sent, u64) {
        let since_us = |began_ns| now_ns.saturating_sub(began_ns) / 1000;
        let was_set = unix_us.abs_diff(self.id.saturating_add(since_us(self.began_ns))) > CLOCK_SET_US;
        if was_set || slept_us.abs_diff(self.slept_us) > SLEPT_US {
            *self = Self::begin_at(unix_us, now_ns, slept_us);
        }
        self.counter += 1;
        (Sent { session: self.id, at_us: since_us(self.began_ns) }, self.counter)
    }
}

/// Returns the time of day, in us since 1970.
pub(crate) fn unix_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_micros() as u64)
}

/// Returns how long the host has slept since it booted, in us: the monotonic clock stands still then.
fn slept_us() -> u64 {
    let since_boot_us = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map_or(0, |t| t.tv_sec().unsigned_abs() * 1_000_000 + t.tv_nsec().unsigned_abs() / 1000);
    since_boot_us.saturating_sub(monotonic_ns() / 1000)
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
        let mut session = Session::begin_at(DAY_US, 5_000_000, 0);
        let mut next = |unix_us, now_ms: u64| session.next_at(unix_us, now_ms * 1_000_000, 0);
        assert_eq!(next(DAY_US + 1_000_000, 1005), (Sent { session: DAY_US, at_us: 1_000_000 }, 1));
        assert_eq!(next(DAY_US + 30_000_000, 2005), (Sent { session: DAY_US, at_us: 2_000_000 }, 2));
        let set = 20_000 * DAY_US;
        assert_eq!(next(set, 3005), (Sent { session: set, at_us: 0 }, 1));
        assert_eq!(next(set + 1000, 3006), (Sent { session: set, at_us: 1000 }, 2));
        assert_eq!(next(set - DAY_US, 3007), (Sent { session: set - DAY_US, at_us: 0 }, 1));
    }

    #[test]
    fn a_sleep_of_the_host_begins_another_session() {
        const DAY_US: u64 = 86_400_000_000;
        let mut session = Session::begin_at(DAY_US, 0, 7_000_000);
        assert_eq!(session.next_at(DAY_US + 1000, 1_000_000, 7_000_001), (Sent { session: DAY_US, at_us: 1000 }, 1));
        let awake_us = DAY_US + 3_002_000;
        assert_eq!(session.next_at(awake_us, 2_000_000, 10_000_000), (Sent { session: awake_us, at_us: 0 }, 1));
        assert_eq!(session.next_at(awake_us + 9, 2_009_000, 10_000_000), (Sent { session: awake_us, at_us: 9 }, 2));
    }
}
