//! D-TCP against its models, through random connections.

#[path = "dtcp_examples/default.rs"]
mod default;

use hotcc_cc_tests::models::dtcp::{Dtcp, Tunables};
use hotcc_cc_tests::random::{self, Random, Timeouts, Totals};
use hotcc_host_algo::HostAlgo;

/// Draws the published rules for N with the tunables of both profiles, and every other choice and limit.
fn any_tunables(random: &mut Random) -> Tunables {
    let published = Tunables { n_rule: 2, slow_start: 1, base_window_s: 0, loss_permille: 0, ..Tunables::DEFAULT };
    let mut t = random.pick(&[published, Tunables::PAPER]);
    if random.once_in(2) {
        return t;
    }
    t.epoch_us = random.pick(&[t.epoch_us, 0, 1000, 100_000]);
    t.filter = random.pick(&[0, 1]);
    t.filter_permille = random.pick(&[900, 900, 0, 500, 999]);
    t.g_permille = random.pick(&[500, 500, 0, 900, 1000]);
    t.sinr_term = random.pick(&[0, 1, 2]);
    t.sinr_gain_kbps = random.pick(&[1, 1000, 1_000_000]);
    t.n_rule = random.pick(&[1, 2]);
    t.initial_windows = random.pick(&[1, 2]);
    t.alpha_permille = random.pick(&[200, 200, 1, 100, 500, 1000]);
    t.queue = random.pick(&[0, 1, 2]);
    t.n_max = random.pick(&[0, 0, 1, 8, 1 << 20]);
    t.eta = random.pick(&[2, 2, 1, 3, 16]);
    t.initial_ssthresh_bytes = random.pick(&[0, 1, 65_535, 1 << 30]);
    t.rto_ssthresh = random.pick(&[0, 1]);
    t
}

/// Draws a connection with any tunables, and some to change to while it runs.
fn any_model(random: &mut Random) -> Dtcp {
    let tunables = any_tunables(random);
    let mut model = Dtcp::new(tunables);
    if random.once_in(3) {
        // no change from one rule for N to the other: eq 10's N is rounded, Algorithm 1's is compared exactly
        let Tunables { n_rule, initial_windows, .. } = tunables;
        let others = (0..3).map(|_| Tunables { n_rule, initial_windows, ..any_tunables(random) });
        model.others = others.collect();
    }
    model
}

/// Checks the rounding over whole connections, not step by step.
fn require_little_rounding(totals: &Totals) {
    let of = |branch: &str| totals.covered(branch);
    let growing = of("congestion avoidance ACKs");
    for (kind, per, out_of) in [
        // below a kbyte/s (5 with the slowest filter here), the resolution of whole bytes/s is more than 0.1 %
        ("samples that left a bandwidth beyond 0.1 %", 500, of("epochs") - of("application-limited epochs ignored")),
        ("application-limited samples ranked the other way", 1000, of("application-limited epochs filtered")),
        ("BW_C and BW_E ranked the other way", 500, of("Algorithm 1 doublings") + of("Algorithm 1 steps")),
        ("N beyond 0.1 %", 500, of("updates of N")),
        ("W rounded the other way", 1000, growing),
        ("growth at the clamp rounded the other way", 1000, growing),
        ("growth beyond 0.05 segments", 1000, growing),
        ("W beyond a segment", 10_000, growing),
        ("parts rounded the other way", 500, of("decreases")),
    ] {
        totals.require_rare(kind, per, out_of);
    }
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("dtcp");
    let totals = random::check(&algo, 1, 6000, 400, Timeouts::Asking, any_model);
    totals.require_variety();
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
    require_little_rounding(&totals);
    totals.require_counted(&algo);
}

/// The kernel does not ask for an ssthresh again then: the paper's timeout keeps the one that the recovery set.
#[test]
fn follows_the_model_where_timeouts_interrupt_recoveries() {
    let algo = HostAlgo::load("dtcp");
    let totals = random::check(&algo, 1_000_000, 2000, 400, Timeouts::Mixed, any_model);
    totals.require_variety();
    require_little_rounding(&totals);
}
