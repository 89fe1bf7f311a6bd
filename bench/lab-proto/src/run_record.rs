//! How a run went, as the guest says at its end.

use crate::records::LinkState;
use serde::{Deserialize, Serialize};

/// How a run went. The records follow it: packets, then ACKs, as they are in memory.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RunRecord {
    /// Each flow, as planned.
    pub flows: Vec<FlowEnd>,
    /// Each link, as planned.
    pub links: Vec<LinkEnd>,
    /// Idle time in each 100 ms.
    pub idle_ns: Vec<u64>,
    /// What happened: when (s), and what.
    pub events: Vec<String>,
    /// Packet records that follow.
    pub packet_records: u64,
    /// ACK records that follow.
    pub ack_records: u64,
    /// Records that there was no room for.
    pub missing_records: u64,
    /// Why the run must not be used, beside what the figures say.
    #[serde(default)]
    pub faults: Vec<String>,
}

/// How a flow ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct FlowEnd {
    /// Congestion control at the end.
    pub cc: String,
    /// Bytes the receiver got.
    pub bytes: u64,
    /// When it had them all, or the flow was stopped.
    pub end_ns: u64,
    /// Whether it had them all.
    pub complete: bool,
    /// Segments sent again.
    pub retransmits: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// What went wrong, if something did.
    pub error: Option<String>,
}

/// Counts of a link.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LinkEnd {
    /// Packets that left it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the policer dropped.
    #[serde(default)]
    pub police_drops: u64,
    /// Packets that found the queue full.
    pub queue_drops: u64,
    /// Packets lost.
    pub losses: u64,
    /// Packets marked.
    pub ce_marks: u64,
}

impl From<&LinkState> for LinkEnd {
    fn from(s: &LinkState) -> Self {
        let LinkState { packets, bytes, police_drops, queue_drops, losses, ce_marks, .. } = *s;
        Self { packets, bytes, police_drops, queue_drops, losses, ce_marks }
    }
}
