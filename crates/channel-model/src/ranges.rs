//! Valid ranges of measured quantities: wide enough for every radio, and narrow enough to detect a wrong column.

use std::ops::RangeInclusive;

/// SINR, in dB. Publishing clamps to [`hotcc_abi::radio::SINR_RANGE_DB`].
pub const SINR_DB: RangeInclusive<f64> = -40.0..=60.0;
/// Reference signal received power, in dBm.
pub const RSRP_DBM: RangeInclusive<f64> = -200.0..=50.0;
/// Reference signal received quality, in dB.
pub const RSRQ_DB: RangeInclusive<f64> = -60.0..=40.0;
/// Capacity, in bit/s.
pub const CAPACITY_BPS: RangeInclusive<f64> = 0.0..=1e15;
/// Round-trip time without queues, in ms.
pub const RTT_MS: RangeInclusive<f64> = 0.0..=60_000.0;
/// Maximum channel quality indicator.
pub const CQI: u8 = 15;
/// Maximum modulation and coding scheme.
pub const MCS: u8 = 31;
