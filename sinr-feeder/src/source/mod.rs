//! Where readings come from. Each kind of source is a file of this module; `docs/reference/sources.md` describes them.

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

/// Between two attempts to reach what is gone.
const RETRY: Duration = Duration::from_millis(500);

/// A source at work: ends where the source does.
pub type Running = Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>>;

/// A source of readings.
pub trait Source: Send {
    /// One of the `SOURCE_*` values of [`hotcc_abi::radio`].
    fn kind(&self) -> u8;

    /// Gets hold of what can be had only once or must be sound, like a file or a port: before the map is touched.
    ///
    /// # Errors
    /// It cannot be had; nothing else of this source will work then.
    fn open(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    /// What is known of the time between readings; asked after [`Source::open`].
    fn pace(&self) -> Pace {
        Pace::Unknown
    }

    /// Puts readings into the sink. Returns where the source is at its end; what is gone for a while is waited for.
    fn run(self: Box<Self>, sink: Sink) -> Running;
}
