//! Figures that a scenario expects of its runs: those of papers, and limits.

use super::{RunId, RunSummary};
use crate::algorithms::{object_name, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure of a paper, to stand beside ours.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "ExpectedKeys")]
pub struct Expected {
    /// Cases it is about: all whose swept values are these, or among these where it is a list.
    pub case: BTreeMap<String, toml::Value>,
    /// Not the figure itself is meant, but its ratio to that of the case with these swept values instead. Empty: itself.
    pub over: BTreeMap<String, toml::Value>,
    /// One flow's figure; without it, the run's (the mean over TCP flows; `jain` and `*_total` are of the run).
    pub flow: Option<String>,
    /// Not a flow is meant, but the links with this name, and what left them with headers and all: `utilisation` alone.
    pub link: Option<String>,
    /// Which figure: see [`METRICS`](super::METRICS).
    pub metric: String,
    /// What the paper says of it, or what is asked.
    pub wanted: Wanted,
    /// Where it stands: `Adesh 2019 (ARWA), Table 6`.
    pub source: String,
    /// What to know when comparing.
    pub note: Option<String>,
}

/// What is asked of an algorithm. Without limits, the figure is only shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gate {
    /// What it is about: `throughput, against BBR`.
    pub name: String,
    /// Lower limit.
    pub at_least: Option<f64>,
    /// Upper limit.
    pub at_most: Option<f64>,
    /// Which figure of several cases must be within the limits.
    pub of: Of,
    /// A case whose figure itself, not its ratio, is at most this is within the limits.
    pub or_at_most: Option<f64>,
    /// Known to be missed: the algorithm's page has what was tried.
    pub missed: bool,
}

/// Which figure of several cases a gate is about.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Each.
    #[default]
    Each,
    /// Their median.
    Median,
}

/// What a paper says of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// Its value.
    Value(f64),
    /// What it does not fall below, in any of the cases.
    AtLeast(f64),
    /// Not a paper's figure: limits for an algorithm of this project.
    Gate(Gate),
}

/// `[[expected]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedKeys {
    #[serde(default)]
    case: BTreeMap<String, toml::Value>,
    #[serde(default)]
    over: BTreeMap<String, toml::Value>,
    flow: Option<String>,
    link: Option<String>,
    metric: String,
    value: Option<f64>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    source: String,
    note: Option<String>,
    gate: Option<String>,
    of: Option<Of>,
    or_at_most: Option<f64>,
    #[serde(default)]
    missed: bool,
}

impl TryFrom<ExpectedKeys> for Expected {
    type Error = &'static str;

    fn try_from(keys: ExpectedKeys) -> Result<Self, Self::Error> {
        let ExpectedKeys { case, over, flow, link, metric, value, at_least, at_most, source, note, .. } = keys;
        let is_plain = at_most.is_none() && keys.of.is_none() && keys.or_at_most.is_none() && !keys.missed;
        let wanted = match (keys.gate, value, at_least) {
            (Some(name), None, at_least) => {
                let (of, or_at_most, missed) = (keys.of.unwrap_or_default(), keys.or_at_most, keys.missed);
                Wanted::Gate(Gate { name, at_least, at_most, of, or_at_most, missed })
            }
            (Some(_), Some(_), _) => return Err("[[expected]] with `gate` has limits, and no `value`"),
            _ if !is_plain => return Err("`at_most`, `of`, `or_at_most` and `missed` need a `gate` in [[expected]]"),
            (None, Some(value), None) => Wanted::Value(value),
            (None, None, Some(least)) => Wanted::AtLeast(least),
            _ => return Err("[[expected]] needs exactly one of `value` and `at_least`"),
        };
        if link.is_some() && (flow.is_some() || metric != LINK_METRIC) {
            return Err("[[expected]] with `link` needs the metric `utilisation` and no `flow`");
        }
        Ok(Self { case, over, flow, link, metric, wanted, source, note })
    }
}

impl Expected {
    /// What a run has of it.
    #[must_use]
    pub fn figure(&self, run: &RunSummary) -> Option<f64> {
        match &self.link {
            Some(link) => run.link_utilisation(link),
            None => run.metric(&self.metric, self.flow.as_deref()),
        }
    }

    /// Whether it is about this run.
    #[must_use]
    pub fn matches(&self, run: &RunId) -> bool {
        let is_wanted = |value: &String, wanted: &toml::Value| match wanted.as_array() {
            Some(list) => list.iter().any(|wanted| equal(value, &text(wanted))),
            None => equal(value, &text(wanted)),
        };
        self.case.iter().all(|(key, wanted)| run.case.get(key).is_some_and(|value| is_wanted(value, wanted)))
    }

    /// Whether `other` is the run that `run` is put in relation to: the same but for what `over` says.
    #[must_use]
    pub fn relates(&self, run: &RunId, other: &RunId) -> bool {
        let is_wanted = |(key, value): (&String, &String)| match self.over.get(key) {
            Some(wanted) => equal(value, &text(wanted)),
            None => run.case.get(key) == Some(value),
        };
        run.seed == other.seed && other.case.iter().all(is_wanted)
    }
}

/// Whether a swept value is the wanted one: `0.010` in the sweep is the `0.01` of the paper, and an object file may be
/// written as its path or as its name.
#[must_use]
pub fn equal(value: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    value == object_name(wanted) || number(value).is_some_and(|v| number(wanted) == Some(v))
}

/// The figure that links have as well.
const LINK_METRIC: &str = "utilisation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_both_sides_are_a_gates() {
        let parse =
            |keys: &str| toml::from_str::<Expected>(&format!("metric = 'jain'\nsource = 'this project'\n{keys}"));
        let gate = |keys: &str| match parse(keys).map(|expected| expected.wanted) {
            Ok(Wanted::Gate(gate)) => Some(gate),
            _ => None,
        };
        let within = gate("gate = 'shares'\nat_least = 0.4\nat_most = 0.55\nof = 'median'").unwrap();
        assert_eq!((within.at_least, within.at_most, within.of), (Some(0.4), Some(0.55), Of::Median));
        assert_eq!(gate("gate = 'shares'").unwrap().of, Of::Each);
        assert_eq!(gate("gate = 'shares'\nvalue = 1"), None);
        assert!(parse("at_most = 1").is_err() && parse("at_least = 1\nmissed = true").is_err());
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(equal("0.010", &text(&toml::Value::Float(0.01))));
        assert!(equal("1", &text(&toml::Value::Float(1.0))));
        assert!(equal("dtcp", &text(&toml::Value::String("dtcp".into()))));
        assert!(equal("20", &text(&toml::Value::String("20".into()))));
        assert!(!equal("dtcp", &text(&toml::Value::Integer(1))));
        assert!(equal("mine", "out/mine.bpf.o") && !equal("mine", "out/other.bpf.o"));
    }
}
