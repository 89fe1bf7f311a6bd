//! The records that the lab's programs write, as `bpf/lab/records.h` and `bpf/lab/link.h` have them.

use bytemuck::{Pod, Zeroable};

/// Not of a flow.
pub const NO_FLOW: u16 = 0xffff;
/// `fate` of a packet that left the link.
pub const SENT: u8 = 0;
/// `fate` of one that found the queue full.
pub const QUEUE_DROP: u8 = 1;
/// `fate` of one that was lost after the queue.
pub const LOST: u8 = 2;
/// `fate` of one that found too few tokens in the policer's bucket.
pub const POLICED: u8 = 3;
/// Length of the bins in which idle time is counted.
pub const IDLE_BIN_NS: u64 = 100_000_000;

/// A packet that came to a link.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct PacketRecord {
    /// When, since the start.
    pub time_ns: u64,
    /// Wait for the packets before it.
    pub wait_ns: u64,
    /// What it found in the queue.
    pub queue_bytes: u32,
    /// Its length, of IP.
    pub bytes: u32,
    /// Flow, or [`NO_FLOW`].
    pub flow: u16,
    /// Link.
    pub link: u16,
    /// More than one: not cut into packets yet.
    pub segments: u16,
    /// Four bits of fate, two whether it was marked, two whether it went towards the flow's receiver.
    bits: u8,
    pad: u8,
}

impl PacketRecord {
    /// One of that fate; the rest is zero.
    #[must_use]
    pub fn with(fate: u8, marked: bool, towards_receiver: bool) -> Self {
        let bits = (fate & 15) | u8::from(marked) << 4 | u8::from(towards_receiver) << 6;
        Self { bits, ..Self::zeroed() }
    }

    /// [`SENT`], [`QUEUE_DROP`], [`LOST`] or [`POLICED`].
    #[must_use]
    pub fn fate(&self) -> u8 {
        self.bits & 15
    }

    /// Whether it was marked on the link.
    #[must_use]
    pub fn marked(&self) -> bool {
        self.bits >> 4 & 3 != 0
    }

    /// Whether it carries the flow's data, and not its ACKs.
    #[must_use]
    pub fn towards_receiver(&self) -> bool {
        self.bits >> 6 != 0
    }
}

/// A sender's connection before it looked at an ACK, or when it sent a segment again.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct AckRecord {
    /// When, since the start.
    pub time_ns: u64,
    /// Acknowledged in order.
    pub bytes_acked: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow start threshold, segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Segments sent again so far.
    pub retransmits: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// RTT of the latest segment that was delivered; 0: none yet.
    pub rtt_us: u32,
    /// Least RTT.
    pub min_rtt_us: u32,
    /// Watched field of the algorithm's state.
    pub detail: u32,
    /// Flow.
    pub flow: u16,
    /// Timeouts so far.
    pub timeouts: u16,
    /// Congestion avoidance state.
    pub ca_state: u8,
    /// 1: a segment was sent again; 0: an ACK came.
    pub is_retransmission: u8,
    pad: u16,
}

/// A stretch of time with one rate.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ServiceStep {
    /// Millibits served before it.
    pub before: u64,
    /// Rate in it.
    pub rate_bps: u64,
}

/// What follows the queue from a moment on; probabilities are of 2^32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Phase {
    /// From when.
    pub from_ns: u64,
    /// Delay.
    pub delay_ns: u64,
    /// Up to this much more.
    pub jitter_ns: u64,
    /// How much later a reordered packet comes.
    pub hold_ns: u64,
    /// Packets lost.
    pub loss: u32,
    /// Packets reordered.
    pub reorder: u32,
    /// `[i]`: 2^i bytes arrive without a bit error.
    pub survival: [u32; 16],
    /// Whether there are bit errors.
    pub bit_errors: u32,
    /// Unused.
    pub pad: u32,
}

/// A direction of a link: what it is, where it stands, what happened on it.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct LinkState {
    /// Seed of its random numbers.
    pub seed: u64,
    /// Length of its steps.
    pub step_ns: u64,
    /// Room in its queue.
    pub queue_bytes: u64,
    /// Queue from which packets are marked; 0: never.
    pub mark_bytes: u64,
    /// Its first step.
    pub first_step: u32,
    /// How many; 0: no rate.
    pub steps: u32,
    /// Its first phase.
    pub first_phase: u32,
    /// How many.
    pub phases: u32,
    /// Whether packets are written down.
    pub keeps_records: u32,
    /// Unused.
    pub pad: u32,
    /// Rate of its policer; 0: none.
    pub police_bps: u64,
    /// Tokens, billionths of a bit, that the policer's bucket holds.
    pub police_tokens: u64,
    /// Tokens that are in it.
    pub tokens: u64,
    /// When there were so many.
    pub tokens_ns: u64,
    /// Millibits of service used up.
    pub position: u64,
    /// When the last accepted packet has left the queue.
    pub free_ns: u64,
    /// When it is let go.
    pub release_ns: u64,
    /// Step of `position`.
    pub hint: u32,
    /// Present phase.
    pub phase: u32,
    /// Packets that came.
    pub arrived: u64,
    /// Packets that left.
    pub packets: u64,
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that the policer dropped.
    pub police_drops: u64,
    /// Packets that found the queue full.
    pub queue_drops: u64,
    /// Packets lost.
    pub losses: u64,
    /// Packets marked.
    pub ce_marks: u64,
}

/// What userspace tells of a flow.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct FlowWatch {
    /// Where the watched field is in the algorithm's state.
    pub detail_offset: u32,
    /// Its size; 0: none.
    pub detail_size: u32,
    /// Timeouts.
    pub timeouts: u16,
    /// Those in a row.
    pub timeouts_in_a_row: u8,
    /// Unused.
    pub pad: u8,
    /// Inode number of its sender's network namespace.
    pub netns: u32,
}

/// 2^32 times a probability, at most the largest u32.
#[must_use]
pub fn of_2_32(probability: f64) -> u32 {
    (probability * 4_294_967_296.0).round() as u32
}

/// For 2^i bytes: the probability, of 2^32, that no bit of them is wrong.
#[must_use]
pub fn survival(bit_error: f64) -> [u32; 16] {
    std::array::from_fn(|i| of_2_32((1.0 - bit_error).powf(8.0 * f64::from(1u32 << i))))
}
