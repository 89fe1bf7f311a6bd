//! DCM against examples worked by hand.

use hotcc_host_algo::{EVENT_COMPLETE_CWR, Flow, HostAlgo, View};

const ONE: u64 = 65_536;
const RECOVERY: u32 = 3;
const LOSS: u8 = 4;

/// Returns a connection at 1 s with W = 100 segments of 1000 bytes, under DCM from now on.
fn started(algo: &HostAlgo, ssthresh: u32) -> (Flow<'_>, View) {
    let view = View {
        now_us: 1_000_000,
        snd_cwnd: 100,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: ssthresh,
        mss: 1000,
        delivered: 7000,
        data_segs_out: 7000,
        is_cwnd_limited: 1,
        snd_una: u32::MAX - 50_000, // sequence numbers wrap during the test
        snd_nxt: u32::MAX - 50_000,
        ..View::default()
    };
    let mut flow = Flow::new(algo);
    flow.set(&view);
    flow.init();
    assert_eq!(flow.get(&view), view); // a connection keeps its window and threshold
    (flow, view)
}

/// Receives one ACK, which ends a round of 100 ms in which 100 segments were delivered: 1,000,000 bytes/s.
fn round(flow: &mut Flow<'_>, view: &mut View, srtt_us: u32, rtt_us: Option<u32>) {
    view.now_us += 100_000;
    view.delivered += 100;
    view.srtt_us = 8 * srtt_us;
    view.snd_una = view.snd_nxt;
    view.snd_nxt = view.snd_nxt.wrapping_add(100_000);
    flow.set(view);
    flow.pkts_acked(100, rtt_us);
    *view = flow.get(view);
}

fn grow(flow: &mut Flow<'_>, view: &mut View, acked: u32) -> u32 {
    flow.set(view);
    flow.cong_avoid(acked);
    *view = flow.get(view);
    view.snd_cwnd
}

#[test]
fn rate_is_the_ratio_of_two_rounds_rtts() {
    let algo = HostAlgo::load("dcm");
    assert_eq!((algo.tunable("rate_min_permille"), algo.tunable("rate_max_permille")), (500, 2000));
    let (mut flow, mut view) = started(&algo, 50);
    let rates = |flow: &Flow<'_>| (flow.private("rate_q16"), flow.private("inverse_q16"));
    assert_eq!(rates(&flow), (ONE, ONE));
    round(&mut flow, &mut view, 100_000, Some(100_000)); // the first of the two
    assert_eq!(rates(&flow), (ONE, ONE));
    view.srtt_us = 8 * 400_000;
    view.snd_una = view.snd_una.wrapping_add(99_999); // not all of the round is acknowledged
    flow.set(&view);
    flow.pkts_acked(1, Some(400_000));
    assert_eq!(rates(&flow), (ONE, ONE));
    round(&mut flow, &mut view, 160_000, Some(160_000));
    assert_eq!(rates(&flow), (ONE * 5 / 8, ONE * 8 / 5));
    round(&mut flow, &mut view, 480_000, Some(480_000)); // 1/3: clamped
    assert_eq!(rates(&flow), (ONE / 2, ONE * 2));
    algo.set_tunable("rate_min_permille", 0);
    algo.set_tunable("rate_max_permille", 1_000_000);
    round(&mut flow, &mut view, 48_000, Some(48_000)); // the `paper` profile does not clamp
    assert_eq!(rates(&flow), (ONE * 10, ONE / 10));
}

#[test]
fn growth_is_eq_2() {
    let algo = HostAlgo::load("dcm");
    let (mut flow, mut view) = started(&algo, 120);
    round(&mut flow, &mut view, 100_000, Some(100_000));
    round(&mut flow, &mut view, 80_000, Some(80_000)); // rate 1.25: 0.9 * 1.25 = 1.125 for each
    assert_eq!(grow(&mut flow, &mut view, 8), 109);
    assert_eq!(grow(&mut flow, &mut view, 1), 110); // 1.125, 0.125 kept
    assert_eq!(grow(&mut flow, &mut view, 8), 119); // 9.125
    assert_eq!(grow(&mut flow, &mut view, 8), 120); // ssthresh: the rest is dropped
    // 1/1.25 of a segment for each window acknowledged: 150 of 120 make one
    assert_eq!(grow(&mut flow, &mut view, 149), 120);
    assert_eq!(grow(&mut flow, &mut view, 1), 120); // a little less than 0.8 in 1/65536
    assert_eq!(grow(&mut flow, &mut view, 1), 121);
    view.is_cwnd_limited = 0;
    assert_eq!(grow(&mut flow, &mut view, 1000), 121);
}

#[test]
fn nothing_is_lost_at_a_window_of_two() {
    let algo = HostAlgo::load("dcm");
    let (mut flow, mut view) = started(&algo, 2);
    view.snd_cwnd = 2;
    // rate 1: W more acknowledged, one more segment
    let windows: Vec<u32> = (0..9).map(|_| grow(&mut flow, &mut view, 1)).collect();
    assert_eq!(windows, [2, 3, 3, 3, 4, 4, 4, 4, 5]);
}

#[test]
fn a_loss_is_handled_as_by_westwood() {
    let algo = HostAlgo::load("dcm");
    let (mut flow, mut view) = started(&algo, 50);
    round(&mut flow, &mut view, 90_000, Some(90_000)); // 1,000,000 bytes/s * 0.09 s = 90 segments
    assert_eq!(grow(&mut flow, &mut view, 99), 100); // all but one segment's worth
    assert_eq!(flow.ssthresh(), 90);
    assert_eq!(flow.private("avoidance"), 0);
    (view.snd_cwnd, view.snd_ssthresh, view.ca_state) = (60, 60, RECOVERY);
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    assert_eq!(flow.get(&view).snd_ssthresh, 90);
    flow.cong_avoid(1);
    assert!(flow.private("slow_start") > 0);
    flow.set_state(LOSS);
    assert_eq!(flow.private("slow_start"), 0);
}

#[test]
fn a_new_path_is_measured_for_a_round_once_the_old_ones_segments_have_arrived() {
    let algo = HostAlgo::load("dcm");
    algo.set_path(7);
    let (mut flow, mut view) = started(&algo, 500);
    round(&mut flow, &mut view, 100_000, Some(90_000)); // generation 7 is the one from before
    algo.set_path(7);
    round(&mut flow, &mut view, 100_000, Some(90_000)); // another destination's path
    assert_eq!(flow.private("base_us"), 90_000);
    algo.set_path(8);
    round(&mut flow, &mut view, 110_000, Some(95_000)); // the change shows at the round's end; RTT_old is 100 ms
    assert_eq!((flow.private("base_us"), flow.private("bandwidth_q8")), (0, 0));
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (100, 500));
    round(&mut flow, &mut view, 110_000, Some(20_000)); // it also acknowledges what was sent on the old path
    assert_eq!((flow.private("base_us"), flow.private("bandwidth_q8")), (0, 0));
    round(&mut flow, &mut view, 120_000, None); // no RTT sample: one more round
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (100, 500));
    round(&mut flow, &mut view, 130_000, Some(160_000));
    // eq 4: 1,000,000 bytes/s * 0.16 s = 160 segments; eq 1: 100/160 * 160 * 0.8
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (80, 160));
    assert_eq!((flow.private("base_us"), flow.private("rate_q16")), (160_000, ONE));
    round(&mut flow, &mut view, 140_000, Some(160_000)); // the rate is 1 until there are two rounds again
    assert_eq!((view.snd_cwnd, flow.private("rate_q16")), (80, ONE));
    round(&mut flow, &mut view, 112_000, Some(160_000));
    assert_eq!((view.snd_cwnd, flow.private("rate_q16")), (80, ONE * 5 / 4));
}

#[test]
fn changes_on_end_start_the_measurement_over_and_a_recovery_drops_it() {
    let algo = HostAlgo::load("dcm");
    algo.set_path(0);
    let (mut flow, mut view) = started(&algo, 500);
    round(&mut flow, &mut view, 100_000, Some(100_000));
    for generation in 1..4 {
        algo.set_path(generation);
        round(&mut flow, &mut view, 50_000, Some(50_000));
        assert_eq!((view.snd_cwnd, view.snd_ssthresh), (100, 500), "{generation}");
    }
    round(&mut flow, &mut view, 60_000, Some(60_000));
    round(&mut flow, &mut view, 80_000, Some(80_000));
    // 80 segments; RTT_old is that from before the first change: 100/80 * 80 * 0.8
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (80, 80));

    algo.set_path(9);
    round(&mut flow, &mut view, 80_000, Some(80_000));
    round(&mut flow, &mut view, 80_000, Some(80_000));
    view.ca_state = RECOVERY;
    round(&mut flow, &mut view, 40_000, Some(40_000));
    view.ca_state = 0;
    round(&mut flow, &mut view, 40_000, Some(40_000));
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (80, 80));
}
