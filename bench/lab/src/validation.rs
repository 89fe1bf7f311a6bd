//! Compares the simulator's results with those of a kernel in the lab, run by run.

use crate::results::{Manifest, Results, RunId, RunSummary, SIMULATOR};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Maximum difference between the simulated throughput and the lab's, as a share of the lab's.
pub const THROUGHPUT_BOUND: f64 = 0.01;
/// Maximum difference of the 95th percentile of the queue's delay, as a share of the lab's.
pub const DELAY_BOUND: f64 = 0.15;
/// Number of digits of a version that the page has.
const DIGITS: usize = 12;

/// A figure from the lab and from the simulator.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// The lab's figure.
    pub lab: f64,
    /// The simulator's figure.
    pub simulated: f64,
}

impl Pair {
    /// Returns nothing if either run lacks the metric.
    fn of(lab: &RunSummary, simulated: &RunSummary, metric: &str) -> Option<Self> {
        Some(Self { lab: lab.metric(metric, None)?, simulated: simulated.metric(metric, None)? })
    }

    /// Returns the difference as a share of the lab's figure; infinite if only the lab's figure is 0.
    #[must_use]
    pub fn difference(self) -> f64 {
        let difference = self.simulated - self.lab;
        if difference == 0.0 { 0.0 } else { difference / self.lab }
    }
}

/// A run that was executed both in the lab and in the simulator.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The scenario.
    pub scenario: String,
    /// The kernel.
    pub kernel: String,
    /// The run.
    pub run: RunId,
    /// Sum of the flows' throughputs, in Mbit/s.
    pub throughput_mbps: Pair,
    /// 95th percentile of the queue's delay, in ms.
    pub queue_delay_p95_ms: Pair,
}

impl Comparison {
    /// Returns whether both figures are within their bounds.
    #[must_use]
    pub fn is_within_bounds(&self) -> bool {
        self.throughput_mbps.difference().abs() <= THROUGHPUT_BOUND
            && self.queue_delay_p95_ms.difference().abs() <= DELAY_BOUND
    }
}

/// Runs of scenarios that were compared.
#[derive(Debug, Default, Serialize)]
pub struct Validation {
    /// The runs that both the lab and the simulator have.
    pub compared: Vec<Comparison>,
    /// Number of the lab's runs that were not compared.
    pub left_out: usize,
    /// SHA-256 of each version of each algorithm's object, and the scenarios that ran with this version.
    pub objects: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Validation {
    /// Adds the runs of another scenario.
    pub fn add(&mut self, other: Self) {
        self.compared.extend(other.compared);
        self.left_out += other.left_out;
        for (name, versions) in other.objects {
            let known = self.objects.entry(name).or_default();
            for (sha256, scenarios) in versions {
                known.entry(sha256).or_default().extend(scenarios);
            }
        }
    }

    /// Returns the sentence on what was left out, if anything was.
    #[must_use]
    pub fn omission(&self) -> Option<String> {
        Some(match self.left_out {
            0 => return None,
            1 => "1 run of the lab is not compared: it is invalid, or was not simulated".to_owned(),
            n => format!("{n} runs of the lab are not compared: they are invalid, or were not simulated"),
        })
    }
}

fn algorithms() -> impl Iterator<Item = &'static str> {
    hotcc_bpf::ALGOS.iter().chain(hotcc_bpf::PEERS).map(|object| object.name)
}

/// Returns the algorithms of which the two results have different versions.
fn changed_algorithms(ours: &Manifest, theirs: &Manifest) -> Vec<&'static str> {
    algorithms().filter(|name| ours.objects.get(*name) != theirs.objects.get(*name)).collect()
}

/// Compares the simulator's results of a scenario, `OUT/NAME/simulator`, with those of every kernel beside it.
pub fn compare(directory: &Path) -> Result<Validation> {
    let simulated = Results::read(&directory.join(SIMULATOR))
        .with_context(|| format!("{}: run `hotcc-bench lab --sim` first", directory.display()))?;
    let mut all = Validation::default();
    let mut beside: Vec<_> = fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("manifest.json").exists())
        .collect();
    beside.sort();
    for path in beside {
        let lab = Results::read(&path)?;
        if lab.manifest.backend == simulated.manifest.backend {
            continue;
        }
        let ours = &lab.manifest;
        ensure!(
            ours.scenario_sha256 == simulated.manifest.scenario_sha256 && ours.files == simulated.manifest.files,
            "{} and the simulator's results are of different scenarios or traces: run one of them again",
            path.display()
        );
        let changed = changed_algorithms(ours, &simulated.manifest);
        ensure!(
            changed.is_empty(),
            "{} and the simulator's results are of another version of {}; run one of them again",
            path.display(),
            changed.join(", ")
        );
        for (name, sha256) in algorithms().filter_map(|name| Some((name, ours.objects.get(name)?))) {
            let versions = all.objects.entry(name.to_owned()).or_default();
            versions.entry(sha256.clone()).or_default().insert(ours.scenario.clone());
        }
        for run in &lab.runs {
            let same = simulated.runs.iter().find(|same| run.invalid.is_empty() && same.run == run.run);
            let pair = |metric| Pair::of(run, same?, metric);
            match (pair("throughput_mbps_total"), pair("queue_delay_p95_ms")) {
                (Some(throughput_mbps), Some(queue_delay_p95_ms)) => all.compared.push(Comparison {
                    scenario: ours.scenario.clone(),
                    kernel: ours.kernel.clone(),
                    run: run.run.clone(),
                    throughput_mbps,
                    queue_delay_p95_ms,
                }),
                _ => all.left_out += 1,
            }
        }
    }
    ensure!(!all.compared.is_empty(), "{}: no run was made by both the simulator and a kernel", directory.display());
    Ok(all)
}

/// Returns the page of all comparisons: the number of runs within the bounds, every run, and the versions of the
/// algorithms. Runs beyond the bounds are marked.
#[must_use]
pub fn page(validation: &Validation) -> String {
    let all = &validation.compared;
    let within = all.iter().filter(|one| one.is_within_bounds()).count();
    let mut page = format!(
        "# The simulator against the lab\n\n`just validate` writes this page: runs of the committed scenarios in the simulator \
         and on a kernel in virtual time, and one case in ten, drawn by seed, of the grids that only the simulator runs whole: \
         of the signals' age, the queues and the [dossier](../dossier.md). {within} of {} runs are within {:.0} % of the lab's throughput and {:.0} % of the \
         95th percentile of its queue's delay; the others are in bold. A difference is the simulator's figure less the lab's, \
         as a share of the lab's.{}\n\n\
         | scenario | kernel | case | seed | Mbit/s, lab | simulator | difference | p95 of the queue's delay, ms, lab | \
         simulator | difference |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        all.len(),
        THROUGHPUT_BOUND * 100.0,
        DELAY_BOUND * 100.0,
        validation.omission().map_or_else(String::new, |omission| format!(" {omission}."))
    );
    for one in all {
        let case = one.run.case_name();
        let case = if one.is_within_bounds() { case } else { format!("**{case}**") };
        let (rate, delay) = (one.throughput_mbps, one.queue_delay_p95_ms);
        let _ = writeln!(
            page,
            "| {} | {} | {case} | {} | {:.3} | {:.3} | {} | {:.2} | {:.2} | {} |",
            one.scenario,
            one.kernel,
            one.run.seed,
            rate.lab,
            rate.simulated,
            percent(rate.difference()),
            delay.lab,
            delay.simulated,
            percent(delay.difference())
        );
    }
    page + &versions(validation)
}

/// Returns the table of the algorithms' versions. If an algorithm has several, each is followed by its scenarios.
fn versions(validation: &Validation) -> String {
    if validation.objects.is_empty() {
        return String::new();
    }
    let mut table = format!(
        "\nAll algorithms of the builds that made these runs, with the first {DIGITS} digits of the SHA-256 of each BPF \
         object, which `hotcc status --json` prints of a loaded one. The simulator ran the same sources, compiled for the \
         host.\n\n\
         | algorithm | object |\n| --- | --- |\n"
    );
    for (name, versions) in &validation.objects {
        let version = |(sha256, scenarios): (&String, &BTreeSet<String>)| {
            let digits = format!("`{}`", sha256.get(..DIGITS).unwrap_or(sha256));
            let scenarios: Vec<&str> = scenarios.iter().map(String::as_str).collect();
            if versions.len() == 1 { digits } else { format!("{digits} ({})", scenarios.join(", ")) }
        };
        let versions: Vec<String> = versions.iter().map(version).collect();
        let _ = writeln!(table, "| {name} | {} |", versions.join(", "));
    }
    table
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:+.1} %", share * 100.0) } else { "lab has 0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(rate: f64, delay: f64) -> Comparison {
        Comparison {
            scenario: "small".to_owned(),
            kernel: "6.12".to_owned(),
            run: RunId { case: BTreeMap::from([("cc".to_owned(), "bbr".to_owned())]), seed: 1 },
            throughput_mbps: Pair { lab: 10.0, simulated: rate },
            queue_delay_p95_ms: Pair { lab: 20.0, simulated: delay },
        }
    }

    #[test]
    fn runs_beyond_either_bound_are_named() {
        let all = [compared(10.09, 22.9), compared(9.89, 20.0), compared(10.0, 23.1)];
        assert_eq!(all.each_ref().map(Comparison::is_within_bounds), [true, false, false]);
        let page = page(&Validation { compared: all.to_vec(), ..Validation::default() });
        assert!(page.contains("1 of 3 runs are within 1 % of the lab's throughput and 15 %"), "{page}");
        assert_eq!(page.matches("**cc=bbr**").count(), 2);
        assert!(page.contains("| 10.000 | 9.890 | -1.1 % | 20.00 | 20.00 | +0.0 % |"), "{page}");
    }

    #[test]
    fn the_page_ends_with_the_versions_of_the_algorithms() {
        let of = |scenario: &str, dtcp: char| {
            let versions = |digit: char| {
                let scenarios = BTreeSet::from([scenario.to_owned()]);
                BTreeMap::from([(digit.to_string().repeat(64), scenarios)])
            };
            let objects = BTreeMap::from([("dcm".to_owned(), versions('c')), ("dtcp".to_owned(), versions(dtcp))]);
            Validation { objects, ..Validation::default() }
        };
        let mut all = of("wide", 'b');
        all.add(of("small", 'b'));
        let same = "| algorithm | object |\n| --- | --- |\n| dcm | `cccccccccccc` |\n| dtcp | `bbbbbbbbbbbb` |\n";
        assert!(page(&all).ends_with(same), "{}", page(&all));
        all.add(of("late", 'a'));
        let two = "| dcm | `cccccccccccc` |\n| dtcp | `aaaaaaaaaaaa` (late), `bbbbbbbbbbbb` (small, wide) |\n";
        assert!(page(&all).ends_with(two), "{}", page(&all));
        assert!(!page(&Validation::default()).contains("| algorithm |"));
    }

    #[test]
    fn a_delay_where_the_lab_has_none_is_beyond_every_bound() {
        let pair = Pair { lab: 0.0, simulated: 1.0 };
        assert!(pair.difference().is_infinite() && percent(pair.difference()) == "lab has 0");
        assert_eq!(Pair { lab: 0.0, simulated: 0.0 }.difference().to_bits(), 0);
    }
}
