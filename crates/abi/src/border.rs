//! What the border's kernel program (bpf/progs/pep_border.bpf.c) and its agent share: flows, reports of them, counters.

use crate::pep::{PepRange, RANGES};
use bytemuck::{Pod, Zeroable};

/// Address and port as on the wire; IPv4 as `::ffff:a.b.c.d`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Endpoint {
    /// Network order.
    pub address: [u8; 16],
    /// Network order.
    pub port: [u8; 2],
    /// Zero.
    pub zero: [u8; 2],
}

/// Key of the map `flows`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct FlowKey {
    /// Who sends the data.
    pub server: Endpoint,
    /// Who receives it.
    pub client: Endpoint,
}

/// What was seen of a flow.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Seen {
    /// Next sequence number that is expected.
    pub in_order: u32,
    /// How many of `ranges` are in use.
    pub range_count: u32,
    /// What was seen above that, ascending.
    pub ranges: [PepRange; RANGES],
}

/// Value of the map `flows`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Flow {
    /// 1 while a packet's program has it.
    pub lock: u32,
    /// Data segments seen, modulo 2^32.
    pub segments: u32,
    /// Of them, those that no report has, or more.
    pub unreported: u32,
    /// Zero.
    pub zero: u32,
    /// When the last one was seen, nanoseconds of the monotonic clock.
    pub seen_ns: u64,
    /// When the first one was seen that no report has, nor waits to be reported by itself; 0: there is none.
    pub since_ns: u64,
    /// What was seen.
    pub seen: Seen,
    /// Zero.
    pub room: [u64; 4],
}

/// Why a report was due.
pub const REASONS: [&str; 3] = ["segments", "time", "gap"];

/// A report in the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Report {
    /// Of which flow.
    pub key: FlowKey,
    /// What was seen.
    pub seen: Seen,
    /// As in [`Flow`].
    pub segments: u32,
    /// Why it was due: a place in [`REASONS`].
    pub reason: u32,
    /// As in [`Flow`].
    pub seen_ns: u64,
    /// When the first segment was seen that no report before had, nanoseconds of the monotonic clock.
    pub since_ns: u64,
}

/// Counters of one CPU, the value of the map `counters`; or of all.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Counters {
    /// Packets that came from the Internet.
    pub packets: u64,
    /// Data segments of cooperating servers, each of a super-packet.
    pub tracked: u64,
    /// Segments of other servers.
    pub untracked: u64,
    /// Packets that are not TCP.
    pub other: u64,
    /// IP fragments.
    pub fragments: u64,
    /// TCP behind IPv6 extension headers that are not stepped over.
    pub extensions: u64,
    /// Packets cut short, or with lengths that cannot be.
    pub malformed: u64,
    /// GTP-U packets, in either direction.
    pub gtp_u: u64,
    /// Flows that came to be tracked.
    pub flows_new: u64,
    /// Flows whose end was seen (RST, or another SYN).
    pub flows_ended: u64,
    /// Flows that there was no memory for.
    pub flows_refused: u64,
    /// Segments that were left out, as somebody else had their flow for too long; a super-packet is one.
    pub segments_busy: u64,
    /// Segments far from all that was known of their flow.
    pub lost_sight: u64,
    /// Ranges forgotten, as a flow had more than four.
    pub ranges_forgotten: u64,
    /// Clients' acknowledgements of flows with gaps.
    pub acks: u64,
    /// Reports by reason, see [`REASONS`].
    pub reports: [u64; REASONS.len()],
    /// Reports that found no room in the ring.
    pub reports_lost: u64,
}

/// How many numbers [`Counters`] are.
pub const COUNTERS: usize = size_of::<Counters>() / size_of::<u64>();

impl Counters {
    /// The sum over all CPUs.
    #[must_use]
    pub fn sum<'a>(per_cpu: impl IntoIterator<Item = &'a [u64; COUNTERS]>) -> Self {
        let mut sum = [0u64; COUNTERS];
        for one in per_cpu {
            sum.iter_mut().zip(one).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
        bytemuck::cast(sum)
    }
}
