//! Runs grouped by condition (the swept values without the congestion control) and congestion control.

use super::data::{Column, PROGRAM_COLUMNS, RECEIVER_COLUMNS};
use super::estimate::Estimate;
use hotcc_lab::results::{FlowSummary, METRICS, Results, RunSummary};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Swept values.
pub type Case = BTreeMap<String, String>;

/// Every seed of one congestion control (or one flow) under the same conditions.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Swept values; without the congestion control if `label` names it.
    pub condition: Case,
    /// Congestion control, or flow.
    pub label: String,
    /// Valid runs, one for each seed, in the manifest's order.
    pub runs: Vec<RowRun>,
}

/// One seed's figures.
#[derive(Clone, Debug, Serialize)]
pub struct RowRun {
    /// Seed.
    pub seed: u64,
    /// The available figures of [`METRICS`]: means over the flows; `throughput_mbps_total` is their sum, `jain` the
    /// run's. In rows of receivers and their programs, the counters.
    pub values: BTreeMap<&'static str, f64>,
}

impl Row {
    /// Returns a figure of each seed that has it.
    #[must_use]
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.values.get(metric).copied()).collect()
    }

    /// Returns a figure's mean and interval.
    #[must_use]
    pub fn estimate(&self, metric: &str) -> Option<Estimate> {
        Estimate::of(&self.values(metric))
    }
}

/// Formats swept values as `loss=0.01, rtt=20`; `all` if nothing is swept.
#[must_use]
pub fn case_text(case: &Case) -> String {
    if case.is_empty() {
        return "all".to_owned();
    }
    case.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

/// Returns the swept key that chooses the congestion control, if exactly one does.
fn cc_key(case: &Case) -> Option<&str> {
    let mut keys = case.keys().filter(|key| *key == "cc" || key.ends_with(".cc"));
    let key = keys.next()?;
    keys.next().is_none().then_some(key)
}

/// Returns the swept values of a run, without the congestion control if it is swept.
#[must_use]
pub fn condition(run: &RunSummary) -> Case {
    let mut condition = run.run.case.clone();
    if let Some(key) = cc_key(&run.run.case) {
        condition.remove(key);
    }
    condition
}

/// Returns whether a swept value names that congestion control, alone or followed by a profile.
fn names(value: &str, cc: &str) -> bool {
    value.strip_prefix(cc).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Returns the label of a flow's congestion control when cases are compared, and the case without it.
///
/// If a flow does not run the swept congestion control, its label names the one that it ran beside. So the competitor
/// of one algorithm is not averaged with the competitor of another.
#[must_use]
pub fn placed(run: &RunSummary, cc: &str) -> (String, Case) {
    let mut condition = run.run.case.clone();
    let Some(key) = cc_key(&run.run.case).map(str::to_owned) else { return (cc.to_owned(), condition) };
    let Some(value) = condition.remove(&key) else { return (cc.to_owned(), condition) };
    // of `dtcp-slow` beside `dtcp`, only the first is the swept one
    let is_exact = run.flows.iter().any(|flow| flow.cc == value);
    let is_swept = |cc: &str| if is_exact { cc == value } else { names(&value, cc) };
    let label = if is_swept(cc) {
        value
    } else if run.flows.iter().any(|flow| is_swept(&flow.cc)) {
        format!("{cc} beside {value}")
    } else {
        format!("{cc} ({key}={value})")
    };
    (label, condition)
}

/// Returns one row for each condition and congestion control, in the order in which they first ran. Invalid runs
/// produce rows, too, but without values; datagram flows produce no rows.
#[must_use]
pub fn by_cc(results: &Results) -> Vec<Row> {
    of_ccs(&results.runs)
}

fn of_ccs(runs: &[RunSummary]) -> Vec<Row> {
    gather(runs, figures, |run| {
        let mut ccs: Vec<&str> = Vec::new();
        for flow in run.flows.iter().filter(|flow| flow.cc != "udp") {
            if !ccs.contains(&flow.cc.as_str()) {
                ccs.push(&flow.cc);
            }
        }
        let rows = ccs.into_iter().map(|cc| {
            let (label, condition) = placed(run, cc);
            (condition, label, run.flows.iter().filter(|flow| flow.cc == cc).collect())
        });
        // bounds depend only on the path, so they are the same for each congestion control
        let path = condition(run);
        let bounds = run.bounds.iter().map(|bound| (path.clone(), bound.name.clone(), vec![bound]));
        rows.chain(bounds).collect()
    })
}

/// Returns one row for each case and flow, including datagram flows.
#[must_use]
pub fn by_flow(results: &Results) -> Vec<Row> {
    gather(&results.runs, figures, |run| {
        let row = |flow| (run.run.case.clone(), flow_label(flow), vec![flow]);
        run.flows.iter().map(row).collect()
    })
}

/// Returns one row for each case and flow, labelled only with the flow's name: a table then has one column for the
/// flows with that name in all cases.
#[must_use]
pub fn by_flow_name(results: &Results) -> Vec<Row> {
    gather(&results.runs, figures, |run| {
        run.flows.iter().map(|flow| (run.run.case.clone(), flow.name.clone(), vec![flow])).collect()
    })
}

/// Returns one row for each case and TCP flow whose receiver's counters are known.
#[must_use]
pub fn by_receiver(results: &Results) -> Vec<Row> {
    let counters = |_: &RunSummary, flows: &[&FlowSummary]| {
        let counted = flows.first().and_then(|flow| flow.receiver);
        counters(&RECEIVER_COLUMNS, &json!(counted))
    };
    gather(&results.runs, counters, |run| {
        let counted = run.flows.iter().filter(|flow| flow.receiver.is_some());
        counted.map(|flow| (run.run.case.clone(), flow_label(flow), vec![flow])).collect()
    })
}

/// Returns one row for each case whose hosts have receiver programs, with the programs' counters.
#[must_use]
pub fn receiver_programs(results: &Results) -> Vec<Row> {
    let counters = |run: &RunSummary, _: &[&FlowSummary]| counters(&PROGRAM_COLUMNS, &json!(run.receiver_programs));
    gather(&results.runs, counters, |run| {
        let all = || (run.run.case.clone(), "all hosts".to_owned(), run.flows.iter().collect());
        (!run.receiver_programs.is_empty()).then(all).into_iter().collect()
    })
}

/// Returns the counters that have a column.
fn counters(columns: &[Column], counted: &Value) -> BTreeMap<&'static str, f64> {
    columns.iter().filter_map(|column| Some((column.metric, counted.get(column.metric)?.as_f64()?))).collect()
}

/// Formats a flow as `bulk-1 (dtcp)`.
#[must_use]
pub fn flow_label(flow: &FlowSummary) -> String {
    format!("{} ({})", flow.name, flow.cc)
}

/// Returns the conditions in the order of `rows`, each with its rows.
#[must_use]
pub fn conditions(rows: &[Row]) -> Vec<(&Case, Vec<&Row>)> {
    let mut found: Vec<(&Case, Vec<&Row>)> = Vec::new();
    for row in rows {
        match found.iter_mut().find(|(condition, _)| **condition == row.condition) {
            Some((_, members)) => members.push(row),
            None => found.push((&row.condition, vec![row])),
        }
    }
    found
}

/// Returns every congestion control, in the order of `rows`; the order gives each its colour.
#[must_use]
pub fn labels(rows: &[Row]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    rows.iter().map(|row| row.label.clone()).filter(|label| seen.insert(label.clone())).collect()
}

/// Prefixes of the figures that bounds have.
const OF_BOUNDS: [&str; 5] = ["throughput", "utilisation", "rtt", "queue_delay", "loss"];

/// A row's condition, label and flows in a run.
type Part<'a> = (Case, String, Vec<&'a FlowSummary>);

fn gather(
    runs: &[RunSummary],
    values: impl Fn(&RunSummary, &[&FlowSummary]) -> BTreeMap<&'static str, f64>,
    parts: impl for<'a> Fn(&'a RunSummary) -> Vec<Part<'a>>,
) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut places: BTreeMap<(Case, String), usize> = BTreeMap::new();
    let mut order: Vec<Case> = Vec::new();
    for run in runs {
        for (condition, label, flows) in parts(run) {
            if !order.contains(&condition) {
                order.push(condition.clone());
            }
            let place = *places.entry((condition.clone(), label.clone())).or_insert_with(|| {
                rows.push(Row { condition, label, runs: Vec::new() });
                rows.len() - 1
            });
            // a bound is the same in all cases that differ only in their congestion control
            let is_known = flows.iter().all(|flow| run.bounds.contains(flow))
                && rows[place].runs.iter().any(|known| known.seed == run.run.seed);
            if run.invalid.is_empty() && !is_known {
                rows[place].runs.push(RowRun { seed: run.run.seed, values: values(run, &flows) });
            }
        }
    }
    // the sort is stable: within a condition, rows keep the order in which they first ran
    rows.sort_by_key(|row| order.iter().position(|condition| *condition == row.condition));
    rows
}

fn figures(run: &RunSummary, flows: &[&FlowSummary]) -> BTreeMap<&'static str, f64> {
    if let [bound] = flows
        && run.bounds.contains(bound)
    {
        let of_a_path = METRICS.iter().filter(|(name, _)| OF_BOUNDS.iter().any(|of| name.starts_with(of)));
        return of_a_path.filter_map(|(name, _)| bound.metric(name).map(|value| (*name, value))).collect();
    }
    let part = RunSummary { flows: flows.iter().map(|flow| (*flow).clone()).collect(), ..run.clone() };
    let udp = part.flows.iter().all(|flow| flow.cc == "udp");
    let value = |metric| match (udp, metric) {
        // fairness is defined among TCP flows, and a run's mean leaves datagram flows out
        (true, "jain") => None,
        (true, _) => part.flows.first().and_then(|flow| flow.metric(metric)),
        (false, _) => part.metric(metric, None),
    };
    METRICS.iter().filter_map(|(name, _)| value(name).filter(|v| v.is_finite()).map(|v| (*name, v))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab::results::RunId;

    fn run(case: &[(&str, &str)], ccs: &[&str]) -> RunSummary {
        let case = case.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let flow = |cc: &&str| FlowSummary { cc: (*cc).to_owned(), ..FlowSummary::default() };
        RunSummary {
            run: RunId { case, seed: 1 },
            duration_s: 1.0,
            flows: ccs.iter().map(flow).collect(),
            jain: 1.0,
            ..RunSummary::default()
        }
    }

    #[test]
    fn the_swept_cc_leaves_the_condition() {
        let label = |case: &[(&str, &str)], ccs: &[&str], cc| {
            let (label, condition) = placed(&run(case, ccs), cc);
            format!("{label} | {}", case_text(&condition))
        };
        assert_eq!(label(&[("cc", "dtcp"), ("loss", "0")], &["dtcp"], "dtcp"), "dtcp | loss=0");
        assert_eq!(label(&[("cc", "dtcp:paper")], &["dtcp"], "dtcp"), "dtcp:paper | all");
        assert_eq!(label(&[("cc", "dtcp")], &["dtcp", "cubic"], "cubic"), "cubic beside dtcp | all");
        assert_eq!(label(&[("cc", "dtcp-slow")], &["dtcp-slow", "dtcp"], "dtcp-slow"), "dtcp-slow | all");
        assert_eq!(label(&[("cc", "dtcp-slow")], &["dtcp-slow", "dtcp"], "dtcp"), "dtcp beside dtcp-slow | all");
        assert_eq!(label(&[("cc", "dtcp")], &["westwoodp"], "westwoodp"), "westwoodp (cc=dtcp) | all");
        assert_eq!(label(&[("cc", "dtcp_v2")], &["dtcp"], "dtcp"), "dtcp (cc=dtcp_v2) | all");
        assert_eq!(label(&[("a.cc", "dtcp"), ("b.cc", "reno")], &["dtcp"], "dtcp"), "dtcp | a.cc=dtcp, b.cc=reno");
        assert_eq!(label(&[], &["dtcp"], "dtcp"), "dtcp | all");
    }

    #[test]
    fn bounds_stand_once_beside_every_congestion_control() {
        let bound = |name: &str| FlowSummary {
            name: name.to_owned(),
            cc: name.to_owned(),
            throughput_bps: 5e6,
            utilisation: Some(0.9),
            ..FlowSummary::default()
        };
        let runs = ["dtcp", "cubic"].map(|cc| RunSummary {
            bounds: vec![bound("oracle"), bound("late-oracle")],
            ..run(&[("cc", cc), ("loss", "0")], &[cc])
        });
        let rows = of_ccs(&runs);
        let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(labels, ["dtcp", "oracle", "late-oracle", "cubic"]);
        assert!(rows.iter().all(|row| case_text(&row.condition) == "loss=0"));
        let oracle = &rows[1];
        assert_eq!(oracle.runs.len(), 1, "one figure for each seed");
        assert_eq!(oracle.runs[0].values["throughput_mbps"], 5.0);
        assert!(!oracle.runs[0].values.contains_key("jain") && !oracle.runs[0].values.contains_key("retransmits"));
    }
}
