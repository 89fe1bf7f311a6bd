//! The state of a sender and of its parts. The functions that use it are in the files beside this one, which import this one
//! and not each other's state.

use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use crate::congestion::{CongestionControl, Sock};
use crate::packet::Content;
use hotcc_lab_proto::plan::Pace;
use hotcc_lab_proto::records::AckRecord;

/// `tcp_reordering`.
pub(super) const REORDERING: u32 = 3;

/// How a connection is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// The flow's place in the plan.
    pub flow: u16,
    /// Segment size.
    pub mss: u32,
    /// Most segments in a bundle.
    pub offload_segments: u32,
    /// Whether TCP paces whatever the congestion control asks for.
    pub paced: bool,
    /// Whether ECN is in use.
    pub ecn: bool,
}

/// A sender.
pub(crate) struct Sender {
    pub(super) config: Config,
    pub(super) sock: Sock,
    pub(super) cc: Box<dyn CongestionControl>,
    pub(super) board: Scoreboard,
    pub(super) rack: Rack,
    pub(super) rtt: Rtt,
    pub(super) recovery: Recovery,
    pub(super) timers: Timers,
    pub(super) sample: Sample,
    pub(super) application: Application,
    /// First byte that is not acknowledged (`snd_una`).
    pub(super) una: u64,
    /// Next byte to send (`snd_nxt`).
    pub(super) next: u64,
    /// The byte behind the last one that the application wrote (`write_seq`).
    pub(super) written: u64,
    /// The byte behind the receiver's window.
    pub(super) window_end: u64,
    /// The byte behind the last small segment (`snd_sml`).
    pub(super) small_end: u64,
    pub(super) echo_ms: Option<u32>,
    pub(super) first_sent_ns: u64,
    pub(super) usage_end: u64,
    pub(super) cwnd_used: u32,
    pub(super) cwnd_stamp_ns: u64,
    pub(super) duplicates: u32,
    pub(super) must_send_cwr: bool,
    pub(super) is_connected: bool,
    pub(super) watched: Option<String>,
    /// To be sent, in order.
    pub out: Vec<Content>,
    /// Records of ACKs and retransmissions.
    pub records: Vec<AckRecord>,
}

/// What an ACK brought (the kernel's `FLAG_*`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub una_advanced: bool,
    pub data_acked: bool,
    pub data_sacked: bool,
    /// Data below `high` that was never sent again.
    pub original_delivered: bool,
    pub ece: bool,
    pub dsack: bool,
    pub dsack_of_probe: bool,
    pub lost_retransmission: bool,
    pub set_timer: bool,
    pub maybe_delayed: bool,
}

/// What recovery wants sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Send {
    Nothing,
    /// What is marked lost.
    Lost,
    /// New data, for F-RTO.
    New,
}

/// An application.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub bytes: u64,
    pub pace: Option<Pace>,
    /// Next write.
    pub next_ns: u64,
    /// It waits for room in the send buffer.
    pub is_blocked: bool,
}

/// Of the segment sent last among those delivered.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    pub sent_ns: u64,
    pub end: u64,
    pub rtt_us: u32,
    pub advanced: bool,
    pub window_steps: u8,
    pub window_persists: u8,
    pub dsack_seen: bool,
    pub last_delivered: u32,
    /// Times that reordering was seen.
    pub reorderings: u32,
    /// Segments by which order may differ (`reordering`).
    pub reordering: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_ns: 0,
            end: 0,
            rtt_us: 0,
            advanced: false,
            window_steps: 1,
            window_persists: 0,
            dsack_seen: false,
            last_delivered: 0,
            reorderings: 0,
            reordering: REORDERING,
        }
    }
}

/// Of the present or the last episode.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// The byte that ends it (`high_seq`).
    pub high: u64,
    /// `undo_marker`: where it began, as long as it can be undone.
    pub undo_marker: Option<u64>,
    /// Retransmissions that no DSACK has reported; `None`: none were sent yet (`undo_retrans` of -1).
    pub undo_retrans: Option<u32>,
    /// Time stamp of the first retransmission, ms (`retrans_stamp`).
    pub stamp_ms: Option<u32>,
    /// ssthresh before it; 0: cannot be restored.
    pub prior_ssthresh: u32,
    /// PRR: segments delivered and sent since it began.
    pub delivered: u32,
    pub sent: u32,
    /// Whether the timeout may be spurious (F-RTO).
    pub frto: bool,
}

/// What the one timer is set for (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Retransmission,
    Probe,
    Reordering,
}

/// Timers and what they count.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    pub pending: Option<(Pending, u64)>,
    /// When pacing lets the next segment go, if something waits for it.
    pub pacing_ns: Option<u64>,
    /// Doublings of the timeout.
    pub backoff: u32,
    /// Timeouts in a row (`icsk_retransmits`).
    pub retransmits: u32,
    /// All timeouts.
    pub timeouts: u64,
    /// The byte behind the loss probe, while one is out (`tlp_high_seq`).
    pub probe_end: Option<u64>,
    /// Whether it repeated data (`tlp_retrans`).
    pub probe_was_retransmission: bool,
}

/// A sample while its ACK is processed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// As in [`crate::congestion::RateSample`].
    pub prior_ns: Option<u64>,
    pub prior_delivered: u32,
    pub is_app_limited: bool,
    pub is_retrans: bool,
    pub last_end: u64,
    pub sent_interval_us: u64,
    /// RTT of the last segment that the ACK delivered (`ca_rtt_us`).
    pub rtt_us: Option<u32>,
    pub prior_in_flight: u32,
    pub is_ack_delayed: bool,
}
