//! The result of a run, which the guest reports at its end.

use crate::records::LinkState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The result of a run. The packet records and then the ACK records follow it, in their memory layout.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RunRecord {
    /// One entry per flow, in the plan's order.
    pub flows: Vec<FlowEnd>,
    /// One entry per link, in the plan's order.
    pub links: Vec<LinkEnd>,
    /// Counters of the receiver programs that the hosts have, by name, summed over the hosts.
    #[serde(default)]
    pub receiver_programs: BTreeMap<String, u64>,
    /// Idle time of the processor in each bin of 100 ms.
    pub idle_ns: Vec<u64>,
    /// Log of events: the time in seconds, then what happened.
    pub events: Vec<String>,
    /// Number of packet records that follow.
    pub packet_records: u64,
    /// Number of ACK records that follow.
    pub ack_records: u64,
    /// Number of records that were not kept because there was no room for them.
    pub missing_records: u64,
    /// Reasons why the run must not be used, apart from what the figures show.
    #[serde(default)]
    pub faults: Vec<String>,
}

/// The final state of a flow.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct FlowEnd {
    /// Congestion control at the end.
    pub cc: String,
    /// Bytes that the receiver got.
    pub bytes: u64,
    /// Time at which the receiver had all bytes, or at which the flow was stopped.
    pub end_ns: u64,
    /// Whether the receiver got all bytes.
    pub complete: bool,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// What the receiver counted; `None` for a datagram flow, or if the receiver accepted no connection.
    #[serde(default)]
    pub receiver: Option<ReceiverEnd>,
    /// The first error of the flow, if there was one.
    pub error: Option<String>,
}

/// What a TCP flow's receiver counted until the flow was stopped, and what the sender knows of it. Absent fields were not
/// counted.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ReceiverEnd {
    /// Segments received, including those without data (`tcpi_segs_in`).
    pub segments: Option<u64>,
    /// Segments with data received, including duplicates (`tcpi_data_segs_in`).
    pub data_segments: u64,
    /// Segments received out of order (`tcpi_rcv_ooopack`).
    pub out_of_order_segments: u64,
    /// Bytes received in order (`tcpi_bytes_received`).
    pub bytes: u64,
    /// The receive window in the last ACK that the sender got (the sender's `tcpi_snd_wnd`); absent if unlimited.
    pub last_window_bytes: Option<u64>,
    /// Time for which the receive window limited the sender (the sender's `tcpi_rwnd_limited`).
    pub window_limited_us: Option<u64>,
    /// Segments that were acknowledged with ECE (the sender's `tcpi_delivered_ce`).
    pub ece_segments: Option<u64>,
}

/// Counts of a link.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LinkEnd {
    /// Packets that left the link.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets that the policer dropped.
    #[serde(default)]
    pub police_drops: u64,
    /// Packets that were dropped because the queue was full.
    pub queue_drops: u64,
    /// Packets that were lost after the queue.
    pub losses: u64,
    /// Packets that were marked (ECN CE).
    pub ce_marks: u64,
}

impl From<&LinkState> for LinkEnd {
    fn from(s: &LinkState) -> Self {
        let LinkState { packets, bytes, police_drops, queue_drops, losses, ce_marks, .. } = *s;
        Self { packets, bytes, police_drops, queue_drops, losses, ce_marks }
    }
}
