//! The true state of a radio, step by step.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Time between the entries of a [`Radio`]'s series.
pub const STEP: Duration = Duration::from_millis(10);
/// Range of the true SINR, in dB. Values are clamped to it: beyond it nothing changes for a link, and no value is
/// infinite.
pub const SINR_DB: RangeInclusive<f64> = -100.0..=100.0;

/// The true state of a radio. All series have one entry per [`Radio::step`]; each entry holds until the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Radio {
    /// Name of its [`RadioSpec`](crate::RadioSpec). It also keys the noise of [`Radio::readings`].
    pub name: String,
    /// Time between entries: [`STEP`].
    pub step: Duration,
    /// Signal to interference and noise ratio in dB, within [`SINR_DB`]. `None` if the description has only a capacity:
    /// a SINR cannot be read then.
    pub sinr_db: Option<Vec<f32>>,
    /// Capacity of the link in bit/s; 0 is an outage.
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
    /// Start of the first step after the change.
    pub at: Duration,
    /// Whether there is line of sight after the change.
    pub line_of_sight: bool,
}

impl Radio {
    /// Creates a radio without geometry.
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

    /// Returns the radio's length, in whole steps.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.start_of(self.capacity_bps.len())
    }

    /// Returns the changes between line of sight and none, in order of time.
    #[must_use]
    pub fn edges(&self) -> Vec<Edge> {
        let pairs = self.line_of_sight.windows(2).enumerate();
        let changes = pairs.filter(|(_, pair)| pair[0] != pair[1]);
        changes.map(|(i, pair)| Edge { at: self.start_of(i + 1), line_of_sight: pair[1] }).collect()
    }

    /// Returns the start of a step.
    fn start_of(&self, index: usize) -> Duration {
        Duration::from_nanos(self.step.as_nanos() as u64 * index as u64)
    }
}

/// Converts a SINR to the type and range of a [`Radio`].
pub(crate) fn kept_sinr(db: f64) -> f32 {
    db.clamp(*SINR_DB.start(), *SINR_DB.end()) as f32
}
