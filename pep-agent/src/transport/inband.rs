//! Sends reports as segments of the flow that they are about: with the client's addresses, one TCP option, and an
//! invalid checksum, so that servers that do not expect them drop them.

use crate::auth::LiveKeys;
use crate::inband::{OPTION_HEADER, encode};
use crate::report::{FlowKey, FlowReport, Sent, Transport};
use hotcc_abi::pep::INBAND_BYTES;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, sendto, setsockopt, socket, sockopt,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const TCP: u8 = 6;
const TCP_BYTES: usize = 20 + OPTION_HEADER.len() + INBAND_BYTES;
const DATA_OFFSET: u8 = ((TCP_BYTES / 4) << 4) as u8;
const ACK: u8 = 0x10;
/// XORed into the checksum to make it wrong: neither 0 nor 0xffff, which could leave it valid.
const CHECKSUM_ERROR: u16 = 0x5045;
const HOP_LIMIT: u8 = 64;
/// The mark of the segments, for rules of the firewall.
const MARK: u32 = 0x5045;

/// The transport that sends reports within their flows.
#[derive(Debug)]
pub struct Inband {
    keys: LiveKeys,
    v4: Option<OwnedFd>,
    v6: Option<OwnedFd>,
    sent: Arc<Sent>,
}

/// Creates a transport that sends each report as a segment of its flow, signed with the key for its server. Needs
/// CAP_NET_RAW.
///
/// Fails if neither IPv4 nor IPv6 can be used.
pub fn inband(keys: LiveKeys) -> io::Result<Inband> {
    let open = |family| {
        let socket = socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
        setsockopt(&socket, sockopt::Mark, &MARK).map(|()| socket)
    };
    let (v4, v6) = (open(AddressFamily::Inet), open(AddressFamily::Inet6));
    match (v4, v6) {
        (Err(error), Err(_)) => Err(error.into()),
        (v4, v6) => Ok(Inband { keys, v4: v4.ok(), v6: v6.ok(), sent: Arc::default() }),
    }
}

impl Transport for Inband {
    fn sent(&self) -> Arc<Sent> {
        Arc::clone(&self.sent)
    }

    fn send(&mut self, reports: &[FlowReport], now_us: u64) -> usize {
        let keys = self.keys.get();
        let mut sent = 0;
        for report in reports {
            let server = report.key.server.ip();
            let Some(key) = keys.signing(server.to_canonical()) else {
                self.sent.dropped_no_key.fetch_add(1, Relaxed);
                continue;
            };
            let packet = packet(&report.key, report.in_order, &encode(report, now_us, key));
            let socket = if server.is_ipv4() { &self.v4 } else { &self.v6 };
            let to = SockaddrStorage::from(SocketAddr::new(server, 0));
            let left = socket.as_ref().is_some_and(|s| {
                packet.is_some_and(|p| sendto(s.as_raw_fd(), &p, &to, MsgFlags::MSG_DONTWAIT).is_ok())
            });
            if left {
                self.sent.packets.fetch_add(1, Relaxed);
                self.sent.reports.fetch_add(1, Relaxed);
            } else {
                self.sent.dropped_unsent.fetch_add(1, Relaxed);
            }
            sent += usize::from(left);
        }
        sent
    }
}

/// Returns a packet from the client to the server, or `None` if one is IPv4 and the other IPv6.
fn packet(flow: &FlowKey, ack: u32, option: &[u8; INBAND_BYTES]) -> Option<Vec<u8>> {
    let mut tcp = Vec::with_capacity(TCP_BYTES);
    tcp.extend(flow.client.port().to_be_bytes());
    tcp.extend(flow.server.port().to_be_bytes());
    tcp.extend(0u32.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([DATA_OFFSET, ACK, 0, 0, 0, 0, 0, 0]);
    tcp.extend(OPTION_HEADER);
    tcp.extend(option);
    let length = TCP_BYTES as u16;
    let mut pseudo = match (flow.client.ip(), flow.server.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
        (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
        _ => return None,
    };
    let addresses = pseudo.clone();
    pseudo.extend([0, TCP]);
    pseudo.extend(length.to_be_bytes());
    let wrong = checksum(&[pseudo, tcp.clone()].concat()) ^ CHECKSUM_ERROR;
    tcp[16..18].copy_from_slice(&wrong.to_be_bytes());
    let mut packet = if flow.server.is_ipv4() {
        // the kernel fills in total length, identification and checksum
        vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, HOP_LIMIT, TCP, 0, 0]
    } else {
        let [high, low] = length.to_be_bytes();
        vec![0x60, 0, 0, 0, high, low, TCP, HOP_LIMIT]
    };
    packet.extend(addresses);
    packet.extend(tcp);
    Some(packet)
}

/// Returns the checksum of an even number of bytes (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes.as_chunks::<2>().0.iter().map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
