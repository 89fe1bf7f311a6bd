//! Compares the simulator's results with those of a kernel in the lab, run by run.

use crate::results::{Results, RunId, RunSummary};
use crate::simulated;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Maximum difference between the simulated throughput and the lab's, as a share of the lab's.
pub const THROUGHPUT_BOUND: f64 = 0.01;
/// Maximum difference of the 95th percentile of the queue's delay, as a share of the lab's.
pub const DELAY_BOUND: f64 = 0.15;

/// A figure from the lab and from the simulator.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// The lab's figure.
    pub lab: f64,
    /// The simulator's figure.
    pub simulated: f64,
}

impl Pair {
    fn of(lab: &RunSummary, simulated: &RunSummary, metric: &str) -> Self {
        let [lab, simulated] = [lab, simulated].map(|run| run.metric(metric, None).unwrap_or(0.0));
        Self { lab, simulated }
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

/// Compares the simulator's results of a scenario, `OUT/NAME/simulator`, with those of every kernel beside it.
pub fn compare(directory: &Path) -> Result<Vec<Comparison>> {
    let simulated = Results::read(&directory.join(simulated::BACKEND))
        .with_context(|| format!("{}: run `hotcc-bench lab --sim` first", directory.display()))?;
    let mut compared = Vec::new();
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
        for run in lab.runs.iter().filter(|run| run.invalid.is_empty()) {
            let Some(same) = simulated.runs.iter().find(|same| same.run == run.run) else { continue };
            compared.push(Comparison {
                scenario: ours.scenario.clone(),
                kernel: ours.kernel.clone(),
                run: run.run.clone(),
                throughput_mbps: Pair::of(run, same, "throughput_mbps_total"),
                queue_delay_p95_ms: Pair::of(run, same, "queue_delay_p95_ms"),
            });
        }
    }
    ensure!(!compared.is_empty(), "{}: no run was made by both the simulator and a kernel", directory.display());
    Ok(compared)
}

/// Returns the page of all comparisons: the number of runs within the bounds, then every run. Runs beyond the bounds
/// are marked.
#[must_use]
pub fn page(all: &[Comparison]) -> String {
    let within = all.iter().filter(|one| one.is_within_bounds()).count();
    let mut page = format!(
        "# The simulator against the lab\n\n`just validate` writes this page: runs of the committed scenarios in the simulator \
         and on a kernel in virtual time. {within} of {} runs are within {:.0} % of the lab's throughput and {:.0} % of the \
         95th percentile of its queue's delay; the others are in bold. A difference is the simulator's figure less the lab's, \
         as a share of the lab's.\n\n\
         | scenario | kernel | case | seed | Mbit/s, lab | simulator | difference | p95 of the queue's delay, ms, lab | \
         simulator | difference |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        all.len(),
        THROUGHPUT_BOUND * 100.0,
        DELAY_BOUND * 100.0
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
    page
}

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:+.1} %", share * 100.0) } else { "lab has 0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

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
        let page = page(&all);
        assert!(page.contains("1 of 3 runs are within 1 % of the lab's throughput and 15 %"), "{page}");
        assert_eq!(page.matches("**cc=bbr**").count(), 2);
        assert!(page.contains("| 10.000 | 9.890 | -1.1 % | 20.00 | 20.00 | +0.0 % |"), "{page}");
    }

    #[test]
    fn a_delay_where_the_lab_has_none_is_beyond_every_bound() {
        let pair = Pair { lab: 0.0, simulated: 1.0 };
        assert!(pair.difference().is_infinite() && percent(pair.difference()) == "lab has 0");
        assert_eq!(Pair { lab: 0.0, simulated: 0.0 }.difference().to_bits(), 0);
    }
}
