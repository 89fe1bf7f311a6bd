//! Conditions readings between their source and the map: checks, dates and averages them, and sets their maximum age.
//!
//! A [`Conditioner`] holds the state for one UE of one source. This module never waits and never reads a clock.

mod average;
mod transit;

use crate::reading::RawReading;
use crate::reject::Reject;
use average::Average;
use hotcc_abi::radio::{DEFAULT_MAX_AGE_MS, MAX_AGE_LIMIT_MS, SINR_RANGE_DB};
use hotcc_channel_model::RateSpec;
use hotcc_radio_map::{Reading, default_max_age_ms};
use std::time::Duration;
use transit::Transit;

/// Maximum number of readings per second for one UE; no radio reports more often than its slots of 1 ms.
const MAX_READINGS_PER_S: f64 = 1000.0;
/// Maximum number of readings that may arrive at once.
const MAX_BURST: f64 = 100.0;
/// A reading older than this is not used to detect that the next one is an outlier.
const OUTLIER_MEMORY: Duration = Duration::from_secs(2);
/// The time between readings is measured over this many of the latest gaps.
const GAPS: usize = 8;
/// Minimum of the maximum age, even if a source reports more often: the kernel's scheduling is no more precise.
const MIN_MAX_AGE_MS: u64 = 50;
/// Readings that arrive within this time after the first one form one burst (several in a message, for example), which
/// counts once.
const BURST: Duration = Duration::from_millis(10);
/// The maximum age in measured periods: less than the three periods within which a dead source must be noticed, because
/// noticing that the time has passed takes time, too.
const PERIODS: f64 = 2.5;

/// How readings are conditioned.
#[derive(Debug, Clone, Copy)]
pub struct Conditioning {
    /// Time constant of the running average; if zero, the average is the latest value.
    pub average_time_constant: Duration,
    /// Added to the maximum age, so that readers use a reading for longer; its age keeps growing.
    pub hold_over: Duration,
    /// Maximum age in ms; replaces the one computed from the time between readings.
    pub max_age_ms: Option<u32>,
    /// A SINR that differs from the previous one by more than this must be confirmed by the next one; 0 accepts every
    /// SINR.
    pub outlier_db: f64,
    /// Whether a reading with the same values as the previous one is ignored.
    pub skip_repeats: bool,
    /// Computes the capacity if the source has none.
    pub rate: Option<RateSpec>,
}

impl Default for Conditioning {
    fn default() -> Self {
        Self {
            average_time_constant: Duration::from_secs(2),
            hold_over: Duration::ZERO,
            max_age_ms: None,
            outlier_db: 25.0,
            skip_repeats: false,
            rate: None,
        }
    }
}

/// A conditioned reading, which may be published.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DatedReading {
    /// The values, with the average, and with a capacity if it is known or can be computed.
    pub reading: Reading,
    /// When the reading was made, in monotonic ns.
    pub made_ns: u64,
    /// Its maximum age.
    pub max_age_ms: u32,
    /// The time between readings in ms; 0 if not known yet.
    pub period_ms: u32,
}

/// What is known in advance about the time between a source's readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// Nothing.
    #[default]
    Unknown,
    /// The source is polled with this period; the time between its readings is measured.
    Expected(Duration),
    /// The readings are recorded or computed: the period is exact, and they are neither rate-limited nor checked for
    /// outliers.
    Fixed(Duration),
}

/// Whether readers still use at `now_ns` a reading that was made at `made_ns`.
pub(crate) fn is_used(made_ns: u64, max_age_ms: u32, now_ns: u64) -> bool {
    now_ns.saturating_sub(made_ns) <= u64::from(max_age_ms) * 1_000_000
}

/// The state of one UE's readings from one source.
#[derive(Debug, Clone)]
pub struct Conditioner {
    pace: Pace,
    gaps_us: [u32; GAPS],
    gaps: usize,
    /// `None` before three gaps, because the first ones are irregular until a source finds its pace.
    median_gap_us: Option<u32>,
    average: Average,
    last: Option<(u64, Reading)>,
    last_sinr: Option<(u64, f64)>,
    /// When the latest measured capacity was made; one computed from the SINR does not count.
    last_capacity_ns: Option<u64>,
    /// When the first reading of the current burst arrived.
    burst_ns: Option<u64>,
    last_time_s: f64,
    suspect: Option<f64>,
    allowance: f64,
    refilled_ns: u64,
    transit: Transit,
}

impl Conditioner {
    /// Returns a conditioner that has seen no reading.
    #[must_use]
    pub fn new(settings: &Conditioning, pace: Pace) -> Self {
        Self {
            pace,
            gaps_us: [0; GAPS],
            gaps: 0,
            median_gap_us: None,
            average: Average::new(settings.average_time_constant),
            last: None,
            last_sinr: None,
            last_capacity_ns: None,
            burst_ns: None,
            last_time_s: f64::NEG_INFINITY,
            suspect: None,
            allowance: MAX_BURST,
            refilled_ns: 0,
            transit: Transit::default(),
        }
    }

    /// Conditions a reading that arrived at `now_ns`.
    ///
    /// # Errors
    /// The reading must not be published, for this reason.
    pub fn take(&mut self, raw: &RawReading, settings: &Conditioning, now_ns: u64) -> Result<DatedReading, Reject> {
        if self.is_live() {
            self.admit(now_ns)?;
        }
        raw.check()?;
        let transit_ms = raw.sent.map_or(0.0, |sent| self.transit.excess_ms(sent, now_ns));
        let age_ms = raw.age_ms + transit_ms;
        let made_ns = now_ns.saturating_sub((age_ms * 1e6) as u64);
        let max_age_ms = self.max_age_ms(settings);
        if age_ms > f64::from(max_age_ms) {
            if self.median_gap_us.is_none() && raw.reading.is_for_algorithms() {
                self.measure_gap(now_ns); // otherwise, the period of a source that is always late would never be known
            }
            return Err(Reject::Stale);
        }
        if !self.last.is_some_and(|(last_ns, _)| is_used(last_ns, max_age_ms, now_ns)) {
            self.last_time_s = f64::NEG_INFINITY; // after such a pause, a clock that goes back has restarted
        }
        self.check_order(raw.time_s, made_ns)?;
        if settings.skip_repeats && self.last.is_some_and(|(_, last)| last == raw.reading) {
            return Err(Reject::Repeat);
        }
        self.check_outlier(raw.reading.sinr_db, settings.outlier_db, made_ns)?;
        // a capacity alone sets the pace only while there is no fresh SINR: the SINR may come less often
        let measured_capacity = raw.reading.has_measured_capacity();
        if raw.reading.sinr_db.is_some() || measured_capacity && !self.has_fresh_sinr(settings, now_ns) {
            self.measure_gap(now_ns);
        }
        if measured_capacity {
            self.last_capacity_ns = Some(made_ns);
        }
        self.last = Some((made_ns, raw.reading));
        self.last_time_s = raw.time_s.unwrap_or(self.last_time_s);

        let mut reading = raw.reading;
        if let Some(measured) = reading.sinr_db {
            let sinr_db = measured.clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end());
            reading.sinr_db = Some(sinr_db);
            reading.average_db = Some(self.average.add(sinr_db, Duration::from_nanos(made_ns)));
            self.last_sinr = Some((made_ns, measured));
        }
        // a computed capacity does not replace a measured one that readers still use
        let max_age_ms = self.max_age_ms(settings);
        let has_measured = reading.capacity_bps.is_none()
            && self.last_capacity_ns.is_some_and(|made_ns| is_used(made_ns, max_age_ms, now_ns));
        if !has_measured
            && !reading.capacity_bps.is_some_and(|bps| bps > 0.0)
            && let Some(bps) = settings.rate.and_then(|rate| rate.hint_bps(reading.cqi, reading.mcs, reading.sinr_db))
        {
            (reading.capacity_bps, reading.is_capacity_derived) = (Some(bps), true);
        }
        Ok(DatedReading { reading, made_ns, max_age_ms, period_ms: self.period_ms() })
    }

    /// Whether readers still use its latest SINR, or measured capacity, at `now_ns`.
    #[must_use]
    pub fn is_fresh(&self, settings: &Conditioning, now_ns: u64) -> bool {
        self.has_fresh_sinr(settings, now_ns)
            || self.last_capacity_ns.is_some_and(|made_ns| is_used(made_ns, self.max_age_ms(settings), now_ns))
    }

    /// Whether its source still delivers at `now_ns`: its latest SINR, or measured capacity, is within the maximum age
    /// also without the hold-over.
    #[must_use]
    pub fn delivers(&self, settings: &Conditioning, now_ns: u64) -> bool {
        self.is_fresh(&Conditioning { hold_over: Duration::ZERO, ..*settings }, now_ns)
    }

    fn has_fresh_sinr(&self, settings: &Conditioning, now_ns: u64) -> bool {
        self.last_sinr.is_some_and(|(made_ns, _)| is_used(made_ns, self.max_age_ms(settings), now_ns))
    }

    /// Returns the age beyond which readers must ignore a reading, in ms.
    #[must_use]
    pub fn max_age_ms(&self, settings: &Conditioning) -> u32 {
        let hold_over = settings.hold_over.as_millis() as u64;
        let by_period = |period_us: f64| ((period_us * PERIODS / 1e3) as u64).max(MIN_MAX_AGE_MS);
        let base = match (settings.max_age_ms, self.pace, self.median_gap_us) {
            (Some(asked), ..) => asked.into(),
            (None, Pace::Fixed(period), _) => default_max_age_ms(Some(period)).into(),
            (None, _, Some(gap_us)) => by_period(gap_us.into()),
            (None, Pace::Expected(period), None) => by_period(period.as_micros() as f64),
            (None, Pace::Unknown, None) => DEFAULT_MAX_AGE_MS.into(),
        };
        (base + hold_over).min(MAX_AGE_LIMIT_MS.into()) as u32
    }

    fn period_ms(&self) -> u32 {
        let known_ms = |period: Duration| u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
        match (self.pace, self.median_gap_us) {
            (Pace::Fixed(period), _) | (Pace::Expected(period), None) => known_ms(period),
            (_, Some(gap_us)) => gap_us.div_ceil(1000),
            (Pace::Unknown, None) => 0,
        }
    }

    fn is_live(&self) -> bool {
        !matches!(self.pace, Pace::Fixed(_))
    }

    /// Measures the time between arrivals, not between the times at which readings were made: readers must use the last
    /// reading until the next one arrives.
    fn measure_gap(&mut self, now_ns: u64) {
        let gap = self.burst_ns.map(|began_ns| Duration::from_nanos(now_ns.saturating_sub(began_ns)));
        if gap.is_some_and(|gap| gap < BURST) {
            return;
        }
        self.burst_ns = Some(now_ns);
        let Some(gap) = gap else { return };
        self.gaps_us[self.gaps % GAPS] = u32::try_from(gap.as_micros()).unwrap_or(u32::MAX);
        self.gaps += 1;
        let mut known = self.gaps_us;
        let known = &mut known[..self.gaps.min(GAPS)];
        let middle = known.len() / 2;
        self.median_gap_us = (known.len() >= 3).then(|| *known.select_nth_unstable(middle).1);
    }

    fn admit(&mut self, now_ns: u64) -> Result<(), Reject> {
        let passed_s = now_ns.saturating_sub(self.refilled_ns) as f64 / 1e9;
        self.refilled_ns = now_ns;
        self.allowance = (self.allowance + passed_s * MAX_READINGS_PER_S).min(MAX_BURST);
        if self.allowance < 1.0 {
            return Err(Reject::Flood);
        }
        self.allowance -= 1.0;
        Ok(())
    }

    fn check_order(&self, time_s: Option<f64>, made_ns: u64) -> Result<(), Reject> {
        match self.last {
            Some(_) if time_s.is_some_and(|t| t < self.last_time_s) => Err(Reject::Backwards),
            Some(_) if time_s.is_some_and(|t| t == self.last_time_s) => Err(Reject::Duplicate),
            Some((last_ns, _)) if made_ns < last_ns => Err(Reject::Backwards),
            Some((last_ns, _)) if made_ns == last_ns => Err(Reject::Duplicate),
            _ => Ok(()),
        }
    }

    /// Holds a jump back until a second reading confirms it. This costs one period, while a wrong value would cost a
    /// window.
    fn check_outlier(&mut self, sinr_db: Option<f64>, outlier_db: f64, made_ns: u64) -> Result<(), Reject> {
        let Some(sinr_db) = sinr_db else { return Ok(()) };
        let recent = self.last_sinr.filter(|(at, _)| made_ns - at <= OUTLIER_MEMORY.as_nanos() as u64);
        let far = |from: f64| (sinr_db - from).abs() > outlier_db;
        let checked = outlier_db > 0.0 && self.is_live();
        let jumps = checked && recent.is_some_and(|(_, last)| far(last));
        if jumps && self.suspect.is_none_or(far) {
            self.suspect = Some(sinr_db);
            return Err(Reject::Outlier);
        }
        self.suspect = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
