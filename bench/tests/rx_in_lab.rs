//! The receivers in the lab: what hints and granted windows make of a cell with a queue for each user.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{run_lab, smaller, stock_kernel};

#[test]
fn hints_keep_the_queues_of_forty_users_short_and_the_cell_full() {
    if stock_kernel("hints_keep_the_queues_of_forty_users_short_and_the_cell_full", "6.12").is_none() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let path = smaller("arwa-users.toml", &[("duration_s = 100", "duration_s = 8")], scratch.path());
    let results = run_lab("vm:6.12", ["users=40"], &path, scratch.path());
    let [none, drwa, arwa] = ["none", "drwa", "arwa"].map(|rx| {
        let run = results.runs.iter().find(|run| run.run.case["rx"] == rx).unwrap();
        assert!(run.invalid.is_empty(), "{rx}: {:?}", run.invalid);
        let figures = ["queue_delay_mean_ms", "throughput_mbps_total", "loss_ratio", "jain"];
        figures.map(|figure| run.metric(figure, None).unwrap())
    });
    println!("ms, Mbit/s, lost, Jain's index: autotuning {none:.3?}, DRWA {drwa:.3?}, ARWA {arwa:.3?}");
    assert!(arwa[0] <= 0.3 * none[0] && arwa[0] < drwa[0], "delay");
    assert!(arwa[1] >= none[1] && arwa[1] >= 0.99 * drwa[1], "throughput");
    assert!(none[2] > 0.0 && drwa[2] == 0.0 && arwa[2] == 0.0, "loss");
    assert!(arwa[3] >= 0.99 * none[3], "fairness");
}

#[test]
fn other_kernels_receivers_keep_the_queues_short_too() {
    const NAME: &str = "other_kernels_receivers_keep_the_queues_short_too";
    for kernel in ["6.1", "newest"] {
        if stock_kernel(NAME, kernel).is_none() {
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        let path = smaller("arwa-users.toml", &[("duration_s = 100", "duration_s = 4")], scratch.path());
        let results = run_lab(&format!("vm:{kernel}"), ["users=20", "rx=arwa", "rx=drwa"], &path, scratch.path());
        for run in &results.runs {
            let delay_ms = run.metric("queue_delay_mean_ms", None).unwrap();
            println!("{kernel}, {:?}: {delay_ms} ms", run.run.case);
            // autotuning's is 460
            assert!(run.invalid.is_empty() && delay_ms < 150.0, "{kernel}: {:?}: {delay_ms} ms", run.run);
        }
        assert_eq!(results.runs.len(), 2, "{kernel}");
    }
}
