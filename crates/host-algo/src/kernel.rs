//! The part of the kernel that an algorithm sees: states, events, a connection's fields, delivery rate samples.

/// The states of congestion control (`enum tcp_ca_state`).
pub mod ca_state {
    /// `TCP_CA_Open`.
    pub const OPEN: u8 = 0;
    /// `TCP_CA_Disorder`: the highest state in which W is free to grow.
    pub const DISORDER: u8 = 1;
    /// `TCP_CA_CWR`.
    pub const CWR: u8 = 2;
    /// `TCP_CA_Recovery`.
    pub const RECOVERY: u8 = 3;
    /// `TCP_CA_Loss`.
    pub const LOSS: u8 = 4;
}

/// `CA_EVENT_TX_START`: first transmission when nothing was in flight.
pub const EVENT_TX_START: u32 = 0;
/// `CA_EVENT_CWND_RESTART`: congestion window restart.
pub const EVENT_CWND_RESTART: u32 = 1;
/// `CA_EVENT_COMPLETE_CWR`: end of a recovery or reduction.
pub const EVENT_COMPLETE_CWR: u32 = 2;
/// `CA_EVENT_LOSS`: retransmission timeout.
pub const EVENT_LOSS: u32 = 3;

/// `TCP_INFINITE_SSTHRESH`: ssthresh of a new connection.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// The part of the kernel's state that an algorithm sees: `struct host_view` of `host/harness.c`, with the field names
/// of `tcp_sock`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// `tcp_mstamp`, microseconds.
    pub now_us: u64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Pacing rate, bytes/s.
    pub pacing_rate: u64,
    /// The application's limit for it (SO_MAX_PACING_RATE), bytes/s; 0: none.
    pub max_pacing_rate: u64,
    /// Window W, segments.
    pub snd_cwnd: u32,
    /// Segments counted towards the next increase by `tcp_cong_avoid_ai`.
    pub snd_cwnd_cnt: u32,
    /// Upper limit of W, segments.
    pub snd_cwnd_clamp: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// W at the start of the recovery, segments.
    pub prior_cwnd: u32,
    /// 8 x smoothed RTT, microseconds.
    pub srtt_us: u32,
    /// The kernel's windowed minimum RTT, microseconds.
    pub min_rtt_us: u32,
    /// Segment size, bytes.
    pub mss: u32,
    /// Segments delivered, modulo 2^32.
    pub delivered: u32,
    /// 0, or the value of `delivered` at which the application limitation ends.
    pub app_limited: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Segments retransmitted.
    pub total_retrans: u32,
    /// Most segments in flight over the last round.
    pub max_packets_out: u32,
    /// `enum tcp_ca_state`.
    pub ca_state: u32,
    /// Whether W held the sender back.
    pub is_cwnd_limited: u32,
    /// First sequence number not acknowledged.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// Segments ever marked as lost.
    pub lost: u32,
    /// Segments of the last delivery rate sample.
    pub rate_delivered: u32,
    /// Time of the last delivery rate sample, microseconds.
    pub rate_interval_us: u32,
    /// Segments sent and not acknowledged in order.
    pub packets_out: u32,
    /// Those of `packets_out` that SACK covers.
    pub sacked_out: u32,
    /// Those of `packets_out` that are considered lost.
    pub lost_out: u32,
    /// Those of `packets_out` that were retransmitted.
    pub retrans_out: u32,
    /// Whether the peer sends SACK blocks: not 0.
    pub sack_ok: u32,
    /// Timestamp of the ACK, of the receiver's clock; 0: none.
    pub rcv_tsval: u32,
}

impl View {
    /// `tcp_in_slow_start`.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// Whether neither a reduction nor a timeout is in progress, so that W is free to grow.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        self.ca_state <= u32::from(ca_state::DISORDER)
    }

    /// Whether the loss state that begins is that of a timeout: W is a segment more than is in flight.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        let out = self.packets_out.wrapping_sub(self.sacked_out).wrapping_sub(self.lost_out);
        self.snd_cwnd == out.wrapping_add(self.retrans_out).wrapping_add(1)
    }

    /// `tcp_is_cwnd_limited`: W may grow only if it held the sender back.
    #[must_use]
    pub fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited != 0
            || self.in_slow_start() && u64::from(self.snd_cwnd) < 2 * u64::from(self.max_packets_out)
    }
}

/// `struct rate_sample`, as in `hotcc/kernel.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Start of the sample's interval, microseconds.
    pub prior_mstamp: u64,
    /// `delivered` at the interval's start.
    pub prior_delivered: u32,
    /// Segments delivered over the interval; negative: no sample.
    pub delivered: i32,
    /// Length of the interval, microseconds; negative: no sample.
    pub interval_us: i64,
    /// RTT of the last segment that this ACK acknowledged; negative: none.
    pub rtt_us: i64,
    /// Segments that this ACK showed to be lost.
    pub losses: i32,
    /// Segments newly acknowledged or covered by SACK.
    pub acked_sacked: u32,
    /// Whether the application had too little to send at the interval's start.
    pub is_app_limited: bool,
    /// Whether the sample is from a retransmitted segment.
    pub is_retrans: bool,
}
