//! The times at which the samples of a trace are due: a pure function of trace and options.

use super::{Sample, Trace};
use std::time::Duration;

/// How a trace is replayed.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions {
    /// Trace seconds per real second; greater than 0.
    pub speed: f64,
    /// Whether the replay restarts at the end, for ever.
    pub repeat: bool,
}

impl Default for ReplayOptions {
    /// Returns the options for a single replay in real time.
    fn default() -> Self {
        Self { speed: 1.0, repeat: false }
    }
}

/// One publication of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Real time at which it is due, from the start of the replay.
    pub at: Duration,
    /// The measured values.
    pub sample: Sample,
}

/// The publications of a replay, in order of time. Endless with [`ReplayOptions::repeat`].
#[derive(Debug, Clone)]
pub struct Replay<'a> {
    samples: &'a [Sample],
    length: Duration,
    options: ReplayOptions,
    pass: u32,
    next: usize,
}

impl<'a> Replay<'a> {
    /// Creates a replay from the start.
    #[must_use]
    pub fn new(trace: &'a Trace, options: ReplayOptions) -> Self {
        Self { samples: trace.samples(), length: trace.duration(), options, pass: 0, next: 0 }
    }
}

impl Iterator for Replay<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.next == self.samples.len() && self.options.repeat {
            self.pass = self.pass.checked_add(1)?;
            self.next = 0;
        }
        let sample = *self.samples.get(self.next)?;
        self.next += 1;
        // Computed from the start each time, so errors do not add up.
        let trace_s = self.length.as_secs_f64() * f64::from(self.pass) + sample.at.as_secs_f64();
        let at = Duration::try_from_secs_f64(trace_s / self.options.speed).ok()?;
        Some(Step { at, sample })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn trace(rows: &str) -> Trace {
        Trace::parse(Path::new("t"), format!("time_s,sinr_db\n{rows}").as_bytes()).unwrap()
    }

    fn times(replay: Replay<'_>) -> Vec<u128> {
        replay.map(|s| s.at.as_millis()).collect()
    }

    #[test]
    fn due_as_in_the_trace() {
        let t = trace("0,1\n0.1,2\n0.25,3\n");
        let options = ReplayOptions::default();
        assert_eq!(times(Replay::new(&t, options)), [0, 100, 250]);
        assert_eq!(times(Replay::new(&t, ReplayOptions { speed: 10.0, ..options })), [0, 10, 25]);
        assert_eq!(times(Replay::new(&t, ReplayOptions { speed: 0.5, ..options })), [0, 200, 500]);
    }

    #[test]
    fn repeats_without_drift() {
        let t = trace("0,1\n0.1,2\n0.2,3\n");
        let steps: Vec<Step> = Replay::new(&t, ReplayOptions { speed: 3.0, repeat: true }).take(30_001).collect();
        // The last sample holds for one period, so a pass takes 300 ms of trace time: 100 ms here.
        assert_eq!(steps[3].at, Duration::from_millis(100));
        assert_eq!(steps[30_000].at, Duration::from_secs(1000));
        assert_eq!(steps[30_000].sample.sinr_db, Some(1.0));
    }
}
