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
}

/// A packet in transit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    /// Index of the flow.
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
        }
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> u32 {
        if let Content::Data(data) = self.content { data.segments } else { 1 }
    }

    /// Returns whether the packet goes from the flow's sender to its receiver.
    pub fn towards_receiver(&self) -> bool {
        !matches!(self.content, Content::SynAck | Content::Ack(_) | Content::Fin(_))
    }
}
