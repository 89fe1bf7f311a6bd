//! A reading as its source reports it: its UE, its values, when they were measured, and their valid ranges.

use crate::reject::Reject;
use hotcc_abi::radio::IndexKey;
use hotcc_channel_model::ranges;
use hotcc_channel_model::trace::Sample;
use hotcc_radio_map::Reading;
use serde::{Deserialize, Serialize};

/// The UE to which a reading belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ue<'a> {
    /// The only UE that the source knows: the reading goes to all links for readings without a name.
    Unnamed,
    /// The UE with this name.
    Id(&'a str),
    /// The UE of this link, which must lie within a prefix that is open to such readings.
    Link(IndexKey),
    /// The UE of this link, which the sender may write because of its key.
    Granted(IndexKey, Grant),
}

/// The right that a key gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grant {
    /// The key's holder may write this link, and all links within it.
    pub link: IndexKey,
    /// Number of different links in the keys of its source.
    pub all: usize,
}

/// A reading, as its source reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RawReading {
    /// The values.
    pub reading: Reading,
    /// Its age in ms when it was sent, or else when it arrived.
    pub age_ms: f64,
    /// Its time by the source's clock, in s, from any epoch: only the order counts.
    pub time_s: Option<f64>,
    /// When another host sent it, by that host's clock.
    pub sent: Option<Sent>,
}

/// When a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Distinguishes one run of a sender from the next; a later run has a greater number.
    pub session: u64,
    /// The sender's clock in us, from an epoch that stays the same within a session.
    pub at_us: u64,
}

impl RawReading {
    /// Checks the values. A single value that no radio can have makes the whole reading invalid.
    ///
    /// # Errors
    /// A value is out of range, or there is no value.
    pub fn check(&self) -> Result<(), Reject> {
        if self.out_of_range().is_some() {
            return Err(Reject::Range);
        }
        let r = &self.reading;
        let nothing = Reading { average_db: r.average_db, ..Reading::default() };
        if *r == nothing { Err(Reject::Nothing) } else { Ok(()) }
    }
}

impl RawReading {
    /// Returns a description of the first value that no radio can have, with its valid range.
    #[must_use]
    pub fn out_of_range(&self) -> Option<String> {
        let r = &self.reading;
        let index = |limit: u8| 0.0..=f64::from(limit);
        let values = [
            ("sinr_db", r.sinr_db, ranges::SINR_DB),
            ("rsrp_dbm", r.rsrp_dbm, ranges::RSRP_DBM),
            ("rsrq_db", r.rsrq_db, ranges::RSRQ_DB),
            ("capacity_bps", r.capacity_bps, ranges::CAPACITY_BPS),
            ("cqi", r.cqi.map(f64::from), index(ranges::CQI)),
            ("mcs", r.mcs.map(f64::from), index(ranges::MCS)),
            ("age_ms", Some(self.age_ms), 0.0..=1e9),
            ("time_s", self.time_s, f64::MIN..=f64::MAX),
        ];
        let out_of_range = values
            .into_iter()
            .find_map(|(name, value, range)| Some((name, value?, range)).filter(|(_, v, r)| !r.contains(v)));
        out_of_range
            .map(|(name, value, range)| format!("{name} {value} is not within {} to {}", range.start(), range.end()))
    }
}

impl From<&Sample> for RawReading {
    fn from(sample: &Sample) -> Self {
        let reading = Reading {
            sinr_db: sample.sinr_db,
            average_db: None,
            capacity_bps: sample.capacity_bps,
            is_capacity_derived: false,
            rsrp_dbm: sample.rsrp_dbm,
            rsrq_db: sample.rsrq_db,
            cqi: sample.cqi,
            mcs: sample.mcs,
            cell: sample.cell,
        };
        Self { reading, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_no_radio_has_is_named() {
        let of = |bps, age_ms| {
            let reading = Reading { capacity_bps: Some(bps), ..Reading::default() };
            RawReading { reading, age_ms, ..RawReading::default() }.out_of_range()
        };
        for (bps, age_ms, expected) in [
            (5e7, 0.0, None),
            (-1.0, 0.0, Some("capacity_bps -1 is not within 0 to 1000000000000000")),
            (2e15, 0.0, Some("capacity_bps 2000000000000000 is not within 0 to 1000000000000000")),
            (f64::NAN, 0.0, Some("capacity_bps NaN is not within 0 to 1000000000000000")),
            (5e7, -1.0, Some("age_ms -1 is not within 0 to 1000000000")),
        ] {
            assert_eq!(of(bps, age_ms).as_deref(), expected);
        }
    }
}
