//! The weight of forecasts, from their errors so far.

use crate::models::interval::Interval;

/// Resolution of forecasts, which are within +-127 times this.
pub(super) const FORECAST: f64 = 1.0 / 64.0;
/// Resolution of a change, of the weight, and of the errors' mean squares.
pub(super) const CHANGE: f64 = 1.0 / 1024.0;
const WEIGHT: f64 = 1.0 / 256.0;
const SQUARE: f64 = 1.0 / 16_384.0;
/// Errors are clamped to +- this.
const ERROR_LIMIT: f64 = 2047.0 * CHANGE;
/// Number of errors over which their squares are averaged.
const ERRORS_AVERAGED: f64 = 32.0;
/// Initial value of both averages: the square of an error of a quarter of the bandwidth.
const INITIAL_SQUARE: f64 = 0.0625;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weight {
    /// Mean squares of the errors without the signal (E0) and with it (E1).
    pub error_without: Interval,
    pub error_with: Interval,
    /// Change that the last epoch's signal predicted, as a share of BW_0; 0: none.
    pub forecast: Interval,
}

impl Default for Weight {
    fn default() -> Self {
        let first = Interval::point(INITIAL_SQUARE);
        Self { error_without: first, error_with: first, forecast: Interval::ZERO }
    }
}

/// Returns the mean square after one more error.
pub(super) fn averaged(mean: Interval, error: Interval) -> Interval {
    let error = error.map(|e| e.clamp(-ERROR_LIMIT, ERROR_LIMIT));
    (mean + (error.squared().down(SQUARE) - mean) * (1.0 / ERRORS_AVERAGED)).about(SQUARE).max(Interval::ZERO)
}

impl Weight {
    /// Returns (E0^2 - E1^2) / (E0^2 + E1^2), at least 0, in whole 256ths. The square of one step is added
    /// to the denominator, which prevents 0 / 0.
    pub fn share(&self) -> Interval {
        let share = |without: f64, with: f64| {
            let (e0, e1) = (without * without, with * with);
            ((e0 - e1) / (e0 + e1 + SQUARE * SQUARE) / WEIGHT).floor().max(0.0) * WEIGHT
        };
        Interval {
            low: share(self.error_without.low, self.error_with.high),
            high: share(self.error_without.high, self.error_with.low),
        }
    }
}
