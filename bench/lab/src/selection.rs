//! The selection of a scenario's runs: all of them, or only some.

use crate::plural::counted;
use crate::results::{RunId, equal};
use crate::scenario::{Case, Source};
use anyhow::{Result, bail};
use hotcc_host::nearest::expected;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::str::FromStr;

/// The wanted runs. The default is all runs.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Whether to use only the first seed.
    pub one_seed: bool,
    /// Swept values that a case must have. Several values of one key are alternatives.
    pub cases: Vec<SweptValue>,
    /// A random selection of the cases.
    pub drawn: Option<Draw>,
}

/// Selects one case in `one_in`, on average. The same seed selects the same cases, whatever else the scenario sweeps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The average number of cases per selected case.
    pub one_in: NonZeroU32,
    /// Seed of the draw.
    pub seed: u64,
}

impl Draw {
    fn takes(self, case: &Case) -> bool {
        let name = case.run(0).case_name();
        let digest = Sha256::digest(format!("{} {name}", self.seed));
        let [a, b, c, d, ..] = <[u8; 32]>::from(digest);
        u32::from_be_bytes([a, b, c, d]) % self.one_in == 0
    }
}

/// `KEY=VALUE`.
#[derive(Clone, Debug, PartialEq)]
pub struct SweptValue {
    key: String,
    value: String,
}

impl SweptValue {
    /// Returns these values of one key.
    pub fn each(key: &str, values: &[String]) -> impl Iterator<Item = Self> {
        values.iter().map(move |value| Self { key: key.to_owned(), value: value.clone() })
    }
}

impl FromStr for SweptValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => {
                Ok(Self { key: key.to_owned(), value: value.trim_matches('"').to_owned() })
            }
            _ => Err("expected KEY=VALUE: a key of [sweep] and one of its values, e.g. cc=dtcp".to_owned()),
        }
    }
}

/// A run, and its case.
pub(super) struct OneRun<'a> {
    pub case: &'a Case,
    pub id: RunId,
}

impl Selection {
    /// Returns the identities of a scenario's selected runs, in order. Fails if the scenario does not have a selected key
    /// or value.
    pub fn run_ids(&self, source: &Source) -> Result<Vec<RunId>> {
        let cases = source.cases()?;
        Ok(self.runs(source, &cases)?.into_iter().map(|one| one.id).collect())
    }

    /// Returns the selected runs, in order. Fails if the scenario does not have a selected key or value.
    pub(super) fn runs<'a>(&self, source: &Source, cases: &'a [Case]) -> Result<Vec<OneRun<'a>>> {
        for wanted in &self.cases {
            let values: BTreeSet<&String> = cases.iter().filter_map(|case| case.values.get(&wanted.key)).collect();
            let (path, SweptValue { key, value }) = (source.path.display(), wanted);
            if values.is_empty() {
                let keys: BTreeSet<&str> =
                    cases.iter().flat_map(|case| case.values.keys()).map(String::as_str).collect();
                bail!("{path}: cannot select `{key}={value}`: `{key}` is not swept: {}", expected(key, keys));
            }
            if !values.iter().any(|there| equal(there, value)) {
                let values = values.iter().map(|v| v.as_str());
                bail!("{path}: cannot select `{key}={value}`: unknown value: {}", expected(value, values));
            }
        }
        let runs: Vec<_> = cases
            .iter()
            .filter(|case| has(&case.values, &self.cases) && self.drawn.is_none_or(|draw| draw.takes(case)))
            .flat_map(|case| {
                let seeds = case.scenario.seeds.iter().take(if self.one_seed { 1 } else { usize::MAX });
                seeds.map(move |seed| OneRun { case, id: case.run(*seed) })
            })
            .collect();
        if let (Some(Draw { one_in, seed }), true) = (self.drawn, runs.is_empty()) {
            bail!(
                "{}: the draw of one case in {one_in} with seed {seed} takes none: use a smaller --one-in, e.g. 1 for all",
                source.path.display()
            );
        }
        Ok(runs)
    }
}

/// Returns whether a case has one of the wanted values for each wanted key.
#[must_use]
pub fn has(case: &BTreeMap<String, String>, wanted: &[SweptValue]) -> bool {
    wanted.iter().all(|one| {
        let mut alternatives = wanted.iter().filter(|other| other.key == one.key);
        case.get(&one.key).is_some_and(|there| alternatives.any(|other| equal(there, &other.value)))
    })
}

/// The amount of work.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// Number of runs.
    pub runs: usize,
    /// Total length of the runs, in seconds of guest time.
    pub seconds: f64,
    /// Description of the selection, if it is only a part of the scenario.
    pub reduced: Option<String>,
    /// Estimated real time in s; 0 until it is computed.
    pub real_s: f64,
}

impl Workload {
    /// Returns the workload of a scenario's selected runs.
    pub fn of(source: &Source, selection: &Selection) -> Result<Self> {
        let cases = source.cases()?;
        Ok(Self::of_runs(&cases, &selection.runs(source, &cases)?))
    }

    pub(super) fn of_runs(cases: &[Case], chosen: &[OneRun<'_>]) -> Self {
        let ids: Vec<RunId> = chosen.iter().map(|one| one.id.clone()).collect();
        Self {
            runs: chosen.len(),
            seconds: chosen.iter().map(|one| *one.case.scenario.duration_s.get_ref()).sum(),
            reduced: reduced(&all_runs(cases), &ids),
            real_s: 0.0,
        }
    }

    /// Returns the workload in words: `36 runs; 2160 s of guest time in total`.
    #[must_use]
    pub fn text(&self) -> String {
        let runs = self.reduced.clone().unwrap_or_else(|| counted(self.runs, "run"));
        format!("{runs}; {:.0} s of guest time in total", self.seconds)
    }
}

/// Returns all runs of a scenario's cases.
#[must_use]
pub fn all_runs(cases: &[Case]) -> Vec<RunId> {
    cases.iter().flat_map(|case| case.scenario.seeds.iter().map(|seed| case.run(*seed))).collect()
}

/// Describes which of a scenario's runs were selected: `12 of 36 runs of the scenario: first seed only, only cc=dtcp`.
/// Returns `None` if all were selected, or if some are not runs of the scenario.
#[must_use]
pub fn reduced(all: &[RunId], chosen: &[RunId]) -> Option<String> {
    if chosen.len() >= all.len() || chosen.iter().any(|run| !all.contains(run)) {
        return None;
    }
    let mut seeds: BTreeMap<&BTreeMap<String, String>, Vec<u64>> = BTreeMap::new();
    for run in all {
        seeds.entry(&run.case).or_default().push(run.seed);
    }
    let of_case = |run: &RunId| seeds.get(&run.case).map_or(&[][..], Vec::as_slice);
    let mut how = Vec::new();
    if chosen.iter().all(|run| of_case(run).first() == Some(&run.seed))
        && chosen.iter().any(|run| of_case(run).len() > 1)
    {
        how.push("first seed only".to_owned());
    }
    let keys: BTreeSet<&String> = all.iter().flat_map(|run| run.case.keys()).collect();
    for key in keys {
        let values =
            |runs: &[RunId]| -> BTreeSet<String> { runs.iter().filter_map(|run| run.case.get(key)).cloned().collect() };
        let (there, left) = (values(all), values(chosen));
        if left != there {
            how.push(format!("only {key}={}", left.into_iter().collect::<Vec<_>>().join(" or ")));
        }
    }
    let how = if how.is_empty() { String::new() } else { format!(": {}", how.join(", ")) };
    Some(format!("{} of {} runs of the scenario{how}", chosen.len(), all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SCENARIO: &str = r#"
duration_s = 5
seeds = [3, 1]
[sweep]
cc = ["dtcp", "cubic", "reno"]
loss = [0.01, 0.000001]
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
name = "x"
between = ["a", "b"]
forward = { rate = "5Mbit/s", loss = "$loss" }
[[flow]]
name = "f"
from = "a"
to = "b"
cc = "$cc"
"#;

    fn chosen(one_seed: bool, cases: &[&str]) -> Result<(Vec<String>, Workload)> {
        let source = Source::parse(Path::new("x.toml"), SCENARIO.to_owned())?;
        let cases = cases.iter().map(|text| text.parse().unwrap()).collect();
        let selection = Selection { one_seed, cases, drawn: None };
        let all = source.cases()?;
        let runs = selection.runs(&source, &all)?;
        let names = runs.iter().map(|one| format!("{} {}", one.id.case_name(), one.id.seed)).collect();
        Ok((names, Workload::of(&source, &selection)?))
    }

    #[test]
    fn only_selected_runs_are_run_and_the_reduction_is_reported() {
        let (runs, work) = chosen(false, &[]).unwrap();
        assert_eq!((runs.len(), work.text().as_str()), (12, "12 runs; 60 s of guest time in total"));
        let (runs, work) = chosen(true, &[]).unwrap();
        assert!(runs.iter().all(|run| run.ends_with(" 3")), "{runs:?}");
        let text = "6 of 12 runs of the scenario: first seed only; 30 s of guest time in total";
        assert_eq!(work.text(), text);
        // compared as numbers, however TOML writes them
        let (runs, work) = chosen(true, &["cc=dtcp", "loss=1e-6"]).unwrap();
        assert_eq!(runs.len(), 1);
        let left_out = work.reduced.unwrap();
        assert!(
            left_out.starts_with("1 of 12 runs of the scenario: first seed only, only cc=dtcp, only loss="),
            "{left_out}"
        );
        let (runs, work) = chosen(false, &["cc=dtcp", "cc=reno"]).unwrap();
        assert_eq!(runs.len(), 8);
        assert_eq!(work.reduced.unwrap(), "8 of 12 runs of the scenario: only cc=dtcp or reno");
    }

    #[test]
    fn a_draw_takes_its_share_of_cases_with_all_their_seeds_and_the_same_ones_each_time() {
        let losses: Vec<String> = (1..=100).map(|n| format!("{}", f64::from(n) / 1000.0)).collect();
        let text = SCENARIO.replace("0.01, 0.000001", &losses.join(", "));
        let source = Source::parse(Path::new("x.toml"), text).unwrap();
        let all = source.cases().unwrap();
        let drawn = |one_in, seed| {
            let draw = Draw { one_in: NonZeroU32::new(one_in).unwrap(), seed };
            let selection = Selection { drawn: Some(draw), ..Selection::default() };
            selection.runs(&source, &all).map(|runs| runs.into_iter().map(|one| one.id).collect::<Vec<_>>())
        };
        let runs = drawn(10, 1).unwrap();
        assert!((2 * 15..2 * 45).contains(&runs.len()), "{} of 300 cases with two seeds", runs.len());
        assert!(runs.chunks(2).all(|pair| pair[0].case == pair[1].case));
        assert_eq!(runs, drawn(10, 1).unwrap());
        assert_ne!(runs, drawn(10, 2).unwrap());
        assert_eq!(drawn(1, 1).unwrap().len(), 600);
        let none = drawn(u32::MAX, 1).unwrap_err().to_string();
        assert!(none.starts_with("x.toml: the draw of one case in 4294967295 with seed 1 takes none: "), "{none}");
    }

    #[test]
    fn selecting_an_unknown_case_is_an_error() {
        let error = |case: &str| chosen(false, &[case]).unwrap_err().to_string();
        assert_eq!(
            error("queue=1BDP"),
            "x.toml: cannot select `queue=1BDP`: `queue` is not swept: expected one of cc, loss"
        );
        assert_eq!(error("cc=bbr"), "x.toml: cannot select `cc=bbr`: unknown value: expected one of cubic, dtcp, reno");
        assert!("cc".parse::<SweptValue>().is_err() && "=dtcp".parse::<SweptValue>().is_err());
    }

    #[test]
    fn runs_of_another_scenario_are_ignored() {
        let run = |seed| RunId { case: BTreeMap::new(), seed };
        assert_eq!(reduced(&[run(1), run(2)], &[run(3)]), None);
        assert_eq!(reduced(&[run(1), run(2)], &[run(2)]).unwrap(), "1 of 2 runs of the scenario");
    }
}
