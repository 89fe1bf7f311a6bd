//! The values of a trace at one time.

use std::time::Duration;

/// The values that were measured at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Time since the first sample.
    pub at: Duration,
    /// Signal to interference and noise ratio in dB.
    pub sinr_db: Option<f64>,
    /// Capacity of the link in bit/s.
    pub capacity_bps: Option<f64>,
    /// Round-trip time in ms of the path without queues.
    pub rtt_ms: Option<f64>,
    /// Reference signal received power in dBm.
    pub rsrp_dbm: Option<f64>,
    /// Reference signal received quality in dB.
    pub rsrq_db: Option<f64>,
    /// Channel quality indicator 0..15.
    pub cqi: Option<u8>,
    /// Modulation and coding scheme 0..31.
    pub mcs: Option<u8>,
    /// Serving cell, as any number that distinguishes it from its neighbours.
    pub cell: Option<u64>,
}
