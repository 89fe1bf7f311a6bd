//! CUBIC against the formulas of RFC 9438 and against steps computed by hand.

use super::*;
use crate::congestion::INFINITE_SSTHRESH;
use crate::ideal_link::{Connection, Link, MSS, sock};

const MS: u64 = 1_000_000;

/// Returns a connection in congestion avoidance, one second after the start.
fn avoiding(window: u32) -> Sock {
    Sock { snd_cwnd: window, snd_ssthresh: window, now_ns: 1000 * MS, ..sock() }
}

/// Returns CUBIC after a loss at `window`, and its connection with the window that the loss leaves.
fn after_loss(window: u32) -> (Cubic, Sock) {
    let mut cubic = Cubic::new();
    let mut sock = avoiding(window);
    cubic.init(&mut sock);
    sock.snd_ssthresh = cubic.ssthresh(&mut sock);
    sock.snd_cwnd = sock.snd_ssthresh;
    (cubic, sock)
}

#[test]
fn constants_are_those_of_the_rfc() {
    assert!((f64::from(BETA) / 1024.0 - 0.7).abs() < 0.001);
    assert!((C as f64 / 1024.0 - 0.4).abs() < 0.001);
    // 1/alpha = 17/9 = 1.89
    assert!((f64::from(RENO_EIGHTHS) / 8.0 - 17.0 / 9.0).abs() < 0.02);
    assert_eq!((RENO_EIGHTHS, INVERSE_C), (15, 2_681_735_677));
}

#[test]
fn a_loss_leaves_seven_tenths_of_the_window() {
    let (cubic, sock) = after_loss(100);
    assert_eq!((sock.snd_ssthresh, cubic.last_max), (70, 100));
    let (_, small) = after_loss(2);
    assert_eq!(small.snd_ssthresh, 2);
}

#[test]
fn fast_convergence_lowers_the_plateau_of_a_shrinking_window() {
    let (mut cubic, mut sock) = after_loss(100);
    sock.snd_cwnd = 80;
    // 80 x 0.85 = 68; 80 x 0.7 = 56
    assert_eq!((cubic.ssthresh(&mut sock), cubic.last_max), (56, 68));
    sock.snd_cwnd = 90;
    assert_eq!((cubic.ssthresh(&mut sock), cubic.last_max), (63, 90));
}

#[test]
fn windows_on_the_curve_are_those_of_the_formula() {
    let (mut cubic, sock) = after_loss(1000);
    let epoch = cubic.start_epoch(sock.snd_cwnd, 0, 0);
    let start = f64::from(sock.snd_cwnd);
    let k = ((1000.0 - start) / 0.4).cbrt();
    assert!((epoch.plateau_after as f64 / 1024.0 / k - 1.0).abs() < 0.005);
    for tenths in 0..200_u64 {
        let t = tenths as f64 / 10.0;
        let want = 0.4 * (t - k).powi(3) + 1000.0;
        let got = f64::from(window_at(&epoch, tenths * 1024 / 10));
        assert!((got - want).abs() < 2.0 + want * 0.005, "W_cubic({t}) = {want}, not {got}");
    }
}

#[test]
fn the_first_step_after_a_loss_is_that_of_the_curve() {
    let (mut cubic, mut sock) = after_loss(1000);
    // K is cbrt(300 / 0.4) = 9.08 s, in its unit 9300 / 1024 s. An RTT of 40 ms is 10 jiffies or 40 / 1024 s. After one
    // RTT, the curve is 410 x 9260^3 / 2^40 = 296 below the plateau: 4 more than 700.
    cubic.delay_min_us = 40_000;
    cubic.cong_avoid(&mut sock, 1);
    assert_eq!((cubic.detail("bic_K"), cubic.step), (9300, 700 / 4));
}

#[test]
fn at_and_above_the_curve_a_window_hardly_grows() {
    let (mut cubic, mut sock) = after_loss(1000);
    cubic.cong_avoid(&mut sock, 1);
    let epoch = cubic.epoch.expect("congestion avoidance starts an epoch");
    assert_eq!(cubic.curve_step(&epoch, 1000, jiffies(sock.now_ns)), 100_000);
}

#[test]
fn a_window_grows_at_least_by_a_twentieth_before_the_first_loss() {
    let mut cubic = Cubic::new();
    let mut sock = avoiding(100);
    cubic.init(&mut sock);
    cubic.cong_avoid(&mut sock, 1);
    assert_eq!(cubic.step, 20);
}

#[test]
fn a_window_never_grows_by_more_than_half_in_a_round() {
    let (mut cubic, mut sock) = after_loss(100);
    cubic.cong_avoid(&mut sock, 1);
    sock.now_ns += 100_000 * MS;
    cubic.cong_avoid(&mut sock, 1);
    assert_eq!(cubic.step, 2);
}

#[test]
fn a_small_window_follows_reno() {
    let (mut cubic, mut sock) = after_loss(10);
    sock.now_ns += 10 * MS;
    // Reno's step at 7 segments is 7 x 15 / 8 = 13; the curve, with K = 1.96 s, needs far longer. The first ACK starts
    // the epoch and counts as 1; the 14th ACK exceeds 13.
    for _ in 0..13 {
        cubic.cong_avoid(&mut sock, 1);
        sock.now_ns += 4 * MS;
        assert_eq!(cubic.reno_window, 7);
    }
    sock.now_ns += 40 * MS;
    sock.snd_cwnd = 7;
    cubic.cong_avoid(&mut sock, 1);
    assert_eq!((cubic.reno_window, cubic.reno_acked), (8, 1));
    assert!(cubic.step <= 7, "{}", cubic.step);
}

#[test]
fn a_step_is_kept_for_seven_jiffies_or_until_the_window_changes() {
    let (mut cubic, mut sock) = after_loss(1000);
    cubic.update(&sock, 1);
    let first = cubic.last_update;
    sock.now_ns += 7 * 4 * MS;
    cubic.update(&sock, 1);
    assert_eq!(cubic.last_update, first);
    sock.now_ns += 4 * MS;
    cubic.update(&sock, 1);
    assert_eq!(cubic.last_update.1, first.1 + 8);
    sock.snd_cwnd += 1;
    sock.now_ns += 4 * MS;
    cubic.update(&sock, 1);
    assert_eq!(cubic.last_update, (first.0 + 1, first.1 + 9));
}

#[test]
fn silence_moves_the_epoch_but_never_beyond_now() {
    let (mut cubic, mut sock) = after_loss(100);
    cubic.cong_avoid(&mut sock, 1);
    let start = |cubic: &Cubic| cubic.epoch.map(|epoch| epoch.start);
    sock.lsnd_ns = sock.now_ns + 400 * MS;
    sock.now_ns += 2400 * MS;
    cubic.cwnd_event(&mut sock, CaEvent::TxStart);
    assert_eq!(start(&cubic), Some(250 + 500));
    sock.lsnd_ns = 0;
    cubic.cwnd_event(&mut sock, CaEvent::TxStart);
    assert_eq!(start(&cubic), Some(jiffies(sock.now_ns)));
}

#[test]
fn delays_in_the_second_after_a_reduction_do_not_count() {
    let (mut cubic, mut sock) = after_loss(100);
    cubic.pkts_acked(&mut sock, 1, Some(50_000));
    cubic.cong_avoid(&mut sock, 1);
    cubic.pkts_acked(&mut sock, 1, Some(40_000));
    assert_eq!(cubic.delay_min_us, 50_000);
    sock.now_ns += 1000 * MS;
    cubic.pkts_acked(&mut sock, 1, None);
    cubic.pkts_acked(&mut sock, 1, Some(40_000));
    assert_eq!(cubic.delay_min_us, 40_000);
}

#[test]
fn a_timeout_forgets_everything_and_an_undo_restores_the_window() {
    let (mut cubic, mut sock) = after_loss(100);
    sock.prior_cwnd = 100;
    assert_eq!(cubic.undo_cwnd(&mut sock), 100);
    cubic.set_state(&mut sock, CaState::Recovery);
    assert_eq!(cubic.last_max, 100);
    cubic.set_state(&mut sock, CaState::Loss);
    assert_eq!((cubic.last_max, cubic.delay_min_us), (0, 0));
}

#[test]
fn an_application_limited_window_does_not_grow() {
    let (mut cubic, mut sock) = after_loss(100);
    sock.is_cwnd_limited = false;
    cubic.cong_avoid(&mut sock, 50);
    assert_eq!((sock.snd_cwnd, sock.snd_cwnd_cnt), (70, 0));
}

/// Returns a connection in slow start, and its CUBIC.
fn starting(window: u32) -> (Cubic, Sock) {
    let mut cubic = Cubic::new();
    let mut sock = Sock { snd_cwnd: window, snd_nxt: window * MSS, pacing_rate: 1_000_000_000, ..sock() };
    cubic.init(&mut sock);
    (cubic, sock)
}

/// Processes an ACK that arrives `gap_us` after the previous one, with this RTT.
fn ack(cubic: &mut Cubic, sock: &mut Sock, gap_us: u64, rtt_us: u32) {
    sock.now_ns += gap_us * 1000;
    sock.snd_una += MSS;
    cubic.pkts_acked(sock, 1, Some(rtt_us));
}

#[test]
fn a_train_of_half_the_delay_ends_slow_start_without_pacing() {
    // Threshold: (40 ms + 4 x 65215 bytes at 1 GB/s, 260 us) / 2 = 20.13 ms. A gap of 2 ms is within the train.
    let (mut cubic, mut sock) = starting(16);
    for _ in 0..10 {
        ack(&mut cubic, &mut sock, 2000, 40_000);
        assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
    }
    ack(&mut cubic, &mut sock, 130, 40_000);
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
    ack(&mut cubic, &mut sock, 1, 40_000);
    assert_eq!((sock.snd_ssthresh, cubic.detail("found")), (16, 1));
}

#[test]
fn with_pacing_a_train_must_last_as_long_as_the_delay() {
    let (mut cubic, mut sock) = starting(32);
    sock.needs_pacing = true;
    for _ in 0..20 {
        ack(&mut cubic, &mut sock, 2000, 40_000);
    }
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
    ack(&mut cubic, &mut sock, 261, 40_000);
    assert_eq!(sock.snd_ssthresh, 32);
}

#[test]
fn a_gap_ends_the_train() {
    let (mut cubic, mut sock) = starting(30);
    ack(&mut cubic, &mut sock, 2001, 40_000);
    for _ in 0..14 {
        ack(&mut cubic, &mut sock, 2000, 40_000);
    }
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
}

#[test]
fn eight_samples_and_then_a_rise_of_an_eighth_end_slow_start() {
    // 40 ms / 8 = 5 ms: between the bounds of 4 and 16 ms.
    for (rtt_us, ends) in [(45_000, false), (45_001, true)] {
        let (mut cubic, mut sock) = starting(100);
        cubic.delay_min_us = 40_000;
        for _ in 0..8 {
            ack(&mut cubic, &mut sock, 2500, rtt_us);
            assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
        }
        ack(&mut cubic, &mut sock, 2500, rtt_us);
        assert_eq!(sock.snd_ssthresh != INFINITE_SSTHRESH, ends, "{rtt_us}");
    }
}

#[test]
fn the_least_sample_of_a_round_counts() {
    let (mut cubic, mut sock) = starting(100);
    cubic.delay_min_us = 40_000;
    ack(&mut cubic, &mut sock, 2500, 41_000);
    for _ in 0..20 {
        ack(&mut cubic, &mut sock, 2500, 60_000);
    }
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
    // An ACK beyond the first window starts another round, which discards the sample.
    sock.snd_una = 100 * MSS;
    sock.snd_nxt = 300 * MSS;
    for _ in 0..8 {
        ack(&mut cubic, &mut sock, 2500, 60_000);
    }
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
    ack(&mut cubic, &mut sock, 2500, 60_000);
    assert_eq!(sock.snd_ssthresh, 100);
}

#[test]
fn small_windows_stay_in_slow_start() {
    let (mut cubic, mut sock) = starting(15);
    cubic.delay_min_us = 10_000;
    for _ in 0..15 {
        ack(&mut cubic, &mut sock, 1000, 90_000);
    }
    assert_eq!(sock.snd_ssthresh, INFINITE_SSTHRESH);
}

/// 1000 segments/s over 100 ms with as large a queue: W is 200.
#[test]
fn on_an_ideal_link_the_window_saws_between_its_maximum_and_seven_tenths() {
    let link = Link { segments_per_s: 1000, delay_us: 100_000, queue: 100, policer: None };
    let mut connection = Connection::new(link);
    let mut cubic = Cubic::new();
    let mut windows = Vec::new();
    connection.run(&mut cubic, 120, |sock, _| {
        if sock.now_ns > 30_000 * MS {
            windows.push(sock.snd_cwnd);
        }
    });
    let (least, most) = (windows.iter().min().copied().unwrap(), windows.iter().max().copied().unwrap());
    assert!((195..=212).contains(&most), "{most}");
    assert!((most * 7 / 10 - 6..=most * 7 / 10 + 1).contains(&least), "{least} of {most}");
    let drops = windows.windows(2).filter(|pair| pair[1] < pair[0]).count();
    // A tooth lasts about K = cbrt(60 / 0.4) = 5.3 s, and somewhat more beyond the plateau.
    assert!((9..=18).contains(&drops), "{drops}");
    // The queue never becomes empty: 0.7 x 200 is more than the 100 of the path.
    let delivered = windows.len();
    assert!((88_000..=90_100).contains(&delivered), "{delivered}");
}
