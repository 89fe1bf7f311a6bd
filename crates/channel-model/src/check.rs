//! Validation of the description of a radio. Errors name the key and the value, so that a typing error is easy to find.

use crate::error::RadioError;
use crate::geometry::distance;
use crate::ranges::{CAPACITY_BPS, SINR_DB};
use crate::rate::RateSpec;
use crate::spec::{
    ConstantSpec, Fading, LineOfSight, Obstacle, RadioSpec, Shadowing, Shape, StepsSpec, TraceSpec, UmiSpec, User,
};
use std::ops::RangeInclusive;

/// Rates to scale to, in bit/s.
const SCALE_BPS: RangeInclusive<f64> = 1.0..=1e15;
/// Factors on a trace's capacity.
const SCALE: RangeInclusive<f64> = 1e-6..=1e6;
/// Times within a trace, in s: the longest trace is a leap year.
const TRACE_S: RangeInclusive<f64> = 0.0..=366.0 * 86_400.0;
/// Times within a run, in s.
const TIME_S: RangeInclusive<f64> = 0.0..=86_400.0;
/// Transmit power and interference, in dBm.
const POWER_DBM: RangeInclusive<f64> = -200.0..=100.0;
/// Maximum distance from the station in m for which TR 38.901 table 7.4.1-1 is valid.
const FARTHEST_M: f64 = 5000.0;
/// Maximum number of points of a path, and of obstacles: each costs time at every step.
const MAX_POINTS: usize = 1000;

type CheckResult = Result<(), RadioError>;

fn refuse(key: impl Into<String>, value: impl ToString, what: impl Into<String>) -> RadioError {
    RadioError::Value { key: key.into(), value: value.to_string(), what: what.into() }
}

/// Checks that a number is in a range. NaN is in no range.
pub(crate) fn range(key: &str, value: f64, range: RangeInclusive<f64>) -> CheckResult {
    if range.contains(&value) {
        return Ok(());
    }
    Err(refuse(key, value, format!("must be from {} to {}", range.start(), range.end())))
}

impl RadioSpec {
    /// Checks the description. The content of a trace file is not checked.
    ///
    /// # Errors
    /// Names the invalid key and its value, or the key that is missing.
    pub fn check(&self) -> Result<(), RadioError> {
        if self.name().is_empty() {
            return Err(refuse("name", "\"\"", "must not be empty"));
        }
        match self {
            Self::Trace(spec) => trace(spec),
            Self::Constant(spec) => constant(spec),
            Self::Steps(spec) => steps(spec),
            Self::Umi(spec) => umi(spec),
        }
    }
}

fn trace(spec: &TraceSpec) -> CheckResult {
    if spec.file.as_os_str().is_empty() {
        return Err(refuse("file", "\"\"", "must name a trace"));
    }
    if spec.rtt_file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
        return Err(refuse("rtt_file", "\"\"", "must name a trace with rtt_ms"));
    }
    range("from_s", spec.from_s, TRACE_S)?;
    spec.length_s.map_or(Ok(()), |s| range("length_s", s, 0.01..=*TRACE_S.end()))?;
    spec.scale.map_or(Ok(()), |factor| range("scale", factor, SCALE))?;
    spec.rate.as_ref().map_or(Ok(()), rate)?;
    if let (Some(scale), Some(_)) = (spec.scale, spec.scale_to_bps) {
        return Err(refuse("scale", scale, "cannot be used with scale_to_bps; remove one of them"));
    }
    let Some(scale_to_bps) = spec.scale_to_bps else { return Ok(()) };
    if spec.rate.is_some() {
        return Err(refuse(
            "scale_to_bps",
            scale_to_bps,
            "cannot be used with `rate`, which replaces the trace's capacity; use rate.scale_to_bps",
        ));
    }
    range("scale_to_bps", scale_to_bps, SCALE_BPS)
}

/// Checks that the capacity is either given or follows from a SINR, but not both.
fn source(sinr: bool, capacity: Option<String>, spec: Option<&RateSpec>) -> CheckResult {
    spec.map_or(Ok(()), rate)?;
    match (sinr, capacity, spec.is_some()) {
        (_, Some(value), true) => {
            Err(refuse("capacity_bps", value, "`rate` already computes capacity from sinr_db; remove one of them"))
        }
        (false, None, true) => Err(RadioError::Missing { key: "sinr_db", what: "`rate` computes capacity from it" }),
        (_, None, false) => Err(RadioError::Missing {
            key: "capacity_bps",
            what: "give it, or both sinr_db and `rate`, which computes capacity",
        }),
        (_, Some(_), false) | (true, None, true) => Ok(()),
    }
}

fn constant(spec: &ConstantSpec) -> CheckResult {
    source(spec.sinr_db.is_some(), spec.capacity_bps.map(|bps| bps.to_string()), spec.rate.as_ref())?;
    spec.sinr_db.map_or(Ok(()), |db| range("sinr_db", db, SINR_DB))?;
    spec.capacity_bps.map_or(Ok(()), |bps| range("capacity_bps", bps, CAPACITY_BPS))
}

fn steps(spec: &StepsSpec) -> CheckResult {
    let capacity = spec.capacity_bps.as_ref().map(|points| format!("[{} pairs]", points.len()));
    source(spec.sinr_db.is_some(), capacity, spec.rate.as_ref())?;
    spec.repeat_s.map_or(Ok(()), |s| range("repeat_s", s, 0.01..=*TIME_S.end()))?;
    let list = |key: &str, points: &Option<Vec<[f64; 2]>>, values: RangeInclusive<f64>| {
        points.as_ref().map_or(Ok(()), |points| timed(key, points, values, spec.repeat_s))
    };
    list("sinr_db", &spec.sinr_db, SINR_DB)?;
    list("capacity_bps", &spec.capacity_bps, CAPACITY_BPS)
}

fn timed(key: &str, points: &[[f64; 2]], values: RangeInclusive<f64>, repeat_s: Option<f64>) -> CheckResult {
    let Some([first_s, _]) = points.first() else {
        return Err(refuse(key, "[]", "must have at least one pair, at 0 s"));
    };
    if *first_s != 0.0 {
        return Err(refuse(format!("{key}[0][0]"), first_s, "the first time must be 0"));
    }
    let mut before_s = None;
    for (i, [at_s, value]) in points.iter().enumerate() {
        let time = format!("{key}[{i}][0]");
        range(&time, *at_s, TIME_S)?;
        range(&format!("{key}[{i}][1]"), *value, values.clone())?;
        if before_s.is_some_and(|before_s| *at_s <= before_s) {
            return Err(refuse(time, at_s, "must be later than the previous time"));
        }
        if repeat_s.is_some_and(|repeat_s| *at_s >= repeat_s) {
            return Err(refuse(time, at_s, "must be earlier than repeat_s"));
        }
        before_s = Some(*at_s);
    }
    Ok(())
}

fn rate(spec: &RateSpec) -> CheckResult {
    range("rate.bandwidth_mhz", spec.bandwidth_mhz, 0.1..=10_000.0)?;
    if let Some(overhead) = spec.overhead {
        range("rate.overhead", overhead, 0.0..=0.99)?;
        if spec.scale_to_bps.is_some() {
            return Err(refuse("rate.overhead", overhead, "has no effect with scale_to_bps; remove one of them"));
        }
    }
    spec.scale_to_bps.map_or(Ok(()), |bps| range("rate.scale_to_bps", bps, SCALE_BPS))
}

fn umi(spec: &UmiSpec) -> CheckResult {
    range("carrier_ghz", spec.carrier_ghz, 0.5..=100.0)?;
    range("tx_power_dbm", spec.tx_power_dbm, POWER_DBM)?;
    range("tx_gain_dbi", spec.tx_gain_dbi, -50.0..=60.0)?;
    range("rx_gain_dbi", spec.rx_gain_dbi, -50.0..=60.0)?;
    range("noise_figure_db", spec.noise_figure_db, 0.0..=40.0)?;
    spec.interference_dbm.map_or(Ok(()), |dbm| range("interference_dbm", dbm, POWER_DBM))?;
    range("sinr_offset_db", spec.sinr_offset_db, -100.0..=100.0)?;
    // Table 7.4.1-1 is stated for stations of 10 m. Below the minimum height, the breakpoint distance is meaningless.
    range("station.height_m", spec.station.height_m, 2.0..=100.0)?;
    point("station.at", spec.station.at)?;
    user(&spec.ue, spec.station.at)?;
    obstacles(&spec.obstacles, spec.line_of_sight)?;
    spec.shadowing.as_ref().map_or(Ok(()), shadowing)?;
    spec.fading.as_ref().map_or(Ok(()), fading)?;
    rate(&spec.rate)
}

fn point(key: &str, at: [f64; 2]) -> CheckResult {
    if at.iter().all(|v| (-100_000.0..=100_000.0).contains(v)) {
        return Ok(());
    }
    Err(refuse(key, format!("{at:?}"), "must be two numbers from -100000 to 100000"))
}

fn user(spec: &User, station: [f64; 2]) -> CheckResult {
    // Applicability of table 7.4.1-1.
    range("ue.height_m", spec.height_m, 1.5..=22.5)?;
    if spec.path.is_empty() || spec.path.len() > MAX_POINTS {
        let what = format!("must have 1 to {MAX_POINTS} points");
        return Err(refuse("ue.path", format!("[{} points]", spec.path.len()), what));
    }
    for (i, waypoint) in spec.path.iter().enumerate() {
        let key = format!("ue.path[{i}].at");
        point(&key, waypoint.at)?;
        range(&format!("ue.path[{i}].wait_s"), waypoint.wait_s, TIME_S)?;
        if distance(waypoint.at, station) > FARTHEST_M {
            let what = format!("must be at most {FARTHEST_M} m from the station, the range of the path loss formulas");
            return Err(refuse(key, format!("{:?}", waypoint.at), what));
        }
    }
    // A user with a single point needs no speed.
    let least = if spec.path.len() > 1 { 0.01 } else { 0.0 };
    range("ue.speed_mps", spec.speed_mps, least..=150.0)
}

fn obstacles(all: &[Obstacle], line_of_sight: LineOfSight) -> CheckResult {
    if all.len() > MAX_POINTS {
        return Err(refuse(
            "obstacles",
            format!("[{} obstacles]", all.len()),
            format!("must be at most {MAX_POINTS} obstacles"),
        ));
    }
    if !all.is_empty() && line_of_sight != LineOfSight::Obstacles {
        let what = "need line_of_sight = \"obstacles\"; set it, or remove the obstacles";
        return Err(refuse("obstacles", format!("[{} obstacles]", all.len()), what));
    }
    for (i, obstacle) in all.iter().enumerate() {
        point(&format!("obstacles[{i}].from"), obstacle.from)?;
        let to = format!("obstacles[{i}].to");
        point(&to, obstacle.to)?;
        let same = [obstacle.from[0] == obstacle.to[0], obstacle.from[1] == obstacle.to[1]];
        if obstacle.shape == Shape::Rectangle && same.contains(&true) {
            return Err(refuse(
                to,
                format!("{:?}", obstacle.to),
                "must differ from `from` in x and y; for a line, use shape = \"wall\"",
            ));
        }
        if same == [true, true] {
            return Err(refuse(to, format!("{:?}", obstacle.to), "must differ from `from`"));
        }
        range(&format!("obstacles[{i}].extra_loss_db"), obstacle.extra_loss_db, 0.0..=200.0)?;
    }
    Ok(())
}

fn shadowing(spec: &Shadowing) -> CheckResult {
    range("shadowing.los_sigma_db", spec.los_sigma_db, 0.0..=30.0)?;
    range("shadowing.nlos_sigma_db", spec.nlos_sigma_db, 0.0..=30.0)?;
    range("shadowing.los_correlation_m", spec.los_correlation_m, 0.1..=10_000.0)?;
    range("shadowing.nlos_correlation_m", spec.nlos_correlation_m, 0.1..=10_000.0)
}

fn fading(spec: &Fading) -> CheckResult {
    range("fading.rician_k_db", spec.rician_k_db, -40.0..=40.0)?;
    range("fading.least_doppler_hz", spec.least_doppler_hz, 0.0..=50_000.0)?;
    range("fading.branches", spec.branches.into(), 1.0..=64.0)
}

#[cfg(test)]
mod tests;
