//! A reading as its source has it: whose it is, its values and when they were measured, and what they can be.

use crate::reject::Reject;
use hotcc_abi::radio::IndexKey;
use hotcc_channel_model::ranges;
use hotcc_channel_model::trace::Sample;
use hotcc_radio_map::Reading;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

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
        let r = &self.reading;
        let within = |value: Option<f64>, range: &RangeInclusive<f64>| value.is_none_or(|v| range.contains(&v));
        let sound = within(r.sinr_db, &ranges::SINR_DB)
            && within(r.rsrp_dbm, &ranges::RSRP_DBM)
            && within(r.rsrq_db, &ranges::RSRQ_DB)
            && within(r.capacity_bps, &ranges::CAPACITY_BPS)
            && r.cqi.is_none_or(|cqi| cqi <= ranges::CQI)
            && r.mcs.is_none_or(|mcs| mcs <= ranges::MCS)
            && (0.0..=1e9).contains(&self.age_ms)
            && self.time_s.is_none_or(f64::is_finite);
        if !sound {
            return Err(Reject::Range);
        }
        let nothing = Reading { average_db: r.average_db, ..Reading::default() };
        if *r == nothing { Err(Reject::Nothing) } else { Ok(()) }
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
