//! The radio of a lab scenario: what its link really is, and what a feeder gets to see of it.
//!
//! A [`RadioSpec`] describes a radio (a recorded trace, given steps, or a user who walks through a street). It and a
//! seed make a [`Radio`]: the true series that drive the link. [`Radio::readings`] makes of them what a feeder
//! publishes: late, noisy, now and then. `docs/reference/radio.md` has every model with its keys, formulas and sources.
//!
//! All of it is a pure function of its arguments and of the trace file: no clock, no thread, no logarithm of the
//! platform's C library (whose last bit differs between machines), and one random stream per purpose.

mod check;
mod fading;
mod geometry;
mod random;
mod rate;
mod readings;
mod series;
mod spec;
mod umi;

pub use rate::{RateSpec, Table};
pub use readings::{FeederSpec, ReadingAt};
pub use spec::{
    AtEnd, ConstantSpec, Fading, LineOfSight, Obstacle, RadioSpec, Shadowing, Shape, Station, StepsSpec, TraceSpec,
    UmiSpec, User, Waypoint,
};

use crate::trace::TraceError;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between the entries of a [`Radio`]'s series.
pub const STEP: Duration = Duration::from_millis(10);
/// The longest radio that [`RadioSpec::realise`] makes.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// True SINR is kept in this range, in dB: beyond it nothing changes for a link, and no value is infinite.
pub const SINR_DB: RangeInclusive<f64> = -100.0..=100.0;

/// Why a radio cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RadioError {
    /// A key has a value that cannot be.
    #[error("{key} = {value}: {what}")]
    Value {
        /// The key, with the tables it stands in (`obstacles[2].to`).
        key: String,
        /// Its value, as read.
        value: String,
        /// What it must be.
        what: String,
    },
    /// A key is missing that the others need.
    #[error("{key}: missing: {what}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What needs it.
        what: &'static str,
    },
    /// The trace file could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has no value of a kind that is needed.
    #[error("cannot use the trace: {} holds no {column}, {what}", path.display())]
    Column {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        column: &'static str,
        /// What needs it.
        what: &'static str,
    },
}

/// What a radio is, step by step. All series have one entry per [`Radio::step`], which holds until the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Radio {
    /// The name of its [`RadioSpec`]; keys the noise of [`Radio::readings`].
    pub name: String,
    /// Time between entries: [`STEP`].
    pub step: Duration,
    /// Signal to interference and noise ratio in dB, within [`SINR_DB`]. `None` where only a capacity is described:
    /// nobody can read a SINR then.
    pub sinr_db: Option<Vec<f32>>,
    /// What the link can carry, in bit/s; 0 is an outage.
    pub capacity_bps: Vec<u64>,
    /// Whether the user sees the station. Always true for models without geometry.
    pub line_of_sight: Vec<bool>,
    /// Distance of the antennas (3D) in m; 0 for models without geometry.
    pub distance_m: Vec<f32>,
}

/// A change between line of sight and none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// When, as the start of the first step after the change.
    pub at: Duration,
    /// What it changes to: line of sight (true) or none.
    pub line_of_sight: bool,
}

impl RadioSpec {
    /// Makes the radio: `ceil(duration / STEP)` entries per series. The same arguments, and the same trace file,
    /// make the same bytes on every machine. `base_dir` is what relative trace files are relative to.
    ///
    /// # Errors
    /// What [`RadioSpec::check`] finds; a duration above [`LONGEST`]; a trace file that cannot be read or lacks what
    /// the description asks of it.
    pub fn realise(&self, base_dir: &Path, seed: u64, duration: Duration) -> Result<Radio, RadioError> {
        self.check()?;
        if duration > LONGEST {
            return Err(RadioError::Value {
                key: "duration".into(),
                value: format!("{} s", duration.as_secs()),
                what: format!("must be at most {} s", LONGEST.as_secs()),
            });
        }
        let steps = duration.as_nanos().div_ceil(STEP.as_nanos()) as usize;
        let name = self.name();
        match self {
            Self::Trace(spec) => series::trace(name, spec, base_dir, steps),
            Self::Constant(spec) => Ok(series::constant(name, spec, steps)),
            Self::Steps(spec) => Ok(series::steps(name, spec, steps)),
            Self::Umi(spec) => Ok(umi::realise(name, spec, seed, steps)),
        }
    }
}

impl Radio {
    /// A radio without geometry.
    fn flat(name: &str, sinr_db: Option<Vec<f32>>, capacity_bps: Vec<u64>) -> Self {
        let steps = capacity_bps.len();
        Self {
            name: name.to_owned(),
            step: STEP,
            sinr_db,
            capacity_bps,
            line_of_sight: vec![true; steps],
            distance_m: vec![0.0; steps],
        }
    }

    /// How long it lasts: whole steps.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.start_of(self.capacity_bps.len())
    }

    /// Changes between line of sight and none, in order of time.
    #[must_use]
    pub fn edges(&self) -> Vec<Edge> {
        let pairs = self.line_of_sight.windows(2).enumerate();
        let changes = pairs.filter(|(_, pair)| pair[0] != pair[1]);
        changes.map(|(i, pair)| Edge { at: self.start_of(i + 1), line_of_sight: pair[1] }).collect()
    }

    /// When a step starts.
    fn start_of(&self, index: usize) -> Duration {
        Duration::from_nanos(self.step.as_nanos() as u64 * index as u64)
    }
}

/// A SINR as it is kept.
fn kept_sinr(db: f64) -> f32 {
    db.clamp(*SINR_DB.start(), *SINR_DB.end()) as f32
}

#[cfg(test)]
mod tests;
