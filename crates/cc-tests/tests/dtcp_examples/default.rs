//! The rule of `default` against its model.

use super::any_tunables;
use hotcc_cc_tests::following;
use hotcc_cc_tests::models::dtcp_default::{DtcpDefault, Tunables};
use hotcc_cc_tests::random::{self, Random, Timeouts, Totals};
use hotcc_host_algo::HostAlgo;

/// Branches that need a signal that predicts the rate; random signals do not reach them.
const OF_THE_SIGNAL: [&str; 9] = [
    "epochs with room",
    "epochs with room of alpha",
    "epochs with a fall",
    "room withheld after a loss",
    "decreases that took room back",
    "room withheld from a queue",
    "room withheld while much is lost",
    "W lowered to a forecast",
    "W raised to a forecast",
];

/// Draws `default`, or any other constants with its rule for N.
fn default_or_any(random: &mut Random) -> Tunables {
    if random.once_in(2) {
        return Tunables::DEFAULT;
    }
    Tunables {
        n_rule: 0,
        loss_permille: random.pick(&[15, 15, 0, 1, 100]),
        slow_start: random.pick(&[0, 0, 1]),
        base_window_s: random.pick(&[10, 0, 1, 60, 3600]),
        ..any_tunables(random)
    }
}

fn any_model(random: &mut Random) -> DtcpDefault {
    let tunables = default_or_any(random);
    let mut model = DtcpDefault::new(tunables);
    if random.once_in(3) {
        let others = (0..3).map(|_| Tunables { initial_windows: tunables.initial_windows, ..default_or_any(random) });
        model.others = others.collect();
    }
    model
}

fn require_little_rounding(totals: &Totals) {
    totals.require_rare("comparisons that rounding decides", 100, totals.covered("epochs"));
    totals.require_rare("N known to less than 1 %", 200, totals.covered("updates of N"));
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("dtcp");
    let totals = random::check(&algo, 2_000_000, 6000, 400, Timeouts::Asking, any_model);
    totals.require_variety();
    require_little_rounding(&totals);
    totals.require_counted(&algo);
    const SLOWEST: &str = "updates without a bandwidth"; // below a byte/s
    let branches = totals.coverage.keys().copied().filter(|b| !OF_THE_SIGNAL.contains(b) && *b != SLOWEST);
    totals.require(100, &branches.collect::<Vec<_>>());
    totals.require(1, &[SLOWEST]);
}

/// If the signal predicts the rate, it gains weight, and W follows it.
#[test]
fn follows_the_model_where_the_rate_follows_the_signal() {
    let algo = HostAlgo::load("dtcp");
    let totals = following::check(&algo, 3_000_000, 600, 400, any_model);
    require_little_rounding(&totals);
    totals.require(100, &OF_THE_SIGNAL);
}
