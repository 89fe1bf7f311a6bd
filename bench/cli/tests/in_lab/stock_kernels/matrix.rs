//! Stock kernels, booted in virtual time: every algorithm is loaded, carries traffic, is swapped, rolled back and
//! unloaded, policy rules apply, and receivers act, with the same command that users have.

use crate::common::machine::{ARM64_KERNELS, Processor, stock_kernel};
use hotcc_lab::matrix;
use hotcc_lab_proto::job::RECEIVERS_ROW;
use hotcc_testbed::command::build;
use hotcc_testbed::soak;

#[test]
fn every_algorithm_on_the_oldest_kernel() {
    every_algorithm_on("6.1", "every_algorithm_on_the_oldest_kernel");
}

#[test]
fn every_algorithm_on_the_newest_kernel() {
    every_algorithm_on("newest", "every_algorithm_on_the_newest_kernel");
}

#[test]
#[ignore = "needs `just build-arm64`, and takes minutes: just soak"]
fn every_algorithm_on_arm64() {
    for name in ARM64_KERNELS {
        every_algorithm_on(name, "every_algorithm_on_arm64");
    }
}

fn every_algorithm_on(name: &str, test: &str) {
    build(&["hotcc"]);
    let Some(kernel) = stock_kernel(test, name) else { return };
    let _processor = Processor::take();
    let column = matrix::run(&kernel, soak::times(3_000_000), &mut |line| eprintln!("{line}"));
    println!("{}", matrix::table(std::slice::from_ref(&column)));
    let rows = column.rows.unwrap();
    assert!(rows.iter().any(|row| row.algorithm == "bbr3"), "the peer is there, too");
    assert!(rows.len() >= hotcc_bpf::ALGOS.len());
    for row in &rows {
        assert!(row.passed(), "{} on {}: {:?}", row.algorithm, column.release, row.steps);
        let steps = if row.algorithm == RECEIVERS_ROW { 6 } else { 8 };
        assert_eq!(row.steps.len(), steps, "all steps were taken");
    }
    soak::report(&format!("{}: {} rows of the matrix pass", column.release, rows.len()));
}
