//! The papers' figures, `[[expected]]` in `scenario.toml`, beside ours.

use super::estimate::Estimate;
use super::rows::case_text;
use crate::lab::algorithms::text;
use crate::lab::results::{Expected, METRICS, Results};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A paper's figure and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Cases it is about, as text.
    pub case: String,
    /// The flow it is about; `None`: the run.
    pub flow: Option<String>,
    /// Which figure.
    pub metric: String,
    /// The paper's.
    pub paper: f64,
    /// Ours, over seeds; absent where no valid run has it.
    pub ours: Option<Estimate>,
    /// Ours over the paper's.
    pub ratio: Option<f64>,
    /// Where the paper says so.
    pub source: String,
    /// What to know when comparing.
    pub note: Option<String>,
    /// Why there is nothing of ours, or over how many cases a seed's figure is the mean.
    pub remark: Option<String>,
}

/// Reads the scenario's `[[expected]]`, and nothing else of it. What cannot be read is said in words.
#[must_use]
pub fn read(scenario: &Path) -> (Vec<Expected>, Vec<String>) {
    let text = match fs::read_to_string(scenario) {
        Ok(text) => text,
        Err(error) => return (Vec::new(), vec![format!("scenario.toml cannot be read: {error}")]),
    };
    let mut table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return (Vec::new(), vec![format!("scenario.toml is no TOML: {}", error.message())]),
    };
    let blocks = match table.remove("expected") {
        None => return (Vec::new(), Vec::new()),
        Some(toml::Value::Array(blocks)) => blocks,
        Some(_) => return (Vec::new(), vec!["expected in scenario.toml is no list: write [[expected]]".to_owned()]),
    };
    let (mut read, mut problems) = (Vec::new(), Vec::new());
    for (index, block) in blocks.into_iter().enumerate() {
        match block.try_into::<Expected>() {
            Ok(expected) => read.push(expected),
            Err(error) => problems.push(format!("[[expected]] number {} is left out: {}", index + 1, error.message())),
        }
    }
    (read, problems)
}

/// Holds a figure against the valid runs of the cases it is about.
#[must_use]
pub fn compare(expected: &Expected, results: &Results) -> Comparison {
    let mut by_seed: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    let mut cases = Vec::new();
    for run in results.runs.iter().filter(|run| run.invalid.is_empty() && expected.matches(&run.run)) {
        if let Some(value) = run.metric(&expected.metric, expected.flow.as_deref()).filter(|v| v.is_finite()) {
            by_seed.entry(run.run.seed).or_default().push(value);
            if !cases.contains(&run.run.case) {
                cases.push(run.run.case.clone());
            }
        }
    }
    // cases are no repetitions of each other: only seeds say how sure a figure is
    let values: Vec<f64> = by_seed.values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect();
    let ours = Estimate::of(&values);
    let known = METRICS.iter().any(|(name, _)| *name == expected.metric);
    let remark = match cases.len() {
        0 if !known => Some("there is no such metric".to_owned()),
        0 if !results.manifest.runs.iter().any(|run| expected.matches(run)) => Some("there is no such case".to_owned()),
        0 => Some("no valid run has it".to_owned()),
        1 => None,
        several => Some(format!("mean over {several} cases")),
    };
    let case = expected.case.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    Comparison {
        case: case_text(&case),
        flow: expected.flow.clone(),
        metric: expected.metric.clone(),
        paper: expected.value,
        ours,
        ratio: ours.filter(|_| expected.value != 0.0).map(|ours| ours.mean / expected.value),
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
    fn only_this_key_is_read() {
        let (read, problems) = read_text(
            "name = 'x'\n[[links]]\nnobody = 'knows'\n[[expected]]\ncase = { loss = 0.01, cc = 'dtcp' }\n\
             metric = 'jain'\nvalue = 1\nsource = 'Table 4'\n[[expected]]\nmetric = 'jain'\n",
        );
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].case["loss"], toml::Value::Float(0.01));
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("[[expected]] number 2 is left out: missing field"), "{problems:?}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(read(Path::new("/nowhere")).1[0].starts_with("scenario.toml cannot be read"));
        assert!(read_text("a = ").1[0].starts_with("scenario.toml is no TOML"));
        assert!(read_text("expected = 1").1[0].contains("write [[expected]]"));
        assert_eq!(read_text("name = 'x'"), (vec![], vec![]));
    }
}
