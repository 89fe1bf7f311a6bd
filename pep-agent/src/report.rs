//! What the border saw of one flow, as its kernel program reports it to the agent, and the agent to the flow's server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Ranges above the in-order sequence number that a report can name.
pub const RANGES: usize = hotcc_abi::pep::RANGES;

/// A flow, with the addresses of its server's socket. Both ends are of one family; mapped IPv4 addresses are given as
/// IPv4.
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
    /// The sequence number after the last.
    pub end: u32,
}

/// What the border had seen of a flow at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// The flow.
    pub key: FlowKey,
    /// Next sequence number that the border expects: it saw all below.
    pub in_order: u32,
    /// What the border saw above `in_order`: at most [`RANGES`], ascending, not touching each other.
    pub ranges: Vec<SeqRange>,
    /// Data segments seen, modulo 2^32.
    pub segments: u32,
    /// When the last segment was seen, by the border's own CLOCK_MONOTONIC, microseconds.
    pub seen_at_us: u64,
}

/// Counters of the reports given to a transport.
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams, or in-band segments, sent with reports.
    pub packets: AtomicU64,
    /// Reports in these.
    pub reports: AtomicU64,
    /// Reports dropped because there is no key for their server.
    pub dropped_no_key: AtomicU64,
    /// Reports dropped because they could not be sent immediately.
    pub dropped_unsent: AtomicU64,
    /// Probes of servers answered.
    pub probes_answered: AtomicU64,
    /// Datagrams ignored because they are not authentic probes of this run.
    pub probes_refused: AtomicU64,
}

/// Sends reports to the servers that they are for.
pub trait Transport {
    /// Returns its counters.
    fn sent(&self) -> Arc<Sent> {
        Arc::default()
    }

    /// Sends reports that are due, all for the same server address (the agent's port there is the transport's concern),
    /// in as few datagrams as possible. Returns the number of datagrams sent. A report that cannot be sent is counted
    /// and dropped, never queued.
    fn send(&mut self, reports: &[FlowReport], now_us: u64) -> usize;
}
