//! What is kept of a cohort's connections for one guard: sums, or a histogram.

use crate::connection::Connection;
use crate::guard::{Figure, Metric};
use crate::ratio::Estimate;
use crate::sequence::{half_width, ranks};

/// Ratios below this are considered equal: one retransmission in 1,000 segments, one timeout in 1,000 connections.
/// Without it, two cohorts without any loss could never be shown to be equal.
pub const SAME_BELOW: f64 = 0.001;

/// A histogram has two to the power of this many buckets for each power of two: one is at most 0.4 % wide.
const BITS: u32 = 8;

/// What is kept for one guard and cohort.
#[derive(Clone, Debug)]
pub enum Tally {
    Ratio { metric: Metric, sums: Sums },
    Percentile { share: f64, figure: Figure, histogram: Histogram },
}

impl Tally {
    pub fn new(metric: Metric) -> Self {
        match metric {
            Metric::RetransmitRatio | Metric::TimeoutRatio => Self::Ratio { metric, sums: Sums::default() },
            Metric::Percentile { figure, percent } => {
                Self::Percentile { share: f64::from(percent) / 100.0, figure, histogram: Histogram::default() }
            }
        }
    }

    /// Adds a connection `times` times.
    pub fn add(&mut self, connection: &Connection, times: u64) {
        match self {
            Self::Ratio { metric: Metric::TimeoutRatio, sums } => sums.add(connection.timeouts, 1, times),
            Self::Ratio { sums, .. } => sums.add(connection.retransmits, connection.segments, times),
            Self::Percentile { figure, histogram, .. } => {
                if let Some(value) = figure.of(connection) {
                    histogram.add(value, times);
                }
            }
        }
    }

    /// Returns the number of connections that had the figure.
    pub fn count(&self) -> u64 {
        match self {
            Self::Ratio { sums, .. } => sums.count,
            Self::Percentile { histogram, .. } => histogram.count,
        }
    }

    /// Returns the cohort's value; `None` before the first connection that had the figure. `other` is the other cohort.
    pub fn estimate(&self, other: &Self, alpha: f64) -> Option<Estimate> {
        match (self, other) {
            (Self::Ratio { sums, .. }, Self::Ratio { sums: other, .. }) => sums.estimate(other, alpha),
            (Self::Percentile { share, histogram, .. }, _) => histogram.estimate(*share, alpha),
            (Self::Ratio { .. }, Self::Percentile { .. }) => None,
        }
    }
}

/// Sums over connections of events (retransmissions) and of what they may happen to (segments), and of their squares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    count: u64,
    events: f64,
    trials: f64,
    events_squared: f64,
    events_by_trials: f64,
    trials_squared: f64,
}

impl Sums {
    /// Adds a connection `times` times; one without trials has no ratio.
    fn add(&mut self, events: u64, trials: u64, times: u64) {
        if trials == 0 {
            return;
        }
        self.count += times;
        let (events, trials, times) = (events as f64, trials as f64, times as f64);
        self.events += times * events;
        self.trials += times * trials;
        self.events_squared += times * events * events;
        self.events_by_trials += times * events * trials;
        self.trials_squared += times * trials * trials;
    }

    /// Returns the sum over connections of the squares of events less the expected number of events.
    fn residuals(&self) -> f64 {
        let ratio = self.events / self.trials.max(1.0);
        let sum = self.events_squared - 2.0 * ratio * self.events_by_trials + ratio * ratio * self.trials_squared;
        sum.max(0.0)
    }

    /// The variance is at least that of both cohorts together: few connections with much loss make most of it, and a
    /// small cohort may have none of them yet.
    fn estimate(&self, other: &Self, alpha: f64) -> Option<Estimate> {
        if self.count == 0 {
            return None;
        }
        let both = (self.residuals() + other.residuals()) / (self.count + other.count) as f64;
        let residuals = self.residuals().max(both * self.count as f64);
        // one more residual, of one event: no events at all in few segments do not show that there are none
        let error = (residuals + 1.0).sqrt() / self.trials;
        let ratio = self.events / self.trials;
        let half = half_width(self.count, alpha) * error;
        Some(Estimate { value: ratio, low: (ratio > half).then_some(ratio - half), high: Some(ratio + half) })
    }
}

/// Counts of values in buckets of equal relative width. Values below two to the power of `BITS + 1` are exact.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    count: u64,
    buckets: Vec<u64>,
}

impl Histogram {
    /// Adds a value `times` times; 0 counts as 1, so that ratios exist.
    fn add(&mut self, value: u64, times: u64) {
        let value = value.max(1);
        let shift = value.ilog2().saturating_sub(BITS);
        let place = ((u64::from(shift) << BITS) + (value >> shift)) as usize;
        if place >= self.buckets.len() {
            self.buckets.resize(place + 1, 0);
        }
        self.buckets[place] += times;
        self.count += times;
    }

    /// Returns the middle of the bucket of the value of this rank, counted from 1.
    fn at(&self, rank: u64) -> f64 {
        let mut left = rank;
        let place = self.buckets.iter().position(|count| {
            let found = left <= *count;
            left = left.saturating_sub(*count);
            found
        });
        let place = place.unwrap_or(self.buckets.len()) as u64;
        let shift = (place >> BITS).saturating_sub(1);
        let width = (1u64 << shift) as f64;
        (place - (shift << BITS)) as f64 * width + (width - 1.0) / 2.0
    }

    fn estimate(&self, share: f64, alpha: f64) -> Option<Estimate> {
        if self.count == 0 {
            return None;
        }
        let (low, high) = ranks(share, self.count, alpha);
        let middle = (share * self.count as f64).ceil().max(1.0) as u64;
        Some(Estimate { value: self.at(middle), low: low.map(|r| self.at(r)), high: high.map(|r| self.at(r)) })
    }
}
