//! Expands a file into its cases: `"$key"` in the text is replaced by each value of `[sweep]` in turn. If the values
//! are tables, `"$key.field"` is replaced by a field of each.

use super::check::check;
use super::congestion::{check_event_ccs, check_variants, check_watches};
use super::field_error::FieldError;
use super::file::{Scenario, ScenarioError};
use super::place::Place;
use crate::algorithms::{self, object_name};
use crate::results::RunId;
use crate::traces::TraceFiles;
use hotcc_host::nearest::expected;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A scenario file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Path of the file.
    pub path: PathBuf,
    /// Content of the file.
    pub text: String,
    /// Directories in which trace files are looked up if they are not beside the file.
    pub trace_directories: Vec<PathBuf>,
    /// What the file sweeps: each key with its values.
    sweep: Vec<(String, Vec<Value>)>,
}

/// A swept value.
#[derive(Clone, Debug)]
struct Value {
    /// Name of the value in the case's name.
    name: String,
    /// The texts to replace, with their replacements in TOML syntax: `"$key"`, or for a table `"$key.field"` for each
    /// field.
    literals: Vec<(String, String)>,
}

/// Returns the name of a swept value; `None` for a table without `name`.
pub(super) fn value_name(value: &toml::Value) -> Option<String> {
    let plain = |value: &toml::Value| value.to_string().trim_matches('"').to_owned();
    match value.as_table() {
        Some(table) => table.get("name").map(plain),
        // an object file gets the name that tables use for its congestion control
        None => Some(object_name(&plain(value)).to_owned()),
    }
}

impl Value {
    fn new(key: &str, value: &toml::Value) -> Option<Self> {
        let literals = match value.as_table() {
            Some(table) => table.iter().map(|(field, value)| (format!("{key}.{field}"), value.to_string())).collect(),
            None => vec![(key.to_owned(), value.to_string())],
        };
        Some(Self { name: value_name(value)?, literals })
    }

    fn put_into(&self, text: &str) -> String {
        let put = |text: String, (key, literal): &(String, String)| text.replace(&format!("\"${key}\""), literal);
        self.literals.iter().fold(text.to_owned(), put)
    }
}

/// A scenario with a value for each swept key.
#[derive(Clone, Debug)]
pub struct Case {
    /// The values, by key.
    pub values: BTreeMap<String, String>,
    /// The resulting scenario.
    pub scenario: Scenario,
}

impl Case {
    /// Returns the run of this case with a seed.
    #[must_use]
    pub fn run(&self, seed: u64) -> RunId {
        RunId { case: self.values.clone(), seed }
    }
}

/// The parts of a file that are read before swept values are put into it.
#[derive(Deserialize)]
struct Swept {
    #[serde(default)]
    sweep: BTreeMap<String, toml::Spanned<Vec<toml::Value>>>,
    #[serde(default)]
    expected: Vec<toml::Spanned<toml::Table>>,
}

impl Source {
    /// Reads a scenario file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text =
            std::fs::read_to_string(path).map_err(|why| ScenarioError::Unreadable { path: path.to_owned(), why })?;
        Self::parse(path, text)
    }

    /// Parses the text of a scenario file, and checks all its cases.
    pub fn parse(path: &Path, text: String) -> Result<Self, ScenarioError> {
        let swept: Swept = toml::from_str(&text).map_err(|e| at(path, &text, &e))?;
        for block in &swept.expected {
            let mut used = Vec::new();
            block.get_ref().values().for_each(|value| keys(value, &mut used));
            // a report compares other figures once, for all cases, as the file has them
            if let Some(key) = used.first().filter(|_| !block.get_ref().contains_key("gate")) {
                let what =
                    format!("`${key}` in [[expected]] needs a `gate`: other figures are compared once, for all cases");
                return Err(line(path, &text, &block.span(), what));
            }
        }
        let mut sweep = Vec::new();
        for (key, values) in swept.sweep {
            let span = values.span();
            if !key.chars().all(is_of_a_key) {
                return Err(line(
                    path,
                    &text,
                    &span,
                    format!("invalid sweep key `{key}`: expected letters, digits, - and _"),
                ));
            }
            if values.get_ref().is_empty() {
                return Err(line(path, &text, &span, format!("`sweep.{key}` has no values: expected at least one")));
            }
            let values: Option<Vec<Value>> = values.get_ref().iter().map(|value| Value::new(&key, value)).collect();
            let Some(values) = values else {
                return Err(line(
                    path,
                    &text,
                    &span,
                    format!("a table in `sweep.{key}` has no `name`: expected one in each table"),
                ));
            };
            if let Some((name, [one, other])) = two_files(&values) {
                return Err(line(
                    path,
                    &text,
                    &span,
                    format!(
                        "{one} and {other} in `sweep.{key}` have the same name, `{name}`: rename one of the files, or \
                         sweep tables with different names, e.g. {{ name = \"old\", file = {one} }}, and write \
                         \"${key}.file\""
                    ),
                ));
            }
            if !values.iter().flat_map(|v| &v.literals).any(|(key, _)| text.contains(&format!("\"${key}\""))) {
                return Err(line(
                    path,
                    &text,
                    &span,
                    format!("`sweep.{key}` is unused: write \"${key}\" where its values belong"),
                ));
            }
            sweep.push((key, values));
        }
        let source = Self { path: path.to_owned(), text, trace_directories: Vec::new(), sweep };
        source.check_keys()?;
        let cases = source.cases()?;
        let mut names = BTreeSet::new();
        for case in &cases {
            let name = case.run(0).case_name();
            // 1 and 1.0 are the same value, here as in `--case` and [[expected]]
            let number = |value: &String| value.parse::<f64>().map_or_else(|_| value.clone(), |n| n.to_string());
            let same = case.values.iter().map(|(key, value)| (key.clone(), number(value))).collect();
            if !names.insert(RunId { case: same, seed: 0 }.case_name()) {
                return Err(source.error_at(&(0..0), format!("duplicate case {name}: a value is swept twice")));
            }
        }
        let scenarios: Vec<Scenario> = cases.into_iter().map(|case| case.scenario).collect();
        check_watches(&scenarios, &|cc| algorithms::state(cc, None))
            .and_then(|()| check_event_ccs(&scenarios))
            .map_err(|error| source.error_in_case(error))?;
        Ok(source)
    }

    /// Checks that every field that a flow watches exists in at least one case, including the fields of object files.
    pub(crate) fn check_watched_fields(&self) -> Result<(), ScenarioError> {
        let scenarios: Vec<Scenario> = self.cases()?.into_iter().map(|case| case.scenario).collect();
        check_watches(&scenarios, &|cc| algorithms::state(cc, Some(self.directory())))
            .map_err(|error| self.error_in_case(error))
    }

    /// Returns the directory in which the files that the scenario names are looked up.
    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    fn error_in_case(&self, (case, error): (usize, FieldError)) -> ScenarioError {
        let values = self.combinations().into_iter().nth(case).unwrap_or_default();
        line(&self.path, &self.with(&values), &error.span, error.what)
    }

    /// Checks that every `"$key"` is swept.
    fn check_keys(&self) -> Result<(), ScenarioError> {
        let table: toml::Table = toml::from_str(&self.text).map_err(|e| at(&self.path, &self.text, &e))?;
        let mut used = Vec::new();
        table.values().for_each(|value| keys(value, &mut used));
        let literals = self.sweep.iter().flat_map(|(_, values)| values).flat_map(|value| &value.literals);
        let swept: BTreeSet<&str> = literals.map(|(key, _)| key.as_str()).collect();
        let Some(unknown) = used.into_iter().find(|key| !swept.contains(&key.as_str())) else {
            return Ok(());
        };
        let written = format!("\"${unknown}\"");
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            if line.contains(&written) && !line.trim_start().starts_with('#') {
                break;
            }
            start += line.len();
        }
        let what = format!("cannot replace `${unknown}`: `{unknown}` is not swept: {}", expected(&unknown, swept));
        Err(self.error_at(&(start..start), what))
    }

    /// Returns where trace files are looked up: first beside the scenario file.
    #[must_use]
    pub fn traces(&self) -> TraceFiles {
        TraceFiles::beside(self.path.parent().unwrap_or(Path::new("."))).then(&self.trace_directories)
    }

    /// Returns the case of every combination of swept values, checked.
    pub fn cases(&self) -> Result<Vec<Case>, ScenarioError> {
        self.combinations().into_iter().map(|values| self.case(values)).collect()
    }

    /// Returns every combination of the swept values, by key.
    fn combinations(&self) -> Vec<BTreeMap<&str, &Value>> {
        let mut combinations = vec![BTreeMap::new()];
        for (key, values) in &self.sweep {
            let with = |c: &BTreeMap<_, _>, value| {
                let mut c = c.clone();
                c.insert(key.as_str(), value);
                c
            };
            combinations = combinations.iter().flat_map(|c| values.iter().map(move |v| with(c, v))).collect();
        }
        combinations
    }

    /// Returns the text with these swept values put into it.
    fn with(&self, values: &BTreeMap<&str, &Value>) -> String {
        values.values().fold(self.text.clone(), |text, value| value.put_into(&text))
    }

    fn error_at(&self, span: &Range<usize>, what: String) -> ScenarioError {
        line(&self.path, &self.text, span, what)
    }

    /// Applies a check to every case. The check gets the case's first seed, and where its trace files are.
    pub fn check_cases(
        &self,
        check: impl Fn(&Scenario, u64, &TraceFiles) -> anyhow::Result<()>,
    ) -> Result<(), ScenarioError> {
        self.check_some_cases(|_| true, check)
    }

    /// Applies a check to the wanted cases, as [`Source::check_cases`] does to all.
    pub fn check_some_cases(
        &self,
        wanted: impl Fn(&Case) -> bool,
        check: impl Fn(&Scenario, u64, &TraceFiles) -> anyhow::Result<()>,
    ) -> Result<(), ScenarioError> {
        let traces = self.traces();
        for values in self.combinations() {
            let text = self.with(&values);
            let case = self.case(values)?;
            if !wanted(&case) {
                continue;
            }
            let seed = case.scenario.seeds.first().copied().unwrap_or_default();
            check(&case.scenario, seed, &traces).map_err(|error| {
                let why = format!("{error:#}");
                match error.downcast_ref::<Place>() {
                    Some(place) => line(&self.path, &text, &place.span, why),
                    None => ScenarioError::Plan { path: self.path.clone(), case: case.run(seed).case_name(), why },
                }
            })?;
        }
        Ok(())
    }

    fn case(&self, values: BTreeMap<&str, &Value>) -> Result<Case, ScenarioError> {
        let text = self.with(&values);
        let mut scenario: Scenario = toml::from_str(&text).map_err(|e| at(&self.path, &text, &e))?;
        if scenario.name.is_empty() {
            scenario.name = self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        }
        let at_line = |error: FieldError| line(&self.path, &text, &error.span, error.what);
        check_variants(&scenario).map_err(at_line)?;
        put_variants(&mut scenario);
        check(&scenario).map_err(at_line)?;
        Ok(Case { values: values.into_iter().map(|(k, v)| (k.to_owned(), v.name.clone())).collect(), scenario })
    }
}

/// Finds two object files among these values that have the same name. Returns the name, and both files in TOML syntax.
fn two_files(values: &[Value]) -> Option<(&str, [&str; 2])> {
    let mut files: BTreeMap<&str, &str> = BTreeMap::new();
    for value in values {
        if let [(_, literal)] = value.literals.as_slice()
            && literal.trim_matches('"') != value.name
            && let Some(other) = files.insert(&value.name, literal).filter(|other| other != literal)
        {
            return Some((&value.name, [other, literal]));
        }
    }
    None
}

/// Applies variants to flows. Settings of the flow itself take precedence.
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

/// Collects the keys that a value refers to as `"$key"`.
fn keys(value: &toml::Value, found: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => {
            let key =
                text.strip_prefix('$').filter(|key| !key.is_empty() && key.chars().all(|c| is_of_a_key(c) || c == '.'));
            found.extend(key.map(ToOwned::to_owned));
        }
        toml::Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        toml::Value::Table(table) => table.values().for_each(|value| keys(value, found)),
        _ => {}
    }
}

fn is_of_a_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Converts an error of the TOML parser to one with a line number.
fn at(path: &Path, text: &str, error: &toml::de::Error) -> ScenarioError {
    line(path, text, &error.span().unwrap_or(0..0), error.message().trim().to_owned())
}

fn line(path: &Path, text: &str, span: &Range<usize>, what: String) -> ScenarioError {
    let before = text.get(..span.start).unwrap_or_default();
    ScenarioError::Line { path: path.to_owned(), line: before.matches('\n').count() + 1, what }
}
