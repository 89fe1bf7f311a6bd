//! The bandwidth of a radio link by its spectral efficiency.

use crate::models::dtcp::sinr::{LOG_ERROR, efficiency};
use crate::models::interval::Interval;

/// Resolution of spectral efficiencies, bit/s/Hz.
pub(super) const EFFICIENCY: f64 = 1.0 / 4096.0;
/// Resolution of the bandwidth by efficiency, bytes/s per bit/s/Hz; 32 bits.
pub(super) const PER_EFFICIENCY: f64 = 16.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Link {
    /// Bandwidth of the full link by its spectral efficiency; 0: none yet.
    pub per_efficiency: Interval,
    /// Average spectral efficiency, filtered as B_I is; 0: none yet.
    pub average: Interval,
}

impl Link {
    pub fn is_new(&self) -> bool {
        self.average == Interval::ZERO
    }

    /// Returns B_I by an average efficiency.
    fn ratio(filtered: Interval, average: Interval) -> Interval {
        let ratio = (filtered / average).down(PER_EFFICIENCY).max(Interval::ZERO);
        ratio.min(Interval::point(f64::from(u32::MAX) * PER_EFFICIENCY))
    }

    /// Takes the link for full: the flow gets no more of it than it has.
    pub fn settle(&mut self, filtered: Interval) {
        if !self.is_new() {
            self.per_efficiency = Self::ratio(filtered, self.average);
        }
    }

    /// Returns the link's bandwidth at a SINR, bytes/s, and adds the SINR to the average, of which it keeps a share of
    /// `kept`. B_I and the average are over about the same time: their ratio is the link's while the flow fills it, and
    /// otherwise at most the link's.
    pub fn bandwidth_at(&mut self, sinr_db: f64, filtered: Interval, kept: f64, full: bool) -> Interval {
        let now = Interval::point(efficiency(sinr_db)).about(LOG_ERROR).down(EFFICIENCY);
        let average = if self.is_new() { now } else { self.average };
        let ratio = Self::ratio(filtered, average);
        self.per_efficiency = if full { ratio } else { self.per_efficiency.max(ratio) };
        self.average = (average * kept + now * (1.0 - kept)).down(EFFICIENCY);
        (self.per_efficiency * now).down(1.0)
    }
}
