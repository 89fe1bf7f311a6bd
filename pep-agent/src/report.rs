//! What the border saw of one flow: what its kernel program tells the agent, and what goes to the flow's server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Ranges above the in-order sequence number that a report can name.
pub const RANGES: usize = hotcc_abi::pep::RANGES;

/// A flow, as its server's socket knows it. Both ends are of one family; mapped IPv4 is told as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The sender of the data: the socket's own address.
    pub server: SocketAddr,
    /// The receiver, beyond the border.
    pub client: SocketAddr,
}

/// Sequence numbers from `start` to the one before `end`, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeqRange {
    /// First sequence number.
    pub start: u32,
    /// The one after the last.
    pub end: u32,
}

/// What was seen of a flow by a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Which flow.
    pub key: FlowKey,
    /// Next sequence number that the border expects: it saw all below.
    pub in_order: u32,
    /// What it saw above that: at most [`RANGES`], ascending, not touching each other.
    pub ranges: Vec<SeqRange>,
    /// Data segments seen, modulo 2^32.
    pub segments: u32,
    /// When the last of them was seen, the border's own CLOCK_MONOTONIC, microseconds.
    pub seen_at_us: u64,
}

/// What became of the reports that a transport was given.
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams, or segments, with reports that left.
    pub packets: AtomicU64,
    /// Reports in them.
    pub reports: AtomicU64,
    /// Reports dropped because there is no key for their server.
    pub dropped_no_key: AtomicU64,
    /// Reports dropped because they could not be sent at once.
    pub dropped_unsent: AtomicU64,
    /// Servers' probes answered.
    pub probes_answered: AtomicU64,
    /// Datagrams from elsewhere that are no authentic probe of this run.
    pub probes_refused: AtomicU64,
}

/// Takes reports to the servers that they are for.
pub trait Transport {
    /// What it counts.
    fn sent(&self) -> Arc<Sent> {
        Arc::default()
    }

    /// Sends what is due, all of it for the same server address (its port is the agent's business), in as few datagrams
    /// as hold it. Answers how many datagrams left; what cannot be sent is counted and dropped, never queued.
    fn send(&mut self, reports: &[FlowReport], now_us: u64) -> usize;
}
