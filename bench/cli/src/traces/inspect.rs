//! The figures that `traces check` and `traces show` print.

use hotcc_channel_model::trace::{Column, Trace};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Lags of the correlations that are shown: how much older than the capacity the SINR is, in ms.
const LAGS_MS: [u64; 6] = [0, 500, 1000, 2000, 5000, 10_000];

/// A trace in a few figures.
#[derive(Debug, Serialize)]
pub struct Facts {
    /// Name on the command line.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// Whether its checksum is the one in the list.
    pub listed: bool,
    /// Number of samples.
    pub samples: usize,
    /// Length in s.
    pub duration_s: f64,
    /// Usual time between samples, in s.
    pub period_s: Option<f64>,
    /// Capacity in bit/s.
    pub capacity_bps: Option<Range>,
    /// SINR in dB.
    pub sinr_db: Option<Range>,
    /// Round-trip time in ms.
    pub rtt_ms: Option<Range>,
}

/// Extent of a quantity.
#[derive(Debug, Serialize)]
pub struct Range {
    /// Least value.
    pub min: f64,
    /// Mean over time.
    pub mean: f64,
    /// Greatest value.
    pub max: f64,
}

/// The output of `show`.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The trace in a few figures.
    #[serde(flatten)]
    pub facts: Facts,
    /// How well the SINR predicts the capacity.
    pub correlations: Vec<AtLag>,
}

/// Correlation of the capacity with an older SINR.
#[derive(Debug, Serialize)]
pub struct AtLag {
    /// How much older the SINR is, in s.
    pub lag_s: f64,
    /// Pearson's coefficient.
    pub coefficient: f64,
    /// Number of pairs.
    pub pairs: usize,
}

impl Facts {
    /// Computes the figures of a trace.
    pub fn of(name: &str, file: &Path, listed: bool, trace: &Trace) -> Self {
        let range = |column: Column| {
            let extent = trace.extent(column)?;
            Some(Range { min: extent.min, mean: extent.mean, max: extent.max })
        };
        Self {
            name: name.to_owned(),
            file: file.to_owned(),
            listed,
            samples: trace.samples().len(),
            duration_s: trace.duration().as_secs_f64(),
            period_s: trace.period().map(|period| period.as_secs_f64()),
            capacity_bps: range(|s| s.capacity_bps),
            sinr_db: range(|s| s.sinr_db),
            rtt_ms: range(|s| s.rtt_ms),
        }
    }

    /// Formats as `drive.csv: valid, 120 s, 1200 samples; capacity 0.1 to 9.8 Mbit/s, mean 4.6; no SINR`.
    pub fn line(&self) -> String {
        let checksum = if self.listed { ", checksum as listed" } else { "" };
        let parts = self.parts().join("; ");
        format!("{}: valid{checksum}, {:.0} s, {} samples; {parts}", self.name, self.duration_s, self.samples)
    }

    /// Describes each quantity.
    pub fn parts(&self) -> Vec<String> {
        let words = |name: &str, range: &Option<Range>, scale: f64, unit: &str| match range {
            Some(Range { min, mean, max }) => {
                format!("{name} {:.1} to {:.1} {unit}, mean {:.1}", min * scale, max * scale, mean * scale)
            }
            None => format!("no {name}"),
        };
        let mut parts =
            vec![words("capacity", &self.capacity_bps, 1e-6, "Mbit/s"), words("SINR", &self.sinr_db, 1.0, "dB")];
        if self.rtt_ms.is_some() {
            parts.push(words("RTT", &self.rtt_ms, 1.0, "ms"));
        }
        parts
    }
}

impl Shown {
    /// Computes what is shown of a trace.
    pub fn of(name: &str, file: &Path, trace: &Trace) -> Self {
        let correlations = trace.correlations(&LAGS_MS.map(Duration::from_millis)).into_iter();
        let at_lag = |c: hotcc_channel_model::trace::Correlation| AtLag {
            lag_s: c.lag.as_secs_f64(),
            coefficient: c.coefficient,
            pairs: c.pairs,
        };
        Self { facts: Facts::of(name, file, false, trace), correlations: correlations.map(at_lag).collect() }
    }
}
