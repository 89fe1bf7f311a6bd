//! Converts what the border's kernel program writes to the types of this crate.

use crate::report::{FlowKey, FlowReport, RANGES, SeqRange};
use hotcc_abi::border::{self, Endpoint};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Reads a report from the ring; `None` if the bytes have another size.
#[must_use]
pub fn read(bytes: &[u8]) -> Option<border::Report> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}

/// Converts a report to the one that is sent to the server.
#[must_use]
pub fn report(raw: &border::Report) -> FlowReport {
    let count = (raw.seen.range_count as usize).min(RANGES);
    FlowReport {
        key: flow(&raw.key),
        in_order: raw.seen.in_order,
        ranges: raw.seen.ranges[..count].iter().map(|r| SeqRange { start: r.start, end: r.end }).collect(),
        segments: raw.segments,
        seen_at_us: raw.seen_ns / 1000,
    }
}

/// Converts the key of a flow.
#[must_use]
pub fn flow(key: &border::FlowKey) -> FlowKey {
    FlowKey { server: socket_addr(&key.server), client: socket_addr(&key.client) }
}

fn socket_addr(end: &Endpoint) -> SocketAddr {
    let address = IpAddr::V6(Ipv6Addr::from(end.address)).to_canonical();
    SocketAddr::new(address, u16::from_be_bytes(end.port))
}
