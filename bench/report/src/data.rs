//! The contents of a report, independent of its output format: the figures of a result directory, and its problems.

use super::expected::{self, Comparison};
use super::rows::{Row, by_cc, by_flow, by_receiver, case_text, labels, placed, receiver_programs};
use anyhow::Result;
use hotcc_lab::plural::counted;
use hotcc_lab::results::{Results, RunId, RunSummary};
use hotcc_lab::scenario::Source;
use hotcc_lab::selection::{SweptValue, all_runs, has, reduced};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// A column of the tables of figures.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of one of the lab's metrics.
    pub metric: &'static str,
    /// Heading of the column.
    pub heading: &'static str,
    /// Factor from the metric's unit to the column's unit.
    pub factor: f64,
    /// Tables that have the column.
    pub shown: Shown,
}

/// Tables that have a column.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shown {
    /// Every table.
    Always,
    /// Tables in which at least one row has the figure.
    IfPresent,
    /// Reports only. Tables in documents would become too wide, and the existing ones were made without this column.
    InReports,
}

const fn column(metric: &'static str, heading: &'static str, factor: f64, shown: Shown) -> Column {
    Column { metric, heading, factor, shown }
}

/// Columns of the tables of figures, in order.
pub const COLUMNS: [Column; 16] = [
    column("throughput_mbps", "throughput, Mbit/s", 1.0, Shown::Always),
    column("utilisation", "utilisation, %", 100.0, Shown::Always),
    column("rtt_mean_ms", "mean RTT, ms", 1.0, Shown::Always),
    column("rtt_p95_ms", "p95 RTT, ms", 1.0, Shown::Always),
    column("queue_delay_mean_ms", "queue delay, ms", 1.0, Shown::Always),
    column("queue_delay_time_mean_ms", "queue delay over time, ms", 1.0, Shown::InReports),
    column("queue_delay_p95_ms", "p95 queue delay, ms", 1.0, Shown::InReports),
    column("loss_ratio", "loss, %", 100.0, Shown::Always),
    column("mark_ratio", "marks, %", 100.0, Shown::IfPresent),
    column("retransmits", "retransmits", 1.0, Shown::Always),
    column("timeouts", "timeouts", 1.0, Shown::InReports),
    column("completion_s", "completion, s", 1.0, Shown::IfPresent),
    column("convergence_s", "convergence, s", 1.0, Shown::IfPresent),
    column("recovery_s", "recovery, s", 1.0, Shown::IfPresent),
    column("jain", "Jain's index", 1.0, Shown::Always),
    column("share", "share, %", 100.0, Shown::IfPresent),
];

/// Columns of the table of receivers, in order. A metric is a key of `receiver` in `summary.json`.
pub const RECEIVER_COLUMNS: [Column; 7] = [
    column("segments", "segments", 1.0, Shown::Always),
    column("data_segments", "with data", 1.0, Shown::Always),
    column("out_of_order_segments", "out of order", 1.0, Shown::Always),
    column("bytes", "data, MB", 1e-6, Shown::Always),
    column("last_window_bytes", "last window, kB", 1e-3, Shown::Always),
    column("window_limited_us", "limited by the window, ms", 1e-3, Shown::Always),
    column("ece_segments", "acknowledged with ECE", 1.0, Shown::Always),
];

/// Columns of the table of receiver programs, in order. A metric is a key of `receiver_programs` in `summary.json`.
pub const PROGRAM_COLUMNS: [Column; 10] = [
    column("flows_agreed", "flows that agreed on hints", 1.0, Shown::Always),
    column("hints_made", "hints made", 1.0, Shown::Always),
    column("hints_sent", "ACKs with a hint", 1.0, Shown::Always),
    column("hints_without_room", "ACKs without room for one", 1.0, Shown::Always),
    column("hints_received", "hints received", 1.0, Shown::Always),
    column("hints_refused", "hints refused", 1.0, Shown::Always),
    column("hints_applied", "hints applied", 1.0, Shown::Always),
    column("flows_clamped", "flows clamped", 1.0, Shown::Always),
    column("clamps_set", "clamps set", 1.0, Shown::Always),
    column("clamps_refused", "clamps refused", 1.0, Shown::Always),
];

/// The contents of a result directory.
pub struct Data {
    /// The results as read.
    pub results: Results,
    /// The scenario's own summary.
    pub summary: String,
    /// The paper whose set-up the scenario reproduces.
    pub paper: String,
    /// Figures by condition and congestion control.
    pub rows: Vec<Row>,
    /// Figures by case and flow; empty if no run has several flows.
    pub flows: Vec<Row>,
    /// Receivers' counters by case and TCP flow.
    pub receivers: Vec<Row>,
    /// Counters of the receiver programs by case.
    pub programs: Vec<Row>,
    /// Congestion controls; their order decides their colours.
    pub labels: Vec<String>,
    /// Runs in the manifest that have not finished.
    pub missing: Vec<RunId>,
    /// The papers' figures, each with ours.
    pub papers: Vec<Comparison>,
    /// Messages about what could not be read.
    pub problems: Vec<String>,
    /// What was left out of the scenario when it ran, as text.
    pub reduced: Option<String>,
}

impl Data {
    /// Reads a result directory.
    pub fn read(directory: &Path) -> Result<Self> {
        Self::of_cases(directory, &[])
    }

    /// Reads a result directory, restricted to the cases with these swept values.
    pub fn of_cases(directory: &Path, wanted: &[SweptValue]) -> Result<Self> {
        let mut results = Results::read(directory)?;
        // some cases may have ratios to cases that are left out
        let references = results.runs.clone();
        results.manifest.runs.retain(|run| has(&run.case, wanted));
        results.runs.retain(|run| has(&run.run.case, wanted));
        let rows = by_cc(&results);
        let several = results.runs.iter().any(|run| run.flows.len() > 1);
        let finished: BTreeSet<&RunId> = results.runs.iter().map(|run| &run.run).collect();
        let missing = results.manifest.runs.iter().filter(|run| !finished.contains(run)).cloned().collect();
        let scenario = directory.join("scenario.toml");
        let (mut figures, problems) = expected::read(&scenario);
        if !wanted.is_empty() {
            figures.retain(|figure| results.manifest.runs.iter().any(|run| figure.matches(run)));
        }
        // if this version cannot read the scenario, the report leaves its summary and paper empty
        let cases = Source::read(&scenario).and_then(|source| source.cases()).unwrap_or_default();
        let said = cases.first().map(|case| &case.scenario);
        Ok(Self {
            summary: said.map(|scenario| scenario.summary.clone()).unwrap_or_default(),
            paper: said.and_then(|scenario| scenario.paper.clone()).unwrap_or_default(),
            reduced: reduced(&all_runs(&cases), &results.manifest.runs).filter(|_| !cases.is_empty()),
            labels: labels(&rows),
            flows: if several { by_flow(&results) } else { Vec::new() },
            receivers: by_receiver(&results),
            programs: receiver_programs(&results),
            papers: figures.iter().map(|figure| expected::compare(figure, &results, &references)).collect(),
            rows,
            missing,
            problems,
            results,
        })
    }

    /// Returns the invalid runs, which no figure may use.
    pub fn invalid(&self) -> impl Iterator<Item = &RunSummary> {
        self.results.runs.iter().filter(|run| !run.invalid.is_empty())
    }

    /// Returns a row's first valid run, and the names of its flows in that run.
    #[must_use]
    pub fn first_run(&self, row: &Row) -> Option<(&RunSummary, Vec<&str>)> {
        let valid = self.results.runs.iter().filter(|run| run.invalid.is_empty());
        valid.filter(|run| row.runs.iter().any(|r| r.seed == run.run.seed)).find_map(|run| {
            let is_of_row = |cc: &str| {
                let (label, condition) = placed(run, cc);
                label == row.label && condition == row.condition
            };
            let flows: Vec<&str> =
                run.flows.iter().filter(|f| f.cc != "udp" && is_of_row(&f.cc)).map(|f| f.name.as_str()).collect();
            (!flows.is_empty()).then_some((run, flows))
        })
    }

    /// Returns the run of each case that is drawn: its first valid one, or else its first.
    #[must_use]
    pub fn shown_runs(&self) -> Vec<&RunSummary> {
        let mut shown: Vec<&RunSummary> = Vec::new();
        for run in &self.results.runs {
            match shown.iter_mut().find(|other| other.run.case == run.run.case) {
                Some(other) if !other.invalid.is_empty() && run.invalid.is_empty() => *other = run,
                Some(_) => {}
                None => shown.push(run),
            }
        }
        shown
    }

    /// Returns the number of finished and invalid runs as text (`20 of 24 runs have finished, none is invalid`), and
    /// what was left out of the scenario.
    #[must_use]
    pub fn state(&self) -> String {
        let reduced = self.reduced.as_ref().map_or_else(String::new, |reduced| format!(". {reduced}"));
        self.finished() + &reduced
    }

    fn finished(&self) -> String {
        let (there_are, finished) = (self.results.manifest.runs.len(), self.results.runs.len());
        let runs = match (finished, there_are) {
            (_, 0) => return "The manifest lists no runs".to_owned(),
            (0, 1) => return "The only run has not finished".to_owned(),
            (0, all) => return format!("None of the {} has finished", counted(all, "run")),
            (1, 1) => "The only run has finished".to_owned(),
            (done, all) if done == all => format!("All {all} runs have finished"),
            (done, all) => format!("{done} of {all} runs have finished"),
        };
        match self.invalid().count() {
            0 => format!("{runs}, none is invalid"),
            1 => format!("{runs}, 1 is invalid and excluded from every figure"),
            several => format!("{runs}, {several} are invalid and excluded from every figure"),
        }
    }

    /// Returns the figures as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let rows = |rows: &[Row]| -> Vec<Value> { rows.iter().map(row_json).collect() };
        let run = |run: &RunId| json!({ "case": run.case, "seed": run.seed });
        let invalid: Vec<Value> = self.invalid().map(|r| json!({ "run": run(&r.run), "why": r.invalid })).collect();
        json!({
            "scenario": self.results.manifest.scenario,
            "summary": self.summary,
            "paper": self.paper,
            "kernel": self.results.manifest.kernel,
            "backend": self.results.manifest.backend,
            "runs": self.results.manifest.runs.len(),
            "finished": self.results.runs.len(),
            "reduced": self.reduced,
            "missing": self.missing.iter().map(run).collect::<Vec<_>>(),
            "invalid": invalid,
            "problems": self.problems,
            "by_cc": rows(&self.rows),
            "by_flow": rows(&self.flows),
            "receivers": rows(&self.receivers),
            "receiver_programs": rows(&self.programs),
            "papers": self.papers,
        })
    }
}

fn row_json(row: &Row) -> Value {
    let names: BTreeSet<&str> = row.runs.iter().flat_map(|run| run.values.keys().copied()).collect();
    let metrics =
        names.iter().filter_map(|name| row.estimate(name).map(|estimate| ((*name).to_owned(), json!(estimate))));
    json!({
        "condition": row.condition,
        "label": row.label,
        "case": case_text(&row.condition),
        "seeds": row.runs.iter().map(|run| run.seed).collect::<Vec<_>>(),
        "metrics": metrics.collect::<serde_json::Map<_, _>>(),
    })
}
