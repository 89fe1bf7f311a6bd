//! The packets of the simulated links.

use crate::congestion::SACK_BLOCKS;

/// Bytes of IP and TCP headers with the timestamp option: 20 + 20 + 12.
pub(crate) const HEADER_BYTES: u32 = 52;
/// Bytes of IP and TCP headers of a SYN with its options: segment size, SACK, timestamps, window scale.
pub(crate) const SYN_BYTES: u32 = 60;
/// Bytes of IP and UDP headers.
pub(crate) const UDP_HEADER_BYTES: u32 = 28;
/// Bytes of the SACK option without its blocks, including padding.
const SACK_OPTION_BYTES: u32 = 4;
const SACK_BLOCK_BYTES: u32 = 8;
/// Bytes of a PEP's datagram without its content: UDP's, the agents' header of 32 bytes, and a code of 16.
const PEP_BYTES: u32 = UDP_HEADER_BYTES + 32 + 16;
/// Bytes of the number in a probe.
const NONCE_BYTES: u32 = 8;
/// Bytes of a flow in a report, and of each range.
const REPORTED_FLOW_BYTES: u32 = 26;
const REPORTED_RANGE_BYTES: u32 = 8;
/// Maximum number of ranges of bytes in a report.
pub(crate) const REPORTED_RANGES: usize = 4;

/// A range of bytes: the first byte, and the byte after the last one.
pub(crate) type Range = (u64, u64);

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ack {
    /// Next byte expected.
    pub cumulative: u64,
    /// Blocks of the SACK option, the newest first; the first `blocks` of them are in use.
    pub sack: [Range; SACK_BLOCKS],
    /// Number of blocks in use.
    pub blocks: u8,
    /// Whether the first block reports a duplicate (RFC 2883).
    pub is_dsack: bool,
    /// Timestamp, of the receiver's clock, in ms.
    pub stamp_ms: u32,
    /// The echoed timestamp, in ms.
    pub echo_ms: u32,
    /// End of the receive window: the byte after the last one that may be sent.
    pub window_end: u64,
    /// ECN echo.
    pub ece: bool,
}

impl Ack {
    /// Returns the length of the IP packet.
    pub fn bytes(&self) -> u32 {
        let sack = if self.blocks == 0 { 0 } else { SACK_OPTION_BYTES + u32::from(self.blocks) * SACK_BLOCK_BYTES };
        HEADER_BYTES + sack
    }
}

/// A bundle of data segments, usually a single one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Data {
    /// First byte.
    pub seq: u64,
    /// Number of bytes.
    pub len: u32,
    /// Number of segments.
    pub segments: u32,
    /// Timestamp, in ms.
    pub stamp_ms: u32,
    /// The echoed timestamp of the receiver, in ms; 0 before its first ACK.
    pub echo_ms: u32,
    /// PSH: this is the end of a write.
    pub push: bool,
    /// The sender has reduced its window after an ECN echo.
    pub cwr: bool,
    /// Whether the segment was sent before.
    pub is_retransmission: bool,
}

/// What the border of a PEP saw of a flow. Each report is a datagram, where the agent puts those that leave together into
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Report {
    /// Index of the flow.
    pub flow: u16,
    /// Number of the border's run.
    pub run: u32,
    /// The byte after the last one in order.
    pub in_order: u64,
    /// Ranges above it, ascending; the first `range_count` of them are in use.
    pub ranges: [Range; REPORTED_RANGES],
    /// Number of ranges in use.
    pub range_count: u8,
    /// Data segments seen.
    pub segments: u32,
    /// Time of the last of them.
    pub seen_ns: u64,
}

impl Report {
    /// Returns the ranges above the bytes in order.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges[..usize::from(self.range_count)]
    }

    /// Replaces what was seen by all bytes below `to`.
    pub fn see_all_below(&mut self, to: u64) {
        self.in_order = to;
        self.range_count = 0;
    }
}

/// A server's question whether a run of a PEP's border exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// Index of the server.
    pub server: u16,
    /// Number of the border's run.
    pub run: u32,
    /// Time of sending.
    pub sent_ns: u64,
}

/// The border's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Echo {
    /// The probe.
    pub probe: Probe,
    /// Time of the answer.
    pub border_ns: u64,
}

/// Content of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content {
    /// The sender's request to open the connection.
    Syn,
    /// The receiver's answer to it.
    SynAck,
    /// A packet of the sender without data.
    Empty,
    /// TCP data.
    Data(Data),
    /// The receiver's acknowledgement.
    Ack(Ack),
    /// The receiver closes the connection; also an acknowledgement.
    Fin(Ack),
    /// A UDP datagram with this many bytes of payload.
    Datagram(u32),
    /// A report of a PEP's border to a server.
    Report(Report),
    /// A probe of a server to a PEP's border.
    Probe(Probe),
    /// The border's answer.
    Echo(Echo),
}

/// A packet in transit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    /// Index of the flow, or [`NO_FLOW`](hotcc_lab_proto::records::NO_FLOW).
    pub flow: u16,
    /// Whether it may be marked (ECT).
    pub ect: bool,
    /// Whether it is marked.
    pub ce: bool,
    /// Content.
    pub content: Content,
}

impl Packet {
    /// Returns the total length of the IP packets of all segments.
    pub fn bytes(&self) -> u32 {
        match self.content {
            Content::Syn | Content::SynAck => SYN_BYTES,
            Content::Empty => HEADER_BYTES,
            Content::Data(data) => data.len + data.segments * HEADER_BYTES,
            Content::Ack(ack) | Content::Fin(ack) => ack.bytes(),
            Content::Datagram(payload) => payload + UDP_HEADER_BYTES,
            Content::Report(report) => {
                PEP_BYTES + REPORTED_FLOW_BYTES + u32::from(report.range_count) * REPORTED_RANGE_BYTES
            }
            Content::Probe(_) | Content::Echo(_) => PEP_BYTES + NONCE_BYTES,
        }
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u32 {
        if let Content::Data(data) = self.content { data.segments } else { 1 }
    }

    /// Returns whether the packet goes from the flow's sender to its receiver.
    pub fn towards_receiver(&self) -> bool {
        matches!(self.content, Content::Syn | Content::Empty | Content::Data(_) | Content::Datagram(_))
    }
}
