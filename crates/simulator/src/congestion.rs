//! What the simulated TCP sender shows its congestion control, and which hooks it calls.

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
    /// The window is being reduced for another reason than loss.
    Cwr,
    /// Lost segments are being sent again.
    Recovery,
    /// A retransmission timeout.
    Loss,
}

/// `enum tcp_ca_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CaEvent {
    /// The first segment after silence.
    TxStart,
    /// The window is restarted after an idle time.
    CwndRestart,
    /// A reduction is complete.
    CompleteCwr,
    /// A timeout.
    Loss,
    /// An ECT packet without a mark.
    EcnNoCe,
    /// A marked packet.
    EcnIsCe,
}

/// ssthresh before the first loss.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A connection as a congestion control sees it; names and units are those of `struct tcp_sock`.
#[derive(Clone, Debug, Default)]
pub struct Sock {
    /// Time since the start of the simulation.
    pub now_ns: u64,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Credit towards the next segment of it.
    pub snd_cwnd_cnt: u32,
    /// Slow start threshold, segments.
    pub snd_ssthresh: u32,
    /// The window at the start of the reduction, segments.
    pub prior_cwnd: u32,
    /// Bound on the window, segments.
    pub snd_cwnd_clamp: u32,
    /// 8 x smoothed RTT; 0: none yet.
    pub srtt_us: u32,
    /// Windowed least RTT.
    pub min_rtt_us: u32,
    /// Segment size, bytes.
    pub mss: u32,
    /// Segments delivered.
    pub delivered: u32,
    /// When `delivered` was last counted.
    pub delivered_ns: u64,
    /// 0, or the value of `delivered` at which the application limitation ends.
    pub app_limited: u32,
    /// Segments sent and not acknowledged in order.
    pub packets_out: u32,
    /// Of them, those that SACK covers.
    pub sacked_out: u32,
    /// Of them, those that are taken for lost.
    pub lost_out: u32,
    /// Of them, those that were sent again.
    pub retrans_out: u32,
    /// Segments ever taken for lost.
    pub lost: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Segments sent again so far.
    pub total_retrans: u32,
    /// Most segments in flight over the last round.
    pub max_packets_out: u32,
    /// Whether the window held the sender back.
    pub is_cwnd_limited: bool,
    /// State of congestion avoidance.
    pub ca_state: CaState,
    /// First sequence number that is not acknowledged, as the 32 bits on the wire.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// Bytes acknowledged in order.
    pub bytes_acked: u64,
    /// Pacing rate, bytes/s.
    pub pacing_rate: u64,
    /// When pacing lets the next segment leave (`tcp_wstamp_ns`); not after `now_ns`: at once.
    pub wstamp_ns: u64,
    /// When data was last sent (`lsndtime`).
    pub lsnd_ns: u64,
    /// Whether the congestion control asks for pacing.
    pub needs_pacing: bool,
    /// Bundle of segments that pacing aims at; 0: not computed yet.
    pub tso_segs_goal: u32,
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
    /// Start of the interval that the sample is of.
    pub prior_ns: u64,
    /// `delivered` at its start.
    pub prior_delivered: u32,
    /// Segments delivered over it; negative: no sample.
    pub delivered: i32,
    /// Its length; not above 0: no sample.
    pub interval_us: i64,
    /// RTT of the last segment that this ACK acknowledged; negative: none.
    pub rtt_us: i64,
    /// Segments newly taken for lost.
    pub losses: u32,
    /// Segments newly acknowledged or covered by SACK.
    pub acked_sacked: u32,
    /// Segments in flight before the ACK.
    pub prior_in_flight: u32,
    /// Whether the application had too little to send at its start.
    pub is_app_limited: bool,
    /// Whether the sample is of a segment sent again.
    pub is_retrans: bool,
    /// Whether the receiver probably delayed the ACK (`FLAG_ACK_MAYBE_DELAYED`).
    pub is_ack_delayed: bool,
}

/// A congestion control: the hooks of `struct tcp_congestion_ops`, which the sender calls in the kernel's order.
pub trait CongestionControl {
    /// The connection is set up.
    fn init(&mut self, sock: &mut Sock);
    /// ssthresh at the start of a reduction.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32;
    /// The window may grow for `acked` segments.
    fn cong_avoid(&mut self, _sock: &mut Sock, _acked: u32) {}
    /// The window after a reduction that proved spurious.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32;
    /// The state is about to change.
    fn set_state(&mut self, _sock: &mut Sock, _state: CaState) {}
    /// Something happened.
    fn cwnd_event(&mut self, _sock: &mut Sock, _event: CaEvent) {}
    /// An ACK acknowledged `acked` segments, with an RTT sample or none.
    fn pkts_acked(&mut self, _sock: &mut Sock, _acked: u32, _rtt_us: Option<u32>, _in_flight: u32) {}
    /// Takes over from PRR and `cong_avoid` whole, if it is of that kind; `false`: it is not.
    fn cong_control(&mut self, _sock: &mut Sock, _sample: &RateSample) -> bool {
        false
    }
    /// `min_tso_segs`, if it has one.
    fn min_tso_segs(&self, _sock: &Sock) -> Option<u32> {
        None
    }
    /// Whether it has `cong_control`: PRR, the restart after idle times and the pacing rate are its own then.
    fn has_cong_control(&self) -> bool {
        false
    }
    /// `sndbuf_expand`: how many windows the send buffer holds.
    fn sndbuf_expand(&self) -> u32 {
        2
    }
    /// Sets a tunable; `false`: it has none of that name.
    fn set_tunable(&mut self, _name: &str, _value: u32) -> bool {
        false
    }
    /// A tunable's value.
    fn tunable(&self, _name: &str) -> Option<u32> {
        None
    }
    /// The radio map has an entry for the peer's link, and its latest reading or none yet.
    fn set_radio(&mut self, _reading: Option<&PlannedReading>, _max_age_ms: u32) {}
    /// The path map has a new generation for the peer.
    fn change_path(&mut self) {}
    /// Name of the field of its state at that offset.
    fn field_at(&self, _offset: u32) -> Option<String> {
        None
    }
    /// A field of its state by name, for a scenario that watches one.
    fn detail(&self, _name: &str) -> u32 {
        0
    }
}
