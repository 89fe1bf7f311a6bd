//! Builds packets as they arrive on the wire.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;

/// A TCP segment with its IP and Ethernet headers.
#[derive(Clone, Debug)]
pub struct Packet {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub payload: usize,
    /// Ethertypes of the VLAN tags within the frame.
    pub tags: Vec<u16>,
    /// IPv4 options, or IPv6 extension headers: (number, whole header).
    pub ip_options: Vec<u8>,
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub tcp_options: Vec<u8>,
    /// Bytes after the IP packet, with which Ethernet pads short frames.
    pub padding: usize,
}

impl Packet {
    pub fn data(from: SocketAddr, to: SocketAddr, seq: u32, payload: usize) -> Self {
        Self {
            from,
            to,
            seq,
            ack: 77,
            flags: ACK,
            payload,
            tags: Vec::new(),
            ip_options: Vec::new(),
            extensions: Vec::new(),
            tcp_options: Vec::new(),
            padding: 0,
        }
    }

    pub fn ack(from: SocketAddr, to: SocketAddr, ack: u32) -> Self {
        Self { ack, ..Self::data(from, to, 1, 0) }
    }

    /// Returns the IP packet.
    pub fn ip(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.push((5 + self.tcp_options.len() as u8 / 4) << 4);
        tcp.push(self.flags);
        tcp.extend([1, 0, 0, 0, 0, 0]); // window, no checksum: the programs ignore it
        tcp.extend(&self.tcp_options);
        tcp.resize(tcp.len() + self.payload, 0x5a);
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, 6, &self.ip_options, &tcp),
            (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(from, to, &self.extensions, &tcp),
            _ => panic!("two families"),
        }
    }

    /// Returns the Ethernet frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = ethernet(&self.tags, if self.from.is_ipv4() { 0x0800 } else { 0x86dd });
        frame.extend(self.ip());
        frame.resize(frame.len() + self.padding, 0);
        frame
    }
}

pub fn ethernet(tags: &[u16], protocol: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend([0, 42]);
    }
    frame.extend(protocol.to_be_bytes());
    frame
}

pub fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut ip = vec![0x40 | (header / 4) as u8, 0];
    ip.extend(((header + payload.len()) as u16).to_be_bytes());
    ip.extend([0, 1, 0x40, 0, 64, protocol]);
    ip.extend([0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    ip.extend(options);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip.extend(payload);
    ip
}

pub fn ipv6(from: Ipv6Addr, to: Ipv6Addr, extensions: &[(u8, Vec<u8>)], payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (i, (_, header)) in extensions.iter().enumerate() {
        let at = body.len();
        body.extend(header);
        body[at] = extensions.get(i + 1).map_or(6, |(number, _)| *number);
    }
    body.extend(payload);
    let mut ip = vec![0x60, 0, 0, 0];
    ip.extend((body.len() as u16).to_be_bytes());
    ip.extend([extensions.first().map_or(6, |(number, _)| *number), 64]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    ip.extend(body);
    ip
}

fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|c| u32::from(u16::from_be_bytes([c[0], c[1]]))).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}
