//! What a radio is, step by step.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Time between the entries of a [`Radio`]'s series.
pub const STEP: Duration = Duration::from_millis(10);
/// True SINR is kept in this range, in dB: beyond it nothing changes for a link, and no value is infinite.
pub const SINR_DB: RangeInclusive<f64> = -100.0..=100.0;

/// What a radio is, step by step. All series have one entry per [`Radio::step`], which holds until the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Radio {
    /// The name of its [`RadioSpec`](crate::RadioSpec); keys the noise of [`Radio::readings`].
    pub name: String,
    /// Time between entries: [`STEP`].
    pub step: Duration,
    /// Signal to interference and noise ratio in dB, within [`SINR_DB`]. `None` where only a capacity is described:
    /// nobody can read a SINR then.
    pub sinr_db: Option<Vec<f32>>,
    /// What the link can carry, in bit/s; 0 is an outage.
    pub capacity_bps: Vec<u64>,
    /// Round-trip time in ms of the path without queues; `None` if no RTT was recorded.
    pub base_rtt_ms: Option<Vec<f32>>,
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

impl Radio {
    /// A radio without geometry.
    pub(crate) fn flat(name: &str, sinr_db: Option<Vec<f32>>, capacity_bps: Vec<u64>) -> Self {
        let steps = capacity_bps.len();
        Self {
            name: name.to_owned(),
            step: STEP,
            sinr_db,
            capacity_bps,
            base_rtt_ms: None,
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
pub(crate) fn kept_sinr(db: f64) -> f32 {
    db.clamp(*SINR_DB.start(), *SINR_DB.end()) as f32
}
