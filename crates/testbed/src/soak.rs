//! How long and from which seeds random tests run: `just soak` runs those of `just test` at length, from other seeds.

use std::env;
use std::ops::Range;

/// What is above 1 in a soak: how many times as much a test does.
pub const ROUNDS: &str = "HOTCC_SOAK_ROUNDS";
/// Which of the seeds a soak starts with; without one, tests start with their own.
pub const SEED: &str = "HOTCC_SOAK_SEED";

/// Seeds of one soak do not meet those of the next one.
const SEEDS_APART: u64 = 1_000_000_007;

fn number(variable: &str, otherwise: u64) -> u64 {
    let Ok(text) = env::var(variable) else { return otherwise };
    text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number"))
}

/// How many times `count` a test does that does `count` in `just test`.
#[must_use]
pub fn times(count: u64) -> u64 {
    count * number(ROUNDS, 1).max(1)
}

/// The seeds `first..first + count`, or as many as a soak wants from its own first one.
#[must_use]
pub fn seeds(first: u64, count: u64) -> Range<u64> {
    let first = first + number(SEED, 0) * SEEDS_APART;
    first..first + times(count)
}

/// Reports a result of a soak, for its page; silent in `just test`.
pub fn report(result: &str) {
    if env::var_os(ROUNDS).is_some() {
        println!("soak: {result}");
    }
}
