//! Code that the formats share: lines, and the cells of a line.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Maximum length of a trace.
pub(super) const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// An error and its line. A caller that knows the file's name adds it.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) line: u64,
    pub(super) what: String,
}

impl Malformed {
    pub(super) fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// Returns the lines that are neither empty nor comments, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let numbered = text.lines().enumerate().map(|(i, line)| (i as u64 + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Parses a finite number within a range. `f64::from_str` alone also accepts "inf" and "nan".
pub(super) fn number(name: &str, text: &str, range: &RangeInclusive<f64>) -> Result<f64, String> {
    let value: f64 = text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{name} '{shown}' is not a finite number")
    })?;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(format!("{name} {text} is out of range: expected {} to {}", range.start(), range.end()))
}

/// Parses a whole number up to `limit`.
pub(super) fn index(name: &str, text: &str, limit: u8) -> Result<u8, String> {
    let value = text.parse().ok().filter(|v: &u8| *v <= limit);
    value.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{name} '{shown}' is not a whole number from 0 to {limit}")
    })
}

/// Parses a whole number that identifies a cell.
pub(super) fn id(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let shown: String = text.chars().take(40).collect();
        format!("{name} '{shown}' is not a whole number")
    })
}

/// Converts `seconds` to an offset, if it is within the maximum length of a trace. It is rounded to microseconds,
/// because a Unix time as `f64` is not more exact.
pub(super) fn offset(seconds: f64) -> Result<Duration, String> {
    let rounded = (seconds * 1e6).round() / 1e6;
    let at = Duration::try_from_secs_f64(rounded).ok().filter(|at| *at <= LONGEST);
    at.ok_or_else(|| format!("the trace is longer than {} days at this line", LONGEST.as_secs() / 86_400))
}
