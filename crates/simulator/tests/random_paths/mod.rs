//! Checks of this project's algorithms over random paths.

use hotcc_lab_proto::plan::Algorithm;
use hotcc_testbed::soak;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

/// Returns an algorithm of ours with its default profile.
pub fn algorithm(name: &str) -> Algorithm {
    Algorithm { object: name.to_owned(), cc: name.to_owned(), profile: "default".to_owned(), set: Vec::new() }
}

/// Checks a property with `count` inputs drawn from `inputs`, with more of them and from other seeds in a soak.
pub fn check<S: Strategy>(name: &str, count: u64, inputs: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let seeds = soak::seeds(1, count);
    let config = ProptestConfig {
        cases: (seeds.end - seeds.start) as u32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seeds.start),
        ..ProptestConfig::default()
    };
    let cases = config.cases;
    TestRunner::new(config).run(&inputs, property).unwrap_or_else(|why| panic!("{why}"));
    soak::report(&format!("{name} on {cases} paths"));
}
