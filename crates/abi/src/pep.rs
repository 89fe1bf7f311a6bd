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

/// A verified record on its way from the agent into the kernel: what the program `update_record` takes for its packet, behind
/// [`ETHERNET_HEADER`] bytes of a frame's header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PepRecordUpdate {
    /// The sender's address in network order; of IPv4, the first four bytes.
    pub server: [u8; 16],
    /// The receiver's.
    pub client: [u8; 16],
    /// In network order.
    pub server_port: [u8; 2],
    /// In network order.
    pub client_port: [u8; 2],
    /// 4 or 6.
    pub family: u8,
    /// [`CLOCK`], [`CONTROL`].
    pub flags: u8,
    /// As in [`PepFlow`].
    pub range_count: u16,
    /// As in [`PepFlow`].
    pub time_ns: u64,
    /// Whose clock `border_us` is: a run of a border, and its key.
    pub border: u64,
    /// As in [`PepFlow`].
    pub in_order: u32,
    /// As in [`PepFlow`].
    pub segments: u32,
    /// As in [`PepFlow`].
    pub rtt_us: u32,
    /// When the PEP saw it by that clock, microseconds modulo 2^32.
    pub border_us: u32,
    /// As in [`PepFlow`].
    pub ranges: [PepRange; RANGES],
}

const _: () = assert!(size_of::<PepRecordUpdate>() == 104);

/// Bytes before a [`PepRecordUpdate`].
pub const ETHERNET_HEADER: usize = 14;
/// Flag of a [`PepRecordUpdate`]: clock the sender.
pub const CLOCK: u8 = 1;
/// Flag of a [`PepRecordUpdate`]: the flow is kept without a record, for comparison.
pub const CONTROL: u8 = 2;

/// What becomes of a [`PepRecordUpdate`], by the number that `update_record` answers.
pub const VERDICTS: [&str; 11] = [
    "written",
    "clocked",
    "control",
    "unknown_flow",
    "not_sending",
    "outside",
    "shape",
    "older",
    "busy",
    "no_storage",
    "distrusted",
];

/// What the flows of one cohort did that were seen by a PEP and have ended, since the agent started.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Cohort {
    /// How many.
    pub flows: u64,
    /// Bytes acknowledged by their clients since their first report.
    pub acked_bytes: u64,
    /// Time between their reports, of which pauses count for a second at most, nanoseconds.
    pub active_ns: u64,
    /// Segments sent again since their first report.
    pub retransmits: u64,
}

/// A report that came within its flow, as the program `inband` passes it on.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Inband {
    /// As in [`PepRecordUpdate`].
    pub server: [u8; 16],
    /// As in [`PepRecordUpdate`].
    pub client: [u8; 16],
    /// As in [`PepRecordUpdate`].
    pub server_port: [u8; 2],
    /// As in [`PepRecordUpdate`].
    pub client_port: [u8; 2],
    /// 4 or 6.
    pub family: u32,
    /// What stands behind the option's identifier.
    pub option: [u8; INBAND_BYTES],
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Inband>() == 80);

/// Bytes of a TCP option of the longest kind, without kind, length and identifier.
pub const INBAND_BYTES: usize = 36;
