//! D-TCP against examples worked by hand.

#[path = "dtcp/default.rs"]
mod default;

use hotcc_abi::radio::PackedSinr;
use hotcc_abi::stats::AlgoStats;
use hotcc_cc_tests::models::close;
use hotcc_cc_tests::models::dtcp::Tunables;
use hotcc_host_algo::{EVENT_LOSS, EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, View};

const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

fn set(algo: &HostAlgo, tunables: Tunables) {
    for (name, value) in tunables.named() {
        algo.set_tunable(name, value);
    }
}

/// Returns the `paper` profile without the radio's part.
fn deaf() -> Tunables {
    Tunables { sinr_term: 2, ..Tunables::PAPER }
}

/// Returns a connection at 1 s with W = 100 segments of 1000 bytes in congestion avoidance, under D-TCP from now on.
fn taken_over<'a>(algo: &'a HostAlgo, tunables: Tunables) -> (Flow<'a>, View) {
    set(algo, tunables);
    let view = View {
        now_us: 1_000_000,
        snd_cwnd: 100,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: 50,
        mss: 1000,
        delivered: 7000,
        data_segs_out: 7000,
        is_cwnd_limited: 1,
        ..View::default()
    };
    let mut flow = Flow::new(algo);
    flow.set(&view);
    flow.init();
    assert_eq!(flow.get(&view), view); // a connection taken over keeps its window and ssthresh
    (flow, view)
}

/// Runs an epoch of 0.5 s that delivers `acked` segments of 1000 bytes: a sample of `acked` * 2000 bytes/s.
fn epoch(flow: &mut Flow<'_>, view: &mut View, acked: u32) {
    epoch_with_rtt(flow, view, acked, 100_000);
}

/// As [`epoch`], with this least RTT.
fn epoch_with_rtt(flow: &mut Flow<'_>, view: &mut View, acked: u32, rtt_us: u32) {
    view.now_us += 500_000;
    view.delivered += acked;
    flow.set(view);
    flow.pkts_acked(acked, Some(rtt_us));
}

fn n(flow: &Flow<'_>) -> f64 {
    flow.private("n_q16") as f64 / 65_536.0
}

fn filtered(flow: &Flow<'_>) -> f64 {
    flow.private("bandwidth_q8") as f64 / 256.0
}

#[track_caller]
fn assert_n(flow: &Flow<'_>, want: f64) {
    assert!(close(n(flow), want, 1e-3, 1e-3), "N {}, by hand {want}", n(flow));
}

/// Sets SINR and average, dB, as of `age_ms` before the next epoch's end.
fn radio(algo: &HostAlgo, view: &View, sinr_db: i16, average_db: i16, age_ms: u32) {
    let time_ms = ((view.now_us + 500_000) / 1000) as u32 - age_ms;
    let reading = PackedSinr { sinr_q8_db: sinr_db * 256, average_q8_db: average_db * 256, time_ms };
    algo.set_radio(Some((reading.pack(), 0)));
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("dtcp");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

#[test]
fn a_connection_starts_at_the_initial_window_or_twice_that() {
    let algo = HostAlgo::load("dtcp");
    let fresh =
        View { snd_cwnd: 10, snd_cwnd_clamp: 1000, snd_ssthresh: INFINITE_SSTHRESH, mss: 1448, ..View::default() };
    for (tunables, clamp, want) in [
        (Tunables::PAPER, 1000, (20, 45)), // line 3: 65535 bytes are 45.3 segments of 1448
        (Tunables::DEFAULT, 1000, (10, INFINITE_SSTHRESH)), // RFC 6928
        (Tunables { initial_ssthresh_bytes: 0, ..Tunables::PAPER }, 15, (15, INFINITE_SSTHRESH)),
        (Tunables { initial_ssthresh_bytes: 2000, ..Tunables::PAPER }, 1000, (20, 2)),
    ] {
        set(&algo, tunables);
        let mut flow = Flow::new(&algo);
        flow.set(&View { snd_cwnd_clamp: clamp, ..fresh });
        flow.init();
        let got = flow.get(&fresh);
        assert_eq!((got.snd_cwnd, got.snd_ssthresh), want);
        assert_n(&flow, 1.0);
    }
}

#[test]
fn an_unused_first_window_is_given_back() {
    let algo = HostAlgo::load("dtcp");
    set(&algo, deaf());
    let fresh =
        View { snd_cwnd: 10, snd_cwnd_clamp: 1000, snd_ssthresh: INFINITE_SSTHRESH, mss: 1448, ..View::default() };
    let swap = |flow: &mut Flow<'_>, view: &mut View| {
        flow.set(view);
        flow.init();
        *view = flow.get(view);
        let under = view.snd_cwnd;
        flow.release();
        *view = flow.get(view);
        (under, view.snd_cwnd)
    };
    // swapped in and out before the first byte, any number of times: 10, 20, 10, 20, not 10, 20, 40
    let (mut flow, mut view) = (Flow::new(&algo), fresh);
    for _ in 0..5 {
        assert_eq!(swap(&mut flow, &mut view), (20, 10));
    }
    // the clamp cut the doubling short: W is not twice the first window, so it is kept; it cannot add up
    view.snd_cwnd_clamp = 15;
    for _ in 0..3 {
        assert_eq!(swap(&mut flow, &mut view), (15, 15));
    }
    // data were sent
    let (mut flow, mut view) = (Flow::new(&algo), fresh);
    flow.set(&view);
    flow.init();
    view = flow.get(&view);
    view.data_segs_out = 1;
    flow.set(&view);
    flow.release();
    assert_eq!(flow.get(&view).snd_cwnd, 20);
    // the window was changed meanwhile
    let (mut flow, mut view) = (Flow::new(&algo), fresh);
    flow.set(&view);
    flow.init();
    view.snd_cwnd = 19;
    flow.set(&view);
    flow.release();
    assert_eq!(flow.get(&view).snd_cwnd, 19);
    // taken over after data were sent, at twice the usual first window: the window is the connection's own
    let (mut flow, mut view) = (Flow::new(&algo), View { snd_cwnd: 20, data_segs_out: 1, ..fresh });
    assert_eq!(swap(&mut flow, &mut view), (20, 20));
}

#[test]
fn n_follows_the_bandwidth_by_equations_5_to_11() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, deaf());
    // 500 segments in 0.5 s: B_1 = 1,000,000 bytes/s starts the filter; BW_E = BW_C, Q = 0: N = 1 + 1
    epoch(&mut flow, &mut view, 500);
    assert!(close(filtered(&flow), 1e6, 0.0, 1.0));
    assert_n(&flow, 2.0);
    // B_2 = 800,000. Eq 5: B_I = 0.9 * 1,000,000 + 0.1 * 800,000 = 980,000.
    // Eq 7: BW_E = 980,000 + 0.5 * (800,000 - 980,000) = 890,000.
    // Eq 11: Q/W = (890,000 - 800,000) / 890,000 = 0.1011236. Eq 10: N = 2 + 1 - 2 * 0.1011236 / 0.2 = 1.988764
    epoch(&mut flow, &mut view, 400);
    assert!(close(filtered(&flow), 980_000.0, 0.0, 1.0));
    assert_n(&flow, 1.988764);
    // B_3 = 1,200,000: B_I = 1,002,000, BW_E = 1,101,000, Q/W = -99,000 / 1,101,000 = -0.0899183,
    // N = 1.988764 + 1 + 1.988764 * 0.0899183 / 0.2 = 3.882897
    epoch(&mut flow, &mut view, 600);
    assert!(close(filtered(&flow), 1_002_000.0, 0.0, 1.0));
    assert_n(&flow, 3.882897);
    // B_4 = 200,000: B_I = 921,800, BW_E = 560,900, Q/W = 360,900 / 560,900 = 0.643430,
    // N = 3.882897 + 1 - 3.882897 * 0.643430 / 0.2 = -7.609: at least 1
    epoch(&mut flow, &mut view, 100);
    assert!(close(filtered(&flow), 921_800.0, 0.0, 1.0));
    assert_n(&flow, 1.0);
}

#[test]
fn eq_4_also_weighs_the_sample_before() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, Tunables { filter: 1, ..deaf() });
    epoch(&mut flow, &mut view, 500); // 1,000,000
    epoch(&mut flow, &mut view, 400); // 0.9 * 1,000,000 + 0.05 * (800,000 + 1,000,000) = 990,000
    assert!(close(filtered(&flow), 990_000.0, 0.0, 1.0));
    epoch(&mut flow, &mut view, 600); // 0.9 * 990,000 + 0.05 * (1,200,000 + 800,000) = 991,000
    assert!(close(filtered(&flow), 991_000.0, 0.0, 1.0));
}

#[test]
fn the_sinr_moves_the_estimate() {
    let algo = HostAlgo::load("dtcp");
    // Each: first sample 1,000,000 bytes/s, so BW_E = 1,000,000 + 0.5 * S and N = 2 - Q/W / 0.2.
    let shannon = Tunables { sinr_term: 0, ..Tunables::PAPER };
    let literal = Tunables::PAPER;
    for (tunables, sinr, average, age, want) in [
        // 10 dB are 10 kbit/s = 1250 bytes/s: Q/W = 625 / 1,000,625
        (literal, 20, 10, 0, 2.0 - 0.000624610 / 0.2),
        // 1000 kbit/s per dB: 10 dB fewer are -1,250,000 bytes/s, clamped to -B_I: BW_E = 500,000, Q/W = -1
        (Tunables { sinr_gain_kbps: 1000, ..literal }, 10, 20, 0, 7.0),
        // log2(1 + 10) = 3.459432, log2(1 + 100) = 6.658211:
        // S = 1,000,000 * (3.459432 - 6.658211) / 6.658211 = -480,426; BW_E = 759,787, Q/W = -0.316158
        (shannon, 10, 20, 0, 3.580791),
        // 10 dB to 12 dB: log2(1 + 15.84893) = 4.074635, S = 177,834, BW_E = 1,088,917, Q/W = 0.0816564
        (shannon, 12, 10, 0, 2.0 - 0.0816564 / 0.2),
        (shannon, 10, 20, 500, 3.580791), // the greatest age of a reading
        (shannon, 10, 20, 501, 2.0),      // too old: ignored
        (Tunables { sinr_term: 2, ..literal }, 10, 20, 0, 2.0),
    ] {
        let (mut flow, mut view) = taken_over(&algo, tunables);
        radio(&algo, &view, sinr, average, age);
        epoch(&mut flow, &mut view, 500);
        assert_n(&flow, want);
    }
}

#[test]
fn an_estimate_near_zero_neither_divides_nor_explodes() {
    let algo = HostAlgo::load("dtcp");
    // g = 1, and the signal fell so far that S = -B_I: BW_E = B_i - B_I
    let tunables = Tunables { g_permille: 1000, sinr_gain_kbps: 1_000_000, alpha_permille: 1000, ..Tunables::PAPER };
    let (mut flow, mut view) = taken_over(&algo, tunables);
    (view.mss, view.snd_cwnd) = (500, 100_000);
    radio(&algo, &view, 10, 20, 0);
    epoch(&mut flow, &mut view, 1000); // B_i = B_I = 1,000,000: BW_E = 0, no queue, N = 1 + 1
    assert_n(&flow, 2.0);
    radio(&algo, &view, 10, 20, 0);
    // B_i = 1,001,000, B_I = 1,000,100: BW_E = 900, Q/W = 1 - 1,001,000 / 900 = -1111, clamped to -1024:
    // N = 2 + 1 + 2 * 1024 / 1
    epoch(&mut flow, &mut view, 1001);
    assert_n(&flow, 2051.0);
    radio(&algo, &view, 10, 20, 0);
    epoch(&mut flow, &mut view, 500); // B_i = 500,000, B_I = 950,090: BW_E < 0, no queue
    assert_n(&flow, 2052.0);
}

#[test]
fn n_is_limited_by_n_max() {
    let algo = HostAlgo::load("dtcp");
    let tunables = Tunables { sinr_gain_kbps: 1_000_000, alpha_permille: 1, ..Tunables::PAPER };
    let (mut flow, mut view) = taken_over(&algo, tunables);
    (view.mss, view.snd_cwnd) = (500, 1 << 21);
    // S = -B_I: BW_E = B_i / 2, Q/W = -1, and alpha = 0.001: N = 1001 * N + 1
    for want in [1002.0, 1_003_003.0, 1_048_576.0] {
        radio(&algo, &view, 10, 20, 0);
        epoch(&mut flow, &mut view, 1000);
        assert_n(&flow, want); // 2^20 at most
    }
    algo.set_tunable("g_permille", 1000);
    radio(&algo, &view, 10, 20, 0);
    epoch(&mut flow, &mut view, 1001); // BW_E near 0, as above: 1,024,000 times N
    assert_eq!(n(&flow), 1_048_576.0);
    flow.cong_avoid(60_000); // 2^20 * 60,000 / 2^21
    assert_eq!(flow.get(&view).snd_cwnd, (1 << 21) + 30_000);
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 2_097_150); // 2^21 * (1 - 2 / 3,145,729) = 2,097,150.67
    algo.set_tunable("queue", 1);
    view.srtt_us = 8 * 10_000_000;
    epoch(&mut flow, &mut view, 1000); // 10 s, and the least is 0.1: Q/W = 0.99, 990 times N
    assert_eq!(n(&flow), 1.0);
}

#[test]
fn readings_age_as_specified() {
    let algo = HostAlgo::load("dtcp");
    // (maximum age in ms, age in ms, used?)
    for (max_age_ms, age_ms, fresh) in [
        (0, 500, true),
        (0, 501, false),
        (100, 100, true),
        (100, 101, false),
        (30_000, 30_000, true),
        (u32::MAX, 30_000, true),
        (u32::MAX, 30_001, false),
        (0, -10, true), // the ACK's timestamp may lag behind the reading's
        (0, -11, false),
        (u32::MAX, i32::MIN, false),
    ] {
        // also where the millisecond clock wraps between reading and use
        for now_us in [100_000_000, (1 << 32) * 1000 + 5000, (1 << 32) * 1000 - 5000] {
            let (mut flow, mut view) = taken_over(&algo, Tunables { sinr_term: 0, ..Tunables::PAPER });
            view.now_us = now_us - 500_000;
            flow.set(&view);
            flow.cwnd_event(EVENT_TX_START); // the epoch starts here
            let time_ms = ((now_us / 1000) as u32).wrapping_sub(age_ms as u32);
            let reading = PackedSinr { sinr_q8_db: 10 * 256, average_q8_db: 20 * 256, time_ms };
            algo.set_radio(Some((reading.pack(), max_age_ms)));
            epoch(&mut flow, &mut view, 500);
            assert_n(&flow, if fresh { 3.580791 } else { 2.0 });
        }
    }
}

#[test]
fn algorithm_1_doubles_n_below_the_estimate_and_steps_above() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, Tunables { n_rule: 1, ..deaf() });
    // 1,000,000 first: BW_C = BW_E, nothing. Then falling samples, each below the estimate, lines 17 to 21:
    // N = 1 + max(1, 0) = 2, 2 + 2 = 4, 4 + 4 = 8; then one above it, lines 22 to 24: 9; below again: 9 + 9 = 18
    for (acked, want) in [(500, 1.0), (400, 2.0), (300, 4.0), (200, 8.0), (900, 9.0), (100, 18.0)] {
        epoch(&mut flow, &mut view, acked);
        assert_eq!(n(&flow), want);
    }
    // a quarter of W = 40 limits it, and n_max if it is set
    view.snd_cwnd = 40;
    view.snd_ssthresh = 10;
    epoch(&mut flow, &mut view, 50);
    assert_eq!(n(&flow), 10.0);
    algo.set_tunable("n_max", 6);
    epoch(&mut flow, &mut view, 25);
    assert_eq!(n(&flow), 6.0);
}

#[test]
fn the_default_profile_sees_a_standing_queue() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, Tunables::DEFAULT);
    (view.srtt_us, view.snd_cwnd) = (8 * 110_000, 100);
    // the same bandwidth (Q = 0), but 110 ms, and the least is 100: Q/W = 10/110, N = 2 - 0.0909091 / 0.2
    epoch(&mut flow, &mut view, 500);
    assert_n(&flow, 1.545455);
}

#[test]
fn growth_is_n_per_round_trip_and_leaves_nothing_over() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, deaf());
    epoch(&mut flow, &mut view, 500);
    epoch(&mut flow, &mut view, 400);
    assert_n(&flow, 1.988764); // 130,335 / 65,536, as above
    let mut grown = Vec::new();
    for _ in 0..100 {
        flow.set(&view);
        flow.cong_avoid(1);
        view = flow.get(&view);
        grown.push(view.snd_cwnd);
    }
    // W = 100 needs 100 / 1.988764 = 50.3 ACKs: the 51st. 1.427 are left of it, and 49 more ACKs bring that to
    // 98.876, under W = 101: the next one falls after this round
    assert_eq!((grown[49], grown[50], grown[99]), (100, 101, 101));
    flow.set(&view);
    flow.cong_avoid(2); // 98.876 + 3.978 = 102.854
    assert_eq!(flow.get(&view).snd_cwnd, 102);
}

#[test]
fn a_loss_takes_two_of_3n_plus_1_parts() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, deaf());
    assert_eq!(flow.ssthresh(), 50); // N = 1: 100 * (1 - 2/4)
    epoch(&mut flow, &mut view, 500);
    assert_eq!(flow.ssthresh(), 71); // N = 2: 100 * (1 - 2/7) = 71.4
    epoch(&mut flow, &mut view, 400);
    assert_eq!(flow.ssthresh(), 71); // N = 1.988764: ceil(5.966292) = 6, the same
    epoch(&mut flow, &mut view, 600);
    assert_eq!(flow.ssthresh(), 84); // N = 3.882897: ceil(11.65) = 12: 100 * (1 - 2/13) = 84.6
    view.snd_cwnd = 2;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 2); // 2 * 11/13 = 1.69: never below 2
    view.snd_cwnd = 100_000;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 84_615); // 100,000 * 11/13 = 84,615.4
    algo.set_tunable("eta", 3);
    assert_eq!(flow.ssthresh(), 85_714); // eta = 3: ceil(5 * 3.882897) = 20: 100,000 * (1 - 3/21) = 85,714.3
}

#[test]
fn a_timeout_restarts_at_twice_the_initial_window() {
    let algo = HostAlgo::load("dtcp");
    for (keep, want) in [(0, 71), (1, 50)] {
        // W = 20 is below either
        let (mut flow, mut view) = taken_over(&algo, Tunables { rto_ssthresh: keep, ..deaf() });
        epoch(&mut flow, &mut view, 500); // N = 2
        let ssthresh = flow.ssthresh(); // 100 * 5/7
        assert_eq!(ssthresh, 71);
        (view.snd_ssthresh, view.prior_cwnd) = (ssthresh, 100);
        flow.set(&view);
        flow.cwnd_event(EVENT_LOSS);
        (view.snd_cwnd, view.snd_cwnd_cnt) = (1, 0);
        flow.set(&view);
        flow.set_state(LOSS as u8);
        view = flow.get(&view);
        // W = 2 * 10 (the usual initial window, since this connection's own is not known); line 13: N = 1
        assert_eq!((view.snd_cwnd, view.snd_ssthresh), (20, want));
        assert_n(&flow, 1.0);
    }
}

/// The kernel does not ask for an ssthresh then: the timeout finds, and keeps, the one that the recovery set.
#[test]
fn a_timeout_within_a_recovery_keeps_the_ssthresh_of_the_recovery() {
    let algo = HostAlgo::load("dtcp");
    for keep in [0, 1] {
        let (mut flow, mut view) = taken_over(&algo, Tunables { rto_ssthresh: keep, ..deaf() });
        epoch(&mut flow, &mut view, 500); // N = 2
        view.snd_ssthresh = flow.ssthresh(); // 71, was 50
        flow.set(&view);
        flow.set_state(RECOVERY as u8);
        (view.ca_state, view.snd_cwnd) = (RECOVERY, 1);
        flow.set(&view);
        flow.set_state(LOSS as u8);
        view = flow.get(&view);
        assert_eq!((view.snd_cwnd, view.snd_ssthresh), (20, 71));
        // the timer fires again
        view.ca_state = LOSS;
        view.snd_cwnd = 1;
        flow.set(&view);
        flow.set_state(LOSS as u8);
        assert_eq!(flow.get(&view).snd_ssthresh, 71);
        // the connection recovers with an ssthresh of 40; a timeout for which the kernel lowers it on its own, to 35
        (view.ca_state, view.snd_cwnd, view.snd_ssthresh) = (LOSS, 30, 40);
        flow.set(&view);
        flow.set_state(0);
        (view.ca_state, view.snd_cwnd, view.snd_ssthresh) = (0, 1, 35);
        flow.set(&view);
        flow.set_state(LOSS as u8);
        assert_eq!(flow.get(&view).snd_ssthresh, if keep == 1 { 40 } else { 35 });
    }
}

#[test]
fn more_epochs_than_16_bits_hold_are_counted() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, Tunables::PAPER);
    for _ in 0..70_000 {
        epoch(&mut flow, &mut view, 1);
    }
    // the count that the flow's own 16 bits cannot hold is added already
    assert_eq!(flow.private("epochs_absent"), 70_000 - 65_535);
    assert_eq!(algo.stat(std::mem::offset_of!(AlgoStats, signal_absent) / 8), 65_535);
}

#[test]
fn an_application_limited_epoch_only_raises_the_estimate() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, deaf());
    epoch(&mut flow, &mut view, 500); // 1,000,000 bytes/s, N = 2
    view.app_limited = 1;
    epoch(&mut flow, &mut view, 100); // limited at the end: ignored
    assert!(close(filtered(&flow), 1e6, 0.0, 1.0));
    view.app_limited = 0;
    epoch(&mut flow, &mut view, 100); // limited at the start: ignored
    assert!(close(filtered(&flow), 1e6, 0.0, 1.0));
    view.app_limited = 1;
    epoch(&mut flow, &mut view, 1000); // 2,000,000: 0.9 * 1,000,000 + 0.1 * 2,000,000, but N stays
    assert!(close(filtered(&flow), 1.1e6, 0.0, 1.0));
    assert_n(&flow, 2.0);
}

#[test]
fn arithmetic_does_not_overflow_at_400_gbit_per_s() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, deaf());
    (view.mss, view.snd_cwnd) = (9000, 3_000_000);
    // 2,777,778 segments of 9000 bytes in 0.5 s: 50,000,004,000 bytes/s
    for want in 2..40 {
        epoch(&mut flow, &mut view, 2_777_778);
        assert!(close(filtered(&flow), 50_000_004_000.0, 1e-9, 0.0));
        assert_n(&flow, f64::from(want)); // Q = 0: one more each epoch
    }
    assert_eq!(flow.ssthresh(), 2_949_152); // N = 39: 3,000,000 * (1 - 2/118) = 2,949,152.5
}

#[test]
fn an_ignored_epoch_leaves_no_trace() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, Tunables { filter: 1, ..deaf() });
    epoch(&mut flow, &mut view, 500); // 1,000,000
    epoch(&mut flow, &mut view, 600); // 0.9 * 1,000,000 + 0.05 * (1,200,000 + 1,000,000) = 1,010,000
    assert!(close(filtered(&flow), 1_010_000.0, 0.0, 0.01));
    view.app_limited = 1;
    epoch(&mut flow, &mut view, 505); // B_i = B_I: does not raise it
    view.app_limited = 0;
    epoch(&mut flow, &mut view, 505); // limited at its start
    assert!(close(filtered(&flow), 1_010_000.0, 0.0, 0.01));
    epoch(&mut flow, &mut view, 500); // 0.9 * 1,010,000 + 0.05 * (1,000,000 + 1,200,000): the sample before is 600's
    assert!(close(filtered(&flow), 1_019_000.0, 0.0, 1.0));
}
