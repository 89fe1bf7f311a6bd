//! Radios with given values: from a trace, from steps, or constant.

use crate::error::RadioError;
use crate::radio::{Radio, STEP, kept_sinr};
use crate::ranges::CAPACITY_BPS;
use crate::rate::RateSpec;
use crate::spec::{AtEnd, ConstantSpec, StepsSpec, TraceSpec};
use crate::trace::{Sample, Trace};
use std::path::Path;
use std::time::Duration;

/// Values with their start times, in order of time.
type Points = Vec<(Duration, f64)>;

/// Returns the value at each step: the last one that has started, or the first one if none has. The values repeat after
/// `length`.
fn sampled(points: &[(Duration, f64)], length: Option<Duration>, steps: usize) -> impl Iterator<Item = f64> {
    (0..steps).map(move |step| {
        let at = STEP.as_nanos() * step as u128;
        let at = length.map_or(at, |length| at % length.as_nanos().max(1));
        let started = points.partition_point(|(start, _)| start.as_nanos() <= at);
        points.get(started.max(1) - 1).map_or(0.0, |(_, value)| *value)
    })
}

fn radio(
    name: &str,
    sinr: Option<&Points>,
    capacity: Option<&Points>,
    rate: Option<&RateSpec>,
    length: Option<Duration>,
    steps: usize,
) -> Radio {
    let sinr_db: Option<Vec<f32>> = sinr.map(|points| sampled(points, length, steps).map(kept_sinr).collect());
    let capacity_bps = match (capacity, &sinr_db, rate) {
        (Some(points), ..) => sampled(points, length, steps).map(|bps| bps.round() as u64).collect(),
        (None, Some(sinr), Some(rate)) => sinr.iter().map(|db| rate.capacity_bps(f64::from(*db))).collect(),
        // A description that passed the check has one or the other.
        (None, ..) => vec![0; steps],
    };
    Radio::flat(name, sinr_db, capacity_bps)
}

/// Creates a constant radio from a description that [`crate::RadioSpec::check`] accepts.
pub(crate) fn constant(name: &str, spec: &ConstantSpec, steps: usize) -> Radio {
    let once = |value: Option<f64>| value.map(|value| vec![(Duration::ZERO, value)]);
    let (sinr, capacity) = (once(spec.sinr_db), once(spec.capacity_bps));
    radio(name, sinr.as_ref(), capacity.as_ref(), spec.rate.as_ref(), None, steps)
}

/// Creates a radio of steps from a description that [`crate::RadioSpec::check`] accepts.
pub(crate) fn steps(name: &str, spec: &StepsSpec, steps: usize) -> Radio {
    let timed = |points: &Vec<[f64; 2]>| -> Points {
        points.iter().map(|[at_s, value]| (Duration::from_secs_f64(*at_s), *value)).collect()
    };
    let (sinr, capacity) = (spec.sinr_db.as_ref().map(timed), spec.capacity_bps.as_ref().map(timed));
    let length = spec.repeat_s.map(Duration::from_secs_f64);
    radio(name, sinr.as_ref(), capacity.as_ref(), spec.rate.as_ref(), length, steps)
}

/// Creates the radio of a trace.
pub(crate) fn trace(name: &str, spec: &TraceSpec, base_dir: &Path, steps: usize) -> Result<Radio, RadioError> {
    let path = base_dir.join(&spec.file);
    let trace = Trace::load(&path)?;
    let window = Window::of(spec, &path, &trace)?;
    let column = |value| window.column(&trace, value);
    let sinr = column(|s| s.sinr_db);
    let lacks = |column, what| RadioError::Column { path: path.clone(), column, what };
    let capacity = match &spec.rate {
        Some(_) if sinr.is_none() => return Err(lacks("sinr_db", "`rate` computes capacity from it")),
        Some(_) => None,
        None => {
            let mut points =
                column(|s| s.capacity_bps).ok_or_else(|| lacks("capacity_bps", "it is needed without `rate`"))?;
            scale(&mut points, spec.scale_to_bps);
            Some(points)
        }
    };
    let length = (spec.at_end == AtEnd::Repeat).then_some(window.length);
    let mut radio = radio(name, sinr.as_ref(), capacity.as_ref(), spec.rate.as_ref(), length, steps);
    if let Some(factor) = spec.scale {
        let scaled = |bps: u64| (bps as f64 * factor).min(*CAPACITY_BPS.end()).round() as u64;
        radio.capacity_bps.iter_mut().for_each(|bps| *bps = scaled(*bps));
    }
    if let Some(file) = &spec.rtt_file {
        radio.base_rtt_ms = Some(rtt(&base_dir.join(file), &window, length, steps)?);
    }
    Ok(radio)
}

/// Returns the round-trip times of a window of a trace. They repeat together with the trace itself.
fn rtt(path: &Path, window: &Window, length: Option<Duration>, steps: usize) -> Result<Vec<f32>, RadioError> {
    let trace = Trace::load(path)?;
    if window.from >= trace.duration() {
        return Err(window.outside(path, &trace));
    }
    let points = window.column(&trace, |s| s.rtt_ms).ok_or_else(|| RadioError::Column {
        path: path.to_owned(),
        column: "rtt_ms",
        what: "`rtt_file` needs it",
    })?;
    Ok(sampled(&points, length, steps).map(|ms| ms as f32).collect())
}

/// The part of a trace that a radio uses.
struct Window {
    from: Duration,
    length: Duration,
}

impl Window {
    fn of(spec: &TraceSpec, path: &Path, trace: &Trace) -> Result<Self, RadioError> {
        let (from, lasts) = (Duration::from_secs_f64(spec.from_s), trace.duration());
        let length = spec.length_s.map_or_else(|| lasts.saturating_sub(from), Duration::from_secs_f64);
        let window = Self { from, length };
        if from >= lasts {
            return Err(window.outside(path, trace));
        }
        if let Some(length_s) = spec.length_s.filter(|_| from + length > lasts) {
            let (until_s, lasts_s) = (spec.from_s + length_s, lasts.as_secs_f64());
            let what = format!("the window ends at {until_s} s, but {} lasts {lasts_s} s", path.display());
            return Err(RadioError::Value { key: "length_s".into(), value: length_s.to_string(), what });
        }
        Ok(window)
    }

    fn outside(&self, path: &Path, trace: &Trace) -> RadioError {
        RadioError::Value {
            key: "from_s".into(),
            value: self.from.as_secs_f64().to_string(),
            what: format!("must be before the end of {}, at {} s", path.display(), trace.duration().as_secs_f64()),
        }
    }

    /// Returns one column's values, with times since the start of the window. At the start, the value before it still
    /// holds; before the first value, the first one holds.
    fn column(&self, trace: &Trace, value: fn(&Sample) -> Option<f64>) -> Option<Points> {
        let points: Points = trace.samples().iter().filter_map(|s| value(s).map(|v| (s.at, v))).collect();
        let started = points.partition_point(|(at, _)| *at <= self.from);
        let used = points[started.saturating_sub(1)..].iter().take_while(|(at, _)| *at < self.from + self.length);
        let mut shifted: Points = used.map(|(at, value)| (at.saturating_sub(self.from), *value)).collect();
        if shifted.is_empty() {
            shifted.push((Duration::ZERO, points.first()?.1)); // the first value comes after the window
        }
        Some(shifted)
    }
}

/// Scales the values so that the largest one is `to`. If all values are 0, they are not changed.
fn scale(points: &mut Points, to: Option<f64>) {
    let largest = points.iter().map(|(_, bps)| *bps).fold(0.0, f64::max);
    if let Some(to) = to.filter(|_| largest > 0.0) {
        points.iter_mut().for_each(|(_, bps)| *bps = *bps / largest * to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn values_hold_until_the_next() {
        let points = [(ms(0), 1.0), (ms(15), 2.0), (ms(30), 3.0)];
        assert_eq!(sampled(&points, None, 5).collect::<Vec<_>>(), [1.0, 1.0, 2.0, 3.0, 3.0]);
        assert_eq!(sampled(&points, Some(ms(35)), 6).collect::<Vec<_>>(), [1.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
        assert_eq!(sampled(&[(ms(20), 7.0), (ms(30), 8.0)], None, 4).collect::<Vec<_>>(), [7.0, 7.0, 7.0, 8.0]);
    }

    #[test]
    fn largest_value_becomes_the_rate() {
        let mut points = vec![(ms(0), 2e6), (ms(1), 8e6), (ms(2), 0.0)];
        scale(&mut points, Some(1e9));
        assert_eq!(points, [(ms(0), 2.5e8), (ms(1), 1e9), (ms(2), 0.0)]);
        let mut nothing = vec![(ms(0), 0.0)];
        scale(&mut nothing, Some(1e9));
        assert_eq!(nothing, [(ms(0), 0.0)]);
    }
}
