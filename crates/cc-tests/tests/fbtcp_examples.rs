//! FB-TCP against its model, and both against examples worked by hand.

#[path = "fbtcp_examples/connection.rs"]
mod connection;
#[path = "fbtcp_examples/examples.rs"]
mod examples;
#[path = "fbtcp_examples/losses.rs"]
mod losses;

use connection::Connection;
use examples::*;
use hotcc_cc_tests::models::fbtcp::{Fbtcp, Tunables};
use hotcc_cc_tests::random::{self, Random, Timeouts, Totals};
use hotcc_cc_tests::steady;
use hotcc_host_algo::HostAlgo;
use losses::*;

macro_rules! apply {
    ($($example:ident,)*) => {
        mod the_model {
            use super::*;
            $(#[test] fn $example() { super::$example(Connection::model); })*
        }

        mod the_algorithm {
            use super::*;
            $(#[test] fn $example() {
                let algo = HostAlgo::load("fbtcp");
                super::$example(|tunables, window| Connection::algorithm(&algo, tunables, window));
            })*
        }
    };
}

apply! {
    the_upper_bound_is_the_bandwidth_delay_product_and_5_percent,
    the_default_profile_forgets_an_upper_bound_of_10_s_ago,
    an_application_that_runs_dry_only_raises_the_upper_bound,
    the_default_profile_drains_to_see_a_base_rtt_of_10_s_ago,
    convergence_grows_by_csi_diff_and_cad,
    convergence_keeps_or_lowers_w_where_the_queue_is_long,
    divergence,
    the_status_is_the_base_rtt_over_the_rounds_least,
    the_third_round_in_a_row_of_the_tables_is_worse,
    thirty_rounds_without_a_change_and_w_is_lowered,
    a_step_is_spread_over_the_round,
    a_step_of_one_segment_comes_together_over_rounds,
    the_default_profile_limits_a_step_to_the_upper_bound,
    a_round_with_two_rtt_samples_takes_a_step_of_one,
    no_rule_outside_open_and_disorder_or_without_need,
    slow_start_ends_at_900_segments,
    the_default_profile_ends_slow_start_at_a_queue_over_the_upper_bound,
    a_loss_changes_no_window,
    a_timeout_starts_slowly_up_to_three_quarters,
    a_timeout_within_a_recovery_is_like_any,
    a_mark_halves_the_window,
    the_default_profile_gives_up_what_a_round_lost_over_2_percent,
    what_a_spurious_timeout_marked_is_no_loss,
    a_drain_that_idling_ends_costs_no_window,
    idle_time_is_in_no_sample,
    a_takeover_starts_from_nothing_but_the_window,
    arithmetic_does_not_overflow_at_400_gbit_per_s,
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("fbtcp");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

/// Returns one of the profiles, in half of the cases with some tunables changed.
fn any_tunables(random: &mut Random) -> Tunables {
    let mut t = random.pick(&[Tunables::DEFAULT, Tunables::PAPER]);
    if random.once_in(2) {
        return t;
    }
    if random.once_in(3) {
        let steps = [
            &mut t.c1_add,
            &mut t.c2_add,
            &mut t.c3_add,
            &mut t.c4_add,
            &mut t.c5_add,
            &mut t.c6_add,
            &mut t.c7_add,
            &mut t.c8_add,
            &mut t.c9_add,
        ];
        for step in steps.into_iter().chain([
            &mut t.c11_subtract,
            &mut t.c11b_subtract,
            &mut t.c12_subtract,
            &mut t.c12b_subtract,
            &mut t.d1_add,
            &mut t.d2_add,
        ]) {
            *step = random.pick(&[*step, 0, 1, 2, 1000]);
        }
        for divisor in
            [&mut t.c13b_divisor, &mut t.c14b_divisor, &mut t.d5b_divisor, &mut t.d6_divisor, &mut t.d6b_divisor]
        {
            *divisor = random.pick(&[*divisor, 0, 1, 10]);
        }
        let kept = [&mut t.alpha_permille, &mut t.beta_permille, &mut t.gamma_permille, &mut t.theta_permille];
        for part in
            kept.into_iter().chain([&mut t.c13_keep_permille, &mut t.c14_keep_permille, &mut t.d5_keep_permille])
        {
            *part = random.pick(&[*part, 0, 1, 333, 1000]);
        }
    }
    if random.once_in(2) {
        let thresholds = [&mut t.csi_full, &mut t.csi_high, &mut t.csi_mid, &mut t.csi_low, &mut t.csi_poor];
        for threshold in thresholds.into_iter().chain([&mut t.csi_probe, &mut t.cad_high]) {
            *threshold = random.pick(&[*threshold, *threshold, 0, 20, 150, 500, 800, 1000]);
        }
        for diff in [&mut t.diff_1, &mut t.diff_2, &mut t.diff_3, &mut t.diff_4] {
            *diff = random.pick(&[*diff, 0, 1, 5, 100]);
        }
    }
    if random.once_in(4) {
        t.cad_high = 0; // fires the rows that need a CAD over CSI, which no round has
    }
    t.repeat_rounds = random.pick(&[3, 3, 1, 2, 10]);
    t.hold_rounds = random.pick(&[31, 31, 1, 5]);
    t.min_samples = random.pick(&[3, 3, 1, 2, 6]);
    t.dp_interval_us = random.pick(&[100_000, 100_000, 1000, 3_000_000]);
    t.rho_permille = random.pick(&[1050, 1050, 1000, 500, 1300]);
    t.slow_start_exit = random.pick(&[900, 900, 1, 40, 50_000]);
    t.limit_step = random.pick(&[0, 1]);
    t.exit_on_queue = random.pick(&[0, 1]);
    t.max_window_us = random.pick(&[0, 10_000_000, 1, 300_000]);
    t.base_window_us = random.pick(&[0, 10_000_000, 1, 300_000]);
    t.loss_cap_permille = random.pick(&[0, 20, 1, 100, 1000]);
    t.ecn_permille = random.pick(&[500, 0, 850, 1000]);
    t
}

/// Returns a model with random tunables, and with others to change to while it runs.
fn any_model(random: &mut Random) -> Fbtcp {
    let mut model = Fbtcp::new(any_tunables(random));
    if random.once_in(3) {
        model.others = (0..3).map(|_| any_tunables(random)).collect();
    }
    model
}

/// Requires that three rows never fire: by eqs 3 and 6, CAD is CSI except for the truncation of the target, but these
/// rows need one to be high and the other low.
fn require_unreachable_rows(totals: &Totals) {
    for row in ["C8 with the paper's thresholds", "C11 with the paper's thresholds", "C13 with the paper's thresholds"]
    {
        assert_eq!(totals.covered(row), 0, "{row}\n{totals:#?}");
    }
}

/// Requires that rounding decides rarely, counted over whole connections.
fn require_little_rounding(totals: &Totals) {
    let of = |branches: &[&str]| branches.iter().map(|b| totals.covered(b)).sum();
    totals.require_rare("maxCwnd rounded the other way", 100, of(&["DP samples"]));
    totals.require_rare("rows decided by the resolution of CSI", 100, of(&["rounds"]));
}

/// Branches that connections with any tunables must take.
const COMMON: [&str; 42] = [
    "fresh starts",
    "takeovers",
    "tunables changed",
    "first bases",
    "bases seen again",
    "bases lowered",
    "bases brought along",
    "bases nearly seen again",
    "drains",
    "drains that found the base",
    "drains abandoned",
    "spans of several rounds",
    "DP samples",
    "DP samples of less than two segments",
    "application-limited DP samples ignored",
    "application-limited DP samples counted",
    "maxCwnd found or raised",
    "maxCwnd kept",
    "maxCwnd aged",
    "rounds",
    "rounds without rules",
    "rounds in slow start",
    "rounds not limited by the window",
    "rounds before maxCwnd is known",
    "rounds over the loss cap",
    "rounds over the loss cap in recovery",
    "slow starts left for W",
    "slow starts left for a queue",
    "slow start ACKs",
    "ACKs after slow start",
    "ACKs that add one segment",
    "ACKs that add several segments",
    "ACKs while not limited by the window",
    "steps limited to maxCwnd",
    "steps paid out before their round ended",
    "steps cut at the clamp",
    "decreases to the minimum",
    "reductions asked for",
    "recoveries completed",
    "slow starts ended by a loss",
    "marks",
    "timeouts",
];

/// All rules.
const RULES: [&str; 30] = [
    "C1",
    "C2",
    "C3",
    "C4",
    "C5",
    "C6",
    "C7",
    "C8",
    "C9",
    "C10",
    "C10 reduced",
    "C11",
    "C11.b",
    "C12",
    "C12.b",
    "C13",
    "C13.b",
    "C14",
    "C14.b",
    "D1",
    "D2",
    "D3",
    "D3 reduced",
    "D4",
    "D4 reduced",
    "D5",
    "D5.b",
    "D6",
    "D6.b",
    "Reno steps",
];

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("fbtcp");
    let totals = random::check(&algo, 1, 4000, 400, Timeouts::Mixed, any_model);
    totals.require_variety();
    totals.require(100, &COMMON);
    totals.require(100, &["DP samples over 100 Gbit/s", "undos", "restarts after idling"]);
    require_unreachable_rows(&totals);
    require_little_rounding(&totals);
    totals.require_counted(&algo);
}

#[test]
fn follows_the_model_through_steady_connections() {
    let algo = HostAlgo::load("fbtcp");
    let totals = steady::check(&algo, 1, 3000, 800, any_model);
    totals.require(100, &COMMON);
    totals.require(100, &RULES);
    totals.require(100, &["undos", "restarts after idling"]);
    require_unreachable_rows(&totals);
    require_little_rounding(&totals);
    totals.require_counted(&algo);
}

/// With the published tables, connections reach every reachable row, in each of its forms.
#[test]
fn follows_the_model_with_the_profiles() {
    let algo = HostAlgo::load("fbtcp");
    let totals =
        steady::check(&algo, 1_000_000, 2000, 800, |r| Fbtcp::new(r.pick(&[Tunables::DEFAULT, Tunables::PAPER])));
    for rule in RULES {
        let reachable = !["C8", "C11", "C11.b", "C13", "C13.b"].contains(&rule);
        assert_eq!(totals.covered(rule) >= 100, reachable, "{rule}\n{totals:#?}");
    }
    require_unreachable_rows(&totals);
    require_little_rounding(&totals);
}
