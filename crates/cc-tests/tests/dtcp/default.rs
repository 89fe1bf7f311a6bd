//! What `default` makes of the signal, of queues, of a path's least RTT and of losses, by hand.

use super::{assert_n, epoch, epoch_with_rtt, n, radio, set, taken_over};
use hotcc_cc_tests::models::dtcp::Tunables;
use hotcc_host_algo::ca_state::LOSS;
use hotcc_host_algo::{Flow, HostAlgo, INFINITE_SSTHRESH, View};

/// The tunables of `default`, with epochs of 0.5 s.
fn room() -> Tunables {
    Tunables { epoch_us: 500_000, ..Tunables::DEFAULT }
}

/// N and W after three epochs of `sinr_db` and of that RTT, which follow on forty of 10 dB and a steady rate. Before them,
/// `lessons` changes of the SINR each foretold one of the rate.
fn after_a_change(algo: &HostAlgo, lessons: u32, sinr_db: i16, rtt_us: u32) -> (f64, u32) {
    let (mut flow, mut view) = taken_over(algo, room());
    (view.snd_cwnd, view.srtt_us) = (400, 8 * 100_000);
    let mut last = |flow: &mut Flow<'_>, acked: u32, sinr_db: i16, rtt_us: u32| {
        radio(algo, &view, sinr_db, 10, 0);
        epoch_with_rtt(flow, &mut view, acked, rtt_us);
        view = flow.get(&view);
        view.snd_cwnd
    };
    for lesson in 0..lessons {
        for of_change in 0..12 {
            let (sinr_db, acked) = if lesson % 2 == 0 { (16, 700) } else { (10, 500) };
            let before = if lesson % 2 == 0 { 500 } else { 700 };
            last(&mut flow, if of_change == 0 { before } else { acked }, sinr_db, 110_000);
        }
    }
    for _ in 0..40 {
        last(&mut flow, 500, 10, 100_000);
    }
    let windows = [(); 3].map(|()| last(&mut flow, 500, sinr_db, rtt_us));
    (n(&flow), windows[2])
}

#[test]
fn a_better_radio_is_room_and_a_worse_one_is_none() {
    const QUEUE_US: u32 = 110_000; // by alpha / 4 and more
    let algo = HostAlgo::load("dtcp");
    let (same, window) = after_a_change(&algo, 20, 10, 100_000);
    let (better, wider) = after_a_change(&algo, 20, 16, 100_000);
    assert!(better > 1.5 * same && better <= f64::from(wider) / 4.0, "N {same} -> {better}");
    let (worse, lower) = after_a_change(&algo, 20, -10, QUEUE_US);
    assert!(worse < same && lower < window, "N {same} -> {worse}, W {window} -> {lower}");
    // what a flow does not use is not taken from it
    assert_eq!(after_a_change(&algo, 20, -10, 100_000), (same, window));
}

#[test]
fn a_signal_is_believed_once_it_has_foretold_something() {
    let algo = HostAlgo::load("dtcp");
    let same = after_a_change(&algo, 0, 10, 110_000);
    for sinr_db in [16, -10] {
        assert_eq!(after_a_change(&algo, 0, sinr_db, 110_000), same, "{sinr_db} dB");
    }
}

#[test]
fn the_feeders_average_and_a_frozen_reading_say_nothing() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, room());
    (view.snd_cwnd, view.srtt_us) = (400, 8 * 100_000);
    for want in 2..12 {
        radio(&algo, &view, 10, 0, 0);
        epoch(&mut flow, &mut view, 500);
        assert_n(&flow, f64::from(want));
    }
}

#[test]
fn a_standing_queue_ends_growth() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, room());
    for (rtt_us, grown) in [(100_000, 1), (124_000, 1), (126_000, 0)] {
        epoch_with_rtt(&mut flow, &mut view, 500, rtt_us); // (126 - 100) / 126 is more than alpha
        flow.cong_avoid(100);
        let window = flow.get(&view).snd_cwnd;
        assert_eq!(u32::from(window > view.snd_cwnd), grown, "{rtt_us}");
    }
}

/// Such an epoch is not judged, so it must not keep the judgement of the one before.
#[test]
fn growth_goes_on_after_an_epoch_that_the_application_held_back() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, room());
    epoch(&mut flow, &mut view, 500);
    epoch_with_rtt(&mut flow, &mut view, 500, 126_000);
    view.app_limited = 1;
    epoch_with_rtt(&mut flow, &mut view, 100, 126_000);
    flow.cong_avoid(100);
    assert!(flow.get(&view).snd_cwnd > view.snd_cwnd);
}

#[test]
fn a_timeout_never_raises_the_window_of_default() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, Tunables::DEFAULT);
    view.snd_cwnd = 3;
    flow.set(&view);
    view.snd_ssthresh = flow.ssthresh();
    view.snd_cwnd = 1;
    flow.set(&view);
    flow.set_state(LOSS);
    assert_eq!(flow.get(&view).snd_cwnd, 2);
}

#[test]
fn the_least_rtt_is_the_kernels_at_first_and_ends_with_its_path() {
    let algo = HostAlgo::load("dtcp");
    algo.set_path(1);
    set(&algo, room());
    let mut view = View {
        now_us: 1_000_000,
        snd_cwnd: 100,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: 50,
        mss: 1000,
        data_segs_out: 7000,
        is_cwnd_limited: 1,
        min_rtt_us: 20_000,
        srtt_us: 8 * 60_000,
        ..View::default()
    };
    let mut flow = Flow::new(&algo);
    flow.set(&view);
    flow.init();
    assert_eq!(flow.private("base.us"), 20_000);
    epoch(&mut flow, &mut view, 500);
    algo.set_path(2);
    epoch(&mut flow, &mut view, 500);
    epoch(&mut flow, &mut view, 500);
    assert_eq!(flow.private("base.us"), 100_000);
}

#[test]
fn a_least_rtt_that_is_not_seen_for_10_s_is_looked_for() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, room());
    flow.set(&view);
    flow.pkts_acked(1, Some(40_000));
    view.srtt_us = 8 * 100_000;
    for _ in 0..20 {
        epoch(&mut flow, &mut view, 500); // RTTs of 100 ms
        assert_eq!(flow.private("base.us"), 40_000);
    }
    epoch(&mut flow, &mut view, 500);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (35, 100)); // 100 * 40 / 100 * 7 / 8
    epoch(&mut flow, &mut view, 500);
    assert_eq!(flow.private("base.us"), 100_000);
}

#[test]
fn a_longer_rtt_ends_slow_start_of_default() {
    let algo = HostAlgo::load("dtcp");
    for (slow_start, want) in [(0, (80, 80)), (1, (100, INFINITE_SSTHRESH))] {
        let (mut flow, mut view) = taken_over(&algo, Tunables { slow_start, ..room() });
        view.snd_ssthresh = INFINITE_SSTHRESH;
        flow.set(&view);
        flow.pkts_acked(1, Some(80_000));
        epoch(&mut flow, &mut view, 500); // that RTT is this epoch's, too
        epoch(&mut flow, &mut view, 500); // 100 ms: a queue of alpha
        view = flow.get(&view);
        assert!(view.snd_cwnd.abs_diff(want.0) <= 1 && view.snd_ssthresh.abs_diff(want.1) <= 1, "{view:?}");
    }
}

#[test]
fn losses_without_a_queue_halve_n_and_a_few_do_not() {
    let algo = HostAlgo::load("dtcp");
    // 200 of 700 are 28.6 %, a sixteenth of which is more than 1 %: N stays at 8, and a loss halves it
    for (lost, want) in [(0, 9.0), (1, 9.0), (200, 4.0)] {
        let (mut flow, mut view) = taken_over(&algo, room());
        view.srtt_us = 8 * 100_000;
        (0..7).for_each(|_| epoch(&mut flow, &mut view, 500));
        view.lost += lost;
        epoch(&mut flow, &mut view, 500);
        let ssthresh = flow.ssthresh();
        assert_n(&flow, want);
        assert_eq!(ssthresh, if lost == 200 { 84 } else { 92 }); // 100 * (1 - 2/13), 100 * (1 - 2/28) = 92.9
    }
}
