//! What the ACKing border PEP of a flow saw of it: the value of the socket storage `pep_flow`.
//!
//! An agent that has checked where a record comes from writes it; `mdcubic` reads it at each ACK. There is one record per
//! flow, it goes with the socket, and a new one takes the place of the last.
//!
//! A program that writes in place adds 1 to [`PepFlow::updates`] with an atomic addition, writes, and adds 1 again the same
//! way: readers use nothing while the number is odd, or if it moved while they read. A write from userspace
//! (`bpf_map_update_elem` with the socket's descriptor as key) takes the place of the whole record at once, with a number
//! that is even and not the last one.

use bytemuck::{Pod, Zeroable};

/// Ranges in a record.
pub const RANGES: usize = 4;
/// A record may be dated this much later than the time stamp of the socket that reads it.
pub const CLOCK_SLACK_MS: u32 = 10;

/// Sequence numbers from `start` to the one before `end`, modulo 2^32.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PepRange {
    /// First sequence number.
    pub start: u32,
    /// The one after the last.
    pub end: u32,
}

/// Version 1 of the record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PepFlow {
    /// 0: never written; odd: being written; else another number for each record.
    pub updates: u32,
    /// Next sequence number that the PEP expects: it saw all below.
    pub in_order: u32,
    /// What it saw above that, ascending and not overlapping; sequence numbers as in the flow's segments.
    pub ranges: [PepRange; RANGES],
    /// How many of `ranges` are in use.
    pub range_count: u32,
    /// RTT between the sender and the PEP in microseconds, 0 where not known.
    pub rtt_us: u32,
    /// Segments that the PEP saw, modulo 2^32.
    pub segments: u32,
    /// Zero.
    pub reserved: u32,
    /// When the record was made, [`crate::clock::monotonic_ns`].
    pub time_ns: u64,
}

const _: () = assert!(size_of::<PepFlow>() == 64);
