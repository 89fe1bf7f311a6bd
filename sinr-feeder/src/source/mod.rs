//! Sources of readings. Each kind of source is a file of this module; `docs/reference/sources.md` describes them.

mod at;
mod at_replies;
mod mm;
mod model;
mod nats;
mod peer;
pub mod spec;
mod srsran;
mod stdin;
mod trace;
mod udp;
mod wifi;

use crate::condition::Pace;
use crate::error::SourceError;
use crate::feed::sink::Sink;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Time between two attempts to reach a lost source.
const RETRY: Duration = Duration::from_millis(500);

/// A running source: the future ends when the source ends.
pub type Running = Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>>;

/// A source of readings.
pub trait Source: Send {
    /// Returns one of the `SOURCE_*` values of [`hotcc_abi::radio`].
    fn kind(&self) -> u8;

    /// Acquires exclusive resources, like a port, and validates inputs, like a file, before the map is modified.
    ///
    /// # Errors
    /// A resource cannot be acquired, or an input is invalid; the source then cannot run.
    fn open(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// Returns what is known about the time between readings; called after [`Source::open`].
    fn pace(&self) -> Pace {
        Pace::Unknown
    }

    /// Puts readings into the sink. Returns when the source ends. If the source is lost for a while, it keeps retrying.
    fn run(self: Box<Self>, sink: Sink) -> Running;
}
