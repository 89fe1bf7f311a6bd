//! Traces: what a radio link measured, sample by sample. Formats are told apart by their content;
//! `docs/reference/traces.md` describes each. Whatever is malformed is an error that names file and line.

mod cicv5g;
mod generate;
mod mahimahi;
mod plain;
mod table;
mod ucc5g;

pub use generate::{Generator, Kind};

use crate::map::Reading;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// SINR that a trace may hold, in dB. Publishing clamps to [`hotcc_abi::radio::SINR_RANGE_DB`].
pub const SINR_DB: RangeInclusive<f64> = -40.0..=60.0;
/// The longest trace.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// What was measured at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// When, counted from the first sample.
    pub at: Duration,
    /// Signal to interference and noise ratio in dB.
    pub sinr_db: Option<f64>,
    /// Capacity of the link in bit/s.
    pub capacity_bps: Option<f64>,
    /// Reference signal received power in dBm.
    pub rsrp_dbm: Option<f64>,
    /// Reference signal received quality in dB.
    pub rsrq_db: Option<f64>,
    /// Channel quality indicator 0..15.
    pub cqi: Option<u8>,
    /// Modulation and coding scheme 0..31.
    pub mcs: Option<u8>,
}

impl From<&Sample> for Reading {
    fn from(sample: &Sample) -> Self {
        Self {
            sinr_db: sample.sinr_db,
            average_db: None,
            capacity_bps: sample.capacity_bps,
            rsrp_dbm: sample.rsrp_dbm,
            rsrq_db: sample.rsrq_db,
            cqi: sample.cqi,
            mcs: sample.mcs,
        }
    }
}

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A line is not what its format wants.
    #[error("cannot use the trace: {}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// No sample at all.
    #[error("cannot use the trace: {} holds no sample", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong, and in which line; the file's name is put before it where that is known.
#[derive(Debug)]
struct Malformed {
    line: u64,
    what: String,
}

impl Malformed {
    fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// A sequence of samples in time order, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    samples: Vec<Sample>,
}

impl Trace {
    /// Reads a trace file of any known format.
    ///
    /// # Errors
    /// The file cannot be read, is of no known format, malformed, or empty.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let bytes = fs::read(path).map_err(|error| TraceError::Read { path: path.to_owned(), error })?;
        Self::parse(path, &bytes)
    }

    /// Parses the contents of a trace file; `path` only names it in errors.
    ///
    /// # Errors
    /// Of no known format, malformed, or empty.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, TraceError> {
        let samples =
            parse(bytes).map_err(|Malformed { line, what }| TraceError::Line { path: path.to_owned(), line, what })?;
        if samples.is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        Ok(Self { samples })
    }

    /// The samples, in time order.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// The usual time between samples: the median distance of those that carry a SINR (of all, where none does).
    /// `None` for a single moment.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        let with_sinr: Vec<Duration> = self.samples.iter().filter(|s| s.sinr_db.is_some()).map(|s| s.at).collect();
        let times = if with_sinr.is_empty() { self.samples.iter().map(|s| s.at).collect() } else { with_sinr };
        let mut gaps: Vec<Duration> = times.windows(2).map(|w| w[1] - w[0]).filter(|g| !g.is_zero()).collect();
        let middle = gaps.len() / 2;
        (!gaps.is_empty()).then(|| *gaps.select_nth_unstable(middle).1)
    }

    /// How long the trace lasts: its last sample holds for one period, or a second where there is no period.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let last = self.samples.last().map_or(Duration::ZERO, |s| s.at);
        last + self.period().unwrap_or(Duration::from_secs(1))
    }

    /// The trace as CSV text, as [`Trace::parse`] reads it: milliseconds, 1/100 dB, whole bit/s.
    #[must_use]
    pub fn to_csv(&self) -> String {
        plain::write(&self.samples)
    }
}

fn parse(bytes: &[u8]) -> Result<Vec<Sample>, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() as u64;
        Malformed::new(line, "not UTF-8 text")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((line, first)) = lines(text).next() else { return Ok(Vec::new()) };
    let columns: Vec<&str> = first.split(',').map(|c| c.trim().trim_matches('"')).collect();
    if columns.contains(&plain::TIME) {
        plain::parse(text)
    } else if columns.contains(&ucc5g::TIME) {
        ucc5g::parse(text)
    } else if first.split_whitespace().any(|c| c == cicv5g::TIME) {
        cicv5g::parse(text)
    } else if first.bytes().all(|b| b.is_ascii_digit()) {
        mahimahi::parse(text)
    } else {
        Err(Malformed::new(
            line,
            format!(
                "no known trace format starts like this; wanted a header with column {}, {} or {}, or one number of \
                 milliseconds per line",
                plain::TIME,
                ucc5g::TIME,
                cicv5g::TIME
            ),
        ))
    }
}

/// Lines that hold something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    let numbered = text.lines().enumerate().map(|(i, line)| (i as u64 + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// A finite number within a range. `f64::from_str` alone also takes "inf" and "nan".
fn number(name: &str, text: &str, range: &RangeInclusive<f64>) -> Result<f64, String> {
    let value: f64 = text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{name} '{shown}' is not a finite number")
    })?;
    if range.contains(&value) {
        return Ok(value);
    }
    Err(format!("{name} {text} is outside {} to {}", range.start(), range.end()))
}

/// A whole number up to `limit`.
fn index(name: &str, text: &str, limit: u8) -> Result<u8, String> {
    let value = text.parse().ok().filter(|v: &u8| *v <= limit);
    value.ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        format!("{name} '{shown}' is not a whole number from 0 to {limit}")
    })
}

/// `seconds` as an offset, as long as traces may be.
fn offset(seconds: f64) -> Result<Duration, String> {
    let at = Duration::try_from_secs_f64(seconds).ok().filter(|at| *at <= LONGEST);
    at.ok_or_else(|| format!("the trace lasts longer than {} days here", LONGEST.as_secs() / 86_400))
}

/// What quantities may be: wide enough for every radio, narrow enough to catch a wrong column.
pub(crate) mod limits {
    use std::ops::RangeInclusive;
    pub(crate) const RSRP_DBM: RangeInclusive<f64> = -200.0..=50.0;
    pub(crate) const RSRQ_DB: RangeInclusive<f64> = -60.0..=40.0;
    pub(crate) const CAPACITY_BPS: RangeInclusive<f64> = 0.0..=1e15;
    pub(crate) const CQI: u8 = 15;
    pub(crate) const MCS: u8 = 31;
}

#[cfg(test)]
mod tests;
