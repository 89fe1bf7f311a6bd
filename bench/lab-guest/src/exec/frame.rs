//! Ethernet frames of packet sockets. Each frame follows a header that describes the offloading that is still to be
//! done.

use hotcc_lab_proto::plan::FIRST_FLOW_PORT;
use hotcc_lab_proto::queue::Ecn;
use hotcc_lab_proto::records::NO_FLOW;

/// `struct virtio_net_hdr`, which precedes the frame.
pub(super) const OFFLOAD_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;
const TCP: u8 = 6;
const UDP: u8 = 17;
const MAX_FLOWS: u16 = 4096;

/// The properties of a frame that a link needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of packets that the frame will be segmented into.
    pub segments: u32,
    /// Total IP bytes of these packets.
    pub bytes: u32,
    /// Index of the flow, or [`NO_FLOW`].
    pub flow: u16,
    /// Whether it goes towards the flow's receiver.
    pub towards_receiver: bool,
    /// ECN field; only IPv4 has one here.
    pub ecn: Ecn,
}

/// Returns the packet from its IP header on.
fn packet(data: &[u8]) -> &[u8] {
    data.get(OFFLOAD_BYTES + ETHERNET_BYTES..).unwrap_or_default()
}

fn header_bytes(packet: &[u8]) -> usize {
    let ip = packet.first().map_or(0, |b| usize::from(b & 15) * 4);
    let tcp = |offset: &u8| usize::from(offset >> 4) * 4;
    ip + if packet.get(9) == Some(&UDP) { 8 } else { packet.get(ip + 12).map_or(0, tcp) }
}

/// Parses a frame that follows its offload header.
pub(super) fn shape(data: &[u8]) -> Shape {
    let packet = packet(data);
    let gso_size = data.get(4..6).map_or(0, |b| usize::from(u16::from_ne_bytes([b[0], b[1]])));
    let headers = header_bytes(packet);
    let segments = if gso_size == 0 { 1 } else { packet.len().saturating_sub(headers).div_ceil(gso_size).max(1) };
    let (flow, towards_receiver) = classify(packet);
    let ecn = packet.get(..2).filter(|bytes| bytes[0] >> 4 == 4).map_or(Ecn::NotEct, |bytes| Ecn::of_bits(bytes[1]));
    let bytes = (packet.len() + (segments - 1) * headers) as u32;
    Shape { segments: segments as u32, bytes, flow, towards_receiver, ecn }
}

/// Returns the flow, which the receiver's port identifies, and whether the packet goes towards the receiver.
fn classify(packet: &[u8]) -> (u16, bool) {
    let port = |at: usize| packet.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    let flow = |port: u16| port.checked_sub(FIRST_FLOW_PORT).filter(|flow| *flow < MAX_FLOWS);
    if !matches!(packet.get(9), Some(&TCP | &UDP)) {
        return (NO_FLOW, false);
    }
    match (flow(port(22)), flow(port(20))) {
        (Some(flow), _) => (flow, true),
        (None, Some(flow)) => (flow, false),
        (None, None) => (NO_FLOW, false),
    }
}

/// Sets the checksum of an IPv4 header.
pub(super) fn set_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum: u32 = header.chunks_exact(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Marks an ECN-capable IPv4 packet (CE). Returns false if it is not an ECN-capable IPv4 packet.
pub(super) fn mark_ce(data: &mut [u8]) -> bool {
    let packet = data.get_mut(OFFLOAD_BYTES + ETHERNET_BYTES..).unwrap_or_default();
    let length = packet.first().map_or(0, |b| usize::from(b & 15) * 4);
    if packet.len() < length || length < 20 || packet[0] >> 4 != 4 || packet[1] & 3 == 0 {
        return false;
    }
    packet[1] |= 3;
    set_checksum(&mut packet[..length]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a TCP frame to a port with this much payload. It is ECN-capable, and its IP checksum is correct.
    fn frame(to: u16, payload: usize, gso_size: u16) -> Vec<u8> {
        let mut data = vec![0; OFFLOAD_BYTES + ETHERNET_BYTES + 20 + 32 + payload];
        data[4..6].copy_from_slice(&gso_size.to_ne_bytes());
        let packet = &mut data[OFFLOAD_BYTES + ETHERNET_BYTES..];
        packet[0] = 0x45;
        packet[1] = 2;
        packet[9] = TCP;
        packet[10..12].copy_from_slice(&(!0x4508_u16).to_be_bytes());
        packet[22..24].copy_from_slice(&to.to_be_bytes());
        packet[32] = 8 << 4;
        data
    }

    #[test]
    fn a_bundle_counts_as_the_packets_that_it_will_be() {
        let alone = shape(&frame(FIRST_FLOW_PORT + 3, 1448, 0));
        assert_eq!(alone, Shape { segments: 1, bytes: 1500, flow: 3, towards_receiver: true, ecn: Ecn::Ect0 });
        let bundle = shape(&frame(FIRST_FLOW_PORT, 1448 * 2 + 1, 1448));
        assert_eq!(
            bundle,
            Shape { segments: 3, bytes: 1500 * 2 + 53, flow: 0, towards_receiver: true, ecn: Ecn::Ect0 }
        );
        assert_eq!(shape(&frame(80, 0, 0)).flow, NO_FLOW);
        assert_eq!(shape(&[0; 30]).flow, NO_FLOW);
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        let mut data = frame(1, 0, 0);
        assert!(mark_ce(&mut data));
        let header = &data[OFFLOAD_BYTES + ETHERNET_BYTES..][..20];
        assert_eq!(header[1] & 3, 3);
        let sum: u32 = header.chunks_exact(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]]))).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        data[OFFLOAD_BYTES + ETHERNET_BYTES + 1] = 0;
        assert!(!mark_ce(&mut data), "a packet that is not ECN-capable");
    }
}
