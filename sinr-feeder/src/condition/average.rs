//! The running average of a link's SINR.

use std::time::Duration;

/// Exponentially weighted average over time: the weight of a reading is the time for which it holds, so the number of
/// readings does not matter.
#[derive(Debug, Clone)]
pub(super) struct Average {
    time_constant: Duration,
    last: Option<(Duration, f64)>,
}

impl Average {
    /// Returns an average without any value yet.
    pub(super) fn new(time_constant: Duration) -> Self {
        Self { time_constant, last: None }
    }

    /// Adds a value measured at `at`, and returns the average: alpha = 1 - exp(-dt / time constant).
    pub(super) fn add(&mut self, value: f64, at: Duration) -> f64 {
        let average = match self.last {
            None => value,
            Some((before, average)) => {
                let dt = at.saturating_sub(before).as_secs_f64();
                let tau = self.time_constant.as_secs_f64();
                let alpha = if tau > 0.0 { -(-dt / tau).exp_m1() } else { 1.0 };
                average + alpha * (value - average)
            }
        };
        self.last = Some((at, average));
        average
    }
}
