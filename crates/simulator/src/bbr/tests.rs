//! BBR's states and rules against values computed by hand, and its steady state on ideal links.

use super::phases::CYCLE;
use super::*;
use crate::clock::jiffies;
use crate::ideal_link::{Connection, Link, MSS, Policer, sock};
use std::collections::HashSet;

const MS: u64 = 1_000_000;
const RTT_US: u32 = 40_000;
/// One segment per ms: with an RTT of 40 ms, a BDP of 40 segments.
const BW: u32 = (BW_UNIT / 1000) as u32;

/// Returns BBR in this state, with a known path, and its connection one second after the start.
fn knowing(mode: Mode) -> (Bbr, Sock) {
    let mut bbr = Bbr::new(1);
    let mut sock = Sock {
        now_ns: 1000 * MS,
        delivered_ns: 1000 * MS,
        delivered: 1000,
        packets_out: 40,
        snd_cwnd: 80,
        srtt_us: RTT_US * 8,
        min_rtt_us: RTT_US,
        ..sock()
    };
    bbr.init(&mut sock);
    bbr.bw.update(10, 0, BW);
    bbr.mode = mode;
    bbr.full_bw = BW;
    bbr.full_bw_reached = mode != Mode::Startup;
    bbr.update_gains();
    sock.pacing_rate = bytes_per_s(BW, GAIN_UNIT, MSS);
    (bbr, sock)
}

/// Returns a sample over one RTT, of a segment that was sent after `prior_delivered` segments were delivered.
fn sample(prior_delivered: u32) -> RateSample {
    RateSample {
        prior_delivered,
        delivered: 40,
        interval_us: 40_000,
        rtt_us: i64::from(RTT_US),
        acked_sacked: 1,
        prior_in_flight: 41,
        ..RateSample::default()
    }
}

/// Delivers a segment after `ms` milliseconds.
fn ack(bbr: &mut Bbr, sock: &mut Sock, ms: u64, sample: &RateSample) {
    sock.now_ns += ms * MS;
    sock.delivered_ns = sock.now_ns;
    sock.delivered += 1;
    bbr.cong_control(sock, sample);
}

#[test]
fn gains_are_those_of_the_draft() {
    let of = |gain: u32| f64::from(gain) / 256.0;
    assert!((of(HIGH_GAIN) - 2.0 / std::f64::consts::LN_2).abs() < 0.005);
    assert!((of(DRAIN_GAIN) * of(HIGH_GAIN) - 1.0).abs() < 0.01);
    assert_eq!((HIGH_GAIN, DRAIN_GAIN), (739, 88));
    assert_eq!(CYCLE.map(of), [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn a_rate_is_a_hundredth_below_the_bandwidth() {
    // 1000 segments/s of 1448 bytes; BW is rounded down by 4e-5.
    assert_eq!(bytes_per_s((BW_UNIT / 4) as u32, GAIN_UNIT, 1000), 247_500_000);
    assert_eq!(bytes_per_s((BW_UNIT / 4) as u32, GAIN_UNIT * 5 / 4, 1000), 309_375_000);
}

#[test]
fn the_first_rate_is_the_initial_window_in_an_rtt() {
    let mut bbr = Bbr::new(1);
    let mut sock = sock();
    bbr.init(&mut sock);
    // No sample: 10 segments in a nominal ms, x 739/256 x 0.99
    let want = 10.0 * 1448.0 * 1000.0 * 739.0 / 256.0 * 0.99;
    assert!((sock.pacing_rate as f64 / want - 1.0).abs() < 1e-4, "{}", sock.pacing_rate);
    assert!(sock.needs_pacing);
    // The first sample corrects the rate, down to a fortieth.
    sock.srtt_us = RTT_US * 8;
    bbr.set_pacing_rate(&mut sock, 0, HIGH_GAIN);
    assert!((sock.pacing_rate as f64 / want * 40.0 - 1.0).abs() < 1e-4, "{}", sock.pacing_rate);
}

#[test]
fn the_rate_sinks_only_once_the_path_is_full() {
    for (mode, sinks) in [(Mode::Startup, false), (Mode::ProbeBw, true)] {
        let (mut bbr, mut sock) = knowing(mode);
        bbr.set_pacing_rate(&mut sock, BW / 2, GAIN_UNIT);
        assert_eq!(sock.pacing_rate < 1_000_000, sinks);
    }
}

#[test]
fn bundles_are_what_a_millisecond_sends() {
    let with_rate = |pacing_rate| Sock { pacing_rate, ..sock() };
    let goal = |rate| (bundle(&with_rate(rate)), least_bundle(&with_rate(rate)));
    // 1.2 Mbit/s are 150000 bytes/s; 10 MB/s / 1024 / 1448 = 6.7; 65215 / 1448 = 45.04
    assert_eq!(
        (goal(149_999), goal(150_000), goal(10_000_000), goal(10_000_000_000)),
        ((1, 1), (2, 2), (6, 2), (45, 2))
    );
}

#[test]
fn the_target_is_the_bdp_with_bundles_and_even() {
    let (mut bbr, sock) = knowing(Mode::ProbeBw);
    // BW is slightly below 1/ms, but rounding up makes the BDP 40; 3 bundles of 2 segments.
    assert_eq!((bbr.bdp(BW, GAIN_UNIT), bbr.bdp(BW, GAIN_UNIT * 5 / 4), bbr.bdp(BW, CWND_GAIN)), (40, 50, 80));
    bbr.cycle_phase = 2;
    assert_eq!(bbr.target_in_flight(&sock, BW, GAIN_UNIT), 46);
    assert_eq!(bbr.with_bundles(&sock, 41), 48);
    bbr.cycle_phase = 0;
    assert_eq!(bbr.target_in_flight(&sock, BW, GAIN_UNIT), 48);
    bbr.min_rtt_us = u32::MAX;
    assert_eq!(bbr.bdp(BW, GAIN_UNIT), 10);
}

#[test]
fn three_rounds_without_a_quarter_more_bandwidth_end_startup() {
    let (mut bbr, mut sock) = knowing(Mode::Startup);
    sock.packets_out = 100;
    // 49 segments in 40 ms are less than 1.25 times the previous 40; only the first ACK of a round counts.
    for round in 1..=3 {
        assert_eq!((bbr.mode, bbr.pacing_gain), (Mode::Startup, HIGH_GAIN), "round {round}");
        let start = RateSample { delivered: 49, ..sample(bbr.round_end) };
        let later = RateSample { prior_delivered: bbr.round_end - 1, ..start };
        ack(&mut bbr, &mut sock, 1, &later);
        ack(&mut bbr, &mut sock, 39, &start);
    }
    assert_eq!((bbr.mode, bbr.pacing_gain, bbr.cwnd_gain), (Mode::Drain, DRAIN_GAIN, HIGH_GAIN));
    // BDP 49, and 3 bundles of 3 at 2.887 times the rate: 5.07 MB/s / 1024 / 1448 = 3.4
    assert_eq!(sock.snd_ssthresh, 58);
}

#[test]
fn a_quarter_more_bandwidth_or_an_application_limit_continue_startup() {
    for limited in [false, true] {
        let (mut bbr, mut sock) = knowing(Mode::Startup);
        for round in 0..6 {
            let delivered = if limited { 40 } else { 40 * 13_i32.pow(round) / 10_i32.pow(round) + 1 };
            let start = RateSample { delivered, is_app_limited: limited, ..sample(bbr.round_end) };
            ack(&mut bbr, &mut sock, 40, &start);
        }
        assert!(!bbr.full_bw_reached && bbr.mode == Mode::Startup);
    }
}

#[test]
fn drain_ends_when_a_bdp_is_in_flight() {
    let (mut bbr, mut sock) = knowing(Mode::Drain);
    sock.packets_out = 47;
    ack(&mut bbr, &mut sock, 1, &sample(0));
    assert_eq!(bbr.mode, Mode::Drain);
    // BDP 40 and 3 bundles of 2
    sock.packets_out = 46;
    ack(&mut bbr, &mut sock, 1, &sample(0));
    assert_eq!((bbr.mode, bbr.cwnd_gain), (Mode::ProbeBw, CWND_GAIN));
}

#[test]
fn what_is_delivered_until_the_next_departure_is_not_in_the_network() {
    let (mut bbr, mut sock) = knowing(Mode::Drain);
    sock.wstamp_ns = sock.now_ns + 5 * MS + 100_000;
    assert_eq!(bbr.in_network(&sock, 50), 45);
    bbr.pacing_gain = GAIN_UNIT * 5 / 4;
    assert_eq!((bbr.in_network(&sock, 50), bbr.in_network(&sock, 2)), (47, 0));
}

#[test]
fn probing_starts_in_any_phase_but_the_draining_one_and_repeats() {
    let starts = |seed| {
        let (mut bbr, sock) = knowing(Mode::Drain);
        bbr.random = seed;
        (0..100).map(|_| (bbr.enter_probe_bw(&sock), bbr.cycle_phase).1).collect::<Vec<_>>()
    };
    assert_eq!(starts(7).into_iter().collect::<HashSet<_>>(), HashSet::from([0, 2, 3, 4, 5, 6, 7]));
    assert_eq!(starts(7), starts(7));
    assert_ne!(starts(7), starts(8));
}

/// Returns the phase after an ACK that arrives in this phase, `ms` milliseconds after its start.
fn next_phase(phase: usize, ms: u64, prior_in_flight: u32, losses: u32) -> usize {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    bbr.cycle_phase = phase;
    bbr.cycle_us = 1_000_000;
    bbr.update_gains();
    ack(&mut bbr, &mut sock, ms, &RateSample { prior_in_flight, losses, ..sample(0) });
    bbr.cycle_phase
}

#[test]
fn cruising_lasts_an_rtt() {
    assert_eq!((next_phase(2, 40, 45, 0), next_phase(2, 41, 45, 0), next_phase(7, 41, 45, 0)), (2, 3, 0));
}

#[test]
fn probing_lasts_an_rtt_and_until_the_path_is_full_or_loses() {
    // 1.25 x 40 and 6 for bundles, 2 for probing: 58, of which the bundle that leaves next is 2
    assert_eq!((next_phase(0, 41, 55, 0), next_phase(0, 41, 56, 0), next_phase(0, 41, 20, 1)), (0, 1, 1));
    assert_eq!((next_phase(0, 40, 56, 0), next_phase(0, 40, 56, 1)), (0, 0));
}

#[test]
fn draining_lasts_an_rtt_or_until_the_queue_is_empty() {
    assert_eq!((next_phase(1, 10, 47, 0), next_phase(1, 10, 46, 0), next_phase(1, 41, 99, 0)), (1, 2, 2));
}

#[test]
fn the_bandwidth_is_the_maximum_of_ten_rounds() {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    let slow = |bbr: &Bbr| RateSample { delivered: 20, ..sample(bbr.round_end) };
    for round in 1..=10 {
        let half = slow(&bbr);
        ack(&mut bbr, &mut sock, 40, &half);
        assert_eq!((bbr.rounds, bbr.estimate()), (round, BW));
    }
    let half = slow(&bbr);
    ack(&mut bbr, &mut sock, 40, &half);
    assert_eq!(bbr.estimate(), BW / 2);
    let limited = RateSample { is_app_limited: true, delivered: 10, ..sample(bbr.round_end) };
    let before = bbr.bw;
    ack(&mut bbr, &mut sock, 40, &limited);
    assert_eq!(bbr.bw.get(), before.get());
    let faster = RateSample { is_app_limited: true, delivered: 80, ..sample(bbr.round_end) };
    ack(&mut bbr, &mut sock, 40, &faster);
    assert_eq!(bbr.estimate(), 80 * (BW_UNIT / 40_000) as u32 + 34, "80 segments in 40 ms");
}

#[test]
fn samples_without_a_duration_change_nothing() {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    for invalid in [RateSample { delivered: -1, ..sample(2000) }, RateSample { interval_us: 0, ..sample(2000) }] {
        ack(&mut bbr, &mut sock, 1, &invalid);
        assert_eq!((bbr.rounds, bbr.round_start), (0, false));
    }
}

/// Returns BBR after 10 s without a lower RTT, in PROBE_RTT.
fn probing_rtt() -> (Bbr, Sock) {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    let longer = RateSample { rtt_us: 50_000, ..sample(0) };
    ack(&mut bbr, &mut sock, 10_000, &longer);
    assert_eq!((bbr.mode, bbr.min_rtt_us), (Mode::ProbeBw, RTT_US));
    ack(&mut bbr, &mut sock, 4, &longer);
    assert_eq!((bbr.mode, bbr.min_rtt_us, sock.snd_cwnd), (Mode::ProbeRtt, 50_000, 4));
    (bbr, sock)
}

#[test]
fn after_ten_seconds_without_a_lower_rtt_the_path_is_emptied() {
    let (mut bbr, mut sock) = probing_rtt();
    assert_eq!((bbr.pacing_gain, bbr.cwnd_gain, bbr.prior_cwnd), (GAIN_UNIT, GAIN_UNIT, 81), "one ACK came before");
    assert_eq!(sock.app_limited, sock.delivered + 40);
    // The 200 ms start when four segments are in flight; a round must also start.
    ack(&mut bbr, &mut sock, 1000, &sample(0));
    assert_eq!(bbr.probe_rtt_end, None);
    sock.packets_out = 4;
    ack(&mut bbr, &mut sock, 0, &sample(0));
    assert_eq!(bbr.probe_rtt_end, Some(jiffies(sock.now_ns) + 50));
    let round = sample(bbr.round_end);
    ack(&mut bbr, &mut sock, 200, &round);
    assert_eq!((bbr.mode, sock.snd_cwnd), (Mode::ProbeRtt, 4));
    ack(&mut bbr, &mut sock, 4, &sample(0));
    assert_eq!((bbr.mode, bbr.min_rtt_us), (Mode::ProbeBw, RTT_US));
    assert!((80..=88).contains(&sock.snd_cwnd), "the window is back: {}", sock.snd_cwnd);
    assert_eq!(bbr.min_rtt_jiffies, jiffies(sock.now_ns));
}

#[test]
fn probe_rtt_waits_for_a_round_and_returns_to_startup_if_the_path_is_not_full() {
    let (mut bbr, mut sock) = probing_rtt();
    bbr.full_bw_reached = false;
    sock.packets_out = 4;
    ack(&mut bbr, &mut sock, 0, &sample(0));
    ack(&mut bbr, &mut sock, 1000, &sample(0));
    assert_eq!(bbr.mode, Mode::ProbeRtt);
    let round = sample(bbr.round_end);
    ack(&mut bbr, &mut sock, 0, &round);
    assert_eq!((bbr.mode, bbr.pacing_gain), (Mode::Startup, HIGH_GAIN));
}

#[test]
fn an_idle_restart_postpones_probe_rtt_and_paces_at_the_bandwidth() {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    bbr.cwnd_event(&mut sock, CaEvent::TxStart);
    assert!(!bbr.idle_restart, "not limited by the application");
    sock.app_limited = 1;
    sock.pacing_rate = 1;
    bbr.cwnd_event(&mut sock, CaEvent::TxStart);
    assert_eq!((bbr.idle_restart, sock.pacing_rate), (true, bytes_per_s(BW, GAIN_UNIT, MSS)));
    ack(&mut bbr, &mut sock, 20_000, &RateSample { is_ack_delayed: true, rtt_us: 90_000, ..sample(0) });
    assert_eq!((bbr.mode, bbr.min_rtt_us, bbr.idle_restart), (Mode::ProbeBw, RTT_US, false));
}

#[test]
fn a_window_grows_to_its_target_and_snaps_down_to_it() {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    bbr.cycle_phase = 3;
    sock.snd_cwnd = 60;
    ack(&mut bbr, &mut sock, 1, &sample(0));
    assert_eq!(sock.snd_cwnd, 61);
    // 2 x BDP, 3 bundles, an excess of one ACK: 87, rounded up
    sock.snd_cwnd = 500;
    ack(&mut bbr, &mut sock, 1, &sample(0));
    assert_eq!(sock.snd_cwnd, 88);
    sock.snd_cwnd_clamp = 50;
    ack(&mut bbr, &mut sock, 1, &sample(0));
    assert_eq!(sock.snd_cwnd, 50);
}

#[test]
fn recovery_conserves_packets_for_a_round_and_restores_the_window() {
    let (mut bbr, mut sock) = knowing(Mode::ProbeBw);
    bbr.round_end = sock.delivered;
    assert_eq!(bbr.ssthresh(&mut sock), INFINITE_SSTHRESH);
    assert_eq!(bbr.prior_cwnd, 80);
    sock.ca_state = CaState::Recovery;
    sock.packets_out = 30;
    ack(&mut bbr, &mut sock, 1, &RateSample { losses: 10, ..sample(0) });
    assert_eq!((sock.snd_cwnd, bbr.packet_conservation), (31, true));
    sock.packets_out = 20;
    ack(&mut bbr, &mut sock, 1, &RateSample { losses: 10, ..sample(0) });
    assert_eq!(sock.snd_cwnd, 21);
    // The next round: at most one more for each delivered segment.
    let round = RateSample { acked_sacked: 2, ..sample(bbr.round_end) };
    ack(&mut bbr, &mut sock, 1, &round);
    assert_eq!((sock.snd_cwnd, bbr.packet_conservation), (23, false));
    sock.ca_state = CaState::Open;
    ack(&mut bbr, &mut sock, 1, &sample(0));
    assert!((80..=82).contains(&sock.snd_cwnd), "{}", sock.snd_cwnd);
}

#[test]
fn a_timeout_or_an_undo_forget_that_the_bandwidth_stopped_growing() {
    let (mut bbr, mut sock) = knowing(Mode::Startup);
    bbr.full_bw_rounds = 2;
    bbr.set_state(&mut sock, CaState::Loss);
    assert_eq!((bbr.full_bw, bbr.full_bw_rounds, bbr.round_start), (0, 2, true));
    bbr.full_bw = BW;
    assert_eq!(bbr.undo_cwnd(&mut sock), 80);
    assert_eq!((bbr.full_bw, bbr.full_bw_rounds), (0, 0));
}

/// 5000 segments/s over 40 ms: a BDP of 200 segments.
#[test]
fn on_an_ideal_link_about_a_bdp_is_in_flight() {
    let link = Link { segments_per_s: 5000, delay_us: 40_000, queue: 1000, policer: None };
    let mut connection = Connection::new(link);
    let (mut sum, mut count, mut most, mut least) = (0, 0, 0, u32::MAX);
    let mut bbr = Bbr::new(1);
    connection.run(&mut bbr, 30, |sock, _| {
        let ms = sock.now_ns / MS;
        if (2000..9500).contains(&ms) {
            sum += u64::from(sock.packets_out);
            count += 1;
            most = most.max(sock.packets_out);
        } else if ms > 9500 {
            least = least.min(sock.packets_out);
        }
    });
    let mean = sum as f64 / f64::from(count) / 200.0;
    assert!((0.95..1.25).contains(&mean), "{mean} BDP in flight on average");
    // The probing phase ends with 1.25 BDP and bundles, of which the last RTT was sent at 1.25 times the rate.
    assert!((250..=340).contains(&most), "at most {most}");
    assert!(least < 4, "PROBE_RTT leaves {least}");
    assert!(connection.sock.delivered > 5000 * 30 * 93 / 100, "{} delivered", connection.sock.delivered);
    assert_eq!(connection.sock.lost, 0);
    assert!(bbr.min_rtt_us.abs_diff(40_200) <= 1, "{}", bbr.min_rtt_us);
}

/// A policer of a quarter of the link's rate.
#[test]
fn a_policer_is_recognised_and_few_segments_are_lost() {
    let policer = Some(Policer { segments_per_s: 1000, burst: 200 });
    let mut connection = Connection::new(Link { segments_per_s: 4000, delay_us: 40_000, queue: 1000, policer });
    let mut bbr = Bbr::new(1);
    let (mut started, mut lost_before, mut lost, mut estimate) = (None, 0, 0, 0);
    connection.run(&mut bbr, 5, |sock, bbr| {
        if bbr.detail("lt_use_bw") == 1 {
            if started.is_none() {
                started = Some(sock.now_ns / MS);
                lost_before = sock.lost;
            }
            lost = sock.lost - lost_before;
            estimate = bbr.detail("bw");
        }
    });
    let started = started.expect("BBR recognises the policer");
    assert!(started < 3000, "{started} ms");
    assert!((f64::from(estimate) / f64::from(BW) - 1.0).abs() < 0.125, "{estimate}");
    // 48 rounds of 40 ms or more: at least 1.9 s, in which 1900 segments are delivered.
    assert!(lost < 200, "{lost} lost at the policer's rate");
}
