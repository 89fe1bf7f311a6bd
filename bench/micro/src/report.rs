//! The findings of the measures, as a table for people and as JSON.

use hotcc_testbed::statistics::{Interval, mean_ratio};
use serde::Serialize;
use std::fmt;

/// Limit of a ratio or figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Upper bound.
    AtMost(f64),
    /// Lower bound.
    AtLeast(f64),
    /// No bound: the figure is shown for comparison.
    None,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {limit}"),
            Self::AtLeast(limit) => write!(f, ">= {limit}"),
            Self::None => f.write_str("none"),
        }
    }
}

/// Whether a bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The bound holds.
    Ok,
    /// The bound does not hold.
    Over,
    /// The measurement was too noisy for a verdict, or failed.
    Unclear,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Over => "OVER",
            Self::Unclear => "UNCLEAR",
        })
    }
}

/// One row: figures, and the value that is compared with a bound.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Name of the measure.
    pub measure: &'static str,
    /// Subject that was measured.
    pub subject: String,
    /// Figures, with their units.
    pub figures: Vec<String>,
    /// Meaning of `value`.
    pub judged: &'static str,
    /// The value that is compared with the bound; `None` if it could not be determined.
    pub value: Option<f64>,
    /// The bound.
    pub bound: Bound,
    /// Whether the bound holds.
    pub verdict: Verdict,
}

impl Finding {
    /// Compares the upper end of the 95 % interval of a mean ratio with `bound`. `ratio` names the ratio.
    #[must_use]
    pub fn of_ratios(
        measure: &'static str,
        subject: impl Into<String>,
        judged: &'static str,
        ratio: &str,
        ratios: &[f64],
        bound: f64,
    ) -> Self {
        let interval = mean_ratio(ratios);
        let finding = Self::new(measure, subject, judged, interval.map(|i| i.high), Bound::AtMost(bound));
        match interval {
            Some(i) => finding.figure(format!(
                "{ratio}{} times the time ({}), {} pairs",
                significant(i.mean),
                spread(&i),
                ratios.len()
            )),
            None => finding,
        }
    }

    /// Compares `value` with `bound`.
    #[must_use]
    pub fn new(
        measure: &'static str,
        subject: impl Into<String>,
        judged: &'static str,
        value: Option<f64>,
        bound: Bound,
    ) -> Self {
        let verdict = match (value, bound) {
            (Some(v), _) if v.is_nan() => Verdict::Unclear,
            (None, _) => Verdict::Unclear,
            (Some(v), Bound::AtMost(limit)) if v <= limit => Verdict::Ok,
            (Some(v), Bound::AtLeast(limit)) if v >= limit => Verdict::Ok,
            (Some(_), Bound::None) => Verdict::Ok,
            _ => Verdict::Over,
        };
        Self { measure, subject: subject.into(), figures: Vec::new(), judged, value, bound, verdict }
    }

    /// Returns the value and its bound in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let value = self.value.map_or("-".to_owned(), significant);
        format!("{}: {value} ({}), bound {}", self.subject, self.judged, self.bound)
    }

    /// Adds a figure.
    #[must_use]
    pub fn figure(mut self, text: impl Into<String>) -> Self {
        self.figures.push(text.into());
        self
    }
}

/// The machine that the figures were measured on. Absolute figures are valid only for it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// `uname -r`.
    pub kernel: String,
    /// Processors this process may use.
    pub cpus: usize,
    /// Model of the processors.
    pub cpu_model: String,
    /// Load average over one minute, before the run.
    pub load: String,
}

impl Machine {
    /// Describes this machine, now.
    #[must_use]
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|(_, m)| m));
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            cpu_model: model.unwrap_or("unknown model").to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

/// All findings of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// Whether it was a `--quick` run.
    pub quick: bool,
    /// The rows.
    pub findings: Vec<Finding>,
    /// Measures that failed, and why.
    pub failures: Vec<String>,
}

impl Report {
    /// Returns whether everything was measured and every bound holds.
    #[must_use]
    pub fn good(&self) -> bool {
        self.failures.is_empty() && self.findings.iter().all(|f| f.verdict == Verdict::Ok)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = &self.machine;
        let quick = if self.quick { ", --quick" } else { "" };
        writeln!(f, "Linux {}, {} CPUs ({}), load {} before the run{quick}\n", m.kernel, m.cpus, m.cpu_model, m.load)?;
        let mut rows = vec![["measure", "figures", "value", "bound", "verdict"].map(str::to_owned)];
        for finding in &self.findings {
            let value = finding.value.map_or("-".to_owned(), significant);
            let subject = format!("{}: {}", finding.measure, finding.subject);
            let judged = format!("{value} ({})", finding.judged);
            // one figure per line; the other cells are beside the first figure
            let mut figures = finding.figures.iter().cloned();
            let first = figures.next().unwrap_or_default();
            rows.push([subject, first, judged, finding.bound.to_string(), finding.verdict.to_string()]);
            rows.extend(figures.map(|figure| [String::new(), figure, String::new(), String::new(), String::new()]));
        }
        let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..5).map(width).collect();
        for row in &rows {
            let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &w)| format!("{cell:<w$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        for failure in &self.failures {
            writeln!(f, "\nfailed: {failure}")?;
        }
        Ok(())
    }
}

/// Formats the ends of a confidence interval.
#[must_use]
pub fn spread(interval: &Interval) -> String {
    format!("95 %: {} to {}", significant(interval.low), significant(interval.high))
}

/// Formats with three significant digits, without an exponent.
#[must_use]
pub fn significant(value: f64) -> String {
    // of the rounded value: 9.996 is 10.0
    let magnitude: i32 = format!("{value:.2e}").split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    format!("{value:.*}", (2 - magnitude).clamp(0, 6) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let verdict = |value, bound| Finding::new("m", "s", "j", value, bound).verdict;
        assert_eq!(verdict(Some(1.5), Bound::AtMost(1.5)), Verdict::Ok);
        assert_eq!(verdict(Some(1.51), Bound::AtMost(1.5)), Verdict::Over);
        assert_eq!(verdict(Some(0.94), Bound::AtLeast(0.95)), Verdict::Over);
        assert_eq!(verdict(None, Bound::AtLeast(0.95)), Verdict::Unclear);
        assert_eq!(verdict(Some(f64::NAN), Bound::AtMost(1.0)), Verdict::Unclear);
    }

    #[test]
    fn three_digits() {
        assert_eq!([9.996, 0.9996, 99.96].map(significant), ["10.0", "1.00", "100"]);
        let shown = [0.0, 0.951, 1.5, 12.345, 123.4, 98_765.0, 0.000_012_3].map(significant);
        assert_eq!(shown, ["0.00", "0.951", "1.50", "12.3", "123", "98765", "0.000012"]);
    }
}
