//! The state of a sender and of its parts. The functions that use it are in the other files of this directory; they
//! import this file, and not each other's state.

use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use crate::congestion::{CongestionControl, Sock};
use crate::packet::Content;
use hotcc_lab_proto::plan::Pace;
use hotcc_lab_proto::records::AckRecord;

/// `tcp_reordering`.
pub(super) const REORDERING: u32 = 3;

/// The configuration of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    /// Index of the flow in the plan.
    pub flow: u16,
    /// Segment size.
    pub mss: u32,
    /// Maximum number of segments in a bundle.
    pub offload_segments: u32,
    /// Whether TCP paces even if the congestion control does not request it.
    pub paced: bool,
    /// Whether ECN is in use.
    pub ecn: bool,
    /// Window in the receiver's SYN-ACK.
    pub window_bytes: u64,
}

/// What the server's agent of a PEP reads of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// First byte that is not acknowledged.
    pub una: u64,
    /// Next byte to send.
    pub next: u64,
    /// Whether the agent may clock the connection if the border saw bytes in flight (`may_clock`).
    pub may_be_clocked: bool,
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
    /// The byte after the last one that the application wrote (`write_seq`).
    pub(super) written: u64,
    /// The byte after the receiver's window.
    pub(super) window_end: u64,
    /// Segments that were acknowledged with ECE (`delivered_ce`).
    pub(super) delivered_ece: u64,
    /// The byte after the last small segment (`snd_sml`).
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
    /// Packets to send, in order.
    pub out: Vec<Content>,
    /// Records of ACKs and retransmissions.
    pub records: Vec<AckRecord>,
}

/// What an ACK reported (the kernel's `FLAG_*`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub una_advanced: bool,
    pub data_acked: bool,
    pub data_sacked: bool,
    /// Whether it delivered data below `high` that were never retransmitted.
    pub original_delivered: bool,
    pub ece: bool,
    pub dsack: bool,
    pub dsack_of_probe: bool,
    pub lost_retransmission: bool,
    pub set_timer: bool,
    pub maybe_delayed: bool,
}

/// What recovery wants to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Send {
    Nothing,
    /// Segments that are marked lost.
    Lost,
    /// New data, for F-RTO.
    New,
}

/// The application of a flow.
#[derive(Clone, Debug)]
pub(super) struct Application {
    pub bytes: u64,
    pub pace: Option<Pace>,
    /// Time of the next write.
    pub next_ns: u64,
    /// Whether the application waits for room in the send buffer.
    pub is_blocked: bool,
}

/// The state of RACK. The times and the sequence number are those of the delivered segment that was sent last.
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
    /// Number of times that reordering was seen.
    pub reorderings: u32,
    /// Number of segments by which the order may differ (`reordering`).
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

/// The state of the current or the last recovery episode.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    /// The byte that ends the episode (`high_seq`).
    pub high: u64,
    /// `undo_marker`: where the episode began, while it can be undone.
    pub undo_marker: Option<u64>,
    /// Number of retransmissions that no DSACK has reported; `None` before the first retransmission (`undo_retrans` of
    /// -1).
    pub undo_retrans: Option<u32>,
    /// Timestamp of the first retransmission, in ms (`retrans_stamp`).
    pub stamp_ms: Option<u32>,
    /// ssthresh before the episode; 0 if it cannot be restored.
    pub prior_ssthresh: u32,
    /// PRR: segments delivered and sent since the episode began.
    pub delivered: u32,
    pub sent: u32,
    /// Whether the timeout may be spurious (F-RTO).
    pub frto: bool,
}

/// The purpose of the single timer (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    Retransmission,
    Probe,
    Reordering,
}

/// The timers and their counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers {
    pub pending: Option<(Pending, u64)>,
    /// Time at which pacing lets the next segment leave, if a segment waits for it.
    pub pacing_ns: Option<u64>,
    /// Consecutive timeouts (`icsk_retransmits`).
    pub retransmits: u32,
    /// Total number of timeouts.
    pub timeouts: u64,
    /// The byte after the loss probe, while a probe is in flight (`tlp_high_seq`).
    pub probe_end: Option<u64>,
    /// Whether the probe retransmitted data (`tlp_retrans`).
    pub probe_was_retransmission: bool,
}

/// A rate sample while its ACK is processed.
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
