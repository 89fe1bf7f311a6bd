//! Figures that a scenario expects of its runs: those of papers, and limits.

use super::{RunId, RunSummary, SIMULATOR};
use crate::algorithms::{object_name, text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure to show beside the runs' own figures: that of a paper, or a limit.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(try_from = "ExpectedKeys")]
pub struct Expected {
    /// The cases that it applies to: those with these swept values. A list means any of its values.
    pub case: BTreeMap<String, toml::Value>,
    /// If not empty, the figure is the ratio to the figure of the case with these swept values instead.
    pub over: BTreeMap<String, toml::Value>,
    /// Name of the flow; if absent, the figure is that of the run (the mean over TCP flows; `jain` and `*_total` apply
    /// to the run).
    pub flow: Option<String>,
    /// Name of links, if the figure is about links rather than a flow. The only metric is `utilisation`, which includes
    /// headers.
    pub link: Option<String>,
    /// Name of the metric: see [`METRICS`](super::METRICS).
    pub metric: String,
    /// The paper's figure, or the requirement.
    pub wanted: Wanted,
    /// The source of the figure: `Adesh 2019 (ARWA), Table 6`.
    pub source: String,
    /// A note on the comparison.
    pub note: Option<String>,
    /// Where the requirement is known not to be met; the algorithm's page states why.
    pub missed: Missed,
}

/// Where a requirement is known not to be met.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(try_from = "toml::Value")]
pub enum Missed {
    /// It is met everywhere.
    #[default]
    Nowhere,
    /// Only in the simulator.
    InSimulator,
    /// Only on kernels.
    OnKernels,
    /// In the simulator and on kernels.
    Everywhere,
}

impl Missed {
    /// Returns whether the requirement is known not to be met by runs of this backend, as a manifest names it.
    #[must_use]
    pub fn with(self, backend: &str) -> bool {
        let simulated = backend == SIMULATOR;
        self == Self::Everywhere || self == if simulated { Self::InSimulator } else { Self::OnKernels }
    }
}

impl TryFrom<toml::Value> for Missed {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        match (value.as_bool(), value.as_str()) {
            (Some(false), _) => Ok(Self::Nowhere),
            (Some(true), _) => Ok(Self::Everywhere),
            (_, Some("simulator")) => Ok(Self::InSimulator),
            (_, Some("kernel")) => Ok(Self::OnKernels),
            _ => Err(format!("invalid `missed`: {value}: expected true, false, \"simulator\" or \"kernel\"")),
        }
    }
}

/// A requirement for an algorithm. Without limits, the figure is only shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gate {
    /// Name of the requirement: `throughput, against BBR`.
    pub name: String,
    /// Lower limit.
    pub at_least: Option<f64>,
    /// Upper limit.
    pub at_most: Option<f64>,
    /// Which figure of several cases must be within the limits.
    pub of: Of,
    /// If the figure itself, not its ratio, is at most this, a case is within the limits.
    pub or_at_most: Option<f64>,
}

impl Gate {
    /// Returns whether it has a limit; without any, its figures are only shown.
    #[must_use]
    pub fn has_limits(&self) -> bool {
        self.at_least.is_some() || self.at_most.is_some()
    }
}

/// Which figure of several cases a gate applies to.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// The figure of each case.
    #[default]
    Each,
    /// The median of the cases' figures.
    Median,
}

/// The expected value of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wanted {
    /// A paper's value.
    Value(f64),
    /// A paper's lower limit, which applies in each case.
    AtLeast(f64),
    /// Limits for an algorithm of this project, rather than a paper's figure.
    Gate(Gate),
}

/// `[[expected]]` as it is in the file.
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
    missed: Missed,
}

impl TryFrom<ExpectedKeys> for Expected {
    type Error = &'static str;

    fn try_from(keys: ExpectedKeys) -> Result<Self, Self::Error> {
        let ExpectedKeys { case, over, flow, link, metric, value, at_least, at_most, source, note, missed, .. } = keys;
        let is_plain = at_most.is_none() && keys.of.is_none() && keys.or_at_most.is_none();
        let wanted = match (keys.gate, value, at_least) {
            (Some(name), None, at_least) => {
                let (of, or_at_most) = (keys.of.unwrap_or_default(), keys.or_at_most);
                // it exempts a case by the figure that the ratio is of; a median of several cases has no such figure
                if or_at_most.is_some() && (over.is_empty() || of == Of::Median) {
                    return Err("`or_at_most` in [[expected]] needs `over`, and applies to each case, not to a median");
                }
                Wanted::Gate(Gate { name, at_least, at_most, of, or_at_most })
            }
            (Some(_), Some(_), _) => return Err("[[expected]] with `gate` has limits, and no `value`"),
            _ if !is_plain => return Err("`at_most`, `of` and `or_at_most` need a `gate` in [[expected]]"),
            (None, Some(_), None) if missed != Missed::Nowhere => {
                return Err("`missed` in [[expected]] needs a limit, not a `value`");
            }
            (None, Some(value), None) => Wanted::Value(value),
            (None, None, Some(least)) => Wanted::AtLeast(least),
            _ => return Err("[[expected]] needs exactly one of `value` and `at_least`"),
        };
        if link.is_some() && (flow.is_some() || metric != LINK_METRIC) {
            return Err("[[expected]] with `link` needs the metric `utilisation` and no `flow`");
        }
        Ok(Self { case, over, flow, link, metric, wanted, source, note, missed })
    }
}

impl Expected {
    /// Returns a run's figure.
    #[must_use]
    pub fn figure(&self, run: &RunSummary) -> Option<f64> {
        match &self.link {
            Some(link) => run.link_utilisation(link),
            None => run.metric(&self.metric, self.flow.as_deref()),
        }
    }

    /// Returns whether this figure applies to a run.
    #[must_use]
    pub fn matches(&self, run: &RunId) -> bool {
        let is_wanted = |value: &String, wanted: &toml::Value| match wanted.as_array() {
            Some(list) => list.iter().any(|wanted| equal(value, &text(wanted))),
            None => equal(value, &text(wanted)),
        };
        self.case.iter().all(|(key, wanted)| run.case.get(key).is_some_and(|value| is_wanted(value, wanted)))
    }

    /// Returns whether `other` is the run that the ratio for `run` refers to: the same run, except for the values in
    /// `over`.
    #[must_use]
    pub fn relates(&self, run: &RunId, other: &RunId) -> bool {
        let is_wanted = |(key, value): (&String, &String)| match self.over.get(key) {
            Some(wanted) => equal(value, &text(wanted)),
            None => run.case.get(key) == Some(value),
        };
        run.seed == other.seed && other.case.iter().all(is_wanted)
    }

    /// Returns whether the ratio for `run` refers to `run` itself, so that it is always 1.
    #[must_use]
    pub fn is_own_reference(&self, run: &RunId) -> bool {
        !self.over.is_empty() && self.relates(run, run)
    }
}

/// Returns whether a swept value is the wanted one. Numbers are compared as numbers: `0.010` in the sweep equals the
/// paper's `0.01`. An object file may be given by its path or by its name.
#[must_use]
pub fn equal(value: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    value == object_name(wanted) || number(value).is_some_and(|v| number(wanted) == Some(v))
}

/// The metric that links also have.
const LINK_METRIC: &str = "utilisation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_and_an_upper_limit_are_only_valid_for_a_gate() {
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
        let exempting = "gate = 'delay'\nat_most = 0.6\nor_at_most = 15";
        let over = "over = { cc = 'bbr' }";
        assert_eq!(gate(&format!("{exempting}\n{over}")).unwrap().or_at_most, Some(15.0));
        assert_eq!(gate(&format!("{exempting}\n{over}\nof = 'median'")), None);
        assert_eq!(gate(exempting), None);
        assert!(parse("at_most = 1").is_err() && parse("value = 1\nmissed = true").is_err());
        let missed = |value: &str| {
            let missed = parse(&format!("at_least = 1\nmissed = {value}"))?.missed;
            Ok::<_, toml::de::Error>((missed.with("vm"), missed.with("native"), missed.with("simulator")))
        };
        assert_eq!(missed("true").unwrap(), (true, true, true));
        assert_eq!(missed("false").unwrap(), (false, false, false));
        assert_eq!(missed("\"kernel\"").unwrap(), (true, true, false));
        assert_eq!(missed("\"simulator\"").unwrap(), (false, false, true));
        assert!(missed("\"often\"").unwrap_err().message().contains("expected true, false, \"simulator\" or"));
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
