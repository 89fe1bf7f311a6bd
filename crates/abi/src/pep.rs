//! What the ACKing border PEP saw of a flow: the value of the socket storage `pep_flow`.
//!
//! An agent that has verified the origin of a record writes it; `mdcubic` reads it at each ACK. There is one record per
//! flow. It ends with the socket, and a new record replaces the last one.
//!
//! A program that writes in place adds 1 to [`PepFlow::updates`] with an atomic addition, writes, and adds 1 again in
//! the same way. Readers ignore the record if the number is odd, or if it changed while they read. A write from
//! userspace (`bpf_map_update_elem` with the socket's descriptor as key) replaces the whole record at once, with an
//! even number that differs from the last one.

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
    /// The sequence number after the last.
    pub end: u32,
}

/// Version 1 of the record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PepFlow {
    /// 0 if the record was never written; odd while it is being written; otherwise a different number for each record.
    pub updates: u32,
    /// Next sequence number that the PEP expects: it saw all below.
    pub in_order: u32,
    /// What the PEP saw above `in_order`, ascending and not overlapping; sequence numbers as in the flow's segments.
    pub ranges: [PepRange; RANGES],
    /// Number of `ranges` in use.
    pub range_count: u32,
    /// RTT between the sender and the PEP in microseconds; 0 if not known.
    pub rtt_us: u32,
    /// Segments that the PEP saw, modulo 2^32.
    pub segments: u32,
    /// Zero.
    pub reserved: u32,
    /// When the PEP saw the last of these segments, by this host's [`crate::clock::monotonic_ns`].
    pub time_ns: u64,
}

const _: () = assert!(size_of::<PepFlow>() == 64);

/// A verified record on its way from the agent into the kernel. The program `update_record` gets it as its packet,
/// behind [`ETHERNET_HEADER`] bytes of a frame's header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PepRecordUpdate {
    /// The sender's address in network order; an IPv4 address takes the first four bytes.
    pub server: [u8; 16],
    /// The receiver's address, in the same form.
    pub client: [u8; 16],
    /// The sender's port, in network order.
    pub server_port: [u8; 2],
    /// The receiver's port, in network order.
    pub client_port: [u8; 2],
    /// 4 or 6.
    pub family: u8,
    /// The flags [`CLOCK`] and [`CONTROL`].
    pub flags: u8,
    /// As in [`PepFlow`].
    pub range_count: u16,
    /// As in [`PepFlow`].
    pub time_ns: u64,
    /// Identifies the clock of `border_us`: one run of a border, under one key.
    pub border: u64,
    /// As in [`PepFlow`].
    pub in_order: u32,
    /// As in [`PepFlow`].
    pub segments: u32,
    /// As in [`PepFlow`].
    pub rtt_us: u32,
    /// When the PEP saw the flow's last segment, by the border's clock, microseconds modulo 2^32.
    pub border_us: u32,
    /// As in [`PepFlow`].
    pub ranges: [PepRange; RANGES],
}

const _: () = assert!(size_of::<PepRecordUpdate>() == 104);

/// Number of bytes before a [`PepRecordUpdate`] in the packet.
pub const ETHERNET_HEADER: usize = 14;
/// Flag of a [`PepRecordUpdate`]: clock the sender.
pub const CLOCK: u8 = 1;
/// Flag of a [`PepRecordUpdate`]: the flow belongs to the control cohort, which gets no records, for comparison.
pub const CONTROL: u8 = 2;

/// The results of a [`PepRecordUpdate`], indexed by the number that `update_record` returns.
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

/// Totals of the flows of one cohort that a PEP reported and that have ended since the agent started.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Cohort {
    /// Number of flows.
    pub flows: u64,
    /// Bytes that their clients acknowledged since their first report.
    pub acked_bytes: u64,
    /// Time between their reports, nanoseconds; each pause counts as one second at most.
    pub active_ns: u64,
    /// Segments retransmitted since their first report.
    pub retransmits: u64,
}

/// An in-band report (one that arrives within its flow), as the program `inband` passes it on.
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
    /// The option's content after its identifier.
    pub option: [u8; INBAND_BYTES],
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<Inband>() == 80);

/// Length of the content of the longest possible TCP option, without kind, length and identifier.
pub const INBAND_BYTES: usize = 36;
