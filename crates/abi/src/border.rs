//! Structures that the border's kernel program (bpf/progs/pep_border.bpf.c) and its agent share: flows, reports,
//! counters.

use crate::pep::{PepRange, RANGES};
use bytemuck::{Pod, Zeroable};

/// An address and a port as in a packet; an IPv4 address is mapped to `::ffff:a.b.c.d`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Endpoint {
    /// The address, in network order.
    pub address: [u8; 16],
    /// The port, in network order.
    pub port: [u8; 2],
    /// Zero.
    pub zero: [u8; 2],
}

/// Key of the map `flows`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FlowKey {
    /// The sender of the data.
    pub server: Endpoint,
    /// The receiver of the data.
    pub client: Endpoint,
}

/// The sequence numbers that the border saw of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Seen {
    /// Next sequence number that the border expects.
    pub in_order: u32,
    /// Number of `ranges` in use.
    pub range_count: u32,
    /// Ranges seen above `in_order`, ascending.
    pub ranges: [PepRange; RANGES],
}

/// Value of the map `flows`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Flow {
    /// 1 while a run of a program (for a packet, the timer or the agent) holds the lock, else 0.
    pub lock: u32,
    /// Data segments seen, modulo 2^32.
    pub segments: u32,
    /// Upper bound of how many of `segments` no report has covered yet.
    pub unreported: u32,
    /// Zero.
    pub zero: u32,
    /// When the last segment was seen, nanoseconds of the monotonic clock.
    pub seen_ns: u64,
    /// When the first unreported data segment was seen that is not queued for a report of its own, nanoseconds of the
    /// monotonic clock; 0 if there is none.
    pub since_ns: u64,
    /// The sequence numbers seen so far.
    pub seen: Seen,
    /// Zero.
    pub room: [u64; 4],
}

/// The reasons for which a report can be due.
pub const REASONS: [&str; 3] = ["segments", "time", "gap"];

/// A report, as the kernel program puts it into the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Report {
    /// The flow.
    pub key: FlowKey,
    /// The sequence numbers seen.
    pub seen: Seen,
    /// As in [`Flow`].
    pub segments: u32,
    /// Why it was due: an index into [`REASONS`].
    pub reason: u32,
    /// As in [`Flow`].
    pub seen_ns: u64,
    /// When the first segment was seen that no earlier report covers, nanoseconds of the monotonic clock.
    pub since_ns: u64,
}

/// Counters of one CPU (the value of the map `counters`), or their sum over all CPUs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Counters {
    /// Packets that came from the Internet.
    pub packets: u64,
    /// Data segments of cooperating servers; each segment of a super-packet counts.
    pub tracked: u64,
    /// Segments of other servers.
    pub untracked: u64,
    /// Packets that are not TCP.
    pub other: u64,
    /// IP fragments.
    pub fragments: u64,
    /// TCP behind IPv6 extension headers that are not stepped over.
    pub extensions: u64,
    /// Packets that are truncated or have invalid lengths.
    pub malformed: u64,
    /// GTP-U packets, in either direction.
    pub gtp_u: u64,
    /// Flows that began to be tracked.
    pub flows_new: u64,
    /// Flows whose end was seen (an RST, or the SYN of a new connection).
    pub flows_ended: u64,
    /// Flows that were not tracked for lack of memory.
    pub flows_refused: u64,
    /// Segments ignored because their flow was locked for too long; a super-packet counts as one.
    pub segments_busy: u64,
    /// Segments far from all sequence numbers known of their flow.
    pub lost_sight: u64,
    /// Ranges evicted because their flow had more than four.
    pub ranges_forgotten: u64,
    /// Clients' ACKs of flows with gaps.
    pub acks: u64,
    /// Reports by reason, see [`REASONS`].
    pub reports: [u64; REASONS.len()],
    /// Reports dropped because the ring was full.
    pub reports_lost: u64,
}

/// Number of counters in [`Counters`].
pub const COUNTERS: usize = size_of::<Counters>() / size_of::<u64>();

impl Counters {
    /// Returns the sum over all CPUs.
    #[must_use]
    pub fn sum<'a>(per_cpu: impl IntoIterator<Item = &'a [u64; COUNTERS]>) -> Self {
        let mut sum = [0u64; COUNTERS];
        for one in per_cpu {
            sum.iter_mut().zip(one).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
        bytemuck::cast(sum)
    }
}
