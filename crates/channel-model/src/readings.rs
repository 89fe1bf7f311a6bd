//! The readings that a feeder gets of a radio: periodic, delayed and noisy.

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
    /// Time between readings, in ms.
    pub period_ms: u32,
    /// Time of the first reading, in ms. This shifts readings relative to the steps of the radio.
    #[serde(default)]
    pub phase_ms: u32,
    /// Time between the measurement and the publication of a reading, in ms.
    #[serde(default)]
    pub delay_ms: u32,
    /// Standard deviation of the Gaussian noise of a reading, in dB.
    #[serde(default)]
    pub noise_db: f64,
    /// Error in dB that all readings of the SINR have in common.
    #[serde(default)]
    pub bias_db: f64,
    /// Whether the SINR is mirrored about the radio's mean: a reading as far above it becomes one as far below.
    #[serde(default)]
    pub mirrored: bool,
    /// Whether every reading repeats the values of the first, as from a feeder that hangs and still stamps them.
    #[serde(default)]
    pub frozen: bool,
    /// Standard deviation of the Gaussian noise of a reading of the capacity, as a share of the capacity.
    #[serde(default)]
    pub capacity_noise: f64,
    /// Error that all readings of the capacity have in common, as a share of the capacity.
    #[serde(default)]
    pub capacity_bias: f64,
    /// Factor by which readings of the capacity are alternately multiplied and divided; 1 if they are not changed.
    #[serde(default = "default_capacity_swing")]
    pub capacity_swing: f64,
    /// How long the readings are multiplied, and then divided, in ms.
    #[serde(default = "default_capacity_swing_ms")]
    pub capacity_swing_ms: u32,
    /// Time constant of the running average, in ms. If it is 0, the average is the latest reading.
    #[serde(default = "default_average_time_constant_ms")]
    pub average_time_constant_ms: u32,
}

fn default_capacity_swing() -> f64 {
    1.0
}

fn default_capacity_swing_ms() -> u32 {
    10_000
}

/// The default of `sinr-feeder run`.
fn default_average_time_constant_ms() -> u32 {
    2000
}

impl FeederSpec {
    /// Returns a feeder with this period whose readings are exact and published at once, with the default average.
    #[must_use]
    pub fn every(period_ms: u32) -> Self {
        Self {
            period_ms,
            phase_ms: 0,
            delay_ms: 0,
            noise_db: 0.0,
            bias_db: 0.0,
            mirrored: false,
            frozen: false,
            capacity_noise: 0.0,
            capacity_bias: 0.0,
            capacity_swing: default_capacity_swing(),
            capacity_swing_ms: default_capacity_swing_ms(),
            average_time_constant_ms: default_average_time_constant_ms(),
        }
    }

    /// Checks the description.
    ///
    /// # Errors
    /// Names the invalid key, and its value.
    pub fn check(&self) -> Result<(), RadioError> {
        check::range("period_ms", self.period_ms.into(), 1.0..=3_600_000.0)?;
        check::range("phase_ms", self.phase_ms.into(), 0.0..=3_600_000.0)?;
        check::range("delay_ms", self.delay_ms.into(), 0.0..=3_600_000.0)?;
        check::range("noise_db", self.noise_db, 0.0..=40.0)?;
        check::range("bias_db", self.bias_db, -40.0..=40.0)?;
        check::range("capacity_noise", self.capacity_noise, 0.0..=10.0)?;
        check::range("capacity_bias", self.capacity_bias, -1.0..=10.0)?;
        check::range("capacity_swing", self.capacity_swing, 1.0..=1000.0)?;
        check::range("capacity_swing_ms", self.capacity_swing_ms.into(), 1.0..=3_600_000.0)?;
        check::range("average_time_constant_ms", self.average_time_constant_ms.into(), 0.0..=3_600_000.0)
    }
}

/// A reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadingAt {
    /// Time of publication: `made` plus the delay.
    pub at: Duration,
    /// Time of measurement.
    pub made: Duration,
    /// SINR in dB, with noise, clamped to the range of the radio map ([`SINR_RANGE_DB`]). `None` if the radio has no
    /// SINR.
    pub sinr_db: Option<f32>,
    /// Running average of the SINRs up to this one, in dB.
    pub average_db: Option<f32>,
    /// Mean capacity over the period before `made`, in bit/s, with noise. At 0, before a period has passed, the
    /// capacity at 0.
    pub capacity_bps: u64,
}

impl Radio {
    /// Returns a feeder's readings of this radio, in order of time: one reading per period until the radio ends. The
    /// last readings may be published after its end.
    #[must_use]
    pub fn readings(&self, feeder: &FeederSpec, seed: u64) -> Vec<ReadingAt> {
        let mut noise = Stream::new(seed, &self.name, "reading noise");
        // A separate stream, so that readings of the SINR do not depend on the noise of the capacity.
        let mut capacity_noise = Stream::new(seed, &self.name, "capacity noise");
        let phase = Duration::from_millis(feeder.phase_ms.into());
        let period = Duration::from_millis(feeder.period_ms.max(1).into());
        let delay = Duration::from_millis(feeder.delay_ms.into());
        // The formula of the feeder's average at a fixed period, without the platform's exp.
        let ratio = f64::from(feeder.period_ms.max(1)) / f64::from(feeder.average_time_constant_ms);
        let alpha = if ratio.is_finite() { -libm::expm1(-ratio) } else { 1.0 };
        let mean_db = self.sinr_db.as_ref().filter(|_| feeder.mirrored).map(|sinr| mean(sinr));
        let mut average: Option<f64> = None;
        let mut readings: Vec<ReadingAt> = Vec::new();
        for count in 0u32.. {
            let made = phase + period * count;
            let step = (made.as_nanos() / self.step.as_nanos()) as usize;
            if step >= self.capacity_bps.len() {
                break;
            }
            if let Some(first) = readings.first().filter(|_| feeder.frozen) {
                readings.push(ReadingAt { at: made + delay, made, ..*first });
                continue;
            }
            let sinr_db = self.sinr_db.as_ref().and_then(|sinr| sinr.get(step)).map(|true_db| {
                let true_db = f64::from(*true_db);
                let seen_db = mean_db.map_or(true_db, |mean_db| 2.0 * mean_db - true_db);
                let noisy = seen_db + feeder.bias_db + feeder.noise_db * noise.normal();
                noisy.clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end())
            });
            if let Some(sinr_db) = sinr_db {
                average = Some(average.map_or(sinr_db, |last| last + alpha * (sinr_db - last)));
            }
            let swings = made.as_millis() / u128::from(feeder.capacity_swing_ms.max(1));
            let swing = if swings.is_multiple_of(2) { feeder.capacity_swing } else { 1.0 / feeder.capacity_swing };
            let error = 1.0 + feeder.capacity_bias + feeder.capacity_noise * capacity_noise.normal();
            let capacity_bps = self.mean_capacity_bps(made.saturating_sub(period), made) * error * swing;
            readings.push(ReadingAt {
                at: made + delay,
                made,
                sinr_db: sinr_db.map(|db| db as f32),
                average_db: average.map(|db| db as f32),
                capacity_bps: capacity_bps.max(0.0).round() as u64,
            });
        }
        readings
    }

    /// Returns the mean capacity from `from` to `until`. If the interval is empty, returns the capacity of the step at
    /// `from`.
    fn mean_capacity_bps(&self, from: Duration, until: Duration) -> f64 {
        let step_s = self.step.as_secs_f64();
        let first = (from.as_nanos() / self.step.as_nanos()) as usize;
        if until <= from {
            return self.capacity_bps.get(first).map_or(0.0, |bps| *bps as f64);
        }
        let (from_s, until_s) = (from.as_secs_f64(), until.as_secs_f64());
        let steps = self.capacity_bps.iter().enumerate().skip(first);
        let bits = steps.take_while(|(step, _)| *step as f64 * step_s < until_s).map(|(step, bps)| {
            let start_s = step as f64 * step_s;
            let shared_s = (start_s + step_s).min(until_s) - start_s.max(from_s);
            *bps as f64 * shared_s.max(0.0)
        });
        bits.sum::<f64>() / (until_s - from_s)
    }
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn radio(sinr_db: Vec<f32>) -> Radio {
        let steps = sinr_db.len();
        Radio::flat("a", Some(sinr_db), vec![1; steps])
    }

    fn feeder(period_ms: u32) -> FeederSpec {
        FeederSpec { average_time_constant_ms: 0, ..FeederSpec::every(period_ms) }
    }

    #[test]
    fn period_and_delay() {
        let radio = radio((0..10u8).map(f32::from).collect());
        let readings = radio.readings(&FeederSpec { delay_ms: 7, ..feeder(25) }, 1);
        let seen: Vec<_> =
            readings.iter().map(|r| (r.made.as_millis(), r.at.as_millis(), r.sinr_db.unwrap())).collect();
        assert_eq!(seen, [(0, 7, 0.0), (25, 32, 2.0), (50, 57, 5.0), (75, 82, 7.0)]);
        let shifted = radio.readings(&FeederSpec { phase_ms: 9, ..feeder(25) }, 1);
        let seen: Vec<_> = shifted.iter().map(|r| (r.made.as_millis(), r.sinr_db.unwrap())).collect();
        assert_eq!(seen, [(9, 0.0), (34, 3.0), (59, 5.0), (84, 8.0)]);
        // The readings are more frequent than the radio's steps.
        assert_eq!(radio.readings(&feeder(3), 1).len(), 34);
    }

    #[test]
    fn noise_has_its_sigma() {
        let radio = radio(vec![10.0; 100_000]);
        let readings = radio.readings(&FeederSpec { noise_db: 2.0, ..feeder(10) }, 1);
        let n = readings.len() as f64;
        assert_eq!(n, 100_000.0);
        let error = |r: &ReadingAt| f64::from(r.sinr_db.unwrap()) - 10.0;
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
        assert_eq!(readings.iter().map(|r| r.sinr_db.unwrap()).collect::<Vec<_>>(), [-20.0, 50.0]);
    }

    #[test]
    fn a_bias_is_in_every_reading() {
        let biased = FeederSpec { bias_db: -3.0, capacity_bias: 0.5, ..feeder(10) };
        let read = radio(vec![10.0; 5]).readings(&biased, 1);
        assert!(read.iter().all(|r| r.sinr_db == Some(7.0) && r.average_db == Some(7.0)));
        let read = Radio::flat("a", None, vec![1000; 5]).readings(&biased, 1);
        assert!(read.iter().all(|r| r.capacity_bps == 1500));
    }

    #[test]
    fn a_swing_multiplies_and_divides_in_turn() {
        let swinging = FeederSpec { capacity_swing: 10.0, capacity_swing_ms: 20, ..feeder(10) };
        let read = Radio::flat("a", None, vec![1000; 5]).readings(&swinging, 1);
        let seen: Vec<u64> = read.iter().map(|r| r.capacity_bps).collect();
        assert_eq!(seen, [10_000, 10_000, 100, 100, 10_000]);
    }

    #[test]
    fn a_mirror_turns_the_sinr_about_its_mean() {
        let mirrored = FeederSpec { mirrored: true, bias_db: 1.0, ..feeder(10) };
        // The mean is 6 dB.
        let readings = radio(vec![10.0, 8.0, 0.0]).readings(&mirrored, 1);
        assert_eq!(readings.iter().map(|r| r.sinr_db.unwrap()).collect::<Vec<_>>(), [3.0, 5.0, 13.0]);
    }

    #[test]
    fn frozen_readings_repeat_the_first() {
        let frozen = FeederSpec { frozen: true, delay_ms: 5, noise_db: 1.0, capacity_noise: 0.1, ..feeder(10) };
        let mut radio = radio(vec![10.0, 20.0, 30.0]);
        radio.capacity_bps = vec![1000, 2000, 3000];
        let readings = radio.readings(&frozen, 1);
        assert_eq!(readings.iter().map(|r| r.at.as_millis()).collect::<Vec<_>>(), [5, 15, 25]);
        let values = |r: &ReadingAt| (r.sinr_db, r.average_db, r.capacity_bps);
        assert!(
            readings.iter().all(|r| values(r) == values(&readings[0]) && r.made + Duration::from_millis(5) == r.at)
        );
    }

    #[test]
    fn without_sinr_only_the_capacity_is_read() {
        let readings = Radio::flat("a", None, vec![1; 100]).readings(&feeder(10), 1);
        assert_eq!(readings.len(), 100);
        assert!(readings.iter().all(|r| r.sinr_db.is_none() && r.average_db.is_none() && r.capacity_bps == 1));
    }

    #[test]
    fn capacity_is_the_mean_of_the_period_before() {
        let radio = Radio::flat("a", None, vec![100, 200, 300, 400, 500, 600]);
        let read = |spec: &FeederSpec| -> Vec<u64> { radio.readings(spec, 1).iter().map(|r| r.capacity_bps).collect() };
        assert_eq!(read(&feeder(20)), [100, 150, 350]);
        // From 5 to 25 ms: half of the first step, the second step, and half of the third.
        assert_eq!(read(&FeederSpec { phase_ms: 5, ..feeder(20) }), [100, 200, 400]);
        assert_eq!(read(&feeder(5))[..5], [100, 100, 100, 200, 200]);
    }

    #[test]
    fn noise_of_the_capacity_is_its_own() {
        let mut radio = radio(vec![10.0; 100_000]);
        radio.capacity_bps = vec![1_000_000; 100_000];
        let quiet = radio.readings(&FeederSpec { noise_db: 1.0, ..feeder(10) }, 1);
        let noisy = radio.readings(&FeederSpec { noise_db: 1.0, capacity_noise: 0.1, ..feeder(10) }, 1);
        assert!(quiet.iter().zip(&noisy).all(|(a, b)| a.sinr_db == b.sinr_db));
        let errors: Vec<f64> = noisy.iter().map(|r| r.capacity_bps as f64 / 1e6 - 1.0).collect();
        let sigma = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        assert!((sigma - 0.1).abs() < 0.001, "{sigma}");
    }

    #[test]
    fn impossible_feeders_are_refused() {
        for (spec, error) in [
            (feeder(0), "period_ms = 0: must be from 1 to 3600000"),
            (FeederSpec { noise_db: -1.0, ..feeder(1) }, "noise_db = -1: must be from 0 to 40"),
            (FeederSpec { bias_db: 50.0, ..feeder(1) }, "bias_db = 50: must be from -40 to 40"),
            (FeederSpec { capacity_bias: -2.0, ..feeder(1) }, "capacity_bias = -2: must be from -1 to 10"),
            (FeederSpec { noise_db: f64::NAN, ..feeder(1) }, "noise_db = NaN: must be from 0 to 40"),
            (FeederSpec { delay_ms: 4_000_000, ..feeder(1) }, "delay_ms = 4000000: must be from 0 to 3600000"),
        ] {
            assert_eq!(spec.check().unwrap_err().to_string(), error);
        }
        assert!(feeder(1).check().is_ok());
    }
}
