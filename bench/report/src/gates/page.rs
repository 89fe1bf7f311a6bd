//! A document's table of gates.

use super::{GateResult, cases, judge};
use crate::html::{Cell, Table};
use crate::markdown::{heading, replaced};
use crate::releases::{self, joined, name_of};
use anyhow::{Context, Result, bail};
use hotcc_lab::plural::counted;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- gates: ";
const END: &str = "<!-- end of gates -->\n";
/// Asks for the figures of each case.
const CASES: &str = "cases";
const COLUMNS: [&str; 5] = ["gate", "limit", "figure", "verdict", "scenario"];
const VERDICT: usize = 3;
const SCENARIO: usize = 4;

/// Cells of a row.
type Row = Vec<String>;

/// Replaces every part of a document between `<!-- gates: NAME BACKEND -->` and `<!-- end of gates -->` by the gates of
/// the scenarios `NAME-…`, as judged from `results/NAME-…/BACKEND…`. BACKEND is `simulator`, or a kernel such as
/// `6.12`. Rows of scenarios without results stay unchanged.
///
/// `<!-- gates: SCENARIO BACKEND cases -->` marks a part for the figures of each case of one scenario.
///
/// # Errors
/// A part has no end, or results cannot be read.
pub fn refreshed(document: &str, results: &Path) -> Result<String> {
    replaced(document, BEGIN, END, |mark, old| match mark.split(' ').collect::<Vec<_>>()[..] {
        [name, backend] => Ok(part(old, &results_of(name, backend, results)?)),
        [scenario, backend, CASES] => {
            let directory = latest(&results.join(scenario), backend);
            directory.map_or_else(|| Ok(old.to_owned()), |directory| cases::part(&directory))
        }
        _ => bail!("`{BEGIN}{mark} -->`: expected NAME BACKEND, or SCENARIO BACKEND {CASES}"),
    })
}

/// Returns each scenario's gates, and the kernel (or the simulator) that they were run on.
fn results_of(name: &str, backend: &str, results: &Path) -> Result<Vec<(String, Vec<GateResult>)>> {
    let of_directory = |directory: PathBuf| {
        let gates = judge(&directory).with_context(|| directory.display().to_string())?;
        Ok((name_of(&directory), gates))
    };
    directories(name, backend, results).into_iter().map(of_directory).collect()
}

/// Returns the directories `results/NAME-.../BACKEND...`: one for each scenario with results.
pub(super) fn directories(name: &str, backend: &str, results: &Path) -> Vec<PathBuf> {
    // results that were moved away when their scenario changed are in a directory with a number: crest-loss.1
    let prefix = format!("{name}-");
    let mut scenarios = below(results, |found| found.starts_with(&prefix));
    scenarios.retain(|path| path.extension().is_none());
    scenarios.sort();
    scenarios.into_iter().filter_map(|scenario| latest(&scenario, backend)).collect()
}

/// Returns the directory of a scenario's latest results on a kernel of a series, or in the simulator.
fn latest(scenario: &Path, backend: &str) -> Option<PathBuf> {
    let found = below(scenario, |name| releases::is_of(name, backend)).into_iter();
    let complete = found.filter(|path| path.join("manifest.json").exists());
    complete.max_by_key(|path| releases::order(path))
}

/// Returns the entries of a directory whose names are wanted.
fn below(path: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| is_wanted(&name_of(path))).collect()
}

fn part(old: &str, new: &[(String, Vec<GateResult>)]) -> String {
    if new.is_empty() {
        return old.to_owned();
    }
    let mut rows: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in old_rows(old) {
        rows.entry(row[SCENARIO].clone()).or_default().push(row);
    }
    for (_, gates) in new {
        if let Some(first) = gates.first() {
            rows.insert(first.scenario.clone(), gates.iter().map(row).collect());
        }
    }
    let rows: Vec<Row> = rows.into_values().flatten().collect();
    let begins = |word: &str| rows.iter().filter(|row| row[VERDICT].starts_with(word)).count();
    let state = format!(
        "{}: {} held, {} missed, {} not run, {} without a limit",
        counted(rows.len(), "figure"),
        begins("held"),
        begins("missed"),
        begins("not run"),
        begins("no limit")
    );
    let cells = rows.iter().map(|row| row.iter().cloned().map(Cell::Text).collect()).collect();
    let table = Table { columns: COLUMNS.map(str::to_owned).to_vec(), rows: cells, ..Table::default() };
    format!("\n{}. {state}.\n\n{}\n", heading(&joined(new.iter().map(|(kernel, _)| kernel.clone()))), table.markdown())
}

fn row(gate: &GateResult) -> Row {
    vec![gate.gate.clone(), gate.limit.clone(), gate.figure.clone(), gate.verdict(), gate.scenario.clone()]
}

fn old_rows(part: &str) -> impl Iterator<Item = Row> {
    let cells = |line: &str| -> Row { line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect() };
    let rows = part.lines().filter(|line| line.starts_with('|')).skip(2).map(cells);
    rows.filter(|row| row.len() == COLUMNS.len()).collect::<Vec<_>>().into_iter()
}

/// Returns the gates as text, for a terminal.
#[must_use]
pub fn text(gates: &[GateResult]) -> String {
    let cells = gates.iter().map(|gate| row(gate).into_iter().map(Cell::Text).collect()).collect();
    Table { columns: COLUMNS.map(str::to_owned).to_vec(), rows: cells, ..Table::default() }.markdown()
}
