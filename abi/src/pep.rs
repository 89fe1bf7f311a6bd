//! What an ACKing PEP at the border of the access network tells the sender about a flow.

use bytemuck::{Pod, Zeroable};

/// Sequence numbers `start..end`, modulo 2^32.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PepRange {
    /// First sequence number.
    pub start: u32,
    /// The one behind the last.
    pub end: u32,
}

/// One flow's state at the PEP (`struct pep_flow_v1`). A writer makes `updates` odd, writes, and makes it even.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct PepFlow {
    /// Twice the number of reports, one more while one is written; 0: never written.
    pub updates: u32,
    /// The next sequence number the PEP expects.
    pub in_order: u32,
    /// What it saw above `in_order`: ascending, not overlapping.
    pub ranges: [PepRange; 4],
    /// How many of `ranges` count.
    pub range_count: u32,
    /// RTT between sender and PEP, microseconds.
    pub rtt_us: u32,
    /// Segments the PEP saw.
    pub segments: u32,
    /// Zero.
    pub reserved: u32,
    /// When this was written, [`crate::clock::monotonic_ns`].
    pub time_ns: u64,
}

const _: () = assert!(size_of::<PepFlow>() == 64);
