//! In-band reports, which travel within their flow: the format of the TCP option, version 1, as documented in
//! docs/reference/pep-wire.md. This module does no I/O.

use crate::report::{FlowKey, FlowReport, SeqRange};
use hotcc_abi::pep::{INBAND_BYTES, Inband};
use hotcc_keys::Key;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Length of the authentication code: HMAC-SHA-256, truncated to 80 bits to fit into the option.
pub const MAC_BYTES: usize = 10;
/// First bytes of the option: experimental (RFC 6994), its length, its identifier.
pub const OPTION_HEADER: [u8; 4] = [254, 4 + INBAND_BYTES as u8, 0x50, 0x45];

const VERSION: u8 = 1;
const SIGNED_BYTES: usize = INBAND_BYTES - MAC_BYTES;
/// Precedes the signed content, so that the code of a datagram is never valid for an option.
const PURPOSE: &[u8] = b"PEP in-band 1";

/// A report with the fields of the option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InbandReport {
    /// Number of the key that signed it.
    pub key_id: u8,
    /// The border's clock at sending, microseconds modulo 2^32.
    pub time_us: u32,
    /// Time from the observation to the sending, microseconds.
    pub age_us: u32,
    /// What the border saw, with at most one range; `seen_at_us` is modulo 2^32.
    pub report: FlowReport,
}

/// Returns the option's content after its identifier. If the report has several ranges, only the first is included.
#[must_use]
pub fn encode(report: &FlowReport, now_us: u64, key: &Key) -> [u8; INBAND_BYTES] {
    let range = report.ranges.first().copied().unwrap_or(SeqRange { start: report.in_order, end: report.in_order });
    let age_us = now_us.saturating_sub(report.seen_at_us).min(u32::MAX.into()) as u32;
    let words = [
        now_us as u32,
        age_us,
        report.in_order,
        report.segments,
        range.start.wrapping_sub(report.in_order),
        range.end.wrapping_sub(report.in_order),
    ];
    let mut content = [0; INBAND_BYTES];
    content[..2].copy_from_slice(&[VERSION, key.id]);
    for (field, word) in content[2..SIGNED_BYTES].as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *field = word.to_be_bytes();
    }
    let code = key.sign(&message(&report.key, &content));
    content[SIGNED_BYTES..].copy_from_slice(&code[..MAC_BYTES]);
    content
}

/// Decodes an option; `None` if it is invalid. [`is_signed_by`] checks whether it is authentic.
#[must_use]
pub fn decode(from: &Inband) -> Option<InbandReport> {
    let content = &from.option;
    if content[0] != VERSION {
        return None;
    }
    let mut words = [0; 6];
    for (word, field) in words.iter_mut().zip(content[2..SIGNED_BYTES].as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*field);
    }
    let [time_us, age_us, in_order, segments, start, end] = words;
    let ranges = match (start, end) {
        (0, 0) => Vec::new(),
        (1.., _) if end > start => {
            vec![SeqRange { start: in_order.wrapping_add(start), end: in_order.wrapping_add(end) }]
        }
        _ => return None,
    };
    let seen_at_us = time_us.wrapping_sub(age_us).into();
    let report = FlowReport { key: flow(from), in_order, ranges, segments, seen_at_us };
    Some(InbandReport { key_id: content[1], time_us, age_us, report })
}

/// Whether its code was made with `key`, for this flow.
#[must_use]
pub fn is_signed_by(from: &Inband, key: &Key) -> bool {
    key.verify(&message(&flow(from), &from.option), &from.option[SIGNED_BYTES..])
}

fn flow(from: &Inband) -> FlowKey {
    let end = |address: [u8; 16], port: [u8; 2]| {
        let [a, b, c, d, ..] = address;
        let ip: IpAddr =
            if from.family == 4 { Ipv4Addr::new(a, b, c, d).into() } else { Ipv6Addr::from(address).into() };
        SocketAddr::new(ip, u16::from_be_bytes(port))
    };
    FlowKey { server: end(from.server, from.server_port), client: end(from.client, from.client_port) }
}

fn message(flow: &FlowKey, content: &[u8; INBAND_BYTES]) -> Vec<u8> {
    let mut message = PURPOSE.to_vec();
    for end in [flow.server, flow.client] {
        let address = match end.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        message.extend(address.octets());
        message.extend(end.port().to_be_bytes());
    }
    message.extend(&content[..SIGNED_BYTES]);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_keys::KEY_BYTES;
    use proptest::prelude::*;

    fn received(report: &FlowReport, option: [u8; INBAND_BYTES]) -> Inband {
        let bytes = |ip: IpAddr| match ip {
            IpAddr::V4(v4) => std::array::from_fn(|i| *v4.octets().get(i).unwrap_or(&0)),
            IpAddr::V6(v6) => v6.octets(),
        };
        Inband {
            server: bytes(report.key.server.ip()),
            client: bytes(report.key.client.ip()),
            server_port: report.key.server.port().to_be_bytes(),
            client_port: report.key.client.port().to_be_bytes(),
            family: if report.key.server.is_ipv4() { 4 } else { 6 },
            option,
            reserved: 0,
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_that_was_changed(
            v4: bool, in_order: u32, gap in 1u32..1 << 30, length in 1u32..1 << 30, has_range: bool, segments: u32,
            now_us in 1u64 << 32..1 << 60, age_us: u32, at in 0..INBAND_BYTES, flip in 1u8..,
        ) {
            let (server, client) = if v4 { ("192.0.2.1:1", "192.0.2.2:9") } else { ("[::1]:1", "[::2]:9") };
            let start = in_order.wrapping_add(gap);
            let range = SeqRange { start, end: start.wrapping_add(length) };
            let report = FlowReport {
                key: FlowKey { server: server.parse().unwrap(), client: client.parse().unwrap() },
                in_order,
                ranges: if has_range { vec![range] } else { Vec::new() },
                segments,
                seen_at_us: now_us - u64::from(age_us),
            };
            let key = Key::new(3, &[7; KEY_BYTES]);
            let mut got = received(&report, encode(&report, now_us, &key));
            prop_assert!(is_signed_by(&got, &key) && !is_signed_by(&got, &Key::new(3, &[8; KEY_BYTES])));
            let read = decode(&got).unwrap();
            prop_assert_eq!((read.key_id, read.time_us, read.age_us), (3, now_us as u32, age_us));
            let seen_at_us = u64::from(report.seen_at_us as u32);
            prop_assert_eq!(&read.report, &FlowReport { seen_at_us, ..report });
            let other_flow = Inband { client_port: [1, 1], ..got };
            prop_assert!(!is_signed_by(&other_flow, &key));
            got.option[at] ^= flip;
            prop_assert!(!is_signed_by(&got, &key));
        }

        #[test]
        fn random_bytes_are_rejected_or_a_well_formed_report(option: [u8; INBAND_BYTES]) {
            let key = FlowKey { server: "[::1]:1".parse().unwrap(), client: "[::2]:9".parse().unwrap() };
            let flow = FlowReport { key, in_order: 0, ranges: Vec::new(), segments: 0, seen_at_us: 0 };
            let mut option = option;
            option[0] = VERSION;
            if let Some(read) = decode(&received(&flow, option)) {
                for range in read.report.ranges {
                    let offset = |at: u32| at.wrapping_sub(read.report.in_order);
                    prop_assert!(0 < offset(range.start) && offset(range.start) < offset(range.end));
                }
            }
        }
    }
}
