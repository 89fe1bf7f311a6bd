//! Traces: the measurements of a radio link, sample by sample. Formats are recognised by their content;
//! `docs/reference/traces.md` describes each. A malformed file is an error that names file and line.

mod cellreplay;
mod cells;
mod cicv5g;
pub mod generate;
mod mahimahi;
mod plain;
pub mod replay;
mod sample;
mod summary;
mod table;
mod ucc5g;

pub use sample::Sample;
pub use summary::{Column, Correlation, Extent};

use cells::{Malformed, lines};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a trace could not be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A line does not follow its format.
    #[error("cannot use the trace: {}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file has no samples.
    #[error("cannot use the trace: {} holds no samples", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// A sequence of samples in time order; it has at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    samples: Vec<Sample>,
}

impl Trace {
    /// Reads a trace file of any known format.
    ///
    /// # Errors
    /// If the file cannot be read, has an unknown format, is malformed, or is empty.
    pub fn load(path: &Path) -> Result<Self, TraceError> {
        let bytes = fs::read(path).map_err(|error| TraceError::Read { path: path.to_owned(), error })?;
        Self::parse(path, &bytes)
    }

    /// Parses the contents of a trace file. `path` is only used in errors.
    ///
    /// # Errors
    /// If the format is unknown, or the contents are malformed or empty.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, TraceError> {
        let samples =
            parse(bytes).map_err(|Malformed { line, what }| TraceError::Line { path: path.to_owned(), line, what })?;
        if samples.is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        Ok(Self { samples })
    }

    /// Returns the samples, in time order.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the usual time between samples: the median distance of samples that have a SINR, or of all samples if
    /// none has. `None` if all samples have the same time.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        let with_sinr: Vec<Duration> = self.samples.iter().filter(|s| s.sinr_db.is_some()).map(|s| s.at).collect();
        let times = if with_sinr.is_empty() { self.samples.iter().map(|s| s.at).collect() } else { with_sinr };
        let mut gaps: Vec<Duration> = times.windows(2).map(|w| w[1] - w[0]).filter(|g| !g.is_zero()).collect();
        let middle = gaps.len() / 2;
        (!gaps.is_empty()).then(|| *gaps.select_nth_unstable(middle).1)
    }

    /// Returns the length of the trace. Its last sample holds for one period, or for one second if there is no period.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let last = self.samples.last().map_or(Duration::ZERO, |s| s.at);
        last + self.period().unwrap_or(Duration::from_secs(1))
    }

    /// Returns the trace as CSV text that [`Trace::parse`] reads: milliseconds, 1/100 dB, whole bit/s. The lab's list of
    /// traces in archives has checksums of this text: if its form changes, they change.
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
    let samples = parse_format(text)?;
    check_end(text)?;
    Ok(samples)
}

/// Checks that the last line has a line end: a file that was cut off may have only a part of its last number.
fn check_end(text: &str) -> Result<(), Malformed> {
    if text.is_empty() || text.ends_with('\n') {
        return Ok(());
    }
    let what = "the file may be cut off: this line has no line end; add one if the line is complete";
    Err(Malformed::new(text.lines().count() as u64, what))
}

fn parse_format(text: &str) -> Result<Vec<Sample>, Malformed> {
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
    } else if cellreplay::is(first) {
        cellreplay::parse(text)
    } else {
        Err(Malformed::new(
            line,
            format!(
                "unknown trace format: expected a header with the column {}, {} or {}, or whole numbers of \
                 milliseconds on each line",
                plain::TIME,
                ucc5g::TIME,
                cicv5g::TIME
            ),
        ))
    }
}

#[cfg(test)]
mod tests;
