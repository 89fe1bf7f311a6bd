//! To other hosts: what is published here is sent on, under the name of its UE.

mod nats;
pub(crate) mod peer;
pub mod spec;

use crate::condition::Conditioned;
use crate::reading::Sent;
use hotcc_abi::clock::monotonic_ns;
use std::fmt::Debug;
use std::pin::Pin;
use std::time::SystemTime;

/// Sends readings to another host.
pub trait Exporter: Debug + Send {
    /// Sends one of the UE `id`, or drops it: a reading that has to wait is worth less than the next one.
    fn send(&mut self, id: &str, reading: &Conditioned);

    /// What logs and metrics call it.
    fn name(&self) -> String;

    /// How many were sent and dropped.
    fn counts(&self) -> (u64, u64);

    /// Sends what waits to be sent, and ends.
    fn finish(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// One run of a sender: what tells its messages from those of an earlier one, and one of them from the next.
#[derive(Debug)]
struct Session {
    id: u64,
    began_ns: u64,
    counter: u64,
}

impl Session {
    /// Numbered by the time it begins at, in us since 1970, so that a later one has a greater number.
    fn begin() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self { id: since.map_or(0, |t| t.as_micros() as u64), began_ns: monotonic_ns(), counter: 0 }
    }

    /// The stamp and the counter of the next message, which is sent at `now_ns`.
    fn next(&mut self, now_ns: u64) -> (Sent, u64) {
        self.counter += 1;
        (Sent { session: self.id, at_us: now_ns.saturating_sub(self.began_ns) / 1000 }, self.counter)
    }
}

/// Age of a reading in ms, to the us.
fn age_ms(made_ns: u64, now_ns: u64) -> f64 {
    (now_ns.saturating_sub(made_ns) / 1000) as f64 / 1e3
}
