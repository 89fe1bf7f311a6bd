//! The records that the lab's programs write, with the same layout as in `bpf/lab/records.h` and `bpf/lab/link.h`.

use bytemuck::{Pod, Zeroable};

/// `flow` of a packet that belongs to no flow.
pub const NO_FLOW: u16 = 0xffff;
/// `fate` of a packet that left the link.
pub const SENT: u8 = 0;
/// `fate` of a packet that found the queue full.
pub const QUEUE_DROP: u8 = 1;
/// `fate` of a packet that was lost after the queue.
pub const LOST: u8 = 2;
/// `fate` of a packet that found too few tokens in the policer's bucket.
pub const POLICED: u8 = 3;
/// Length of the bins in which idle time is counted.
pub const IDLE_BIN_NS: u64 = 100_000_000;

/// A packet that arrived at a link.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct PacketRecord {
    /// Time of arrival since the start.
    pub time_ns: u64,
    /// Time that the packet waited for the packets ahead of it.
    pub wait_ns: u64,
    /// Bytes in the queue when the packet arrived.
    pub queue_bytes: u32,
    /// Length of the IP packet.
    pub bytes: u32,
    /// Flow, or [`NO_FLOW`].
    pub flow: u16,
    /// Link.
    pub link: u16,
    /// Number of packets, if this is a bundle that is not segmented yet; otherwise 1.
    pub segments: u16,
    /// Four bits: the fate. Two bits: whether the packet was marked. Two bits: whether it went towards the flow's
    /// receiver.
    bits: u8,
    pad: u8,
}

impl PacketRecord {
    /// Returns a record with this fate; all other fields are zero.
    #[must_use]
    pub fn with(fate: u8, marked: bool, towards_receiver: bool) -> Self {
        let bits = (fate & 15) | u8::from(marked) << 4 | u8::from(towards_receiver) << 6;
        Self { bits, ..Self::zeroed() }
    }

    /// Returns [`SENT`], [`QUEUE_DROP`], [`LOST`] or [`POLICED`].
    #[must_use]
    pub fn fate(&self) -> u8 {
        self.bits & 15
    }

    /// Returns whether the packet was marked on the link.
    #[must_use]
    pub fn marked(&self) -> bool {
        self.bits >> 4 & 3 != 0
    }

    /// Returns whether the packet carries the flow's data, rather than its ACKs.
    #[must_use]
    pub fn towards_receiver(&self) -> bool {
        self.bits >> 6 != 0
    }
}

/// The state of a sender's connection before it processes an ACK, or when it retransmits a segment.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct AckRecord {
    /// Time since the start.
    pub time_ns: u64,
    /// Bytes acknowledged in order.
    pub bytes_acked: u64,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow start threshold, in segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Segments retransmitted so far.
    pub retransmits: u32,
    /// Smoothed RTT.
    pub srtt_us: u32,
    /// RTT of the latest delivered segment; 0 before the first one.
    pub rtt_us: u32,
    /// Minimum RTT.
    pub min_rtt_us: u32,
    /// Watched field of the algorithm's state.
    pub detail: u32,
    /// Flow.
    pub flow: u16,
    /// Timeouts so far.
    pub timeouts: u16,
    /// Congestion avoidance state.
    pub ca_state: u8,
    /// 1 if a segment was retransmitted; 0 if an ACK arrived.
    pub is_retransmission: u8,
    /// Retransmission timeout; 65535: that or more.
    pub rto_ms: u16,
}

/// An interval with a constant rate.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct ServiceStep {
    /// Millibits served before this interval.
    pub before: u64,
    /// Rate during this interval.
    pub rate_bps: u64,
}

/// What follows the queue, from some time on. Probabilities are in units of 2^-32.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct Phase {
    /// Start of the phase.
    pub from_ns: u64,
    /// Delay.
    pub delay_ns: u64,
    /// Maximum of the additional random delay.
    pub jitter_ns: u64,
    /// Additional delay of a reordered packet.
    pub hold_ns: u64,
    /// Probability that a packet is lost.
    pub loss: u32,
    /// Probability that a packet is reordered.
    pub reorder: u32,
    /// Element `i`: probability that 2^i bytes arrive without a bit error.
    pub survival: [u32; 16],
    /// Whether there are bit errors.
    pub bit_errors: u32,
    /// Unused.
    pub pad: u32,
}

/// One direction of a link: its parameters, its state and its counts.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct LinkState {
    /// Seed of its random numbers.
    pub seed: u64,
    /// Length of a step.
    pub step_ns: u64,
    /// Capacity of the queue.
    pub queue_bytes: u64,
    /// Queue length above which packets are marked; 0 if never.
    pub mark_bytes: u64,
    /// Index of the link's first step.
    pub first_step: u32,
    /// Number of steps; 0 if the link has no rate.
    pub steps: u32,
    /// Index of the link's first phase.
    pub first_phase: u32,
    /// Number of phases.
    pub phases: u32,
    /// Whether the link keeps records of its packets.
    pub keeps_records: u32,
    /// Unused.
    pub pad: u32,
    /// Rate of the policer; 0 without a policer.
    pub police_bps: u64,
    /// Capacity of the policer's bucket, in tokens of a billionth of a bit.
    pub police_tokens: u64,
    /// Tokens in the bucket at `tokens_ns`.
    pub tokens: u64,
    /// Time of the latest update of `tokens`.
    pub tokens_ns: u64,
    /// Millibits of service that the accepted packets use up.
    pub position: u64,
    /// Time at which the last accepted packet leaves the queue.
    pub free_ns: u64,
    /// Time at which the last packet that keeps the order leaves the link.
    pub release_ns: u64,
    /// Index of the step in which `position` is.
    pub hint: u32,
    /// Index of the current phase.
    pub phase: u32,
    /// Packets that arrived.
    pub arrived: u64,
    /// Packets that left.
    pub packets: u64,
    /// Bytes that left.
    pub bytes: u64,
    /// Packets that the policer dropped.
    pub police_drops: u64,
    /// Packets that found the queue full and were dropped.
    pub queue_drops: u64,
    /// Packets lost.
    pub losses: u64,
    /// Packets marked.
    pub ce_marks: u64,
}

/// A flow, as user space describes it to the programs that watch connections, and the programs' state for it.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct FlowWatch {
    /// Offset of the watched field in the algorithm's state.
    pub detail_offset: u32,
    /// Size of the watched field; 0 without a watched field.
    pub detail_size: u32,
    /// Timeouts so far.
    pub timeouts: u16,
    /// Number of consecutive timeouts at the latest one.
    pub timeouts_in_a_row: u8,
    /// Unused.
    pub pad: u8,
    /// Inode number of the sender's network namespace.
    pub netns: u32,
    /// Bytes that were acknowledged at the latest timeout.
    pub acked: u64,
}

/// Returns 2^32 times a probability, limited to the largest u32.
#[must_use]
pub fn of_2_32(probability: f64) -> u32 {
    (probability * 4_294_967_296.0).round() as u32
}

/// Returns for each `i` the probability, in units of 2^-32, that 2^i bytes arrive without a bit error.
#[must_use]
pub fn survival(bit_error: f64) -> [u32; 16] {
    std::array::from_fn(|i| of_2_32((1.0 - bit_error).powf(8.0 * f64::from(1u32 << i))))
}
