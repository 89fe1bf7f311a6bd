//! How `default` reacts to the signal, to queues, to a path's least RTT and to losses, by hand.

use super::{assert_n, epoch, epoch_with_rtt, n, radio, set, taken_over};
use hotcc_cc_tests::models::dtcp::Tunables;
use hotcc_host_algo::ca_state::{CWR, LOSS, RECOVERY};
use hotcc_host_algo::{EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, View};

/// Returns the tunables of `default`, with epochs of 0.5 s.
fn room() -> Tunables {
    Tunables { epoch_us: 500_000, ..Tunables::DEFAULT }
}

/// Returns N and W after three epochs of `sinr_db` and that RTT. Forty epochs of 10 dB and a steady rate precede these,
/// and before that, `lessons` changes of the SINR each predicted one of the rate.
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
fn a_better_forecast_leaves_room_and_a_worse_one_does_not() {
    const QUEUE_US: u32 = 110_000; // by alpha / 4 and more
    let algo = HostAlgo::load("dtcp");
    let (same, window) = after_a_change(&algo, 20, 10, 100_000);
    let (better, wider) = after_a_change(&algo, 20, 16, 100_000);
    assert!(better > 1.5 * same && better <= f64::from(wider) / 4.0, "N {same} -> {better}");
    let (worse, lower) = after_a_change(&algo, 20, -10, QUEUE_US);
    assert!(worse < same && lower < window, "N {same} -> {worse}, W {window} -> {lower}");
    // a flow does not lose what it does not use
    assert_eq!(after_a_change(&algo, 20, -10, 100_000), (same, window));
}

/// Returns the segments per epoch that a test's link carries: 500 at 0 dB, more at a better SINR by Shannon's formula.
fn of_the_link(sinr_db: i16) -> u32 {
    (500.0 * (1.0 + 10f64.powf(f64::from(sinr_db) / 10.0)).log2()) as u32
}

/// Returns W after each of twelve epochs in which a flow delivers five windows, or what the link carries if this is
/// less. The flow fills the link before; then the SINR becomes `sinr_db` and the window `window`. In every second epoch,
/// `lost` segments are lost; before each of the twelve, a segment is marked if `marks`.
fn windows_after(algo: &HostAlgo, sinr_db: i16, window: u32, lost: u32, marks: bool) -> Vec<u32> {
    let (mut flow, mut view) = taken_over(algo, Tunables { base_window_s: 0, ..room() });
    (view.snd_cwnd, view.snd_ssthresh, view.srtt_us) = (110, 2, 8 * 100_000);
    for epoch in 0..300 {
        let sinr_db = if epoch / 12 % 2 == 0 { 0 } else { 3 };
        radio(algo, &view, sinr_db, 0, 0);
        view.lost += lost * (epoch % 2);
        let before = if epoch % 12 == 0 { 3 - sinr_db } else { sinr_db }; // the rate follows an epoch later
        let rtt_us = if epoch == 0 { 100_000 } else { 110_000 };
        epoch_with_rtt(&mut flow, &mut view, of_the_link(before), rtt_us);
        view = flow.get(&view);
    }
    (view.snd_cwnd, view.snd_ssthresh) = (window, 2);
    (0..12)
        .map(|epoch| {
            radio(algo, &view, sinr_db, 0, 0);
            view.lost += lost * (epoch % 2);
            if marks {
                flow.set_state(CWR);
            }
            let delivered = (5 * view.snd_cwnd).min(of_the_link(sinr_db));
            epoch_with_rtt(&mut flow, &mut view, delivered, 100_000);
            view = flow.get(&view);
            view.snd_cwnd
        })
        .collect()
}

/// Behind an obstacle W fits a slow link. W follows the forecast until the rate does, though the flow's own bandwidth
/// and the SINR's average have changed by then.
#[test]
fn room_lasts_until_the_rate_has_followed() {
    let windows = windows_after(&HostAlgo::load("dtcp"), 30, 100, 0, false);
    let needed = of_the_link(30) / 5 * 3 / 4; // N does the rest
    assert!(windows.iter().any(|&w| w >= needed), "{windows:?}, needed {needed}");
}

/// At the SINR at which it was full before, a link has more for a flow that has lost packets without a queue.
#[test]
fn a_flow_that_losses_held_down_has_room() {
    let algo = HostAlgo::load("dtcp");
    let (full, low) = (of_the_link(0) / 5, of_the_link(0) / 25);
    let windows = windows_after(&algo, 0, low, 0, false);
    assert!(windows[11] >= full * 3 / 4, "{windows:?}, of {full}");
    // a mark says that the flow has all that it gets
    assert_eq!(windows_after(&algo, 0, low, 0, true), [low; 12]);
    // a policer gives no room
    let policed = windows_after(&algo, 0, low, 20, false);
    assert!(policed[11] <= low + 1, "{policed:?}, from {low}");
}

#[test]
fn a_signal_has_weight_only_after_a_correct_forecast() {
    let algo = HostAlgo::load("dtcp");
    let same = after_a_change(&algo, 0, 10, 110_000);
    for sinr_db in [16, -10] {
        assert_eq!(after_a_change(&algo, 0, sinr_db, 110_000), same, "{sinr_db} dB");
    }
}

#[test]
fn an_average_or_frozen_reading_is_no_forecast() {
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

/// Such an epoch is not evaluated, so it must not keep the result of the one before.
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

/// TCP sends again what is too large for a new path MTU, and calls this a loss, but reduces nothing.
#[test]
fn segments_that_are_too_large_for_the_path_do_not_change_the_window() {
    let algo = HostAlgo::load("dtcp");
    for tunables in [Tunables::DEFAULT, Tunables::PAPER] {
        for window in [3, 100] {
            let (mut flow, mut view) = taken_over(&algo, tunables);
            (view.snd_cwnd, view.packets_out) = (window, window);
            flow.set(&view);
            flow.set_state(LOSS);
            assert_eq!(flow.get(&view).snd_cwnd, window);
        }
    }
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
fn a_minimum_rtt_not_seen_for_10_s_is_probed_for() {
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
        epoch_with_rtt(&mut flow, &mut view, 500, 101_000); // a queue of more than alpha: (101 - 80) / 101
        view = flow.get(&view);
        assert!(view.snd_cwnd.abs_diff(want.0) <= 1 && view.snd_ssthresh.abs_diff(want.1) <= 1, "{view:?}");
    }
}

#[test]
fn losses_without_a_queue_halve_n_and_a_few_do_not() {
    let algo = HostAlgo::load("dtcp");
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

/// Returns a connection at 1,000,000 bytes/s with a base of 100 ms that gives the signal full weight: g = 1, so BW_0 =
/// B_i, and each dB above the average stands for 50,000 bytes/s. Rounds of 110 ms show a queue of (110 - 100) / 110:
/// more than alpha / 4.
///
/// Each lesson predicts a step between 1,000,000 and 1,500,000 bytes/s: +500,000 of 1,000,000, in 64ths 32; -500,000 of
/// 1,500,000, in 64ths -21. So E1, the mean square of the remaining error, falls to 31 / 16384, of which a 32nd part is
/// less than one step, and E0 is between 1/9 and 1/4: the weight is (E0^2 - E1^2) / (E0^2 + E1^2) > 0.999, in
/// 256ths 255.
fn believer(algo: &HostAlgo) -> (Flow<'_>, View) {
    let tunables =
        Tunables { g_permille: 1000, sinr_term: 1, sinr_gain_kbps: 400, base_window_s: 0, n_max: 1, ..room() };
    let (mut flow, mut view) = taken_over(algo, tunables);
    view.snd_cwnd = 150;
    epoch(&mut flow, &mut view, 500);
    for lesson in 0..300 {
        let (sinr_db, acked) = if lesson % 2 == 0 { (20, 750) } else { (0, 500) };
        radio(algo, &view, sinr_db, 10, 0);
        epoch_with_rtt(&mut flow, &mut view, 1250 - acked, 110_000);
        algo.set_radio(None);
        epoch_with_rtt(&mut flow, &mut view, acked, 110_000);
    }
    (flow, view)
}

#[test]
fn the_window_follows_a_signal_to_a_queue_of_three_alpha() {
    let algo = HostAlgo::load("dtcp");
    for (sinr_db, want) in [
        // g S = 500,000 * 255/256 = 498,046: room of alpha. (1,000,000 + 498,046) * 0.1 s * 1.6 = 239.7 segments
        (20, 239),
        // (1,000,000 - 498,046) * 0.1 * 1.6 = 80.3
        (0, 80),
        (10, 150),
    ] {
        let (mut flow, mut view) = believer(&algo);
        radio(&algo, &view, sinr_db, 10, 0);
        epoch_with_rtt(&mut flow, &mut view, 500, 110_000);
        assert_eq!(flow.get(&view).snd_cwnd, want, "{sinr_db} dB");
    }
}

/// It grows as with Algorithm 1's doubling, and not more.
#[test]
fn room_doubles_n_and_a_fall_ends_it_in_one_epoch() {
    let algo = HostAlgo::load("dtcp");
    for (sinr_db, rtt_us, want) in [(20, 100_000, 13.0), (10, 100_000, 7.0), (0, 110_000, 1.0)] {
        let (mut flow, mut view) = believer(&algo);
        algo.set_tunable("n_max", Tunables::DEFAULT.n_max);
        algo.set_radio(None);
        (0..5).for_each(|_| epoch(&mut flow, &mut view, 500));
        assert_n(&flow, 6.0);
        radio(&algo, &view, sinr_db, 10, 0);
        epoch_with_rtt(&mut flow, &mut view, 500, rtt_us);
        assert_n(&flow, want);
    }
}

/// Otherwise, slow start would be back at ssthresh within a round.
#[test]
fn slow_start_does_not_undo_a_fall() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = believer(&algo);
    view.snd_ssthresh = 140;
    radio(&algo, &view, 0, 10, 0);
    epoch_with_rtt(&mut flow, &mut view, 500, 110_000);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (80, 80));
    flow.cong_avoid(60);
    assert_eq!(flow.get(&view).snd_cwnd, 80);
}

/// An RTT from before a silence confirms nothing at its end; after 10 s without one, the least RTT is measured again.
#[test]
fn a_silence_does_not_confirm_the_least_rtt() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, room());
    epoch_with_rtt(&mut flow, &mut view, 500, 100_000);
    flow.pkts_acked(1, Some(100_000)); // of an epoch that the silence ends
    for (silence_us, base_us) in [(9_000_000, 100_000), (2_000_000, 0)] {
        view.now_us += silence_us;
        flow.set(&view);
        flow.cwnd_event(EVENT_TX_START);
        assert_eq!(flow.private("base.us"), base_us);
    }
}

/// The forecast was for the epoch that followed, which shows nothing.
#[test]
fn a_forecast_is_not_judged_by_a_later_epoch() {
    let algo = HostAlgo::load("dtcp");
    for idle in [false, true] {
        let (mut flow, mut view) = believer(&algo);
        radio(&algo, &view, 20, 10, 0);
        epoch_with_rtt(&mut flow, &mut view, 500, 110_000);
        let errors = |flow: &Flow<'_>| ["weight.error_without", "weight.error_with"].map(|e| flow.private(e));
        let before = errors(&flow);
        algo.set_radio(None);
        if idle {
            view.now_us += 60_000_000;
            flow.set(&view);
            flow.cwnd_event(EVENT_TX_START);
        } else {
            view.app_limited = 1;
            epoch_with_rtt(&mut flow, &mut view, 100, 110_000);
            view.app_limited = 0;
            epoch_with_rtt(&mut flow, &mut view, 100, 110_000); // limited at its start
        }
        epoch_with_rtt(&mut flow, &mut view, 500, 110_000);
        assert_eq!(errors(&flow), before, "{idle}");
    }
}

/// 33 of 10,033 are 0.3 %, both of the last 2048 and of all.
#[test]
fn losses_are_a_share_of_what_was_sent_however_much_that_was() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = taken_over(&algo, room());
    (0..7).for_each(|_| epoch(&mut flow, &mut view, 10_000));
    view.lost += 33;
    epoch(&mut flow, &mut view, 10_000);
    assert_eq!(flow.ssthresh(), 92); // 100 * (1 - 2/28)
    assert_n(&flow, 9.0);
}

/// The least RTT of an epoch has a resolution of 64 us: rounded up, it would look like a queue that never drains.
#[test]
fn a_short_path_is_not_taken_for_a_queue() {
    let algo = HostAlgo::load("dtcp");
    for rtt_us in [30, 100, 130, 200, 1000] {
        let (mut flow, mut view) = taken_over(&algo, room());
        epoch_with_rtt(&mut flow, &mut view, 500, rtt_us);
        flow.cong_avoid(100);
        assert!(flow.get(&view).snd_cwnd > view.snd_cwnd, "{rtt_us}");
    }
}

/// Returns a connection in slow start whose RTT has grown from 80 to 95 ms, and which had earned 0.9 segments before.
fn slower_start(algo: &HostAlgo) -> (Flow<'_>, View) {
    let (mut flow, mut view) = taken_over(algo, Tunables { n_max: 1, ..room() });
    epoch_with_rtt(&mut flow, &mut view, 500, 80_000);
    flow.cong_avoid(90);
    view.snd_ssthresh = INFINITE_SSTHRESH;
    epoch_with_rtt(&mut flow, &mut view, 500, 95_000);
    (flow, view)
}

/// Growth gathered in congestion avoidance is divided by W: it is 0.9 segments, not 90.
#[test]
fn a_slower_start_pays_a_quarter_and_nothing_else() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, view) = slower_start(&algo);
    flow.cong_avoid(4);
    assert_eq!(flow.get(&view).snd_cwnd, 101);
}

#[test]
fn each_slow_start_is_watched_from_its_beginning() {
    let algo = HostAlgo::load("dtcp");
    let (mut flow, mut view) = slower_start(&algo);
    view.snd_ssthresh = 50;
    epoch_with_rtt(&mut flow, &mut view, 500, 95_000);
    view.snd_ssthresh = INFINITE_SSTHRESH;
    flow.set(&view);
    flow.cong_avoid(4);
    assert_eq!(flow.get(&view).snd_cwnd, 104);
}

#[test]
fn hystart_is_silent_in_recoveries() {
    let algo = HostAlgo::load("dtcp");
    for state in [RECOVERY, LOSS] {
        let (mut flow, mut view) = taken_over(&algo, room());
        epoch_with_rtt(&mut flow, &mut view, 500, 40_000);
        (view.snd_cwnd, view.snd_ssthresh, view.ca_state) = (60, 71, u32::from(state));
        epoch_with_rtt(&mut flow, &mut view, 50, 80_000);
        view = flow.get(&view);
        assert_eq!((view.snd_cwnd, view.snd_ssthresh), (60, 71));
    }
}
