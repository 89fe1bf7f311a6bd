//! Comparison of two result directories, run by run: same case, same seed.

pub mod text;
pub mod verdict;

use super::repeated::read_without_inputs;
use super::rows::Case;
use anyhow::{Result, ensure};
use hotcc_lab::changes::{Change, changes};
use hotcc_lab::results::{METRICS, Manifest, Results, RunId, RunSummary};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use verdict::{Better, Comparison, Pair, Verdict, judge};

/// Files that a run writes.
const FILES: [&str; 3] = ["summary.json", "flows.csv", "links.csv"];
/// With more flows than this, only the run's figures are compared.
const MAX_FLOWS: usize = 8;

/// The comparison of B with A.
#[derive(Clone, Debug, Serialize)]
pub struct Diff {
    /// Directory of A.
    pub a: String,
    /// Directory of B.
    pub b: String,
    /// Greatest difference that still counts as the same, as a share of A's mean.
    pub margin: f64,
    /// Differences between the manifests.
    pub manifests: Vec<Change>,
    /// Number of runs that are compared.
    pub pairs: usize,
    /// Number of these runs whose files are the same, byte for byte.
    pub identical: usize,
    /// Runs that are not compared, and why.
    pub left_out: Vec<LeftOut>,
    /// Cases that have a pair of runs.
    pub cases: Vec<CaseDiff>,
}

/// A run that is not compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// The run.
    pub run: RunId,
    /// The reason.
    pub why: String,
}

/// One case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseDiff {
    /// Swept values of the case.
    pub case: Case,
    /// Seeds that are compared.
    pub seeds: Vec<u64>,
    /// Whether the files of all of them are the same, byte for byte.
    pub identical: bool,
    /// Figures of the run, then of each flow if there are several.
    pub figures: Vec<FigureDiff>,
}

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct FigureDiff {
    /// The flow; `None` for the whole run.
    pub flow: Option<String>,
    /// Name of the metric.
    pub metric: &'static str,
    /// Meaning of the metric, with its unit.
    pub meaning: &'static str,
    /// The direction in which the figure improves.
    pub better: Better,
    /// The verdict on its differences.
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl Diff {
    /// Returns whether any figure is worse.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.count(Verdict::Worse) > 0
    }

    /// Returns the number of figures with that verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.figures().filter(|figure| figure.comparison.verdict == verdict).count()
    }

    fn figures(&self) -> impl Iterator<Item = &FigureDiff> {
        self.cases.iter().flat_map(|case| &case.figures)
    }

    /// Returns the comparison as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let counts: BTreeMap<String, usize> =
            Verdict::ALL.iter().map(|verdict| (verdict.to_string().replace(' ', "_"), self.count(*verdict))).collect();
        let mut json = serde_json::json!(self);
        json["verdicts"] = serde_json::json!(counts);
        serde_json::to_string_pretty(&json).unwrap_or_default()
    }
}

/// Compares two result directories; `margin` is a share.
///
/// Fails if one cannot be read, or if no valid run is in both.
pub fn compare(a: &Path, b: &Path, margin: f64) -> Result<Diff> {
    let (before, after) = (Results::read(a)?, Results::read(b)?);
    let mut left_out = Vec::new();
    let mut pairs: Vec<(&RunSummary, &RunSummary)> = Vec::new();
    for id in all_runs(&before.manifest, &after.manifest) {
        match (find(&before, id), find(&after, id)) {
            (Ok(one), Ok(other)) => pairs.push((one, other)),
            (one, other) => {
                let why = [("A", one), ("B", other)].into_iter().filter_map(|(side, run)| Some((side, run.err()?)));
                let why: Vec<String> = why.map(|(side, why)| format!("{side}: {why}")).collect();
                left_out.push(LeftOut { run: id.clone(), why: why.join("; ") });
            }
        }
    }
    ensure!(
        !pairs.is_empty(),
        "{} and {} have no valid run of the same case and seed: {}",
        a.display(),
        b.display(),
        left_out.first().map_or("neither manifest lists a run".to_owned(), |first| first.why.clone())
    );
    let identical: Vec<bool> = pairs.iter().map(|(run, _)| are_identical(a, b, &run.run)).collect();
    let mut cases: Vec<(&Case, Vec<usize>)> = Vec::new();
    for (index, (run, _)) in pairs.iter().enumerate() {
        match cases.iter_mut().find(|(case, _)| **case == run.run.case) {
            Some((_, members)) => members.push(index),
            None => cases.push((&run.run.case, vec![index])),
        }
    }
    let cases = cases.into_iter().map(|(case, members)| {
        let runs: Vec<_> = members.iter().map(|index| pairs[*index]).collect();
        compare_case(case, &runs, margin, members.iter().all(|index| identical[*index]))
    });
    Ok(Diff {
        a: a.display().to_string(),
        b: b.display().to_string(),
        margin,
        manifests: changes(&before.manifest, &after.manifest),
        pairs: pairs.len(),
        identical: identical.iter().filter(|same| **same).count(),
        cases: cases.collect(),
        left_out,
    })
}

/// Returns A's runs in their order, then the runs that only B has.
fn all_runs<'a>(a: &'a Manifest, b: &'a Manifest) -> Vec<&'a RunId> {
    let in_a: BTreeSet<&RunId> = a.runs.iter().collect();
    a.runs.iter().chain(b.runs.iter().filter(|run| !in_a.contains(run))).collect()
}

fn find<'a>(results: &'a Results, id: &RunId) -> Result<&'a RunSummary, String> {
    match results.runs.iter().find(|run| run.run == *id) {
        None if results.manifest.runs.contains(id) => Err("not finished".to_owned()),
        None => Err("no such run".to_owned()),
        Some(run) if !run.invalid.is_empty() => Err(format!("invalid ({})", run.invalid.join("; "))),
        Some(run) => Ok(run),
    }
}

fn are_identical(a: &Path, b: &Path, run: &RunId) -> bool {
    let bytes = |directory: &Path, file| read_without_inputs(&directory.join(run.path()).join(file)).ok();
    FILES.iter().all(|file| bytes(a, file) == bytes(b, file))
}

fn compare_case(case: &Case, runs: &[(&RunSummary, &RunSummary)], margin: f64, identical: bool) -> CaseDiff {
    let names: BTreeSet<&str> =
        runs.iter().flat_map(|(a, b)| a.flows.iter().chain(&b.flows)).map(|f| &*f.name).collect();
    let several = names.len() > 1;
    let mut subjects: Vec<Option<&str>> = vec![None];
    if several && names.len() <= MAX_FLOWS {
        subjects.extend(names.into_iter().map(Some));
    }
    let mut figures = Vec::new();
    for flow in subjects {
        for (metric, meaning) in METRICS {
            // for one flow, the total equals the mean, and fairness is 1
            let of_several = matches!(metric, "jain" | "throughput_mbps_total");
            if of_several && (flow.is_some() || !several) {
                continue;
            }
            let figure = |run: &RunSummary| match flow {
                // exact names only: a prefix could match several flows
                Some(name) => run.flows.iter().find(|f| f.name == name).and_then(|f| f.metric(metric)),
                None => run.metric(metric, None),
            };
            let figure = |run: &RunSummary| figure(run).filter(|value| value.is_finite());
            let pairs: Vec<Pair> = runs.iter().map(|(a, b)| (figure(a), figure(b))).collect();
            if let Some(comparison) = judge(metric, &pairs, margin, identical) {
                let flow = flow.map(str::to_owned);
                figures.push(FigureDiff { flow, metric, meaning, better: Better::of(metric), comparison });
            }
        }
    }
    CaseDiff { case: case.clone(), seeds: runs.iter().map(|(a, _)| a.run.seed).collect(), identical, figures }
}
