//! Gates: limits on an algorithm's figures (`[[expected]]` with `gate`), compared with the runs of its scenario.

mod cases;
pub mod dossier;
mod page;

pub use page::{refreshed, text};

use super::estimate::number;
use super::expected::{name, values, without_figure};
use anyhow::Result;
use hotcc_lab::results::{Expected, Gate, Of, Results, Wanted};
use hotcc_lab::scenario::{Case, Source};
use hotcc_testbed::statistics::median;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Swept values.
type Swept = BTreeMap<String, String>;

/// A gate, and the verdict of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GateResult {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the gate.
    pub gate: String,
    /// The limits as text.
    #[serde(rename = "asked")]
    pub limit: String,
    /// The figure that decides, as text.
    pub figure: String,
    /// Whether the limits are held. `None` if no run has the figure, or if there are no limits.
    pub holds: Option<bool>,
    /// Number of cases that have the figure, and of these, the number beyond the limits.
    pub cases: (usize, usize),
    /// Number of runs that have the figure, and of planned runs.
    pub runs: (usize, usize),
    /// Whether the scenario states that the gate is missed.
    pub known: bool,
    /// Whether each case is its own reference, so that the gate does not apply.
    pub is_reference: bool,
    /// Where the requirement is from.
    pub source: String,
    /// The reason for the limits.
    pub note: Option<String>,
}

impl GateResult {
    /// Returns the verdict as text: `held`, `missed in 2 of 36 cases`, `held so far, 3 of 36 runs`.
    #[must_use]
    pub fn verdict(&self) -> String {
        let (done, all) = self.runs;
        let so_far = if done < all { format!(" so far, {done} of {all} runs") } else { String::new() };
        match (self.holds, self.cases) {
            _ if self.is_reference => "not applicable".to_owned(),
            (None, (0, _)) => "not run".to_owned(),
            (None, _) => format!("no limit{so_far}"),
            (Some(true), _) => format!("held{so_far}"),
            (Some(false), (1, _) | (_, 0)) => format!("missed{so_far}"),
            (Some(false), (cases, beyond)) => format!("missed in {beyond} of {cases} cases{so_far}"),
        }
    }

    /// Returns whether the gate is missed although the scenario does not state that it is.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.holds == Some(false) && !self.known
    }
}

/// Judges the gates of the scenario whose results these are, in the order of the file.
pub fn judge(directory: &Path) -> Result<Vec<GateResult>> {
    let (cases, results) = read(directory)?;
    Ok(gate_results(&cases, &results, None))
}

/// Judges the gates for each value of a swept key on its own, whatever value a gate's `case` has for it. Returns the
/// values in the order of the sweep.
pub fn judge_each(directory: &Path, key: &str) -> Result<Vec<(String, Vec<GateResult>)>> {
    let (cases, results) = read(directory)?;
    let mut values: Vec<&String> = Vec::new();
    for value in cases.iter().filter_map(|case| case.values.get(key)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(values.into_iter().map(|value| (value.clone(), gate_results(&cases, &results, Some((key, value))))).collect())
}

fn read(directory: &Path) -> Result<(Vec<Case>, Results)> {
    let results = Results::read(directory)?;
    Ok((Source::read(&directory.join("scenario.toml"))?.cases()?, results))
}

/// Judges the gates in the cases that have the swept value `only`.
fn gate_results(cases: &[Case], results: &Results, only: Option<(&str, &str)>) -> Vec<GateResult> {
    let gates = cases.first().map_or(0, |case| case.scenario.expected.len());
    (0..gates).filter_map(|place| gate_result(place, cases, results, only)).collect()
}

/// One case's figure.
struct Figure<'a> {
    case: &'a Swept,
    /// `None` if a run ended without the figure.
    value: Option<f64>,
    /// The figure relative to its limit: a value above 1 is beyond the limit.
    excess: f64,
}

impl<'a> Figure<'a> {
    fn of(case: &'a Swept, value: f64, gate: &Gate) -> Self {
        Self { case, value: Some(value), excess: excess(value, gate) }
    }

    /// A run that ended without the figure misses the limit: a transfer that did not finish has no time.
    fn lacking(case: &'a Swept) -> Self {
        Self { case, value: None, excess: f64::INFINITY }
    }
}

/// Returns a gate as the scenario has it, and its limits in each case that it is about. `None` if it is not a gate.
fn limits_of<'a>(
    place: usize,
    cases: &'a [Case],
    only: Option<(&str, &str)>,
) -> Option<(Expected, BTreeMap<&'a Swept, Gate>)> {
    // limits may be swept; the rest is the same in each case
    let of_case = |case: &Case| {
        let mut expected = case.scenario.expected[place].get_ref().clone();
        expected.case.extend(only.map(|(key, value)| (key.to_owned(), toml::Value::from(value))));
        expected
    };
    let expected = of_case(cases.first()?);
    let limits: BTreeMap<&Swept, Gate> = cases
        .iter()
        .filter(|case| expected.matches(&case.run(0)))
        .filter_map(|case| match of_case(case).wanted {
            Wanted::Gate(gate) => Some((&case.values, gate)),
            _ => None,
        })
        .collect();
    matches!(expected.wanted, Wanted::Gate(_)).then_some((expected, limits))
}

fn gate_result(place: usize, cases: &[Case], results: &Results, only: Option<(&str, &str)>) -> Option<GateResult> {
    let (expected, limits) = limits_of(place, cases, only)?;
    let Wanted::Gate(of_file) = &expected.wanted else { return None };
    let gate = limits.values().next().unwrap_or(of_file).clone();
    let concerned = || cases.iter().filter(|case| limits.contains_key(&case.values));
    let all = concerned().map(|case| case.scenario.seeds.len()).sum();

    let found = means(&expected, results);
    let lacking: Vec<&Swept> = without_figure(&expected, results).map(|run| &run.case).collect();
    let done = found.values().map(|(_, seeds)| seeds).sum::<usize>() + lacking.len();
    let has_limits = gate.has_limits();
    let lacking: BTreeSet<&Swept> =
        lacking.into_iter().filter(|case| has_limits && limits.contains_key(case)).collect();
    let own = own_figures(&expected, results);
    let is_exempt = |case: &Swept| is_exempt(case, &limits, &own);
    let of_cases: Vec<Figure<'_>> = match gate.of {
        Of::Median if !lacking.is_empty() => lacking.first().copied().map(Figure::lacking).into_iter().collect(),
        Of::Median => median(&found.values().map(|(value, _)| *value).collect::<Vec<_>>())
            // between infinite ratios
            .map(|value| if value.is_nan() { f64::INFINITY } else { value })
            .into_iter()
            .map(|value| Figure::of(&cases[0].values, value, &gate))
            .collect(),
        Of::Each => found
            .iter()
            .filter(|(case, _)| !is_exempt(case) && !lacking.contains(*case))
            .filter_map(|(case, (value, _))| Some(Figure::of(case, *value, limits.get(*case)?)))
            .chain(lacking.iter().copied().map(Figure::lacking))
            .collect(),
    };
    let counted = match gate.of {
        Of::Median => of_cases.len(),
        Of::Each => found.keys().chain(&lacking).collect::<BTreeSet<_>>().len(),
    };
    let beyond = of_cases.iter().filter(|figure| figure.excess > 1.0).count();
    let is_reference = !limits.is_empty() && concerned().all(|case| expected.is_own_reference(&case.run(0)));
    Some(GateResult {
        scenario: results.manifest.scenario.clone(),
        limit: limit_text(&expected, &limits),
        figure: decisive(&of_cases, &gate, &limits, has_limits, found.len()),
        holds: (has_limits && counted > 0 && !is_reference).then_some(beyond == 0),
        cases: (counted, beyond),
        runs: (done, all),
        known: expected.missed.with(&results.manifest.backend),
        is_reference,
        source: expected.source,
        note: expected.note,
        gate: gate.name,
    })
}

/// Returns each case's mean over its seeds, and how many seeds it has.
fn means<'a>(expected: &Expected, results: &'a Results) -> BTreeMap<&'a Swept, (f64, usize)> {
    let mut by_case: BTreeMap<&Swept, Vec<f64>> = BTreeMap::new();
    for (run, value) in values(expected, results, &results.runs) {
        // 0 over 0 is neither more nor less than the reference
        by_case.entry(&run.case).or_default().push(if value.is_nan() { 1.0 } else { value });
    }
    by_case.into_iter().map(|(case, v)| (case, (v.iter().sum::<f64>() / v.len() as f64, v.len()))).collect()
}

/// Returns each case's mean of the figure itself, where the gate is about a ratio.
fn own_figures<'a>(expected: &Expected, results: &'a Results) -> BTreeMap<&'a Swept, (f64, usize)> {
    means(&Expected { over: BTreeMap::new(), ..expected.clone() }, results)
}

/// Returns whether the figure itself is small enough that the limits do not apply.
fn is_exempt(case: &Swept, limits: &BTreeMap<&Swept, Gate>, own: &BTreeMap<&Swept, (f64, usize)>) -> bool {
    let least = limits.get(case).and_then(|gate| gate.or_at_most);
    least.is_some_and(|least| own.get(case).is_some_and(|(own, _)| *own <= least))
}

fn excess(value: f64, gate: &Gate) -> f64 {
    let below = gate.at_least.map_or(0.0, |least| least / value);
    let above = gate.at_most.map_or(0.0, |most| value / most);
    below.max(above)
}

/// Formats the limits: `median at least 1`, `each at most 0.6, or itself at most 15 ms`.
fn limit_text(expected: &Expected, limits: &BTreeMap<&Swept, Gate>) -> String {
    let itself = unit(&expected.metric);
    let unit = if expected.over.is_empty() { itself } else { "" };
    let range = |limit: fn(&Gate) -> Option<f64>| {
        let mut all: Vec<f64> = limits.values().filter_map(limit).collect();
        all.sort_by(f64::total_cmp);
        let [least, most] = [all.first()?, all.last()?].map(|limit| number(*limit));
        Some(if least == most { (least, "") } else { (format!("{least} to {most}"), ", by case") })
    };
    let text = match (range(|gate| gate.at_least), range(|gate| gate.at_most)) {
        (None, None) => return "–".to_owned(),
        (Some((least, by)), None) => format!("at least {least}{unit}{by}"),
        (None, Some((most, by))) => format!("at most {most}{unit}{by}"),
        (Some((least, _)), Some((most, by))) => format!("{least} to {most}{unit}{by}"),
    };
    let gate = limits.values().next();
    let whose = if gate.is_some_and(|gate| gate.of == Of::Median) {
        "median "
    } else if limits.len() > 1 {
        "each "
    } else {
        ""
    };
    let or = gate.and_then(|gate| gate.or_at_most).map(|most| format!(", or itself at most {}{itself}", number(most)));
    format!("{whose}{text}{}", or.unwrap_or_default())
}

fn unit(metric: &str) -> &'static str {
    match metric.rsplit_once('_') {
        Some((_, "ms")) => " ms",
        Some((_, "s")) => " s",
        Some((_, "mbps")) => " Mbit/s",
        _ => "",
    }
}

/// Returns the figure that decides, as text: the median; or the worst of the cases' figures, with its case; or without
/// limits, the range.
fn decisive(
    figures: &[Figure<'_>],
    gate: &Gate,
    limits: &BTreeMap<&Swept, Gate>,
    has_limits: bool,
    found: usize,
) -> String {
    if let Some(lacking) = figures.iter().find(|figure| figure.value.is_none()) {
        return at_case("none", lacking.case, limits);
    }
    let worst = figures.iter().max_by(|a, b| a.excess.total_cmp(&b.excess));
    let Some((case, value)) = worst.and_then(|worst| Some((worst.case, worst.value?))) else {
        return if found > 0 {
            format!("all at most {}", number(gate.or_at_most.unwrap_or_default()))
        } else {
            "–".to_owned()
        };
    };
    if gate.of == Of::Median || limits.len() == 1 {
        return number(value);
    }
    if !has_limits {
        let mut values: Vec<f64> = figures.iter().filter_map(|figure| figure.value).collect();
        values.sort_by(f64::total_cmp);
        return format!("{} to {}", number(values[0]), number(values[values.len() - 1]));
    }
    at_case(&number(value), case, limits)
}

/// Formats a figure of a case: `0.9 at path=80ms`. Swept values that all cases share are left out.
fn at_case(figure: &str, case: &Swept, limits: &BTreeMap<&Swept, Gate>) -> String {
    let varies = |key: &String| limits.keys().any(|other| other.get(key) != case.get(key));
    let place = case.iter().filter(|(key, _)| varies(key));
    let place: BTreeMap<_, _> = place.map(|(key, value)| (key.clone(), toml::Value::String(value.clone()))).collect();
    if place.is_empty() { figure.to_owned() } else { format!("{figure} at {}", name(&place)) }
}
