//! Examples worked by hand from section IV of the paper. RTTs are in microseconds; segments have 1000 bytes.

use super::connection::Connection;
use hotcc_cc_tests::models::fbtcp::Tunables;
use hotcc_host_algo::ca_state::{CWR, DISORDER, LOSS, RECOVERY};
use hotcc_host_algo::{EVENT_TX_START, INFINITE_SSTHRESH};

/// baseRtt of the examples.
pub const BASE: u32 = 50_000;

/// Makes a connection with these tunables and this W.
pub trait Make<'a>: Fn(Tunables, u32) -> Connection<'a> {}
impl<'a, F: Fn(Tunables, u32) -> Connection<'a>> Make<'a> for F {}

/// Delivers `segments` at a base RTT of 50 ms: `segments` of 1000 bytes in 100 ms make DP = 10,000 * segments bytes/s,
/// and maxCwnd = DP * 0.05 s / 1000 * 1.05 = 0.525 * segments (eq 1).
pub fn bound(c: &mut Connection<'_>, segments: u32) {
    c.deliver(100_000, segments, BASE);
}

pub fn the_upper_bound_is_the_bandwidth_delay_product_and_5_percent<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 1000);
    c.deliver(99_999, 50, BASE); // the interval is not over
    assert_eq!(c.field("max_cwnd"), 0);
    // 100 segments in 100 ms: 1,000,000 bytes/s * 0.05 s = 50,000 bytes = 50 segments, * 1.05 = 52.5
    c.deliver(1, 50, BASE);
    assert_eq!((c.field("max_cwnd"), c.field("base_us")), (52, 50_000));
    // a larger one counts, a smaller one does not: 300 segments, 157.5; then 200
    bound(&mut c, 300);
    assert_eq!(c.field("max_cwnd"), 157);
    bound(&mut c, 200);
    assert_eq!(c.field("max_cwnd"), 157);
    // 4 segments in 200 ms at the least RTT ever, 1 ms: 20,000 bytes/s * 0.001 s = 0.02 segments
    let mut c = make(Tunables::PAPER, 1000);
    c.deliver(200_000, 4, 1000);
    assert_eq!(c.field("max_cwnd"), 2); // at least 2
}

pub fn the_default_profile_forgets_an_upper_bound_of_10_s_ago<'a>(make: impl Make<'a>) {
    for (tunables, want) in [(Tunables::DEFAULT, 105), (Tunables::PAPER, 210)] {
        let mut c = make(tunables, 1000);
        bound(&mut c, 400); // 210
        for _ in 0..99 {
            bound(&mut c, 200); // 105, but the 210 are less than 10 s old
            assert_eq!(c.field("max_cwnd"), 210);
        }
        bound(&mut c, 200);
        assert_eq!(c.field("max_cwnd"), want);
    }
}

pub fn an_application_that_runs_dry_only_raises_the_upper_bound<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables { max_window_us: 100_000, ..Tunables::DEFAULT }, 1000);
    bound(&mut c, 400);
    c.view.app_limited = 1;
    bound(&mut c, 200); // limited at the end: ignored, though the 210 is old by now
    c.view.app_limited = 0;
    bound(&mut c, 200); // limited at the start
    assert_eq!(c.field("max_cwnd"), 210);
    c.view.app_limited = 1;
    bound(&mut c, 500);
    assert_eq!(c.field("max_cwnd"), 262); // 262.5
    c.view.app_limited = 0;
    bound(&mut c, 200); // limited at the start
    bound(&mut c, 200); // not limited
    assert_eq!(c.field("max_cwnd"), 105);
}

pub fn the_default_profile_drains_to_see_a_base_rtt_of_10_s_ago<'a>(make: impl Make<'a>) {
    for (tunables, drains) in [(Tunables::DEFAULT, true), (Tunables::PAPER, false)] {
        let mut c = make(tunables, 1000);
        bound(&mut c, 40_000);
        c.round(BASE); // the base RTT's own round
        c.deliver(9_999_699, 1, 80_000); // with the 0.3 ms of the next round, 1 us less than 10 s
        c.round(80_000);
        assert_eq!((c.field("base_us"), c.view.snd_cwnd), (50_000, 1000));
        c.view.now_us += 1;
        c.round(80_000); // CSI 0.625: target 625, 3/4 of it 468.75
        assert_eq!((c.field("base_us"), c.view.snd_cwnd), (50_000, if drains { 468 } else { 1000 }));
        if !drains {
            continue;
        }
        assert_eq!(c.window().1, 351); // no slow start
        c.round(80_000); // drains what was sent before
        assert_eq!((c.field("base_us"), c.window()), (50_000, (468, 351)));
        c.round(60_000); // the RTT of the path without a queue
        assert_eq!((c.field("base_us"), c.window()), (60_000, (1000, 351)));
        c.round(60_000);
        assert_eq!(c.field("csi_q16"), 65_536);
    }
    // an RTT up to the base / 0.98, 51,020 us, counts as one without a queue
    let mut c = make(Tunables::DEFAULT, 1000);
    bound(&mut c, 40_000);
    c.round(BASE);
    c.deliver(9_000_000, 1, 51_020);
    c.deliver(9_000_000, 1, 51_021);
    c.round(51_021);
    assert_eq!((c.field("base_us"), c.view.snd_cwnd), (50_000, 1000));
}

/// Tables 1 and 2.
pub fn convergence_grows_by_csi_diff_and_cad<'a>(make: impl Make<'a>) {
    for (window, rtt, rule, step) in [
        (1000, 50_000, 1, 120), // CSI 1, target 1000, Diff 0
        (1000, 50_400, 1, 120), // CSI 0.99206, target 992, Diff 8
        (1000, 50_761, 2, 100), // CSI 0.98501, target 985, Diff 15
        (1000, 51_000, 3, 70),  // CSI 0.98039, target 980, Diff 20
        (1500, 51_000, 4, 60),  // target 1470, Diff 30
        (2000, 51_000, 5, 50),  // target 1960, Diff 40
        (1000, 52_000, 6, 40),  // CSI 0.96154, target 961, CAD 0.961
        (10, 52_000, 7, 30),    // target 9, CAD 0.9
        (1000, 60_000, 9, 20),  // CSI 0.83333, CAD 0.833
    ] {
        let mut c = make(Tunables::PAPER, window);
        bound(&mut c, 4000); // maxCwnd 2100
        c.round(BASE); // the base RTT's own round
        assert_eq!((c.round(rtt), c.field("step_left")), (rule, step), "W {window}, RTT {rtt}");
        assert_eq!(c.window(), (window, 2));
    }
}

/// Tables 3 and 4. After a decrease, ssthresh is at least 3/4 of W.
pub fn convergence_keeps_or_lowers_w_where_the_queue_is_long<'a>(make: impl Make<'a>) {
    for (rtt, rule, window, ssthresh) in [
        (100_000, 10, 1000, 2),    // CSI 0.5
        (250_000, 12, 975, 731),   // CSI 0.2, CAD 0.2: 25 less
        (2_000_000, 14, 400, 300), // CSI 0.025: 0.4 * 1000
    ] {
        let mut c = make(Tunables::PAPER, 1000);
        bound(&mut c, 4000);
        c.round(BASE); // the base RTT's own round
        assert_eq!((c.round(rtt), c.field("step_left")), (rule, 0));
        assert_eq!(c.window(), (window, ssthresh));
    }
}

/// Tables 5 and 6.
pub fn divergence<'a>(make: impl Make<'a>) {
    for (rtt, rule, step, window, ssthresh) in [
        (50_400, 21, 1, 1000, 2),     // CSI 0.99206
        (51_000, 22, 1, 1000, 2),     // CSI 0.98039, CAD 0.98
        (60_000, 23, 0, 1000, 2),     // CSI 0.83333, CAD 0.833
        (100_000, 24, 0, 1000, 2),    // CSI 0.5
        (250_000, 25, 0, 750, 562),   // CSI 0.2: 0.75 * 1000
        (2_000_000, 26, 0, 500, 375), // CSI 0.025: 1000 / 2
    ] {
        let mut c = make(Tunables::PAPER, 1000);
        bound(&mut c, 400); // maxCwnd 210
        c.round(BASE); // the base RTT's own round
        assert_eq!((c.round(rtt), c.field("step_left")), (rule, step), "RTT {rtt}");
        assert_eq!(c.window(), (window, ssthresh), "RTT {rtt}");
    }
}

pub fn the_status_is_the_base_rtt_over_the_rounds_least<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 1000);
    bound(&mut c, 4000);
    c.round(80_000);
    // the bound's own RTT of 50 ms was in that round
    assert_eq!((c.field("rule"), c.field("csi_q16")), (1, 65_536));
    c.round(80_000);
    assert_eq!((c.field("rule"), c.field("csi_q16")), (10, 40_960)); // 0.625, times 65536
    c.round(30_000); // a new least RTT: CSI 1
    assert_eq!((c.field("base_us"), c.field("csi_q16")), (30_000, 65_536));
    c.round(90_000);
    assert_eq!(c.field("csi_q16"), 21_845); // 1/3, times 65536: 21845.3
}

pub fn the_third_round_in_a_row_of_the_tables_is_worse<'a>(make: impl Make<'a>) {
    let apply = |c: &mut Connection<'_>, rtt: u32, want: &[(u64, u32)]| {
        for &(rule, window) in want {
            assert_eq!((c.round(rtt), c.view.snd_cwnd), (rule, window));
        }
    };
    let mut c = make(Tunables::PAPER, 1000);
    bound(&mut c, 4000);
    c.round(BASE);
    // C12: 25, 25, then C12.b: 50; then the count starts over
    apply(&mut c, 250_000, &[(12, 975), (12, 950), (112, 900), (12, 875), (12, 850), (112, 800)]);
    // a round in another row in between: C14 0.4 * 800 = 320, and C12 starts over
    apply(&mut c, 250_000, &[(12, 775), (12, 750)]);
    apply(&mut c, 2_000_000, &[(14, 300)]);
    apply(&mut c, 250_000, &[(12, 275), (12, 250), (112, 200)]);
    // C14: 0.4 * 200 = 80, 0.4 * 80 = 32, then C14.b: 32 / 3 = 10.7
    apply(&mut c, 2_000_000, &[(14, 80), (14, 32), (114, 10)]);
    // and never less than two
    apply(&mut c, 250_000, &[(12, 2)]);

    let mut c = make(Tunables::PAPER, 1000);
    bound(&mut c, 400); // 210
    c.round(BASE);
    // D5: 0.75 * 1000, 0.75 * 750 = 562.5, then D5.b: 562 / 2; 0.75 * 281 = 210.75, and that is no more than maxCwnd
    apply(&mut c, 250_000, &[(25, 750), (25, 562), (125, 281), (25, 210), (12, 185)]);

    let mut c = make(Tunables::PAPER, 5000);
    bound(&mut c, 400);
    c.round(BASE);
    apply(&mut c, 2_000_000, &[(26, 2500), (26, 1250), (126, 312)]); // D6: half, half, then D6.b: 1250 / 4 = 312.5
}

pub fn thirty_rounds_without_a_change_and_w_is_lowered<'a>(make: impl Make<'a>) {
    // C10: eqs 7 and 8
    let mut c = make(Tunables::PAPER, 1000);
    bound(&mut c, 4000); // 2100
    c.round(BASE);
    for n in 1..=30 {
        assert_eq!((c.round(100_000), c.field("repeat")), (10, n));
        assert_eq!(c.view.snd_cwnd, 1000);
    }
    assert_eq!((c.round(100_000), c.field("repeat")), (110, 0));
    assert_eq!((c.window(), c.field("max_cwnd")), ((900, 675), 1890)); // 3/4 * 900; 0.9 * 2100
    assert_eq!((c.round(100_000), c.field("repeat"), c.view.snd_cwnd), (10, 1, 900));
    // the lowered bound holds until a larger sample: 3500 segments are 1837, 3900 are 2047
    c.event(EVENT_TX_START);
    bound(&mut c, 3500);
    assert_eq!(c.field("max_cwnd"), 1890);
    bound(&mut c, 3900);
    assert_eq!(c.field("max_cwnd"), 2047);

    // D3 and D4: eqs 9 and 10; a change from one to the other starts over
    for (rtt, other_rtt, row) in [(60_000, 100_000, 23), (100_000, 60_000, 24)] {
        let mut c = make(Tunables::PAPER, 1000);
        bound(&mut c, 400); // 210
        c.round(BASE);
        for _ in 0..20 {
            c.round(rtt);
        }
        c.round(other_rtt);
        for n in 1..=30 {
            assert_eq!((c.round(rtt), c.field("repeat"), c.view.snd_cwnd), (row, n, 1000));
        }
        assert_eq!(c.round(rtt), row + 100);
        assert_eq!((c.window(), c.field("max_cwnd")), ((900, 675), 189));
    }
}

pub fn a_step_is_spread_over_the_round<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 100);
    bound(&mut c, 400); // 210
    assert_eq!((c.round(BASE), c.field("step_left")), (1, 120));
    // 120 segments over W = 100: 1.2 for each acknowledged
    assert_eq!((c.cong_avoid(10), c.field("step_left")), (112, 108));
    assert_eq!((c.cong_avoid(1), c.field("step_left")), (113, 107)); // 13.2
    assert_eq!((c.cong_avoid(4), c.field("step_left")), (118, 102)); // 18
    assert_eq!((c.cong_avoid(1), c.field("step_left")), (119, 101)); // 19.2
    assert_eq!((c.cong_avoid(80), c.field("step_left")), (215, 5)); // 115.2
    assert_eq!((c.cong_avoid(50), c.field("step_left")), (220, 0)); // 175.2, but 120 in all
    assert_eq!(c.cong_avoid(50), 220);
    // the clamp
    c.view.snd_cwnd_clamp = 230;
    c.view.snd_cwnd = 100;
    assert_eq!((c.round(BASE), c.field("step_left")), (1, 120));
    c.view.snd_cwnd = 225;
    // 235.2 were earned so far and 0.2 of that is left: 60.2
    assert_eq!((c.cong_avoid(50), c.field("step_left")), (230, 60));
    // W does not grow while it does not limit the sender
    c.view.is_cwnd_limited = 0;
    c.view.snd_cwnd = 100;
    assert_eq!((c.cong_avoid(50), c.field("step_left")), (100, 60));
}

/// D1 adds one segment per W acknowledged, although no round has quite W of them: fractions stay from round to round.
pub fn a_step_of_one_segment_comes_together_over_rounds<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 4);
    c.deliver(100_000, 4, BASE); // maxCwnd 2.1
    let mut ack = |n: u32, window: u32| {
        for _ in 1..n {
            c.ack(1000, 1, Some(BASE));
        }
        assert_eq!(c.ack(1000, 1, Some(BASE)), window);
        (c.field("rule"), c.field("step_left"))
    };
    // the fourth ACK ends the round in which 4 segments were in flight. D1: 1/4 for it and each further one. Then 3
    // are in flight; the segments that this ACK allows follow
    assert_eq!(ack(4, 4), (21, 1));
    assert_eq!(ack(2, 4), (21, 1)); // 3/4
    assert_eq!(ack(1, 5), (21, 0)); // ends the round; 4/4
    assert_eq!(ack(2, 5), (21, 0)); // at W = 4 as the round began: 2/4, but the step is used up
    assert_eq!(ack(1, 5), (21, 1)); // ends the round; now at W = 5: 3/5
    assert_eq!(ack(1, 5), (21, 1)); // 4/5
    assert_eq!(ack(1, 6), (21, 0)); // 5/5
}

pub fn the_default_profile_limits_a_step_to_the_upper_bound<'a>(make: impl Make<'a>) {
    for (window, default, paper) in [
        (100, 111, 120), // 210 + 1 - 100
        (50, 120, 120),
        (207, 4, 120),
        (210, 1, 120), // one more than maxCwnd, to probe
        (211, 1, 1),   // D1
    ] {
        for (tunables, want) in [(Tunables::DEFAULT, default), (Tunables::PAPER, paper)] {
            let mut c = make(tunables, window);
            bound(&mut c, 400); // 210
            c.round(BASE);
            assert_eq!(c.field("step_left"), want, "W {window}");
        }
    }
    // the steps of the divergence phase are not limited
    let mut c = make(Tunables { d1_add: 7, ..Tunables::DEFAULT }, 300);
    bound(&mut c, 400);
    assert_eq!((c.round(BASE), c.field("step_left")), (21, 7));
}

pub fn a_round_with_two_rtt_samples_takes_a_step_of_one<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 100);
    bound(&mut c, 400);
    c.round(BASE);
    let rest = (c.view.snd_nxt - c.view.snd_una) / 1000 - 2;
    c.ack(1000, 1, Some(250_000));
    c.ack(1000, 1, None);
    c.ack(1000, rest, Some(250_000));
    assert_eq!((c.field("rule"), c.field("repeat")), (30, 0));
}

pub fn no_rule_outside_open_and_disorder_or_without_need<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 1000);
    assert_eq!(c.round(BASE), 0); // no maxCwnd yet
    bound(&mut c, 4000);
    c.enter(DISORDER);
    assert_eq!((c.round(BASE), c.field("step_left")), (1, 120));
    c.view.is_cwnd_limited = 0;
    assert_eq!((c.round(BASE), c.field("step_left")), (0, 0));
    c.view.is_cwnd_limited = 1;
    assert_eq!((c.round(BASE), c.field("step_left")), (1, 120));
    for state in [CWR, RECOVERY, LOSS] {
        c.view.ca_state = state.into();
        assert_eq!((c.round(2_000_000), c.field("step_left")), (0, 0));
        assert_eq!(c.view.snd_cwnd, 1000);
    }
}

/// "As it doubles the sending rate in every RTT", up to 900.
pub fn slow_start_ends_at_900_segments<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 880);
    c.view.snd_ssthresh = INFINITE_SSTHRESH;
    bound(&mut c, 4000);
    assert_eq!((c.round(100_000), c.window()), (0, (880, INFINITE_SSTHRESH))); // the paper does not look at the queue
    assert_eq!(c.cong_avoid(19), 899);
    assert_eq!((c.round(100_000), c.window()), (0, (899, INFINITE_SSTHRESH)));
    assert_eq!(c.cong_avoid(1), 900);
    assert_eq!((c.round(100_000), c.window()), (10, (900, 900))); // C10 at once
    assert_eq!(c.cong_avoid(900), 900);
}

pub fn the_default_profile_ends_slow_start_at_a_queue_over_the_upper_bound<'a>(make: impl Make<'a>) {
    for (window, rtt, out) in [
        (211, 53_000, true),  // CSI 0.943
        (211, 52_500, false), // CSI 0.952
        (210, 53_000, false), // not over maxCwnd
    ] {
        let mut c = make(Tunables::DEFAULT, window);
        bound(&mut c, 400); // 210
        c.round(BASE);
        c.view.snd_ssthresh = INFINITE_SSTHRESH;
        let rule = c.round(rtt);
        if out {
            assert_eq!((rule, c.window()), (23, (window, window))); // D3 at once: CAD 0.938
        } else {
            assert_eq!((rule, c.window()), (0, (window, INFINITE_SSTHRESH)));
        }
    }
}

pub fn a_drain_that_idling_ends_costs_no_window<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::DEFAULT, 1000);
    bound(&mut c, 40_000);
    c.round(BASE);
    c.deliver(10_000_000, 1, 80_000);
    c.round(80_000);
    assert_eq!(c.window(), (468, 351)); // 3/4 of the target of 625
    c.event(EVENT_TX_START);
    assert_eq!(c.window(), (468, 750)); // slow start finds 3/4 of the old W, as after a timeout
}

pub fn idle_time_is_in_no_sample<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 1000);
    c.deliver(50_000, 100, BASE);
    c.view.now_us += 5_000_000;
    c.view.delivered += 7; // the last ACK before
    c.event(EVENT_TX_START);
    c.deliver(99_999, 100, BASE);
    assert_eq!(c.field("max_cwnd"), 0);
    c.deliver(1, 0, BASE); // 100 segments in 100 ms, as in the first example
    assert_eq!(c.field("max_cwnd"), 52);
    // an RTT from before the idle time does not count in the round after it
    let mut c = make(Tunables::PAPER, 1000);
    bound(&mut c, 4000);
    c.round(BASE);
    c.deliver(1000, 1, BASE);
    c.event(EVENT_TX_START);
    assert_eq!(c.round(100_000), 10);
}

pub fn a_takeover_starts_from_nothing_but_the_window<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::DEFAULT, 1000);
    bound(&mut c, 4000);
    c.round(BASE);
    c.init();
    assert_eq!(c.window(), (1000, 2));
    for name in ["max_cwnd", "base_us", "rule", "repeat", "step_left"] {
        assert_eq!(c.field(name), 0, "{name}");
    }
    assert_eq!(c.round(80_000), 0); // maxCwnd is not known yet
    assert_eq!(c.field("base_us"), 80_000);
    assert_eq!(c.cong_avoid(1000), 1000);
}

/// 400 Gbit/s over 10 s: 500 GB in flight.
pub fn arithmetic_does_not_overflow_at_400_gbit_per_s<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::PAPER, 1000);
    c.view.mss = 9000;
    // 555,556 segments of 9000 bytes in 100 ms: 50,000,040,000 bytes/s; * 10 s / 9000 * 1.05 = 58,333,380
    c.deliver(100_000, 555_556, 10_000_000);
    assert_eq!(c.field("max_cwnd"), 58_333_380);
}
