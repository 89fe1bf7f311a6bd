//! A reading as its source has it: whose it is, its values and when they were measured, and what they can be.

use crate::reject::Reject;
use hotcc_abi::radio::IndexKey;
use hotcc_channel_model::ranges;
use hotcc_channel_model::trace::Sample;
use hotcc_radio_map::Reading;
use serde::{Deserialize, Serialize};

/// Of whom a reading is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ue<'a> {
    /// Of the only one that the source knows: all links that readings without a name go to.
    Unnamed,
    /// By a name.
    Id(&'a str),
    /// By its link, which must lie within what was opened to such readings.
    Link(IndexKey),
    /// By its link, which a key gives its sender the right to write.
    Granted(IndexKey, Grant),
}

/// The right that a key gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grant {
    /// Its holder may write this link, and all within.
    pub link: IndexKey,
    /// How many such links its source has.
    pub all: usize,
}

/// A reading, as its source says it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RawReading {
    /// The values.
    pub reading: Reading,
    /// How old it was when it was sent, or came, in ms.
    pub age_ms: f64,
    /// Its time by the source's clock, in s. Any epoch; only its order counts.
    pub time_s: Option<f64>,
    /// When another host sent it, by that host's clock.
    pub sent: Option<Sent>,
}

/// When a message was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Tells one run of a sender from the next; later ones have greater numbers.
    pub session: u64,
    /// The sender's clock in us, from any epoch that its session keeps.
    pub at_us: u64,
}

impl RawReading {
    /// What no radio has is no reading, whatever else is in it.
    ///
    /// # Errors
    /// A value is out of its range, or there is none.
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
    /// The first value that no radio has, and what it may be.
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
        let wrong = values
            .into_iter()
            .find_map(|(name, value, range)| Some((name, value?, range)).filter(|(_, v, r)| !r.contains(v)));
        wrong.map(|(name, value, range)| format!("{name} {value} is not within {} to {}", range.start(), range.end()))
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
