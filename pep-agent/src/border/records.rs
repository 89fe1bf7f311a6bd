//! What the border's kernel program writes: reports of flows, and counters. Layout: bpf/agents/pep_border.bpf.c.

use crate::report::{FlowKey, FlowReport, RANGES, SeqRange};
use bytemuck::{Pod, Zeroable};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Address and port as on the wire; IPv4 as `::ffff:a.b.c.d`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Endpoint {
    address: [u8; 16],
    port: [u8; 2],
    zero: [u8; 2],
}

impl Endpoint {
    fn socket_addr(&self) -> SocketAddr {
        let address = IpAddr::V6(Ipv6Addr::from(self.address)).to_canonical();
        SocketAddr::new(address, u16::from_be_bytes(self.port))
    }
}

/// Key of the map `flows`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RawKey {
    server: Endpoint,
    client: Endpoint,
}

impl RawKey {
    /// As the rest of this crate has it.
    #[must_use]
    pub fn flow(&self) -> FlowKey {
        FlowKey { server: self.server.socket_addr(), client: self.client.socket_addr() }
    }
}

/// Size of the map's values.
pub const FLOW_SIZE: usize = 104;

/// Why a report was due.
pub const REASONS: [&str; 3] = ["segments", "time", "gap"];

/// A report in the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct RawReport {
    key: RawKey,
    in_order: u32,
    range_count: u32,
    ranges: [[u32; 2]; RANGES],
    segments: u32,
    /// Place in [`REASONS`].
    pub reason: u32,
    seen_ns: u64,
    /// When the first segment was seen that no report before had, nanoseconds of the monotonic clock.
    pub since_ns: u64,
}

impl RawReport {
    /// Reads one; `None` where the bytes are not of that size.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytemuck::try_pod_read_unaligned(bytes).ok()
    }

    /// What goes to the server.
    #[must_use]
    pub fn report(&self) -> FlowReport {
        let count = (self.range_count as usize).min(RANGES);
        FlowReport {
            key: self.key.flow(),
            in_order: self.in_order,
            ranges: self.ranges[..count].iter().map(|&[start, end]| SeqRange { start, end }).collect(),
            segments: self.segments,
            seen_at_us: self.seen_ns / 1000,
        }
    }
}

/// Counters of one CPU, or of all.
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

const _: () = assert!(size_of::<RawKey>() == 40 && size_of::<RawReport>() == 104 && size_of::<Counters>() == 144);
