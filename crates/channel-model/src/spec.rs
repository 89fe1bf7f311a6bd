//! What a scenario file says of a radio: one `[[radio]]` table. `docs/reference/radio.md` explains every key.

use crate::rate::RateSpec;
use serde::Deserialize;
use std::path::PathBuf;

/// A radio, by its `model`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case")]
pub enum RadioSpec {
    /// Recorded.
    Trace(TraceSpec),
    /// Always the same.
    Constant(ConstantSpec),
    /// Given values from given times on.
    Steps(StepsSpec),
    /// A user in a street canyon (3GPP TR 38.901, UMi).
    Umi(Box<UmiSpec>),
}

impl RadioSpec {
    /// Its name, by which other parts of a scenario refer to it; keys its randomness too.
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
    /// The file; relative to the scenario's.
    pub file: PathBuf,
    /// A file with the round-trip time of the path without queues, which the link's delay follows.
    pub rtt_file: Option<PathBuf>,
    /// Where in the trace the radio starts, in s.
    #[serde(default)]
    pub from_s: f64,
    /// How much of the trace is used, in s; without it, the trace up to its end.
    pub length_s: Option<f64>,
    /// What follows the last sample.
    #[serde(default)]
    pub at_end: AtEnd,
    /// Capacity from the trace's SINR; without it, capacity is the trace's.
    pub rate: Option<RateSpec>,
    /// The trace's highest capacity becomes this many bit/s, the others in proportion.
    pub scale_to_bps: Option<f64>,
    /// Factor on the capacity.
    pub scale: Option<f64>,
}

/// What follows the last sample of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtEnd {
    /// The trace again.
    #[default]
    Repeat,
    /// Its last values.
    Hold,
}

/// The same values all the time.
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
    /// Capacity from the SINR.
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
    /// Start over every so many seconds.
    pub repeat_s: Option<f64>,
    /// Capacity from the SINR.
    pub rate: Option<RateSpec>,
}

/// A user, a station and what stands between them: UMi street canyon of 3GPP TR 38.901.
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
    /// Interference over the whole bandwidth in dBm; none without it.
    pub interference_dbm: Option<f64>,
    /// Added to every SINR, in dB.
    #[serde(default)]
    pub sinr_offset_db: f64,
    /// The base station.
    pub station: Station,
    /// The user.
    pub ue: User,
    /// What decides on line of sight.
    #[serde(default)]
    pub line_of_sight: LineOfSight,
    /// What stands in the plane.
    #[serde(default)]
    pub obstacles: Vec<Obstacle>,
    /// Shadowing; none without it.
    pub shadowing: Option<Shadowing>,
    /// Small-scale fading; none without it.
    pub fading: Option<Fading>,
    /// Capacity from the SINR.
    pub rate: RateSpec,
}

/// A base station.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// Where: x and y in m.
    pub at: [f64; 2],
    /// Height of its antenna in m.
    #[serde(default = "default_station_height_m")]
    pub height_m: f64,
}

/// A user who stands or walks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Where it goes, from the first to the last, and stays.
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
    /// Where: x and y in m.
    pub at: [f64; 2],
    /// How long the user stands there, in s.
    #[serde(default)]
    pub wait_s: f64,
}

/// What decides on line of sight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineOfSight {
    /// None where an obstacle is in the line from user to station.
    #[default]
    Obstacles,
    /// Drawn by the probability of TR 38.901 table 7.4.2-1, consistent over 50 m (clause 7.6.3).
    Table,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Something that takes the line of sight, however high the antennas are.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obstacle {
    /// Its shape.
    pub shape: Shape,
    /// A corner or end: x and y in m.
    pub from: [f64; 2],
    /// The opposite corner or other end: x and y in m.
    pub to: [f64; 2],
    /// Loss in dB beyond the path loss without line of sight; those of all obstacles in the line add up.
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

/// Lognormal shadowing that changes as the user moves; defaults of TR 38.901 for UMi street canyon: sigma of table
/// 7.4.1-1, correlation distance of table 7.5-6.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shadowing {
    /// Standard deviation with line of sight, in dB.
    pub los_sigma_db: f64,
    /// Standard deviation without, in dB.
    pub nlos_sigma_db: f64,
    /// Correlation distance with line of sight, in m.
    pub los_correlation_m: f64,
    /// Correlation distance without, in m.
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
    /// The least Doppler frequency in Hz: what moves around a user who stands.
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

/// What 3GPP studies below 6 GHz mostly take for a handset.
fn default_noise_figure_db() -> f64 {
    9.0
}

/// What table 7.4.1-1 of TR 38.901 is stated for.
fn default_station_height_m() -> f64 {
    10.0
}

/// A phone in a hand: the least that table 7.4.1-1 of TR 38.901 covers.
fn default_user_height_m() -> f64 {
    1.5
}
