//! From a file to its cases: `"$key"` in the text stands for each value of `[sweep]` in turn.

use super::{Scenario, ScenarioError, check};
use crate::lab::planner;
use crate::lab::results::RunId;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A scenario file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
    /// What it sweeps: key, and the values as TOML writes them.
    sweep: Vec<(String, Vec<String>)>,
}

/// A scenario with values for everything it sweeps.
#[derive(Clone, Debug)]
pub struct Case {
    /// The values, by key.
    pub values: BTreeMap<String, String>,
    /// What it then says.
    pub scenario: Scenario,
}

impl Case {
    /// This case with a seed.
    #[must_use]
    pub fn run(&self, seed: u64) -> RunId {
        RunId { case: self.values.clone(), seed }
    }
}

/// Only what is swept.
#[derive(Deserialize)]
struct Swept {
    #[serde(default)]
    sweep: BTreeMap<String, toml::Spanned<Vec<toml::Value>>>,
}

impl Source {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text =
            std::fs::read_to_string(path).map_err(|why| ScenarioError::Unreadable { path: path.to_owned(), why })?;
        Self::parse(path, text)
    }

    /// Takes the text of a file.
    pub fn parse(path: &Path, text: String) -> Result<Self, ScenarioError> {
        let swept: Swept = toml::from_str(&text).map_err(|e| at(path, &text, &e))?;
        let mut sweep = Vec::new();
        for (key, values) in swept.sweep {
            let span = values.span();
            if !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
                return Err(line(path, &text, &span, format!("`{key}` is no key to sweep: letters, digits, - and _")));
            }
            let literals: Vec<String> = values.into_inner().iter().map(ToString::to_string).collect();
            if literals.is_empty() {
                return Err(line(path, &text, &span, format!("`sweep.{key}` has no values")));
            }
            if !text.contains(&format!("\"${key}\"")) {
                return Err(line(path, &text, &span, format!("`sweep.{key}` is swept, but no \"${key}\" is anywhere")));
            }
            sweep.push((key, literals));
        }
        let source = Self { path: path.to_owned(), text, sweep };
        let mut names = BTreeSet::new();
        for case in source.cases()? {
            let name = case.run(0).case_name();
            if !names.insert(name.clone()) {
                return Err(line(
                    path,
                    &source.text,
                    &(0..0),
                    format!("two cases are called {name}: a value is swept twice"),
                ));
            }
        }
        Ok(source)
    }

    /// Every combination of what is swept, checked.
    pub fn cases(&self) -> Result<Vec<Case>, ScenarioError> {
        let mut combinations = vec![BTreeMap::new()];
        for (key, values) in &self.sweep {
            let with = |c: &BTreeMap<String, String>, v: &String| {
                let mut c = c.clone();
                c.insert(key.clone(), v.clone());
                c
            };
            combinations = combinations.iter().flat_map(|c| values.iter().map(move |v| with(c, v))).collect();
        }
        combinations.into_iter().map(|values| self.case(values)).collect()
    }

    /// Whether every case can be planned: names that lead nowhere show only then.
    pub fn check_plans(&self) -> Result<(), ScenarioError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        for case in self.cases()? {
            let seed = case.scenario.seeds.first().copied().unwrap_or_default();
            planner::plan(&case.scenario, seed, directory).map_err(|why| ScenarioError::Plan {
                path: self.path.clone(),
                case: case.run(seed).case_name(),
                why: format!("{why:#}"),
            })?;
        }
        Ok(())
    }

    fn case(&self, literals: BTreeMap<String, String>) -> Result<Case, ScenarioError> {
        let mut text = self.text.clone();
        for (key, literal) in &literals {
            text = text.replace(&format!("\"${key}\""), literal);
        }
        let mut scenario: Scenario = toml::from_str(&text).map_err(|e| at(&self.path, &text, &e))?;
        if scenario.name.is_empty() {
            scenario.name = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        let told = |wrong: check::Wrong| line(&self.path, &text, &wrong.span, wrong.what);
        check::check_variants(&scenario).map_err(told)?;
        put_variants(&mut scenario);
        check::check(&scenario).map_err(told)?;
        let plain = |literal: String| literal.trim_matches('"').to_owned();
        Ok(Case { values: literals.into_iter().map(|(k, v)| (k, plain(v))).collect(), scenario })
    }
}

/// Flows have what their variants stand for; what a flow sets itself goes before.
fn put_variants(scenario: &mut Scenario) {
    let Scenario { variant, flow, .. } = scenario;
    for flow in flow {
        let Some(cc) = &flow.cc else { continue };
        let Some(of_it) = variant.iter().find(|v| v.name.get_ref() == cc.get_ref()) else { continue };
        flow.cc = Some(of_it.cc.clone());
        flow.profile = flow.profile.take().or_else(|| of_it.profile.clone());
        for (key, value) in &of_it.set {
            flow.set.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// What TOML says is wrong, with its line.
fn at(path: &Path, text: &str, error: &toml::de::Error) -> ScenarioError {
    line(path, text, &error.span().unwrap_or(0..0), error.message().trim().to_owned())
}

fn line(path: &Path, text: &str, span: &Range<usize>, what: String) -> ScenarioError {
    let before = text.get(..span.start).unwrap_or_default();
    ScenarioError::Line { path: path.to_owned(), line: before.matches('\n').count() + 1, what }
}
