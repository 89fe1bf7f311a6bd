//! What a feeder makes of a radio: readings that come now and then, late, and with noise.

use crate::check;
use crate::error::RadioError;
use crate::radio::Radio;
use crate::random::Stream;
use hotcc_abi::radio::SINR_RANGE_DB;
use serde::Deserialize;
use std::time::Duration;

/// How a feeder sees a radio.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeederSpec {
    /// Time between readings, in ms; the first is made at 0.
    pub period_ms: u32,
    /// Time from when a reading is made to when it is published, in ms.
    #[serde(default)]
    pub delay_ms: u32,
    /// Standard deviation of the Gaussian noise of a reading, in dB.
    #[serde(default)]
    pub noise_db: f64,
    /// Time constant of the running average, in ms; 0: the average is the latest reading.
    #[serde(default = "default_average_time_constant_ms")]
    pub average_time_constant_ms: u32,
}

/// As `sinr-feeder run` has it.
fn default_average_time_constant_ms() -> u32 {
    2000
}

impl FeederSpec {
    /// Whether this can be.
    ///
    /// # Errors
    /// Names the key that cannot be, and its value.
    pub fn check(&self) -> Result<(), RadioError> {
        check::range("period_ms", self.period_ms.into(), 1.0..=3_600_000.0)?;
        check::range("delay_ms", self.delay_ms.into(), 0.0..=3_600_000.0)?;
        check::range("noise_db", self.noise_db, 0.0..=40.0)?;
        check::range("average_time_constant_ms", self.average_time_constant_ms.into(), 0.0..=3_600_000.0)
    }
}

/// A reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadingAt {
    /// When it is published: when it was made, and the delay.
    pub at: Duration,
    /// When it was made.
    pub made: Duration,
    /// SINR in dB, with noise, clamped to what the radio map holds ([`SINR_RANGE_DB`]).
    pub sinr_db: f32,
    /// Running average of the readings up to this one, in dB.
    pub average_db: f32,
}

impl Radio {
    /// What a feeder reads of this radio, in order of time: one reading every period while the radio lasts. None where
    /// it has no SINR. The last ones may be published after its end.
    #[must_use]
    pub fn readings(&self, feeder: &FeederSpec, seed: u64) -> Vec<ReadingAt> {
        let Some(sinr) = &self.sinr_db else { return Vec::new() };
        let mut noise = Stream::new(seed, &self.name, "reading noise");
        let period = Duration::from_millis(feeder.period_ms.max(1).into());
        let delay = Duration::from_millis(feeder.delay_ms.into());
        // The formula of the feeder's average at a fixed period, without the platform's exp.
        let ratio = f64::from(feeder.period_ms.max(1)) / f64::from(feeder.average_time_constant_ms);
        let alpha = if ratio.is_finite() { -libm::expm1(-ratio) } else { 1.0 };
        let mut average: Option<f64> = None;
        let mut readings = Vec::new();
        for count in 0u32.. {
            let made = period * count;
            let Some(true_db) = sinr.get((made.as_nanos() / self.step.as_nanos()) as usize) else { break };
            let noisy = f64::from(*true_db) + feeder.noise_db * noise.normal();
            let sinr_db = noisy.clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end());
            let averaged = average.map_or(sinr_db, |last| last + alpha * (sinr_db - last));
            average = Some(averaged);
            readings.push(ReadingAt { at: made + delay, made, sinr_db: sinr_db as f32, average_db: averaged as f32 });
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn radio(sinr_db: Vec<f32>) -> Radio {
        let steps = sinr_db.len();
        Radio::flat("a", Some(sinr_db), vec![1; steps])
    }

    fn feeder(period_ms: u32) -> FeederSpec {
        FeederSpec { period_ms, delay_ms: 0, noise_db: 0.0, average_time_constant_ms: 0 }
    }

    #[test]
    fn period_and_delay() {
        let radio = radio((0..10u8).map(f32::from).collect());
        let readings = radio.readings(&FeederSpec { delay_ms: 7, ..feeder(25) }, 1);
        let seen: Vec<_> = readings.iter().map(|r| (r.made.as_millis(), r.at.as_millis(), r.sinr_db)).collect();
        assert_eq!(seen, [(0, 7, 0.0), (25, 32, 2.0), (50, 57, 5.0), (75, 82, 7.0)]);
        // More often than the radio changes.
        assert_eq!(radio.readings(&feeder(3), 1).len(), 34);
    }

    #[test]
    fn noise_has_its_sigma() {
        let radio = radio(vec![10.0; 100_000]);
        let readings = radio.readings(&FeederSpec { noise_db: 2.0, ..feeder(10) }, 1);
        let n = readings.len() as f64;
        assert_eq!(n, 100_000.0);
        let error = |r: &ReadingAt| f64::from(r.sinr_db) - 10.0;
        let mean = readings.iter().map(error).sum::<f64>() / n;
        let sigma = (readings.iter().map(|r| (error(r) - mean).powi(2)).sum::<f64>() / n).sqrt();
        // Four standard errors: 2/sqrt(n) and 2/sqrt(2 n).
        assert!(mean.abs() < 0.026, "{mean}");
        assert!((sigma - 2.0).abs() < 0.018, "{sigma}");
        let next: f64 = readings.windows(2).map(|w| error(&w[0]) * error(&w[1])).sum::<f64>() / n / (sigma * sigma);
        assert!(next.abs() < 0.013, "{next}");
        let other = radio.readings(&FeederSpec { noise_db: 2.0, ..feeder(10) }, 2);
        assert_ne!(readings, other);
    }

    #[test]
    fn published_values_fit_the_map() {
        let readings = radio(vec![-90.0, 90.0]).readings(&feeder(10), 1);
        assert_eq!(readings.iter().map(|r| r.sinr_db).collect::<Vec<_>>(), [-20.0, 50.0]);
    }

    #[test]
    fn without_sinr_nothing_is_read() {
        assert!(Radio::flat("a", None, vec![1; 100]).readings(&feeder(10), 1).is_empty());
    }

    #[test]
    fn impossible_feeders_are_refused() {
        for (spec, error) in [
            (feeder(0), "period_ms = 0: must be from 1 to 3600000"),
            (FeederSpec { noise_db: -1.0, ..feeder(1) }, "noise_db = -1: must be from 0 to 40"),
            (FeederSpec { noise_db: f64::NAN, ..feeder(1) }, "noise_db = NaN: must be from 0 to 40"),
            (FeederSpec { delay_ms: 4_000_000, ..feeder(1) }, "delay_ms = 4000000: must be from 0 to 3600000"),
        ] {
            assert_eq!(spec.check().unwrap_err().to_string(), error);
        }
        assert!(feeder(1).check().is_ok());
    }
}
