//! The papers' figures (`[[expected]]` in `scenario.toml`) beside ours. Gates are not included.

use super::estimate::{Estimate, number};
use super::rows::case_text;
use hotcc_lab::algorithms::text;
use hotcc_lab::results::{Expected, METRICS, Results, RunId, RunSummary, Wanted};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A paper's figure, and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The cases that the figure is about, as text.
    pub case: String,
    /// The flow or link that the figure is about; `None` for the whole run.
    pub flow: Option<String>,
    /// Name of the metric.
    pub metric: String,
    /// The cases whose figure is the denominator, as text; `None` if the figure is no ratio.
    pub over: Option<String>,
    /// The paper's figure.
    pub paper: Wanted,
    /// Our figure over seeds; `None` if no valid run has it. If the paper's figure is a lower limit, it is the figure
    /// of the case with the lowest mean.
    pub ours: Option<Estimate>,
    /// Our figure divided by the paper's value.
    pub ratio: Option<f64>,
    /// Whether our figure reaches the paper's lower limit.
    pub holds: Option<bool>,
    /// Whether the scenario states that the limit is missed.
    pub missed: bool,
    /// Where the paper states the figure.
    pub source: String,
    /// What to consider when comparing.
    pub note: Option<String>,
    /// Why our figure is absent, or the number of cases that a seed's mean covers.
    pub remark: Option<String>,
}

impl Comparison {
    /// Returns whether our figure is below the limit although the scenario does not state that it is.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.holds == Some(false) && !self.missed
    }

    /// Describes the limit that does not hold.
    #[must_use]
    pub fn text(&self) -> String {
        let over = self.over.as_ref().map_or(String::new(), |over| format!(" over that of {over}"));
        let ours = self.ours.map_or_else(String::new, |ours| format!(" is {}", number(ours.mean)));
        let limit = if let Wanted::AtLeast(least) = self.paper {
            format!(", not at least {}", number(least))
        } else {
            String::new()
        };
        format!("{}: {}{over}{ours}{limit} ({})", self.case, self.metric, self.source)
    }
}

/// Reads only the scenario's `[[expected]]` blocks. The second value lists what could not be read, as messages.
#[must_use]
pub fn read(scenario: &Path) -> (Vec<Expected>, Vec<String>) {
    let text = match fs::read_to_string(scenario) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), vec![format!("cannot read scenario.toml: {error}")]),
    };
    let mut table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return (Vec::new(), vec![format!("scenario.toml is not valid TOML: {}", error.message())]),
    };
    let blocks = match table.remove("expected") {
        None => return (Vec::new(), Vec::new()),
        Some(toml::Value::Array(blocks)) => blocks,
        Some(_) => {
            return (
                Vec::new(),
                vec!["`expected` in scenario.toml is not a list of tables: write [[expected]]".to_owned()],
            );
        }
    };
    let (mut read, mut problems) = (Vec::new(), Vec::new());
    for (index, block) in blocks.into_iter().enumerate() {
        if block.get("gate").is_some() {
            continue;
        }
        match block.try_into::<Expected>() {
            Ok(expected) => read.push(expected),
            Err(error) => problems.push(format!("[[expected]] number {} is ignored: {}", index + 1, error.message())),
        }
    }
    (read, problems)
}

/// Returns a run's figure, if it has one. For a limit, a run without marks has a `mark_ratio` of 0.
fn figure(expected: &Expected, run: &RunSummary) -> Option<f64> {
    let is_limit_of_marks = matches!(expected.wanted, Wanted::Gate(_)) && expected.metric == "mark_ratio";
    expected.figure(run).filter(|value| value.is_finite()).or(is_limit_of_marks.then_some(0.0))
}

/// Returns the figure, or the ratio to a run of `references`, of each valid run that `expected` is about. A ratio to 0 is
/// infinite, or not a number if the figure itself is 0.
pub fn values<'a>(expected: &Expected, results: &'a Results, references: &[RunSummary]) -> Vec<(&'a RunId, f64)> {
    let is_valid = |run: &RunSummary| run.invalid.is_empty();
    let figure = |run: &RunSummary| figure(expected, run);
    let value = |run: &'a RunSummary| {
        let value = figure(run)?;
        if expected.over.is_empty() {
            return Some((&run.run, value));
        }
        let other = references.iter().find(|other| is_valid(other) && expected.relates(&run.run, &other.run))?;
        figure(other).map(|other| (&run.run, value / other))
    };
    results.runs.iter().filter(|run| is_valid(run) && expected.matches(&run.run)).filter_map(value).collect()
}

/// Returns each valid run that `expected` is about and that does not have the figure, such as a transfer's time if it did
/// not finish.
pub fn without_figure<'a>(expected: &Expected, results: &'a Results) -> impl Iterator<Item = &'a RunId> {
    let concerned = results.runs.iter().filter(|run| run.invalid.is_empty() && expected.matches(&run.run));
    concerned.filter(|run| figure(expected, run).is_none()).map(|run| &run.run)
}

/// Returns each seed's mean over its cases. Cases are not repetitions of each other: only seeds tell how certain a
/// figure is.
fn seeds_means(values: &[(&RunId, f64)]) -> Vec<f64> {
    let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    values.iter().for_each(|(run, value)| by_seed.entry(run.seed).or_default().push(*value));
    by_seed.values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
}

/// Formats swept values as text.
pub fn name(case: &BTreeMap<String, toml::Value>) -> String {
    let any_of = |value: &toml::Value| match value.as_array() {
        Some(list) => list.iter().map(text).collect::<Vec<_>>().join(" or "),
        None => text(value),
    };
    case_text(&case.iter().map(|(key, value)| (key.clone(), any_of(value))).collect())
}

/// Compares a figure with the valid runs of the cases that it is about.
#[must_use]
pub fn compare(expected: &Expected, results: &Results, references: &[RunSummary]) -> Comparison {
    let mut values = values(expected, results, references);
    values.retain(|(_, value)| value.is_finite());
    let cases: BTreeSet<_> = values.iter().map(|(run, _)| &run.case).collect();
    let ours = match &expected.wanted {
        Wanted::Value(_) => Estimate::of(&seeds_means(&values)),
        Wanted::AtLeast(_) | Wanted::Gate(_) => {
            let of_case = |case| values.iter().filter(move |(run, _)| &run.case == case).map(|(_, value)| *value);
            let estimates = cases.iter().filter_map(|case| Estimate::of(&of_case(*case).collect::<Vec<_>>()));
            estimates.min_by(|a, b| a.mean.total_cmp(&b.mean))
        }
    };
    let known = METRICS.iter().any(|(name, _)| *name == expected.metric);
    let is_incomplete =
        matches!(expected.wanted, Wanted::AtLeast(_)) && without_figure(expected, results).next().is_some();
    let remark = match (cases.len(), &expected.wanted) {
        (0, _) if !known => Some(format!("unknown metric `{}`", expected.metric)),
        (0, _) if !results.manifest.runs.iter().any(|run| expected.matches(run)) => {
            Some("no run matches this case".to_owned())
        }
        (0, _) => Some("no valid run has it".to_owned()),
        _ if is_incomplete => Some("not all valid runs have it".to_owned()),
        (1, _) => None,
        (several, Wanted::Value(_)) => Some(format!("mean over {several} cases")),
        (several, Wanted::AtLeast(_) | Wanted::Gate(_)) => Some(format!("the least of {several} cases")),
    };
    let (ratio, holds) = match expected.wanted {
        Wanted::Value(value) => (ours.filter(|_| value != 0.0).map(|ours| ours.mean / value), None),
        Wanted::AtLeast(_) if is_incomplete => (None, Some(false)),
        Wanted::AtLeast(least) => (None, ours.map(|ours| ours.mean >= least)),
        Wanted::Gate(_) => (None, None),
    };
    Comparison {
        case: name(&expected.case),
        flow: expected.flow.clone().or_else(|| expected.link.as_ref().map(|link| format!("link {link}"))),
        metric: expected.metric.clone(),
        over: (!expected.over.is_empty()).then(|| name(&expected.over)),
        paper: expected.wanted.clone(),
        ours,
        ratio,
        holds,
        missed: expected.missed.with(&results.manifest.backend),
        source: expected.source.clone(),
        note: expected.note.clone(),
        remark,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> (Vec<Expected>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scenario.toml");
        fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn other_keys_are_ignored() {
        let (read, problems) = read_text(
            "name = 'x'\n[[links]]\nnobody = 'knows'\n[[expected]]\ncase = { loss = 0.01, cc = 'dtcp' }\n\
             metric = 'jain'\nvalue = 1\nsource = 'Table 4'\n[[expected]]\nmetric = 'jain'\n",
        );
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].case["loss"], toml::Value::Float(0.01));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("[[expected]] number 2 is ignored: missing field"), "{problems:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(read(Path::new("/nowhere")).1[0].starts_with("cannot read scenario.toml"));
        assert!(read_text("a = ").1[0].starts_with("scenario.toml is not valid TOML"));
        assert!(read_text("expected = 1").1[0].contains("write [[expected]]"));
        assert_eq!(read_text("name = 'x'"), (vec![], vec![]));
    }
}
