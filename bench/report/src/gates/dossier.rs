//! The dossier: the gates of several scenarios, for each congestion control on its own.

use super::page::directories;
use super::{GateResult, judge_each};
use crate::html::{Cell, Table};
use crate::markdown::{heading, replaced};
use crate::releases::{joined, name_of};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

const BEGIN: &str = "<!-- dossier: ";
const END: &str = "<!-- end of dossier -->\n";
/// First word of the scenarios' names.
const SCENARIOS: &str = "dossier";
/// The swept key whose values the dossier is about.
const KEY: &str = "cc";

/// A congestion control under all criteria.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// Name of the congestion control.
    pub cc: String,
    /// The criteria, in the order of the RFC's sections.
    pub criteria: Vec<GateResult>,
}

impl Subject {
    fn failed(&self) -> usize {
        self.criteria.iter().filter(|gate| gate.holds == Some(false)).count()
    }
}

/// Judges each congestion control by the results of the scenarios.
///
/// # Errors
/// Results cannot be read.
pub fn judge<P: AsRef<Path>>(directories: &[P]) -> Result<Vec<Subject>> {
    let mut subjects: Vec<Subject> = Vec::new();
    for directory in directories.iter().map(AsRef::as_ref) {
        for (cc, gates) in judge_each(directory, KEY).with_context(|| directory.display().to_string())? {
            match subjects.iter_mut().find(|subject| subject.cc == cc) {
                Some(subject) => subject.criteria.extend(gates),
                None => subjects.push(Subject { cc, criteria: gates }),
            }
        }
    }
    for subject in &mut subjects {
        subject.criteria.sort_by_key(order);
    }
    Ok(subjects)
}

/// Returns the criteria of all congestion controls, in the order of the RFC's sections.
fn criteria(subjects: &[Subject]) -> Vec<&GateResult> {
    let mut all: Vec<&GateResult> = Vec::new();
    for gate in subjects.iter().flat_map(|subject| &subject.criteria) {
        if !all.iter().any(|other| is_same(other, gate)) {
            all.push(gate);
        }
    }
    all.sort_by_key(|gate| order(gate));
    all
}

/// Returns whether two results are of the same criterion. Gates of one name may differ in their limits.
fn is_same(one: &GateResult, other: &GateResult) -> bool {
    (&one.scenario, &one.gate, &one.limit) == (&other.scenario, &other.gate, &other.limit)
}

/// Returns the place of a criterion's section.
fn order(gate: &GateResult) -> Vec<u32> {
    section(gate).split('.').map(|number| number.parse().unwrap_or(0)).collect()
}

/// Returns the section of the RFC that a criterion is from.
fn section(gate: &GateResult) -> &str {
    gate.source.rsplit(' ').next().unwrap_or_default()
}

/// Returns the verdict as text: `pass`, `fail in 2 of 8 cases`, `not applicable`, `not run`.
#[must_use]
pub fn verdict(gate: &GateResult) -> String {
    gate.verdict().replace("held", "pass").replace("missed", "fail")
}

fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    let rows = rows.into_iter().map(|row| row.into_iter().map(Cell::Text).collect()).collect();
    Table { columns, rows, ..Table::default() }.markdown()
}

/// Returns a table of criteria and congestion controls. A cell has only the first word of the verdict.
#[must_use]
pub fn overview(subjects: &[Subject]) -> String {
    let columns: Vec<&str> =
        ["section", "criterion"].into_iter().chain(subjects.iter().map(|subject| subject.cc.as_str())).collect();
    let word = |gate: &GateResult| match gate.holds {
        None if gate.is_reference => "n/a",
        None if gate.cases.0 > 0 => "no limit",
        None => "not run",
        Some(true) if gate.runs.0 < gate.runs.1 => "pass so far",
        Some(true) => "pass",
        Some(false) => "**fail**",
    };
    let row = |gate: &GateResult| {
        let of = |subject: &Subject| subject.criteria.iter().find(|other| is_same(other, gate)).map_or("not run", word);
        let verdicts = subjects.iter().map(|subject| of(subject).to_owned());
        [section(gate).to_owned(), gate.gate.clone()].into_iter().chain(verdicts).collect()
    };
    table(&columns, criteria(subjects).into_iter().map(row).collect())
}

/// Returns the criteria with their limits, and the reasons for these.
fn limits(criteria: &[&GateResult]) -> String {
    let row = |gate: &GateResult| {
        let reason = gate.note.clone().unwrap_or_default();
        vec![section(gate).to_owned(), gate.gate.clone(), gate.limit.clone(), reason]
    };
    table(&["section", "criterion", "limit", "reason"], criteria.iter().copied().map(row).collect())
}

fn figures(criteria: &[GateResult]) -> String {
    let row = |gate: &GateResult| {
        let figure = if gate.is_reference { "–".to_owned() } else { gate.figure.clone() };
        vec![gate.gate.clone(), gate.scenario.clone(), figure, verdict(gate)]
    };
    table(&["criterion", "scenario", "figure", "verdict"], criteria.iter().map(row).collect())
}

/// Replaces every part of a document between `<!-- dossier: BACKEND -->` and `<!-- end of dossier -->` by the dossier
/// from `results/dossier-.../BACKEND...`. Without results, the part stays unchanged.
///
/// # Errors
/// A part has no end, or results cannot be read.
pub fn refreshed(document: &str, results: &Path) -> Result<String> {
    replaced(document, BEGIN, END, |backend, old| {
        let directories = directories(SCENARIOS, backend, results);
        if directories.is_empty() {
            return Ok(old.to_owned());
        }
        let kernels = joined(directories.iter().map(|directory| name_of(directory)));
        Ok(part(&judge(&directories)?, &kernels))
    })
}

fn part(subjects: &[Subject], backend: &str) -> String {
    let criteria = criteria(subjects);
    let failed = |subject: &Subject| format!("{} {}", subject.cc, subject.failed());
    let failed: Vec<String> = subjects.iter().map(failed).collect();
    let mut out = format!(
        "\n{}. Failed, of {} criteria: {}.\n\n{}\n## Limits\n\n{}",
        heading(backend),
        criteria.len(),
        failed.join(", "),
        overview(subjects),
        limits(&criteria)
    );
    for subject in subjects {
        out.push_str(&format!("\n## {}\n\n{}", subject.cc, figures(&subject.criteria)));
    }
    out + "\n"
}
