//! BBRv3 (bench/peers) against the f64 model, hook by hook, through random connections over a simulated path.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "bbr3_model/path.rs"]
mod path;
#[path = "bbr3_model/side_by_side.rs"]
mod side_by_side;

use hotcc_cc_tests::models::bbr3::State;
use hotcc_cc_tests::random::Random;
use hotcc_host_algo::{Flow, HostAlgo, RateSample, View};
use hotcc_testbed::soak;
use side_by_side::{Counts, Sides};

const HOOKS: u32 = 3000;

/// Runs one connection.
fn apply(algo: &HostAlgo, seed: u64) -> Counts {
    let mut random = Random::new(seed);
    let mut sides = Sides::new(algo, &mut random);
    while sides.counts.hooks < HOOKS {
        sides.step(&mut random).unwrap_or_else(|why| panic!("seed {seed}, hook {}: {why}", sides.counts.hooks));
    }
    sides.counts
}

#[test]
fn steps_agree_with_the_model_through_random_connections() {
    let algo = HostAlgo::load("bbr3");
    let mut all = Counts::default();
    for seed in soak::seeds(0, 200) {
        all.add(&apply(&algo, seed));
    }
    println!("{all:?}");
    for state in [State::Startup, State::Drain, State::Down, State::Cruise, State::Refill, State::Up, State::ProbeRtt] {
        assert!(all.states[state as usize] > 1000, "{state:?} was seen in {} steps", all.states[state as usize]);
    }
    for (what, count) in all.seen() {
        assert!(count >= 2, "{what}: {count}");
    }
    for (rounds, waits) in all.waits_ms.iter().enumerate() {
        let (shortest, longest) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
        let is_drawn = (2000..2050).contains(shortest) && (2951..=3000).contains(longest);
        assert!(is_drawn, "from round {rounds}: {shortest} to {longest} ms");
    }
    assert!(all.near * 500 < all.hooks, "{} of {} steps were decided by rounding", all.near, all.hooks);
}

/// Compares the approximations of RS.lost and RS.tx_in_flight with the path's record of each segment.
#[test]
fn the_flight_and_the_losses_of_a_segment_are_near_the_true_ones() {
    let algo = HostAlgo::load("bbr3");
    let mut all = Counts::default();
    for seed in soak::seeds(0, 30) {
        all.add(&apply(&algo, seed));
    }
    let (lost, flight, few) = (all.lost_off / all.flights, all.flight_off / all.flights, all.few_off);
    println!("of a flight: losses off by {lost:.5}, itself by {flight:.5}; {few} of {} wrong among few", all.few);
    assert!(lost < 0.02 && flight < 0.03, "{lost} {flight}");
    assert!(all.few > 5000 && few * 100 < all.few, "{few} of {}", all.few);
}

/// The queue does not drain; each ACK is a round.
#[test]
fn drain_lasts_four_rounds_at_most() {
    let algo = HostAlgo::load("bbr3");
    let mut flow = Flow::new(&algo);
    let mut view = View {
        now_us: 1_000_000,
        snd_cwnd: 10,
        snd_cwnd_clamp: u32::MAX,
        srtt_us: 8 * 40_000,
        mss: 1448,
        sack_ok: 1,
        packets_out: 1000,
        ..View::default()
    };
    flow.set(&view);
    flow.init();
    let mut drained = 0;
    for _ in 0..20 {
        let prior_delivered = view.delivered;
        view.delivered += 100;
        view.now_us += 40_000;
        flow.set(&view);
        let (delivered, interval_us, rtt_us) = (100, 40_000, 40_000);
        let sample =
            RateSample { prior_delivered, delivered, interval_us, rtt_us, acked_sacked: 100, ..RateSample::default() };
        flow.cong_control(&sample);
        view = View { packets_out: 1000, ..flow.get(&view) };
        drained += u32::from(flow.private("state") == State::Drain as u64);
    }
    assert_eq!(drained, 4);
    assert!(flow.private("state") > State::Drain as u64);
}
