//! Lengths and seeds of random tests: `just soak` runs the tests of `just test` for longer, and from other seeds.

use std::env;
use std::ops::Range;

/// Variable with the factor by which a soak runs a test for longer.
pub const ROUNDS: &str = "HOTCC_SOAK_ROUNDS";
/// Variable with the number of a soak's seed range; without it, tests use their own first seed.
pub const SEED: &str = "HOTCC_SOAK_SEED";

/// Distance between the seed ranges of two soaks, so that they do not overlap.
const SEEDS_APART: u64 = 1_000_000_007;

fn number(variable: &str, otherwise: u64) -> u64 {
    let Ok(text) = env::var(variable) else { return otherwise };
    text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number"))
}

/// Returns the number of repetitions of a test that has `count` of them in `just test`.
#[must_use]
pub fn times(count: u64) -> u64 {
    count * number(ROUNDS, 1).max(1)
}

/// Returns the seeds `first..first + count`; in a soak, more of them, from the soak's own seed range.
#[must_use]
pub fn seeds(first: u64, count: u64) -> Range<u64> {
    let first = first + number(SEED, 0) * SEEDS_APART;
    first..first + times(count)
}

/// Reports a result of a soak, for its page; prints nothing in `just test`.
pub fn report(result: &str) {
    if env::var_os(ROUNDS).is_some() {
        println!("soak: {result}");
    }
}
