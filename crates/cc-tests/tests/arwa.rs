//! ARWA's sender against examples worked by hand.

use hotcc_host_algo::{Flow, HostAlgo, INFINITE_SSTHRESH, View};

const DISORDER: u32 = 1;
const RECOVERY: u32 = 3;

/// Returns a connection at 10 s with W = 100 segments of 1000 bytes and an RTT of 50 ms, in congestion avoidance.
fn started(algo: &HostAlgo) -> (Flow<'_>, View) {
    let view = View {
        now_us: 10_000_000,
        snd_cwnd: 100,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: 50,
        srtt_us: 8 * 50_000,
        mss: 1000,
        data_segs_out: 5000,
        is_cwnd_limited: 1,
        ..View::default()
    };
    algo.set_hint(0, 0, 0);
    let mut flow = Flow::new(algo);
    flow.set(&view);
    flow.init();
    assert_eq!(flow.get(&view), view); // a connection keeps its window
    (flow, view)
}

/// Receives an ACK with a hint, `after_us` later.
fn hinted(algo: &HostAlgo, flow: &mut Flow<'_>, view: &mut View, after_us: u64, hint: u8) {
    view.now_us += after_us;
    let next = flow.private("hint_sequence") as u32 + 1;
    algo.set_hint(view.now_us * 1000, next, hint);
    flow.set(view);
    flow.pkts_acked(1, Some(50_000));
    *view = flow.get(view);
    assert_eq!(flow.private("hint_sequence"), u64::from(next)); // used or not
}

#[test]
fn a_hint_up_to_70_shrinks_the_window_by_that_many_percent() {
    let algo = HostAlgo::load("arwa");
    let (mut flow, mut view) = started(&algo);
    hinted(&algo, &mut flow, &mut view, 1000, 30);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (70, 70));
    assert_eq!((flow.private("last_hint"), flow.private("acted_us")), (30, 10_001_000));
    // 70 * 33 / 100 = 23.1: rounded down
    hinted(&algo, &mut flow, &mut view, 50_000, 33);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (47, 47));
    // 47 - 32 = 15, and so on; three segments of 1000 bytes are the least, and four were there
    for (hint, window) in [(70, 15), (70, 5), (20, 4), (70, 3), (70, 3)] {
        hinted(&algo, &mut flow, &mut view, 50_000, hint);
        assert_eq!(view.snd_cwnd, window);
    }
    // 3000 bytes are 2.07 segments of 1448: rounded up; but a hint does not raise a window below that
    (view.mss, view.snd_cwnd) = (1448, 4);
    hinted(&algo, &mut flow, &mut view, 50_000, 70);
    assert_eq!(view.snd_cwnd, 3);
    view.snd_cwnd = 2;
    hinted(&algo, &mut flow, &mut view, 50_000, 70);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (2, 2));
}

#[test]
fn a_hint_above_100_grows_it_half_as_much_beyond_10000_bytes() {
    let algo = HostAlgo::load("arwa");
    let (mut flow, mut view) = started(&algo);
    hinted(&algo, &mut flow, &mut view, 1000, 120); // 100 * 20 / 200 = 10
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (110, 50));
    hinted(&algo, &mut flow, &mut view, 50_000, 101); // 110 / 200 = 0.55
    assert_eq!((view.snd_cwnd, flow.private("growth_q16")), (110, 110 * 65_536 / 200));
    hinted(&algo, &mut flow, &mut view, 50_000, 101); // 1.1
    assert_eq!((view.snd_cwnd, flow.private("growth_q16")), (111, 2 * (110 * 65_536 / 200) - 65_536));
    view.snd_cwnd = 10; // 10,000 bytes: not beyond
    hinted(&algo, &mut flow, &mut view, 50_000, 110);
    assert_eq!(view.snd_cwnd, 11);
    // a fraction of a segment is dropped when the window shrinks, and at a loss
    hinted(&algo, &mut flow, &mut view, 50_000, 101);
    assert_ne!(flow.private("growth_q16"), 0);
    hinted(&algo, &mut flow, &mut view, 50_000, 1);
    assert_eq!(flow.private("growth_q16"), 0);
    hinted(&algo, &mut flow, &mut view, 50_000, 101);
    assert_ne!(flow.private("growth_q16"), 0);
    assert_eq!(flow.ssthresh(), 5);
    assert_eq!(flow.private("growth_q16"), 0);
    // not beyond the ssthresh of the loss; in the paper's profile without limit
    view.snd_cwnd = 60;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 30);
    for (before, after) in [(20, 22), (29, 30), (30, 30), (100, 100)] {
        view.snd_cwnd = before;
        hinted(&algo, &mut flow, &mut view, 50_000, 120);
        assert_eq!(view.snd_cwnd, after, "from {before}");
    }
    algo.set_tunable("grow_beyond_loss", 1);
    hinted(&algo, &mut flow, &mut view, 50_000, 120);
    assert_eq!(view.snd_cwnd, 110);
    // not beyond the clamp, and not if the window does not hold the sender back
    (view.snd_cwnd, view.snd_cwnd_clamp) = (100, 105);
    hinted(&algo, &mut flow, &mut view, 50_000, 120);
    assert_eq!(view.snd_cwnd, 105);
    (view.snd_cwnd_clamp, view.is_cwnd_limited) = (u32::MAX, 0);
    hinted(&algo, &mut flow, &mut view, 50_000, 120);
    assert_eq!((view.snd_cwnd, flow.private("last_hint")), (105, 120));
}

#[test]
fn one_hint_per_rtt() {
    let algo = HostAlgo::load("arwa");
    let (mut flow, mut view) = started(&algo);
    hinted(&algo, &mut flow, &mut view, 1000, 10);
    assert_eq!(view.snd_cwnd, 90);
    hinted(&algo, &mut flow, &mut view, 49_999, 10);
    assert_eq!(view.snd_cwnd, 90);
    hinted(&algo, &mut flow, &mut view, 1, 10);
    assert_eq!(view.snd_cwnd, 81);
    view.srtt_us = 0; // not known: 1 ms
    hinted(&algo, &mut flow, &mut view, 999, 10);
    assert_eq!(view.snd_cwnd, 81);
    hinted(&algo, &mut flow, &mut view, 1, 10);
    assert_eq!(view.snd_cwnd, 73);
    // the paper's profile acts on each, and leaves ssthresh alone
    algo.set_tunable("once_per_rtt", 0);
    algo.set_tunable("cut_sets_ssthresh", 0);
    (view.srtt_us, view.snd_ssthresh) = (400_000, 50);
    for window in [66, 60] {
        hinted(&algo, &mut flow, &mut view, 0, 10);
        assert_eq!((view.snd_cwnd, view.snd_ssthresh), (window, 50));
    }
}

#[test]
fn hints_without_meaning_or_of_another_time_change_nothing() {
    let algo = HostAlgo::load("arwa");
    let (mut flow, mut view) = started(&algo);
    for hint in [0, 71, 99, 100, 121, 255] {
        hinted(&algo, &mut flow, &mut view, 50_000, hint);
        assert_eq!((view.snd_cwnd, flow.private("last_hint")), (100, 0), "{hint}");
    }
    // (age in us, whether it is used)
    let ages = [(1_000_001, false), (-10_001, false), (i64::MAX / 2000, false), (1_000_000, true), (-10_000, true)];
    for (sequence, (age_us, used)) in (100..).zip(ages) {
        view.snd_cwnd = 100;
        view.now_us += 100_000;
        algo.set_hint(((view.now_us as i64 - age_us) as u64).wrapping_mul(1000), sequence, 50);
        flow.set(&view);
        flow.pkts_acked(1, Some(50_000));
        view = flow.get(&view);
        assert_eq!(view.snd_cwnd, if used { 50 } else { 100 }, "{age_us}");
    }
    // the same hint again
    flow.pkts_acked(1, Some(50_000));
    assert_eq!(flow.get(&view).snd_cwnd, 50);
}

#[test]
fn hints_in_a_recovery_are_seen_and_ignored() {
    let algo = HostAlgo::load("arwa");
    let (mut flow, mut view) = started(&algo);
    view.ca_state = RECOVERY;
    hinted(&algo, &mut flow, &mut view, 1000, 50);
    assert_eq!((view.snd_cwnd, flow.private("last_hint")), (100, 0));
    view.ca_state = DISORDER;
    flow.set(&view);
    flow.pkts_acked(1, Some(50_000)); // the recovery is over
    assert_eq!(flow.get(&view), view);
    hinted(&algo, &mut flow, &mut view, 1000, 50);
    assert_eq!(view.snd_cwnd, 50);
}

#[test]
fn without_hints_arwa_behaves_as_newreno() {
    let algo = HostAlgo::load("arwa");
    let (mut flow, mut view) = started(&algo);
    flow.pkts_acked(100, Some(50_000));
    flow.cong_avoid(100);
    view = flow.get(&view);
    assert_eq!(view.snd_cwnd, 101); // one per RTT
    assert_eq!(flow.ssthresh(), 50);
    (view.snd_cwnd, view.snd_ssthresh) = (10, INFINITE_SSTHRESH);
    flow.set(&view);
    flow.cong_avoid(10);
    assert_eq!(flow.get(&view).snd_cwnd, 20);
    view.prior_cwnd = 70;
    flow.set(&view);
    assert_eq!(flow.undo_cwnd(), 70);
}
