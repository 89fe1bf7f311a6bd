//! The interface between the simulated TCP sender and its congestion control: the state that the sender shows, and the
//! hooks that it calls.

use hotcc_abi::pep::PepFlow;
use hotcc_lab_proto::plan::PlannedReading;

/// `enum tcp_ca_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum CaState {
    /// Nothing unusual.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs were seen.
    Disorder,
    /// The window is being reduced for a reason other than loss.
    Cwr,
    /// Lost segments are being retransmitted.
    Recovery,
    /// A retransmission timeout has expired.
    Loss,
}

/// `enum tcp_ca_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CaEvent {
    /// The first segment is sent after silence.
    TxStart,
    /// The window restarts after an idle time.
    CwndRestart,
    /// A reduction of the window is complete.
    CompleteCwr,
    /// A retransmission timeout has expired.
    Loss,
    /// An ECT packet without a mark has arrived.
    EcnNoCe,
    /// A marked packet has arrived.
    EcnIsCe,
}

/// ssthresh before the first loss.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Maximum number of SACK blocks beside the timestamp option (RFC 2018, section 3).
pub const SACK_BLOCKS: usize = 3;

/// A connection as its congestion control sees it. Names and units are those of `struct tcp_sock`.
#[derive(Clone, Debug, Default)]
pub struct Sock {
    /// Time since the start of the simulation.
    pub now_ns: u64,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Credit towards the window's next segment.
    pub snd_cwnd_cnt: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// The window at the start of the reduction, segments.
    pub prior_cwnd: u32,
    /// Bound on the window, segments.
    pub snd_cwnd_clamp: u32,
    /// Smoothed RTT, times 8; 0 until it is known.
    pub srtt_us: u32,
    /// Minimum RTT over a time window.
    pub min_rtt_us: u32,
    /// Segment size, bytes.
    pub mss: u32,
    /// Segments delivered.
    pub delivered: u32,
    /// Time at which `delivered` was last updated.
    pub delivered_ns: u64,
    /// 0, or the value of `delivered` at which the application limitation ends.
    pub app_limited: u32,
    /// Segments sent and not acknowledged in order.
    pub packets_out: u32,
    /// Segments of `packets_out` that SACK covers.
    pub sacked_out: u32,
    /// Segments of `packets_out` that are considered lost.
    pub lost_out: u32,
    /// Segments of `packets_out` that were retransmitted.
    pub retrans_out: u32,
    /// Segments that were ever considered lost.
    pub lost: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Retransmissions so far.
    pub total_retrans: u32,
    /// Maximum number of segments in flight over the last round.
    pub max_packets_out: u32,
    /// Whether the window limited the sender.
    pub is_cwnd_limited: bool,
    /// State of congestion avoidance.
    pub ca_state: CaState,
    /// First sequence number that is not acknowledged, in 32 bits as in the packet.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// Timestamp of the ACK, of the receiver's clock, ms.
    pub rcv_tsval: u32,
    /// SACK blocks of the last ACK that had any, ascending, without a DSACK (`recv_sack_cache`); unused ones are 0..0.
    pub sack: [(u32, u32); SACK_BLOCKS],
    /// Segments of the last rate sample that the application did not limit, or of a higher one since then.
    pub rate_delivered: u32,
    /// Length of that sample's interval.
    pub rate_interval_us: u32,
    /// Bytes acknowledged in order.
    pub bytes_acked: u64,
    /// Pacing rate, bytes/s.
    pub pacing_rate: u64,
    /// Time at which pacing lets the next segment leave (`tcp_wstamp_ns`). If it is not after `now_ns`, the segment may
    /// leave at once.
    pub wstamp_ns: u64,
    /// Time at which data was last sent (`lsndtime`).
    pub lsnd_ns: u64,
    /// Whether TCP paces (`sk_pacing_status`): the scenario or the congestion control asks for it.
    pub needs_pacing: bool,
}

impl Sock {
    /// `tcp_packets_in_flight`.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.packets_out - self.sacked_out - self.lost_out + self.retrans_out
    }

    /// `tcp_in_slow_start`.
    #[must_use]
    pub fn in_slow_start(&self) -> bool {
        self.snd_cwnd < self.snd_ssthresh
    }

    /// `tcp_is_cwnd_limited`.
    #[must_use]
    pub fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited || self.in_slow_start() && self.snd_cwnd < 2 * self.max_packets_out
    }
}

/// `struct rate_sample`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Start of the sample's interval.
    pub prior_ns: u64,
    /// `delivered` at the start of the interval.
    pub prior_delivered: u32,
    /// Segments delivered during the interval; negative if there is no sample.
    pub delivered: i32,
    /// Length of the interval; 0 or negative if there is no sample.
    pub interval_us: i64,
    /// RTT of the last segment that this ACK acknowledged; negative if there is none.
    pub rtt_us: i64,
    /// Segments that are newly considered lost.
    pub losses: u32,
    /// Segments newly acknowledged or covered by SACK.
    pub acked_sacked: u32,
    /// Segments in flight before the ACK.
    pub prior_in_flight: u32,
    /// Whether the application had too little to send at the start of the interval.
    pub is_app_limited: bool,
    /// Whether the sample is that of a retransmitted segment.
    pub is_retrans: bool,
    /// Whether the receiver probably delayed the ACK (`FLAG_ACK_MAYBE_DELAYED`).
    pub is_ack_delayed: bool,
}

/// A congestion control: the hooks of `struct tcp_congestion_ops`, which the sender calls in the same order as the
/// kernel.
pub trait CongestionControl {
    /// Initialises the state when the connection is established.
    fn init(&mut self, sock: &mut Sock);
    /// Returns ssthresh at the start of a reduction.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32;
    /// Lets the window grow for `acked` acknowledged segments.
    fn cong_avoid(&mut self, _sock: &mut Sock, _acked: u32) {}
    /// Returns the window after a reduction that proved spurious.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32;
    /// Notes that the state is about to change to `state`.
    fn set_state(&mut self, _sock: &mut Sock, _state: CaState) {}
    /// Notes an event.
    fn cwnd_event(&mut self, _sock: &mut Sock, _event: CaEvent) {}
    /// Takes an ACK that acknowledged `acked` segments, with its RTT sample if there is one.
    fn pkts_acked(&mut self, _sock: &mut Sock, _acked: u32, _rtt_us: Option<u32>) {}
    /// Handles an ACK completely, in place of PRR and `cong_avoid`. Returns `false` if the congestion control does not
    /// have this hook.
    fn cong_control(&mut self, _sock: &mut Sock, _sample: &RateSample) -> bool {
        false
    }
    /// Returns `min_tso_segs`, if the congestion control has this hook.
    fn min_tso_segs(&self, _sock: &Sock) -> Option<u32> {
        None
    }
    /// Returns whether the congestion control has `cong_control`. It then does itself what PRR, the restart after idle
    /// times and the kernel's pacing rate would do.
    fn has_cong_control(&self) -> bool {
        false
    }
    /// Returns the number of windows that the send buffer holds (`sndbuf_expand`).
    fn sndbuf_expand(&self) -> u32 {
        2
    }
    /// Sets a tunable. Returns `false` if there is none of that name.
    fn set_tunable(&mut self, _name: &str, _value: u32) -> bool {
        false
    }
    /// Returns a tunable's value.
    fn tunable(&self, _name: &str) -> Option<u32> {
        None
    }
    /// Gives the peer's link an entry in the radio map, with its latest reading if there is one.
    fn set_radio(&mut self, _reading: Option<&PlannedReading>, _max_age_ms: u32) {}
    /// Sets what a PEP's border saw of the flow; `None` removes the record. Its time is that of the simulation.
    fn set_pep(&mut self, _record: Option<&PepFlow>) {}
    /// Gives the peer a new generation in the path map.
    fn change_path(&mut self) {}
    /// Returns the name of the field at an offset in the congestion control's state.
    fn field_at(&self, _offset: u32) -> Option<String> {
        None
    }
    /// Returns a field of the congestion control's state by its name, for a scenario that watches one.
    fn detail(&self, _name: &str) -> u32 {
        0
    }
}
