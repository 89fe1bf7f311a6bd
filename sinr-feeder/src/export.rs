//! To other hosts: what is published here is sent on, under the name of its UE.

use crate::condition::Conditioned;
use crate::nats::NatsExporter;
use crate::peer::PeerExporter;
use crate::source::{Args, SourceError};
use crate::transit::Sent;
use hotcc_abi::clock::monotonic_ns;
use std::fmt::Debug;
use std::pin::Pin;
use std::str::FromStr;
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

/// Where to send, as a user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec(String);

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("nats", args)) => crate::nats::Server::parse(Args::parse(args)?).map(|_| ())?,
            Some(("peer", args)) => PeerExporter::parse(Args::parse(args)?).map(|_| ())?,
            _ => return Err("readings go to nats://HOST[:PORT] or to peer:ADDRESS:PORT,keys=FILE".to_owned()),
        }
        Ok(Self(text.to_owned()))
    }
}

impl Spec {
    /// What sends there; inside a runtime.
    ///
    /// # Errors
    /// No keys, no socket.
    pub fn exporter(&self) -> Result<Box<dyn Exporter>, SourceError> {
        let (kind, args) = self.0.split_once(':').unwrap_or_default();
        let args = Args::parse(args).map_err(SourceError)?;
        Ok(if kind == "nats" {
            let server = crate::nats::Server::parse(args).map_err(SourceError)?;
            server.check_files()?;
            Box::new(NatsExporter::start(server))
        } else {
            Box::new(PeerExporter::parse(args).map_err(SourceError)?.open()?)
        })
    }
}

/// One run of a sender: what tells its messages from those of an earlier one, and one of them from the next.
#[derive(Debug)]
pub(crate) struct Session {
    id: u64,
    began_ns: u64,
    counter: u64,
}

impl Session {
    /// Numbered by the time it begins at, in us since 1970, so that a later one has a greater number.
    pub(crate) fn begin() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self { id: since.map_or(0, |t| t.as_micros() as u64), began_ns: monotonic_ns(), counter: 0 }
    }

    /// The stamp and the counter of the next message, which is sent at `now_ns`.
    pub(crate) fn next(&mut self, now_ns: u64) -> (Sent, u64) {
        self.counter += 1;
        (Sent { session: self.id, at_us: now_ns.saturating_sub(self.began_ns) / 1000 }, self.counter)
    }
}

/// Age of a reading in ms, to the us.
pub(crate) fn age_ms(made_ns: u64, now_ns: u64) -> f64 {
    (now_ns.saturating_sub(made_ns) / 1000) as f64 / 1e3
}
