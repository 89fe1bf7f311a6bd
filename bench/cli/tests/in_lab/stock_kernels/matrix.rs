//! The oldest and the newest supported stock kernel, booted in virtual time: every algorithm is loaded, carries
//! traffic, is swapped, rolled back and unloaded, and policy rules apply, with the same command that users have.

use crate::common::machine::{Processor, stock_kernel};
use hotcc_lab::matrix;
use hotcc_testbed::command::build;

#[test]
fn every_algorithm_on_the_oldest_kernel() {
    every_algorithm_on("6.1", "every_algorithm_on_the_oldest_kernel");
}

#[test]
fn every_algorithm_on_the_newest_kernel() {
    every_algorithm_on("newest", "every_algorithm_on_the_newest_kernel");
}

fn every_algorithm_on(name: &str, test: &str) {
    build(&["hotcc"]);
    let Some(kernel) = stock_kernel(test, name) else { return };
    let _processor = Processor::take();
    let column = matrix::run(&kernel, 3_000_000, &mut |line| eprintln!("{line}"));
    println!("{}", matrix::table(std::slice::from_ref(&column)));
    let rows = column.rows.unwrap();
    assert!(rows.iter().any(|row| row.algorithm == "bbr3"), "the peer is there, too");
    assert!(rows.len() >= hotcc_bpf::ALGOS.len());
    for row in rows {
        assert!(row.passed(), "{} on {}: {:?}", row.algorithm, column.release, row.steps);
        assert_eq!(row.steps.len(), 8, "all steps were taken");
    }
}
