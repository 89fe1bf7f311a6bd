//! DCM+ against its model, and against examples worked by hand, which hold for the model too.

use hotcc_cc_tests::examples::Example;
use hotcc_cc_tests::examples::westwood::a_timeout_within_a_recovery_is_like_any;
use hotcc_cc_tests::models::dcmplus::{Dcmplus, Tunables};
use hotcc_cc_tests::on_model_and_algorithm;
use hotcc_cc_tests::random::{self, Random, Timeouts, Totals};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, HostAlgo};

type Connection<'a> = Example<'a, Dcmplus>;

const DISORDER: u32 = 1;
const CWR: u32 = 2;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// ssthresh takes effect only with a loss, and follows from the greater of BWE and the newest sample.
const GREATER: Tunables = Tunables { estimate: 0, ..Tunables::PAPER };

on_model_and_algorithm! {
    "dcmplus", Dcmplus;
    a_sample_spans_an_rtt_and_passes_two_filters: Tunables::PAPER;
    w_tracks_what_is_more: GREATER;
    w_tracks_the_filter_both_ways: Tunables::PAPER;
    nothing_goes_down_without_a_queue: Tunables::DEFAULT;
    w_is_not_tracked_in_recovery_or_for_the_application: Tunables::PAPER;
    tracking_keeps_within_the_clamp_and_two_segments: GREATER;
    application_limited_samples_only_raise_the_estimate: Tunables::PAPER;
    a_queue_puts_ssthresh_in_force: Tunables::DEFAULT;
    an_onset_never_raises_the_window: Tunables::DEFAULT;
    a_queue_means_nothing_in_the_paper: Tunables::PAPER;
    slow_start_gathers_twice_the_rate: Tunables::PAPER;
    avoidance_gathers_two_over_the_rate: Tunables::PAPER;
    a_move_clears_what_was_gathered: Tunables::PAPER;
    a_loss_sets_westwoods_threshold: Tunables::PAPER;
    a_timeout_within_a_recovery_is_like_any: Tunables::DEFAULT;
    a_timeout_puts_ssthresh_in_force: Tunables::PAPER;
    a_takeover_starts_again: Tunables::DEFAULT;
}

fn a_sample_spans_an_rtt_and_passes_two_filters(c: &mut Connection) {
    c.ack(49_999, 10, Some(40_000)); // below 50 ms
    c.ack(50_000, 10, Some(100_000)); // 99,999 us, below this ACK's RTT
    c.assert_field("bandwidth.second_q8", 0.0);
    c.ack(1, 80, None); // no RTT with this ACK: 100 segments of 1000 bytes in 100 ms
    for field in ["bandwidth.first_q8", "bandwidth.second_q8", "newest_q8"] {
        c.assert_field(field, 1e6);
    }
    // 2,000,000: first filter 7/8 * 1,000,000 + 1/8 * 2,000,000 = 1,125,000;
    // second 7/8 * 1,000,000 + 1/8 * 1,125,000 = 1,015,625
    c.ack(100_000, 200, Some(100_000));
    c.assert_field("bandwidth.first_q8", 1_125_000.0);
    c.assert_field("bandwidth.second_q8", 1_015_625.0);
    c.assert_field("newest_q8", 2e6);
    assert_eq!(c.ssthresh(), 40); // eq 4: 1,015,625 * 40 ms / 1000 = 40.6
}

/// Sets 1,000,000 bytes/s and 100 ms, 100 segments; W = ssthresh = 100, in effect.
fn tracking(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000));
    c.assert_field("tracking", 0.0);
    assert_eq!(c.window(), (150, 0x7fff_ffff));
    assert_eq!(c.ssthresh(), 100);
    c.assert_field("tracking", 1.0);
    (c.sock.snd_cwnd, c.sock.snd_ssthresh) = (100, 100);
}

fn w_tracks_what_is_more(c: &mut Connection) {
    tracking(c);
    // 150 segments in 100 ms: 150 by eq 4, above 100; the filters have 1,062,500 and 1,007,812.5
    c.ack(100_000, 150, Some(100_000));
    assert_eq!(c.window(), (150, 150));
    // 100 segments: not above 150. 7/8 * 1,062,500 + 125,000 = 1,054,687.5;
    // 7/8 * 1,007,812.5 + 1/8 * 1,054,687.5 = 1,013,671.875: 101 by eq 4, below 150
    c.ack(100_000, 100, Some(100_000));
    c.assert_field("bandwidth.second_q8", 1_013_671.875);
    assert_eq!(c.window(), (101, 101));
    // whatever W was
    c.sock.snd_cwnd = 120;
    c.ack(100_000, 115, Some(100_000));
    assert_eq!(c.window(), (115, 115));
    // not between two samples
    c.sock.snd_cwnd = 120;
    c.ack(49_999, 500, Some(100_000));
    assert_eq!(c.window(), (120, 115));
}

fn w_tracks_the_filter_both_ways(c: &mut Connection) {
    tracking(c);
    // 900 segments: 7/8 * 1,000,000 + 1/8 * 9,000,000 = 2,000,000; 7/8 * 1,000,000 + 1/8 * 2,000,000 = 1,125,000
    c.ack(100_000, 900, Some(100_000));
    assert_eq!(c.window(), (112, 112));
    // 1 segment: 7/8 * 2,000,000 + 1/8 * 10,000 = 1,751,250; 7/8 * 1,125,000 + 1/8 * 1,751,250 = 1,203,281.25
    c.ack(100_000, 1, Some(100_000));
    assert_eq!(c.window(), (120, 120));
    // 1 segment in 1 s: 7/8 * 1,751,250 + 125 = 1,532,468.75; 1,052,871.09 + 191,558.59 = 1,244,429.69.
    // RTTmin 50 ms: 62.2 segments
    c.ack(1_000_000, 1, Some(50_000));
    assert_eq!(c.window(), (62, 62));
}

fn nothing_goes_down_without_a_queue(c: &mut Connection) {
    tracking(c);
    let sample =
        |c: &mut Connection, rtt_us, segments| c.end_round(rtt_us, segments, Some(rtt_us as u32), rtt_us as u32);
    c.sock.snd_cwnd = 110;
    // at 1.25 times the base, not more: 80 by eq 4; 99.7 by the filter, which has 975,000 in its first stage, 996,875
    sample(c, 125_000, 100);
    assert_eq!(c.window(), (110, 100));
    sample(c, 125_000, 150);
    assert_eq!(c.window(), (120, 120));
    c.sock.snd_cwnd = 140;
    sample(c, 125_000, 165);
    assert_eq!(c.window(), (140, 132));
    // after a round with a queue they do, to the filter here: 1,003,125, 1,042,734.4, 1,037,391.6 and 1,032,716.6 in
    // its first stage, 997,656.3, 1,003,291.0, 1,007,553.6 and 1,010,699.0 in the second
    sample(c, 125_001, 125);
    assert_eq!(c.window(), (140, 132));
    sample(c, 125_001, 125);
    assert_eq!(c.window(), (101, 101));
}

fn w_is_not_tracked_in_recovery_or_for_the_application(c: &mut Connection) {
    tracking(c);
    for state in [CWR, RECOVERY.into(), LOSS.into()] {
        c.sock.ca_state = state;
        c.ack(100_000, 900, Some(100_000));
        assert_eq!(c.window(), (100, 100));
    }
    c.sock.ca_state = 0;
    c.sock.app_limited = 7;
    c.ack(100_000, 900, Some(100_000)); // limited at the end
    c.sock.app_limited = 0;
    c.ack(100_000, 900, Some(100_000)); // limited at the start
    assert_eq!(c.window(), (100, 100));
    // the filters took all five, 9,000,000 bytes/s each: after n, the first has 9,000,000 - 8,000,000 * (7/8)^n, the
    // second 9,000,000 - 8,000,000 * (7/8)^n * (1 + n/8); after a sixth 2,716,865.54
    c.sock.ca_state = DISORDER;
    c.ack(100_000, 900, Some(100_000));
    c.assert_field("bandwidth.second_q8", 9e6 - 8e6 * 0.875f64.powi(6) * 1.75);
    assert_eq!(c.window(), (271, 271));
}

fn tracking_keeps_within_the_clamp_and_two_segments(c: &mut Connection) {
    tracking(c);
    c.sock.snd_cwnd_clamp = 120;
    c.ack(100_000, 150, Some(100_000));
    assert_eq!(c.window(), (120, 150));
    // RTTmin 1 ms: 1,007,812.5 * 1 ms / 1000 = 1.008 segments; by the sample of 100 segments 1
    c.ack(100_000, 100, Some(1000));
    assert_eq!(c.window(), (2, 2));
}

fn application_limited_samples_only_raise_the_estimate(c: &mut Connection) {
    c.sock.app_limited = 7;
    c.ack(100_000, 100, Some(100_000)); // the first one is filtered all the same
    c.assert_field("bandwidth.second_q8", 1e6);
    c.ack(100_000, 90, Some(100_000)); // 900,000: skipped
    c.sock.app_limited = 0;
    c.ack(100_000, 90, Some(100_000)); // limited at its start: skipped
    c.assert_field("bandwidth.first_q8", 1e6);
    c.assert_field("newest_q8", 1e6);
    c.ack(100_000, 92, Some(100_000)); // 920,000, and a sample of its own: 990,000, 998,750
    c.assert_field("bandwidth.first_q8", 990_000.0);
    c.assert_field("bandwidth.second_q8", 998_750.0);
    c.sock.app_limited = 7;
    c.ack(100_000, 150, Some(100_000)); // 1,500,000: 866,250 + 187,500 = 1,053,750; 873,906.25 + 131,718.75
    c.assert_field("bandwidth.first_q8", 1_053_750.0);
    c.assert_field("bandwidth.second_q8", 1_005_625.0);
    c.assert_field("newest_q8", 1.5e6);
}

fn a_queue_puts_ssthresh_in_force(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000)); // 100 segments
    c.end_round(10_000, 10, Some(125_000), 125_000); // 1.25 times the base, not more
    c.assert_field("tracking", 0.0);
    // above that it does, but not while W is not free to grow, or the application limits the sender
    c.sock.ca_state = CWR;
    c.end_round(10_000, 10, Some(125_001), 125_001);
    c.sock.ca_state = 0;
    c.sock.app_limited = 7;
    c.end_round(10_000, 10, Some(125_001), 125_001);
    c.sock.app_limited = 0;
    // nor with one delayed ACK
    c.ack(1000, 10, Some(125_000));
    c.end_round(1000, 10, Some(165_000), 130_000);
    // nor within a round
    c.ack(1000, 10, Some(125_001));
    c.assert_field("tracking", 0.0);
    assert_eq!(c.window(), (150, 0x7fff_ffff));
    c.end_round(7000, 10, Some(130_000), 125_000);
    c.assert_field("tracking", 1.0);
    assert_eq!(c.window(), (100, 100)); // eq 4
    // once: from here on W tracks, at samples
    c.sock.snd_cwnd = 130;
    c.end_round(10_000, 10, Some(200_000), 200_000);
    assert_eq!(c.window(), (130, 100));
    // 230 segments since the last sample, 110 ms ago (it waited for that RTT): 2,090,909 bytes/s, 209.1 by eq 4
    c.ack(60_000, 150, Some(110_000));
    assert_eq!(c.window(), (209, 209));
}

fn an_onset_never_raises_the_window(c: &mut Connection) {
    c.end_round(100_000, 200, Some(100_000), 100_000); // 200 segments
    c.end_round(10_000, 10, Some(126_000), 126_000);
    c.assert_field("tracking", 1.0);
    assert_eq!(c.window(), (150, 200));
    // the next sample does: 300 segments in 100 ms
    c.ack(90_000, 290, Some(100_000));
    assert_eq!(c.window(), (300, 300));
}

fn a_queue_means_nothing_in_the_paper(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000));
    c.end_round(10_000, 10, Some(1_000_000), 1_000_000);
    c.assert_field("tracking", 0.0);
    assert_eq!(c.window(), (150, 0x7fff_ffff));
}

/// Sets rate_CA = 1.25, with RTTs of 10 s so that no sample ends in between.
fn with_a_rate(c: &mut Connection, window: u32, ssthresh: u32) {
    c.end_round(1000, 100, Some(10_000_000), 10_000_000);
    c.assert_field("rate_q16", 1.0);
    c.end_round(1000, 100, Some(10_000_000), 8_000_000);
    c.assert_field("rate_q16", 1.25);
    c.assert_field("inverse_q16", 0.8);
    (c.sock.snd_cwnd, c.sock.snd_ssthresh) = (window, ssthresh);
}

fn slow_start_gathers_twice_the_rate(c: &mut Connection) {
    with_a_rate(c, 10, 100);
    c.grow(1); // 2.5
    assert_eq!(c.window(), (12, 100));
    c.grow(1); // 0.5 + 2.5 = 3.0 exactly
    assert_eq!(c.window(), (15, 100));
    c.grow(33); // 82.5
    assert_eq!(c.window(), (97, 100));
    c.grow(100); // 247.5 beyond ssthresh, which are dropped
    assert_eq!(c.window(), (100, 100));
    c.sock.snd_ssthresh = 200;
    c.grow(1); // 2.5: nothing was left
    assert_eq!(c.window(), (102, 200));
    // rate 8/10 = 0.8: 1.6 each; 0.5 + 1.6 = 2.1
    c.end_round(1000, 100, Some(10_000_000), 10_000_000);
    c.grow(1);
    assert_eq!(c.window(), (104, 200));
    // at the clamp, too, the rest is dropped
    c.sock.snd_cwnd_clamp = 106;
    c.grow(7);
    assert_eq!(c.window(), (106, 200));
    c.sock.snd_cwnd_clamp = 1000;
    c.grow(2); // 3.2
    assert_eq!(c.window(), (109, 200));
}

fn avoidance_gathers_two_over_the_rate(c: &mut Connection) {
    // 2/(1.25 W) for each segment acknowledged: 1.6/W
    with_a_rate(c, 10, 10);
    c.grow(6); // 9.6
    assert_eq!(c.window(), (10, 10));
    c.grow(1); // 11.2: one for 10, 1.2 left
    assert_eq!(c.window(), (11, 10));
    c.grow(35); // 57.2: five for 55, 2.2 left
    assert_eq!(c.window(), (16, 10));
    c.sock.is_cwnd_limited = 0;
    c.grow(100);
    assert_eq!(c.window(), (16, 10));
    c.sock.is_cwnd_limited = 1;
    c.grow(8); // 2.2 + 12.8 = 15.0
    assert_eq!(c.window(), (16, 10));
    c.grow(1); // 16.6
    assert_eq!(c.window(), (17, 10));
}

fn a_move_clears_what_was_gathered(c: &mut Connection) {
    tracking(c);
    c.grow(49); // 98 of 100
    c.ack(100_000, 100, Some(100_000)); // W stays at 100, and what it gathered stays
    c.grow(1);
    assert_eq!(c.window(), (101, 100));
    c.grow(49); // 98 of 101
    c.ack(100_000, 100, Some(100_000)); // W goes back to 100
    c.grow(1);
    assert_eq!(c.window(), (100, 100));
    c.grow(48);
    assert_eq!(c.window(), (100, 100));
    c.grow(2);
    assert_eq!(c.window(), (101, 100));
    // a loss and a timeout do as well
    c.grow(49); // 98 of 101, and 2 of before
    let _ = c.ssthresh();
    c.grow(2);
    c.enter(LOSS);
    c.grow(50);
    assert_eq!(c.window(), (101, 100));
    c.grow(1);
    assert_eq!(c.window(), (102, 100));
}

fn a_loss_sets_westwoods_threshold(c: &mut Connection) {
    assert_eq!(c.ssthresh(), 75); // no bandwidth yet
    c.sock.snd_cwnd = 3;
    assert_eq!(c.ssthresh(), 2);
    c.sock.ca_state = RECOVERY.into();
    c.ack(100_000, 100, Some(100_000)); // 100 segments
    c.sock.snd_cwnd = 60;
    assert_eq!(c.ssthresh(), 60);
    c.assert_field("loss_ssthresh", 100.0);
    c.sock.snd_ssthresh = 60;
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (60, 100));
    c.assert_field("loss_ssthresh", 0.0);
    // a spurious loss
    assert_eq!(c.ssthresh(), 60);
    (c.sock.snd_cwnd, c.sock.prior_cwnd, c.sock.snd_ssthresh) = (60, 90, 700);
    assert_eq!(c.undo_cwnd(), 90);
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (60, 700));
}

fn a_timeout_puts_ssthresh_in_force(c: &mut Connection) {
    c.ack(100_000, 100, Some(100_000));
    c.assert_field("tracking", 0.0);
    c.event(EVENT_LOSS);
    assert_eq!(c.window(), (150, 100));
    c.assert_field("tracking", 1.0);
    c.sock.snd_cwnd = 1; // the kernel sets it
    c.enter(LOSS);
    assert_eq!(c.window(), (1, 100));
    c.grow(10); // slow start, 2 each, in the loss state as well
    assert_eq!(c.window(), (21, 100));
    c.enter(0);
    c.ack(100_000, 100, Some(100_000));
    assert_eq!(c.window(), (100, 100)); // W moves to ssthresh
}

fn a_takeover_starts_again(c: &mut Connection) {
    c.end_round(100_000, 100, Some(100_000), 100_000);
    c.end_round(100_000, 100, Some(100_000), 80_000);
    assert_eq!(c.ssthresh(), 100);
    let before = c.sock;
    c.init();
    assert_eq!(c.sock, before);
    for (field, value) in [
        ("bandwidth.first_q8", 0.0),
        ("bandwidth.second_q8", 0.0),
        ("newest_q8", 0.0),
        ("base_us", 0.0),
        ("rate_q16", 1.0),
        ("inverse_q16", 1.0),
        ("tracking", 0.0),
        ("loss_ssthresh", 0.0),
    ] {
        c.assert_field(field, value);
    }
    c.end_round(100_000, 300, Some(200_000), 60_000); // below this RTT: no sample
    c.assert_field("newest_q8", 0.0);
    c.assert_field("rate_q16", 1.0);
    c.assert_field("base_us", 200_000.0);
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("dcmplus");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

/// Draws one of the profiles, or any other choices and limits.
fn any_tunables(random: &mut Random) -> Tunables {
    let t = random.pick(&[Tunables::DEFAULT, Tunables::PAPER]);
    if random.once_in(2) {
        return t;
    }
    Tunables {
        base_window_us: random.pick(&[t.base_window_us, 0, 1_000_000]),
        min_sample_us: random.pick(&[50_000, 1000, 10_000_000]),
        slow_start_permille: random.pick(&[2000, 1, 333, 10_000]),
        avoidance_permille: random.pick(&[2000, 1, 1001, 10_000]),
        rate_min_permille: random.pick(&[t.rate_min_permille, 0, 1, 333, 1000]),
        rate_max_permille: random.pick(&[t.rate_max_permille, 1000, 3000, 1_000_000]),
        onset_permille: random.pick(&[t.onset_permille, 0, 1, 2000, 100_000]),
        estimate: random.pick(&[0, 1]),
        lower: random.pick(&[0, 1]),
    }
}

fn any_model(random: &mut Random) -> Dcmplus {
    let others = if random.once_in(3) { (0..3).map(|_| any_tunables(random)).collect() } else { Vec::new() };
    Dcmplus::new(any_tunables(random), others)
}

/// Checks the rounding over whole connections, not step by step.
fn require_little_rounding(totals: &Totals) {
    let of = |branch: &str| totals.covered(branch);
    let growing = of("slow start ACKs") + of("congestion avoidance ACKs");
    for (kind, per, out_of) in [
        // below a kbyte/s, a whole byte/s is more than 0.1 %
        ("samples that left a bandwidth beyond 0.1 %", 100, of("samples")),
        ("application-limited samples ranked the other way", 1000, of("application-limited samples filtered")),
        ("thresholds rounded the other way", 100, of("losses") + of("timeouts that set ssthresh")),
        ("tracked thresholds rounded the other way", 100, of("windows moved to ssthresh")),
        // ratios far from 1
        ("rates whose inverse is beyond 0.1 %", 100, of("rounds")),
        ("W rounded the other way", 200, growing),
        ("growth at the clamp rounded the other way", 1000, growing),
        ("growth beyond 0.05 segments", 200, growing),
        ("W beyond a segment", 1000, growing),
    ] {
        totals.require_rare(kind, per, out_of);
    }
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("dcmplus");
    let totals = random::check(&algo, 1, 6000, 400, Timeouts::Mixed, any_model);
    totals.require_variety();
    require_little_rounding(&totals);
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
    totals.require_counted(&algo);
}
