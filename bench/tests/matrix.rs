//! The oldest and the newest supported stock kernel, booted in virtual time: every algorithm loads, carries traffic, is
//! swapped, rolled back and unloaded there, with the very command that users have.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_bench::kernels::{self, Selector};
use hotcc_bench::lab::matrix;
use std::process::Command;

#[test]
fn every_algorithm_on_the_oldest_and_the_newest_kernel() {
    const NAME: &str = "every_algorithm_on_the_oldest_and_the_newest_kernel";
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        println!("SKIPPED {NAME}: no qemu-system-x86_64");
        return;
    }
    let built = Command::new(env!("CARGO")).args(["build", "-q", "-p", "hotcc"]).status().unwrap();
    assert!(built.success());
    for name in ["6.1", "newest"] {
        let selector: Selector = name.parse().unwrap();
        let kernel = match kernels::ready(&selector, &mut |progress| eprintln!("{progress}")) {
            Ok(kernel) => kernel,
            Err(why) if why.is_offline() => {
                println!("SKIPPED {NAME}: no package index reachable: {why}");
                return;
            }
            Err(why) => panic!("{why}"),
        };
        let column = matrix::run(&kernel, 10_000_000, &mut |line| eprintln!("{line}"));
        println!("{}", matrix::table(std::slice::from_ref(&column)));
        let rows = column.rows.unwrap();
        assert!(rows.len() >= hotcc_bpf::ALGOS.len());
        for row in rows {
            assert!(row.passed(), "{} on {}: {:?}", row.algorithm, column.release, row.steps);
            assert_eq!(row.steps.len(), 8, "all steps were taken");
        }
    }
}
