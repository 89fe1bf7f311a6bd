//! When each reading of a trace is due, and what it says: a pure function of trace and options.
//!
//! All times here are real time as the reader of the map lives it; `speed` compresses the trace, not the options.

use crate::map::Reading;
use crate::trace::{Sample, Trace};
use hotcc_abi::radio::{DEFAULT_MAX_AGE_MS, MAX_AGE_LIMIT_MS, SINR_RANGE_DB};
use std::time::Duration;

/// How a trace is replayed.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions {
    /// Trace seconds per real second; above 0.
    pub speed: f64,
    /// Start over at the end, for ever.
    pub repeat: bool,
    /// How long the last SINR counts as valid while no new one comes; never beyond the trace's last sample.
    pub hold_over: Duration,
    /// Time constant of the running average; zero: the average is the latest value.
    pub average_time_constant: Duration,
    /// Age at which readers stop to believe a reading; a held one is published again every half of this.
    pub max_age: Duration,
}

impl ReplayOptions {
    /// Real time, once, nothing held over, 2 s of averaging, [`default_max_age_ms`].
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        Self {
            speed: 1.0,
            repeat: false,
            hold_over: Duration::ZERO,
            average_time_constant: Duration::from_secs(2),
            max_age: Duration::from_millis(default_max_age_ms(trace.period()).into()),
        }
    }
}

/// Three periods of the source, between [`DEFAULT_MAX_AGE_MS`] and [`MAX_AGE_LIMIT_MS`].
#[must_use]
pub fn default_max_age_ms(period: Option<Duration>) -> u32 {
    let wanted = period.map_or(0, |p| p.as_millis().saturating_mul(3));
    wanted.clamp(DEFAULT_MAX_AGE_MS.into(), MAX_AGE_LIMIT_MS.into()) as u32
}

/// One publication.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// When it is due, from the start of the replay.
    pub at: Duration,
    /// What to publish, as made at that moment.
    pub reading: Reading,
    /// Whether its SINR is an earlier one that is held over.
    pub held: bool,
}

/// The publications of a replay, in order of time. Endless with [`ReplayOptions::repeat`].
#[derive(Debug, Clone)]
pub struct Replay<'a> {
    samples: &'a [Sample],
    length: Duration,
    options: ReplayOptions,
    pass: u32,
    next: usize,
    average: Average,
    /// When the last SINR was measured.
    measured: Duration,
    last: Option<Step>,
}

impl<'a> Replay<'a> {
    /// A replay from the start.
    #[must_use]
    pub fn new(trace: &'a Trace, options: ReplayOptions) -> Self {
        Self {
            samples: trace.samples(),
            length: trace.duration(),
            average: Average::new(options.average_time_constant),
            options,
            pass: 0,
            next: 0,
            measured: Duration::ZERO,
            last: None,
        }
    }

    /// When the next sample is due: computed from the start each time, so errors do not add up.
    fn due(&self) -> Option<Duration> {
        let (pass, sample) = match self.samples.get(self.next) {
            Some(sample) => (self.pass, sample),
            None if self.options.repeat => (self.pass.checked_add(1)?, self.samples.first()?),
            None => return None,
        };
        let trace_s = self.length.as_secs_f64() * f64::from(pass) + sample.at.as_secs_f64();
        Duration::try_from_secs_f64(trace_s / self.options.speed).ok()
    }

    /// The publication between samples that keeps a held-over SINR fresh.
    fn refresh(&self, before: Duration) -> Option<Step> {
        let last = self.last.filter(|s| s.reading.sinr_db.is_some())?;
        let at = last.at + (self.options.max_age / 2).max(Duration::from_millis(1));
        let held = at < before && at <= self.measured + self.options.hold_over;
        held.then_some(Step { at, held: true, ..last })
    }
}

impl Iterator for Replay<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let at = self.due()?;
        if let Some(step) = self.refresh(at) {
            self.last = Some(step);
            return Some(step);
        }
        if self.next == self.samples.len() {
            self.pass += 1;
            self.next = 0;
        }
        let sample = self.samples.get(self.next)?;
        self.next += 1;
        let mut reading = Reading {
            sinr_db: sample.sinr_db.map(|db| db.clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end())),
            average_db: None,
            capacity_bps: sample.capacity_bps,
            rsrp_dbm: sample.rsrp_dbm,
            rsrq_db: sample.rsrq_db,
            cqi: sample.cqi,
            mcs: sample.mcs,
        };
        let mut held = false;
        if let Some(sinr_db) = reading.sinr_db {
            reading.average_db = Some(self.average.add(sinr_db, at));
            self.measured = at;
        } else if let Some(last) = self.last.filter(|_| at <= self.measured + self.options.hold_over) {
            reading.sinr_db = last.reading.sinr_db;
            reading.average_db = last.reading.average_db;
            held = reading.sinr_db.is_some();
        }
        let step = Step { at, reading, held };
        self.last = Some(step);
        Some(step)
    }
}

/// Exponentially weighted average over time: readings count by how long they hold, not by how many there are.
#[derive(Debug, Clone)]
pub struct Average {
    time_constant: Duration,
    last: Option<(Duration, f64)>,
}

impl Average {
    /// Nothing averaged yet.
    #[must_use]
    pub fn new(time_constant: Duration) -> Self {
        Self { time_constant, last: None }
    }

    /// Takes in a value measured at `at`, and returns the average: alpha = 1 - exp(-dt / time constant).
    pub fn add(&mut self, value: f64, at: Duration) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn trace(rows: &str) -> Trace {
        Trace::parse(Path::new("t"), format!("time_s,sinr_db\n{rows}").as_bytes()).unwrap()
    }

    fn times(replay: Replay<'_>) -> Vec<u128> {
        replay.map(|s| s.at.as_millis()).collect()
    }

    #[test]
    fn due_as_in_the_trace() {
        let t = trace("0,1\n0.1,2\n0.25,3\n");
        assert_eq!(times(Replay::new(&t, ReplayOptions::new(&t))), [0, 100, 250]);
        assert_eq!(times(Replay::new(&t, ReplayOptions { speed: 10.0, ..ReplayOptions::new(&t) })), [0, 10, 25]);
        assert_eq!(times(Replay::new(&t, ReplayOptions { speed: 0.5, ..ReplayOptions::new(&t) })), [0, 200, 500]);
    }

    #[test]
    fn repeats_without_drift() {
        let t = trace("0,1\n0.1,2\n0.2,3\n");
        let options = ReplayOptions { speed: 3.0, repeat: true, ..ReplayOptions::new(&t) };
        let steps: Vec<Step> = Replay::new(&t, options).take(30_001).collect();
        // The last sample holds for one period, so a pass takes 300 ms of trace time: 100 ms here.
        assert_eq!(steps[3].at, ms(100));
        assert_eq!(steps[30_000].at, Duration::from_secs(1000));
        assert_eq!(steps[30_000].reading.sinr_db, Some(1.0));
    }

    #[test]
    fn average_goes_by_time() {
        let mut average = Average::new(Duration::from_secs(2));
        assert_eq!(average.add(10.0, ms(0)), 10.0);
        let expected = 10.0 + (1.0 - (-0.5f64).exp()) * 10.0;
        assert!((average.add(20.0, ms(1000)) - expected).abs() < 1e-12);
        // Two readings of one value count as one that holds as long.
        let mut twice = average.clone();
        twice.add(0.0, ms(1500));
        assert!((twice.add(0.0, ms(2000)) - average.add(0.0, ms(2000))).abs() < 1e-12);
        let mut none = Average::new(Duration::ZERO);
        none.add(1.0, ms(0));
        assert_eq!(none.add(5.0, ms(1)), 5.0);
    }

    #[test]
    fn published_average_is_of_what_is_published() {
        let t = trace("0,60\n1,60\n");
        let last = Replay::new(&t, ReplayOptions::new(&t)).last().unwrap();
        assert_eq!((last.reading.sinr_db, last.reading.average_db), (Some(50.0), Some(50.0)));
    }

    #[test]
    fn without_hold_over_a_gap_is_a_gap() {
        let t = trace("0,1\n0.5,\n1,\n5,2\n");
        let steps: Vec<Step> = Replay::new(&t, ReplayOptions::new(&t)).collect();
        assert_eq!(steps.iter().map(|s| s.reading.sinr_db).collect::<Vec<_>>(), [Some(1.0), None, None, Some(2.0)]);
    }

    #[test]
    fn hold_over_keeps_the_last_sinr_alive_and_then_lets_it_go() {
        let t = trace("0,7\n0.3,\n2.4,\n5,2\n");
        let options = ReplayOptions { hold_over: ms(2000), max_age: ms(1000), ..ReplayOptions::new(&t) };
        let steps: Vec<Step> = Replay::new(&t, options).collect();
        let seen: Vec<_> = steps.iter().map(|s| (s.at.as_millis(), s.reading.sinr_db, s.held)).collect();
        let held = |at| (at, Some(7.0), true);
        let expected = [
            (0, Some(7.0), false),
            held(300),
            held(800),
            held(1300),
            held(1800),
            (2400, None, false),
            (5000, Some(2.0), false),
        ];
        assert_eq!(seen, expected);
        assert!(steps.iter().filter(|s| s.held).all(|s| s.reading.average_db == Some(7.0)));
    }

    #[test]
    fn nothing_is_held_over_after_the_end() {
        let t = trace("0,7\n1,\n");
        let options = ReplayOptions { hold_over: ms(60_000), max_age: ms(1000), ..ReplayOptions::new(&t) };
        assert_eq!(times(Replay::new(&t, options)), [0, 500, 1000]);
    }

    #[test]
    fn maximum_age_follows_the_source() {
        for (period, age) in [(None, 500), (Some(ms(50)), 500), (Some(ms(1000)), 3000), (Some(ms(13_000)), 30_000)] {
            assert_eq!(default_max_age_ms(period), age);
        }
    }
}
