//! What is compared: connections of two cohorts.

/// What one connection did, once it ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Connection {
    /// Bytes that the peer acknowledged.
    pub acked_bytes: u64,
    /// Data segments that were sent, retransmissions included.
    pub segments: u64,
    /// Data segments that were retransmissions.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Smoothed RTT at the end, in µs; `None` if it was never measured.
    pub rtt_us: Option<u32>,
    /// Minimum RTT, in µs; `None` if it was never measured.
    pub min_rtt_us: Option<u32>,
    /// Acknowledged bits over the time in which there was something to send or to acknowledge, in kbit/s; `None` if
    /// that time was too short to measure.
    pub goodput_kbps: Option<u64>,
    /// The kernel's last sample of the delivery rate, in kbit/s; `None` if there was none.
    pub delivery_kbps: Option<u64>,
    /// Duration of the connection, in ms.
    pub duration_ms: u64,
}

/// One side of the comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cohort {
    /// Connections that keep their congestion control.
    Control,
    /// Connections that get the new one.
    Canary,
}
