//! What travels over the simulated links.

/// Bytes of IP and TCP headers with the time stamp option: 20 + 20 + 12.
pub(crate) const HEADER_BYTES: u32 = 52;
/// Bytes of IP and TCP headers of a SYN with its options: segment size, SACK, time stamps, window scale.
pub(crate) const SYN_BYTES: u32 = 60;
/// Bytes of IP and UDP headers.
pub(crate) const UDP_HEADER_BYTES: u32 = 28;
/// Bytes of the SACK option beside its blocks, with padding.
const SACK_OPTION_BYTES: u32 = 4;
const SACK_BLOCK_BYTES: u32 = 8;
/// Blocks that have room beside time stamps (RFC 2018, section 3).
pub(crate) const SACK_BLOCKS: usize = 3;

/// A range of bytes: from the first to behind the last.
pub(crate) type Range = (u64, u64);

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ack {
    /// Next byte expected.
    pub cumulative: u64,
    /// Blocks of the SACK option, the newest first; the first `blocks` are in use.
    pub sack: [Range; SACK_BLOCKS],
    /// Blocks in use.
    pub blocks: u8,
    /// Whether the first block reports a duplicate (RFC 2883).
    pub is_dsack: bool,
    /// The time stamp that is echoed, ms.
    pub echo_ms: u32,
    /// Receive window: the byte behind the last one that may be sent.
    pub window_end: u64,
    /// ECN echo.
    pub ece: bool,
}

impl Ack {
    /// Length as an IP packet.
    pub fn bytes(&self) -> u32 {
        let sack = if self.blocks == 0 { 0 } else { SACK_OPTION_BYTES + u32::from(self.blocks) * SACK_BLOCK_BYTES };
        HEADER_BYTES + sack
    }
}

/// A bundle of data segments, mostly a single one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Data {
    /// First byte.
    pub seq: u64,
    /// Bytes.
    pub len: u32,
    /// Segments.
    pub segments: u32,
    /// Time stamp, ms.
    pub stamp_ms: u32,
    /// PSH: the end of a write.
    pub push: bool,
    /// The sender has reduced its window after an ECN echo.
    pub cwr: bool,
}

/// Content of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content {
    /// The sender opens the connection.
    Syn,
    /// The receiver answers.
    SynAck,
    /// The sender's part of the connection without data.
    Empty,
    /// Data of TCP.
    Data(Data),
    /// The receiver's acknowledgement.
    Ack(Ack),
    /// The receiver closes; an acknowledgement as well.
    Fin(Ack),
    /// A datagram of UDP with so many bytes of payload.
    Datagram(u32),
}

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    /// Flow.
    pub flow: u16,
    /// Whether it may be marked (ECT).
    pub ect: bool,
    /// Whether it is marked.
    pub ce: bool,
    /// What it is.
    pub content: Content,
}

impl Packet {
    /// Length of IP, of all segments.
    pub fn bytes(&self) -> u32 {
        match self.content {
            Content::Syn | Content::SynAck => SYN_BYTES,
            Content::Empty => HEADER_BYTES,
            Content::Data(data) => data.len + data.segments * HEADER_BYTES,
            Content::Ack(ack) | Content::Fin(ack) => ack.bytes(),
            Content::Datagram(payload) => payload + UDP_HEADER_BYTES,
        }
    }

    /// Segments in it.
    pub fn segments(&self) -> u32 {
        if let Content::Data(data) = self.content { data.segments } else { 1 }
    }

    /// Whether it goes from the flow's sender to its receiver.
    pub fn towards_receiver(&self) -> bool {
        !matches!(self.content, Content::SynAck | Content::Ack(_) | Content::Fin(_))
    }
}
