//! DCM against its model, and against examples worked by hand, which hold for the model too.

use hotcc_cc_tests::examples::Example;
use hotcc_cc_tests::examples::westwood::a_timeout_within_a_recovery_is_like_any;
use hotcc_cc_tests::models::dcm::{Dcm, Tunables};
use hotcc_cc_tests::on_model_and_algorithm;
use hotcc_cc_tests::random::{self, Random, Timeouts, Totals};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, HostAlgo};

type Connection<'a> = Example<'a, Dcm>;

const DISORDER: u32 = 1;
const CWR: u32 = 2;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

on_model_and_algorithm! {
    "dcm", Dcm;
    the_rate_is_the_ratio_of_two_rounds: Tunables::PAPER;
    the_default_profile_holds_the_rate: Tunables::DEFAULT;
    the_greatest_ratio: Tunables::PAPER;
    slow_start_gathers_nine_tenths: Tunables::PAPER;
    slow_start_stops_at_ssthresh: Tunables::PAPER;
    avoidance_gathers_the_inverse: Tunables::PAPER;
    nothing_is_lost_at_two_segments: Tunables::PAPER;
    the_clamp_cuts_growth_off: Tunables::PAPER;
    a_loss_clears_what_was_gathered: Tunables::PAPER;
    a_timeout_clears_what_was_gathered: Tunables::PAPER;
    a_loss_sets_westwoods_threshold: Tunables::PAPER;
    the_first_sample_spans_a_round: Tunables::PAPER;
    a_timeout_within_a_recovery_is_like_any: Tunables::DEFAULT;
    a_new_path_is_measured_for_a_round: Tunables::DEFAULT;
    a_new_path_without_an_rtt_waits_for_one: Tunables::PAPER;
    a_new_path_in_recovery_leaves_the_window: Tunables::PAPER;
    a_path_that_changes_again_is_measured_anew: Tunables::PAPER;
    a_takeover_forgets_the_path: Tunables::PAPER;
}

fn the_rate_is_the_ratio_of_two_rounds(c: &mut Connection) {
    c.assert_field("rate_q16", 1.0);
    c.end_round(100_000, 100, Some(100_000), 100_000);
    c.assert_field("rate_q16", 1.0); // one RTT is known
    c.end_round(100_000, 100, Some(60_000), 80_000);
    c.assert_field("rate_q16", 1.25); // 100/80, smoothed
    c.assert_field("inverse_q16", 0.8);
    // within a round nothing changes
    c.sock.srtt_us = 8 * 40_000;
    c.ack(100_000, 50, Some(40_000));
    c.assert_field("rate_q16", 1.25);
    // nor one byte before its end
    c.sock.snd_una = c.sock.snd_nxt - 1;
    c.ack(1000, 49, Some(40_000));
    c.assert_field("rate_q16", 1.25);
    c.end_round(1000, 1, None, 320_000);
    c.assert_field("rate_q16", 0.25); // 80/320: the 40 ms were not at a round's end
    c.assert_field("inverse_q16", 4.0);
    c.end_round(100_000, 100, Some(10_000), 32_000);
    c.assert_field("rate_q16", 10.0);
    assert!((c.field("inverse_q16") - 0.1).abs() < 2.0 / 65_536.0);
}

fn the_default_profile_holds_the_rate(c: &mut Connection) {
    for (srtt_us, rate) in [(100_000, 1.0), (62_500, 1.6), (20_000, 2.0), (40_001, 0.5), (40_001, 1.0), (64_000, 0.625)]
    {
        c.end_round(100_000, 100, Some(20_000), srtt_us);
        c.assert_field("rate_q16", if srtt_us == 64_000 { 40_001.0 / 64_000.0 } else { rate });
    }
    c.end_round(100_000, 100, Some(20_000), 640_000);
    c.assert_field("rate_q16", 0.5);
    c.assert_field("inverse_q16", 2.0);
}

fn the_greatest_ratio(c: &mut Connection) {
    // 1 us after 10 s: the tunable's limit, 1000
    c.end_round(100_000, 100, Some(100_000), 10_000_000);
    c.end_round(100_000, 100, Some(1), 1);
    c.assert_field("rate_q16", 1000.0);
    assert!((c.field("inverse_q16") - 0.001).abs() < 1.0 / 65_536.0);
    // and back: 10^-7 is clamped to 2^-20, which is 0 with 16 fraction bits
    c.end_round(100_000, 100, Some(1), 10_000_000);
    assert!(c.field("rate_q16") > 0.0 && c.field("rate_q16") <= 1.0 / 65_536.0);
    assert!((65_536.0..=1_048_576.0).contains(&c.field("inverse_q16")));
    // W = 150 grows by 65,536 * 15 / 150 segments at least
    c.sock.snd_ssthresh = 100;
    c.grow(15);
    assert!((6703..=105_007).contains(&c.sock.snd_cwnd), "{:?}", c.window());
    // an RTT of 0 is ignored: the rate is 1 for this round and the next
    c.end_round(100_000, 100, None, 0);
    c.assert_field("rate_q16", 1.0);
    c.end_round(100_000, 100, None, 100);
    c.assert_field("rate_q16", 1.0);
}

/// Sets rate_CA = 1.25.
fn with_a_rate(c: &mut Connection, window: u32, ssthresh: u32) {
    c.end_round(100_000, 100, Some(100_000), 100_000);
    c.end_round(100_000, 100, Some(100_000), 80_000);
    (c.sock.snd_cwnd, c.sock.snd_ssthresh) = (window, ssthresh);
}

fn slow_start_gathers_nine_tenths(c: &mut Connection) {
    (c.sock.snd_cwnd, c.sock.snd_ssthresh) = (10, 100);
    // rate 1: 0.9 for each segment acknowledged. 0.9, 1.8, 2.7
    for window in [10, 11, 12] {
        c.grow(1);
        assert_eq!(c.window(), (window, 100));
    }
    // rate 1.25: 1.125 for each; 2.7 + 1.125 = 3.825, and 5 more: 9.45
    with_a_rate(c, 12, 100);
    c.grow(1);
    assert_eq!(c.window(), (13, 100));
    c.grow(5);
    assert_eq!(c.window(), (19, 100));
    c.sock.is_cwnd_limited = 0; // and W was not used up: less than half of it is in flight
    c.sock.max_packets_out = 9;
    c.grow(5);
    assert_eq!(c.window(), (19, 100));
}

fn slow_start_stops_at_ssthresh(c: &mut Connection) {
    with_a_rate(c, 10, 21);
    c.grow(9); // 9 * 1.125 = 10.125
    assert_eq!(c.window(), (20, 21));
    // 0.125 + 10.125, of which 1 fits: the rest is dropped, and does not count in congestion avoidance
    c.grow(9);
    assert_eq!(c.window(), (21, 21));
    // 1/1.25 = 0.8 each: 26 segments make 20.8, one more 21.6
    c.grow(26);
    assert_eq!(c.window(), (21, 21));
    c.grow(1);
    assert_eq!(c.window(), (22, 21));
    // slow start again, as after idling: 1.125, and no fraction from before
    c.sock.snd_ssthresh = 100;
    c.grow(1);
    assert_eq!(c.window(), (23, 100));
    c.grow(6); // 0.125 + 6.75
    assert_eq!(c.window(), (29, 100));
}

fn avoidance_gathers_the_inverse(c: &mut Connection) {
    // rate 1.25: each segment acknowledged adds 0.8/W (eq 2: RTT_new/(W * RTT_old))
    with_a_rate(c, 10, 10);
    c.grow(12); // 9.6
    assert_eq!(c.window(), (10, 10));
    c.grow(1); // 10.4: one for 10, 0.4 left
    assert_eq!(c.window(), (11, 10));
    c.grow(13); // 10.8
    assert_eq!(c.window(), (11, 10));
    c.grow(1); // 11.6: one for 11, 0.6 left
    assert_eq!(c.window(), (12, 10));
    // several at once, each at the W of the ACK's start: 0.6 + 60 * 0.8 = 48.6, four for 48
    c.grow(60);
    assert_eq!(c.window(), (16, 10));
    c.grow(19); // 0.6 + 15.2 = 15.8
    assert_eq!(c.window(), (16, 10));
    c.sock.is_cwnd_limited = 0;
    c.grow(100);
    assert_eq!(c.window(), (16, 10));
    c.sock.is_cwnd_limited = 1;
    // rate 80/160 = 0.5: 2/W each; 15.8 + 2 = 17.8, one for 16
    c.end_round(100_000, 100, Some(100_000), 160_000);
    c.grow(1);
    assert_eq!(c.window(), (17, 10));
}

fn nothing_is_lost_at_two_segments(c: &mut Connection) {
    // rate 1.25: 0.8 each. 1000 ACKs of one segment each, from W = 2 on, earn what the growth of W costs:
    // 2 + 3 + ... + (W-1) <= 0.8 n < 2 + 3 + ... + W
    with_a_rate(c, 2, 2);
    for n in 1..=1000 {
        c.grow(1);
        let window = f64::from(c.sock.snd_cwnd);
        let spent = (window - 1.0) * window / 2.0 - 1.0;
        let earned = 0.8 * f64::from(n);
        // at most one in 65,536 less, or more
        assert!(spent <= earned * 1.0001 && spent + window > earned * 0.9999, "{n}: W {window}");
    }
    assert_eq!(c.sock.snd_cwnd, 40); // 2 + ... + 39 = 779, + 40 = 819
}

fn the_clamp_cuts_growth_off(c: &mut Connection) {
    with_a_rate(c, 10, 10);
    c.sock.snd_cwnd_clamp = 12;
    c.grow(53); // 42.4: four for 40, two fit; 2.4 left
    assert_eq!(c.window(), (12, 10));
    c.sock.snd_cwnd_clamp = 100;
    c.grow(11); // 2.4 + 8.8 = 11.2
    assert_eq!(c.window(), (12, 10));
    c.grow(2); // 12.8
    assert_eq!(c.window(), (13, 10));
    // slow start: 20 * 1.125 = 22.5, of which 7 fit
    c.sock.snd_ssthresh = 1000;
    c.sock.snd_cwnd_clamp = 20;
    c.grow(20);
    assert_eq!(c.window(), (20, 1000));
    c.sock.snd_cwnd_clamp = 100;
    c.grow(7); // 7.875, without anything from before
    assert_eq!(c.window(), (27, 1000));
}

fn a_loss_clears_what_was_gathered(c: &mut Connection) {
    with_a_rate(c, 10, 10);
    c.grow(12); // 9.6
    let _ = c.ssthresh();
    c.grow(12); // 9.6 again, from 0
    assert_eq!(c.sock.snd_cwnd, 10);
    c.grow(1);
    assert_eq!(c.sock.snd_cwnd, 11);
    c.sock.snd_ssthresh = 100;
    c.grow(3); // slow start: 3.375
    let _ = c.ssthresh();
    c.grow(6); // 6.75 from 0, not 7.125
    assert_eq!(c.sock.snd_cwnd, 20);
}

fn a_timeout_clears_what_was_gathered(c: &mut Connection) {
    with_a_rate(c, 10, 10);
    c.grow(12); // 9.6
    c.enter(RECOVERY);
    c.enter(0);
    c.grow(1); // 10.4: a recovery keeps the growth gathered
    assert_eq!(c.sock.snd_cwnd, 11);
    c.grow(12); // 0.4 + 9.6 = 10.0
    c.enter(LOSS); // the kernel would set W
    c.grow(13); // 10.4 from 0; W grows after a timeout, too
    assert_eq!(c.sock.snd_cwnd, 11);
    c.grow(1); // 11.2
    assert_eq!(c.sock.snd_cwnd, 12);
}

fn a_loss_sets_westwoods_threshold(c: &mut Connection) {
    assert_eq!(c.ssthresh(), 75); // no bandwidth yet
    c.end_round(100_000, 100, Some(100_000), 100_000); // 1,000,000 bytes/s, 100 segments
    // Tustin's filter: 9/11 * 1,000,000 + 2/11 * (2,000,000 + 1,000,000)/2 = 1,090,909.09
    c.ack(100_000, 200, Some(100_000));
    c.assert_field("bandwidth_q8", 12e6 / 11.0);
    assert_eq!(c.ssthresh(), 109); // eq 4
    c.sock.snd_cwnd = 60;
    assert_eq!(c.ssthresh(), 60); // never raises W
    c.sock.snd_ssthresh = 60;
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (60, 109));
    c.sock.snd_ssthresh = 30;
    c.event(EVENT_LOSS);
    assert_eq!(c.window(), (60, 109));
    (c.sock.snd_cwnd, c.sock.prior_cwnd) = (40, 60);
    assert_eq!(c.undo_cwnd(), 60);
}

/// 2 segments in 40 us would be 50,000,000 bytes/s, and BWE at once.
fn the_first_sample_spans_a_round(c: &mut Connection) {
    c.ack(40, 2, Some(100_000));
    c.assert_field("bandwidth_q8", 0.0);
    c.end_round(99_960, 98, Some(100_000), 100_000); // 100 segments in 100 ms
    c.assert_field("bandwidth_q8", 1e6);
}

/// Measures the path of generation 0, at 100 ms; then changes to another one, and ends the round after which this is seen
/// and the next one, which acknowledges what was sent before.
fn on_a_new_path(c: &mut Connection) {
    c.end_round(100_000, 100, Some(100_000), 100_000); // the map is read for the first time
    c.path(1);
    c.ack(50_000, 50, Some(90_000));
    c.assert_field("base_us", 90_000.0); // a change counts from the end of the round
    // the smoothed RTT may be the new path's already: RTT_old stays 100 ms
    c.end_round(50_000, 50, Some(60_000), 80_000);
    c.assert_field("base_us", 0.0);
    c.assert_field("bandwidth_q8", 0.0);
    c.assert_field("rate_q16", 1.25); // as at any round's end
    c.ack(20_000, 100, Some(30_000)); // sent on the old path
    c.assert_field("base_us", 30_000.0);
    c.end_round(20_000, 20, Some(40_000), 80_000);
    c.assert_field("base_us", 0.0);
    c.assert_field("bandwidth_q8", 0.0);
    assert_eq!(c.window(), (150, 0x7fff_ffff));
}

fn a_new_path_is_measured_for_a_round(c: &mut Connection) {
    on_a_new_path(c);
    // 80 segments in 40 ms, twice: 2,000,000 bytes/s
    c.ack(40_000, 80, Some(52_000));
    c.assert_field("bandwidth_q8", 0.0); // the first sample spans the round
    c.end_round(40_000, 80, Some(50_000), 75_000);
    c.assert_field("bandwidth_q8", 2e6);
    // eq 4: 2,000,000 * 50 ms / 1000 = 100. Eq 1: 100/50 * 100 * 0.8 = 160
    assert_eq!(c.window(), (160, 100));
    // the rate starts again with the new path's RTTs
    c.assert_field("rate_q16", 1.0);
    c.end_round(40_000, 80, Some(50_000), 60_000);
    c.assert_field("rate_q16", 1.0);
    c.end_round(40_000, 80, Some(50_000), 50_000);
    c.assert_field("rate_q16", 1.2);
    assert_eq!(c.window(), (160, 100)); // only once
    // the other way round: 50 ms before, 500 ms now: the ratio is clamped to 0.5. 2,000,000 bytes/s:
    // eq 4 1000 segments; eq 1: 0.5 * 1000 * 0.8
    c.path(2);
    c.end_round(40_000, 80, Some(500_000), 50_000);
    c.end_round(40_000, 80, Some(50_000), 50_000);
    c.ack(40_000, 80, Some(600_000));
    c.end_round(40_000, 80, Some(500_000), 500_000);
    assert_eq!(c.window(), (400, 1000));
}

fn a_new_path_without_an_rtt_waits_for_one(c: &mut Connection) {
    on_a_new_path(c);
    c.ack(40_000, 80, None);
    c.end_round(40_000, 80, Some(0), 80_000);
    assert_eq!(c.window(), (150, 0x7fff_ffff));
    c.ack(40_000, 80, Some(40_000)); // the next round
    assert_eq!(c.window(), (150, 0x7fff_ffff));
    c.end_round(40_000, 80, Some(0), 80_000); // which a sample of zero does not replace
    // 2,000,000 bytes/s all along: 80 segments; 100/40 * 80 * 0.8 = 160
    assert_eq!(c.window(), (160, 80));
}

fn a_new_path_in_recovery_leaves_the_window(c: &mut Connection) {
    let unchanged = (150, 0x7fff_ffff);
    for (state, window) in
        [(CWR, unchanged), (RECOVERY.into(), unchanged), (LOSS.into(), unchanged), (DISORDER, (160, 80))]
    {
        c.init();
        c.path(0);
        (c.sock.snd_cwnd, c.sock.snd_ssthresh, c.sock.ca_state) = (150, 0x7fff_ffff, 0);
        on_a_new_path(c);
        c.ack(40_000, 80, Some(40_000));
        c.sock.ca_state = state;
        c.end_round(40_000, 80, Some(40_000), 80_000);
        assert_eq!(c.window(), window);
        // only that round's end counts
        c.sock.ca_state = 0;
        c.end_round(40_000, 80, Some(40_000), 80_000);
        assert_eq!(c.window(), window);
    }
}

fn a_path_that_changes_again_is_measured_anew(c: &mut Connection) {
    on_a_new_path(c);
    c.ack(40_000, 80, Some(1000)); // an RTT far below the path's
    c.path(2);
    c.end_round(40_000, 80, Some(60_000), 70_000);
    assert_eq!(c.window(), (150, 0x7fff_ffff));
    c.assert_field("base_us", 0.0);
    c.assert_field("bandwidth_q8", 0.0);
    c.path(3);
    c.path(2); // there and back within a round is no change
    c.end_round(40_000, 80, Some(1000), 65_000);
    c.end_round(40_000, 80, Some(40_000), 65_000);
    // 2,000,000 bytes/s, 40 ms: 80 segments; RTT_old is still the first path's: 100/40 * 80 * 0.8
    assert_eq!(c.window(), (160, 80));
}

fn a_takeover_forgets_the_path(c: &mut Connection) {
    c.end_round(100_000, 100, Some(100_000), 100_000);
    c.grow(7);
    let before = c.sock;
    c.path(1);
    c.init();
    assert_eq!(c.sock, before);
    for (field, value) in [("bandwidth_q8", 0.0), ("base_us", 0.0), ("rate_q16", 1.0), ("inverse_q16", 1.0)] {
        c.assert_field(field, value);
    }
    c.end_round(100_000, 100, Some(100_000), 50_000);
    c.assert_field("base_us", 100_000.0); // the path has not changed
    c.assert_field("rate_q16", 1.0);
    c.path(1); // another path changed
    c.end_round(100_000, 100, Some(100_000), 50_000);
    c.assert_field("base_us", 100_000.0);
    c.path(0); // the removal of the entry is a change
    c.end_round(100_000, 100, Some(100_000), 50_000);
    c.assert_field("base_us", 0.0);
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("dcm");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

/// Draws one of the profiles, or any other limits.
fn any_tunables(random: &mut Random) -> Tunables {
    let t = random.pick(&[Tunables::DEFAULT, Tunables::PAPER]);
    if random.once_in(2) {
        return t;
    }
    Tunables {
        base_window_us: random.pick(&[t.base_window_us, 0, 1_000_000]),
        tau_ms: random.pick(&[500, 10, 1000, 10_000]),
        slow_start_permille: random.pick(&[900, 1, 333, 1000, 10_000]),
        path_permille: random.pick(&[800, 1, 999, 1000]),
        rate_min_permille: random.pick(&[t.rate_min_permille, 0, 1, 333, 1000]),
        rate_max_permille: random.pick(&[t.rate_max_permille, 1000, 3000, 1_000_000]),
    }
}

fn any_model(random: &mut Random) -> Dcm {
    let others = if random.once_in(3) { (0..3).map(|_| any_tunables(random)).collect() } else { Vec::new() };
    Dcm::new(any_tunables(random), others)
}

/// Checks the rounding over whole connections, not step by step.
fn require_little_rounding(totals: &Totals) {
    let of = |branch: &str| totals.covered(branch);
    let growing = of("slow start ACKs") + of("congestion avoidance ACKs");
    for (kind, per, out_of) in [
        // after a long silence, BWE is close to 0
        ("samples that left a bandwidth beyond 0.1 %", 100, of("samples")),
        ("thresholds rounded the other way", 100, of("losses") + of("timeouts that set ssthresh")),
        // ratios far from 1
        ("rates whose inverse is beyond 0.1 %", 100, of("rounds")),
        ("windows on a new path rounded the other way", 5, of("windows set on a new path")),
        ("windows on a new path beyond a segment", 10, of("windows set on a new path")),
        // ten times 0.9 is a whole number, or slightly less
        ("W rounded the other way", 50, growing),
        ("growth at the clamp rounded the other way", 1000, growing),
        ("growth beyond 0.05 segments", 200, growing),
        ("W beyond a segment", 1000, growing),
    ] {
        totals.require_rare(kind, per, out_of);
    }
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("dcm");
    let totals = random::check(&algo, 1, 6000, 400, Timeouts::Mixed, any_model);
    totals.require_variety();
    require_little_rounding(&totals);
    let rare = ["windows set without an RTT of the old path", "path changes while the path before was measured"];
    let branches: Vec<&str> = totals.coverage.keys().copied().filter(|b| !rare.contains(b)).collect();
    totals.require(100, &branches);
    totals.require(10, &rare);
    totals.require_counted(&algo);
}
