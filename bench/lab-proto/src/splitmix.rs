//! SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators", 2014).

/// What the generator adds to its state for each number.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the next number, and moves the generator's state on.
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(STEP);
    mixed(*state)
}

/// Returns a number that depends on all bits of `number`.
#[must_use]
pub fn mixed(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
