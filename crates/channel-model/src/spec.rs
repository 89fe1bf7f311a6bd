//! The description of a radio in a scenario file: one `[[radio]]` table. `docs/reference/radio.md` explains every key.

use crate::rate::RateSpec;
use serde::Deserialize;
use std::path::PathBuf;

/// A radio, distinguished by its `model`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum RadioSpec {
    /// Recorded values.
    Trace(TraceSpec),
    /// Constant values.
    Constant(ConstantSpec),
    /// Given values from given times on.
    Steps(StepsSpec),
    /// A user in a street canyon (3GPP TR 38.901, UMi).
    Umi(Box<UmiSpec>),
}

impl RadioSpec {
    /// Returns the radio's name, by which other parts of a scenario refer to it. The name also keys the radio's
    /// randomness.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Trace(spec) => &spec.name,
            Self::Constant(spec) => &spec.name,
            Self::Steps(spec) => &spec.name,
            Self::Umi(spec) => &spec.name,
        }
    }
}

/// Recorded values, from a file of any format that [`crate::trace::Trace`] reads.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// See [`RadioSpec::name`].
    #[serde(default = "default_name")]
    pub name: String,
    /// The file; relative to the scenario file.
    pub file: PathBuf,
    /// A file with the round-trip times of the path without queues. The link's delay follows them.
    pub rtt_file: Option<PathBuf>,
    /// Time in the trace at which the radio starts, in s.
    #[serde(default)]
    pub from_s: f64,
    /// Length of the part of the trace that is used, in s; without it, the trace is used up to its end.
    pub length_s: Option<f64>,
    /// What follows the last sample.
    #[serde(default)]
    pub at_end: AtEnd,
    /// Computes the capacity from the trace's SINR; without it, the capacity is that of the trace.
    pub rate: Option<RateSpec>,
    /// Scales the capacity so that the trace's highest one is this many bit/s.
    pub scale_to_bps: Option<f64>,
    /// Factor on the capacity.
    pub scale: Option<f64>,
}

/// What follows the last sample of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtEnd {
    /// The trace repeats.
    #[default]
    Repeat,
    /// The last values hold.
    Hold,
}

/// Constant values.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantSpec {
    /// See [`RadioSpec::name`].
    #[serde(default = "default_name")]
    pub name: String,
    /// SINR in dB.
    pub sinr_db: Option<f64>,
    /// Capacity in bit/s.
    pub capacity_bps: Option<f64>,
    /// Computes the capacity from the SINR.
    pub rate: Option<RateSpec>,
}

/// Values that change at given times.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepsSpec {
    /// See [`RadioSpec::name`].
    #[serde(default = "default_name")]
    pub name: String,
    /// Pairs of time in s and SINR in dB from then on; the first at 0.
    pub sinr_db: Option<Vec<[f64; 2]>>,
    /// Pairs of time in s and capacity in bit/s from then on; the first at 0.
    pub capacity_bps: Option<Vec<[f64; 2]>>,
    /// Period after which the values repeat, in s.
    pub repeat_s: Option<f64>,
    /// Computes the capacity from the SINR.
    pub rate: Option<RateSpec>,
}

/// A user, a station and the obstacles between them: UMi street canyon of 3GPP TR 38.901.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UmiSpec {
    /// See [`RadioSpec::name`].
    #[serde(default = "default_name")]
    pub name: String,
    /// Carrier frequency in GHz, 0.5 to 100.
    pub carrier_ghz: f64,
    /// Transmit power over the whole bandwidth, in dBm.
    pub tx_power_dbm: f64,
    /// Gain of the sender's antennas with beamforming, in dBi.
    #[serde(default)]
    pub tx_gain_dbi: f64,
    /// Gain of the receiver's antennas with beamforming, in dBi.
    #[serde(default)]
    pub rx_gain_dbi: f64,
    /// Noise figure of the receiver in dB.
    #[serde(default = "default_noise_figure_db")]
    pub noise_figure_db: f64,
    /// Interference over the whole bandwidth in dBm; without it, there is none.
    pub interference_dbm: Option<f64>,
    /// Offset in dB that is added to every SINR.
    #[serde(default)]
    pub sinr_offset_db: f64,
    /// The base station.
    pub station: Station,
    /// The user.
    pub ue: User,
    /// What determines line of sight.
    #[serde(default)]
    pub line_of_sight: LineOfSight,
    /// Obstacles in the plane.
    #[serde(default)]
    pub obstacles: Vec<Obstacle>,
    /// Shadowing; without it, there is none.
    pub shadowing: Option<Shadowing>,
    /// Small-scale fading; without it, there is none.
    pub fading: Option<Fading>,
    /// Computes the capacity from the SINR.
    pub rate: RateSpec,
}

/// A base station.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// Position: x and y in m.
    pub at: [f64; 2],
    /// Height of its antenna in m.
    #[serde(default = "default_station_height_m")]
    pub height_m: f64,
}

/// A user who stands or walks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The points that the user visits in order; it stays at the last one.
    pub path: Vec<Waypoint>,
    /// Speed in m/s.
    #[serde(default)]
    pub speed_mps: f64,
    /// Height of its antenna in m.
    #[serde(default = "default_user_height_m")]
    pub height_m: f64,
}

/// A point of a path.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waypoint {
    /// Position: x and y in m.
    pub at: [f64; 2],
    /// How long the user stands there, in s.
    #[serde(default)]
    pub wait_s: f64,
}

/// What determines line of sight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineOfSight {
    /// There is none if an obstacle is on the line from user to station.
    #[default]
    Obstacles,
    /// Random, by the probability of TR 38.901 table 7.4.2-1, consistent over 50 m (clause 7.6.3).
    Table,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// An obstacle that blocks the line of sight, however high the antennas are.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obstacle {
    /// Its shape.
    pub shape: Shape,
    /// A corner or end: x and y in m.
    pub from: [f64; 2],
    /// The opposite corner or other end: x and y in m.
    pub to: [f64; 2],
    /// Loss in dB in addition to the path loss without line of sight. The losses of all obstacles in the line add up.
    #[serde(default)]
    pub extra_loss_db: f64,
}

/// Shape of an obstacle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A building, parallel to the axes.
    Rectangle,
    /// A straight wall, or hedge.
    Wall,
}

/// Lognormal shadowing that changes as the user moves. The defaults are those of TR 38.901 for UMi street canyon: sigma
/// of table 7.4.1-1, correlation distance of table 7.5-6.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shadowing {
    /// Standard deviation with line of sight, in dB.
    pub los_sigma_db: f64,
    /// Standard deviation without line of sight, in dB.
    pub nlos_sigma_db: f64,
    /// Correlation distance with line of sight, in m.
    pub los_correlation_m: f64,
    /// Correlation distance without line of sight, in m.
    pub nlos_correlation_m: f64,
}

impl Default for Shadowing {
    fn default() -> Self {
        Self { los_sigma_db: 4.0, nlos_sigma_db: 7.82, los_correlation_m: 10.0, nlos_correlation_m: 13.0 }
    }
}

/// Small-scale fading: Rician with line of sight, Rayleigh without.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fading {
    /// Rician K with line of sight, in dB; default: the mean of TR 38.901 table 7.5-6.
    pub rician_k_db: f64,
    /// Minimum Doppler frequency in Hz, from movement around a user who stands.
    pub least_doppler_hz: f64,
    /// Independent paths whose power is averaged: frequency and antenna diversity.
    pub branches: u32,
}

impl Default for Fading {
    fn default() -> Self {
        Self { rician_k_db: 9.0, least_doppler_hz: 0.0, branches: 1 }
    }
}

fn default_name() -> String {
    "radio".into()
}

/// The usual value for a handset in 3GPP studies below 6 GHz.
fn default_noise_figure_db() -> f64 {
    9.0
}

/// The height for which table 7.4.1-1 of TR 38.901 is stated.
fn default_station_height_m() -> f64 {
    10.0
}

/// A phone in a hand: the minimum height that table 7.4.1-1 of TR 38.901 covers.
fn default_user_height_m() -> f64 {
    1.5
}
