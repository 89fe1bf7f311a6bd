//! BBRv3 (bench/peers) against the f64 model, hook by hook, through random connections over a made-up path.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "bbr3_model/path.rs"]
mod path;
#[path = "bbr3_model/side_by_side.rs"]
mod side_by_side;

use hotcc_cc_tests::models::bbr3::State;
use hotcc_cc_tests::random::Random;
use hotcc_host_algo::HostAlgo;
use hotcc_testbed::soak;
use side_by_side::{Judged, Sides};

const HOOKS: u32 = 3000;

/// One connection.
fn play(algo: &HostAlgo, seed: u64) -> Judged {
    let mut random = Random::new(seed);
    let mut sides = Sides::new(algo, &mut random);
    while sides.judged.hooks < HOOKS {
        sides.step(&mut random).unwrap_or_else(|why| panic!("seed {seed}, hook {}: {why}", sides.judged.hooks));
    }
    sides.judged
}

#[test]
fn steps_agree_with_the_model_through_random_connections() {
    let algo = HostAlgo::load("bbr3");
    let mut all = Judged::default();
    for seed in soak::seeds(0, 200) {
        all.add(&play(&algo, seed));
    }
    println!("{all:?}");
    for state in [State::Startup, State::Drain, State::Down, State::Cruise, State::Refill, State::Up, State::ProbeRtt] {
        assert!(all.states[state as usize] > 1000, "{state:?} was seen in {} steps", all.states[state as usize]);
    }
    for (what, count) in all.seen() {
        assert!(count >= 2, "{what}: {count}");
    }
    assert!(all.near * 500 < all.hooks, "{} of {} steps were decided by rounding", all.near, all.hooks);
}

/// What stands in for RS.lost and RS.tx_in_flight, against what the path knows of each segment.
#[test]
fn the_flight_and_the_losses_of_a_segment_are_near_the_true_ones() {
    let algo = HostAlgo::load("bbr3");
    let mut all = Judged::default();
    for seed in soak::seeds(0, 30) {
        all.add(&play(&algo, seed));
    }
    let (lost, flight, few) = (all.lost_off / all.flights, all.flight_off / all.flights, all.few_off);
    println!("of a flight: losses off by {lost:.5}, itself by {flight:.5}; {few} of {} wrong among few", all.few);
    assert!(lost < 0.05 && flight < 0.05, "{lost} {flight}");
    assert!(all.few > 5000 && few * 100 < all.few, "{few} of {}", all.few);
}
