//! Westwood+ against its model, and against examples worked by hand.

use hotcc_cc_tests::models::westwoodp::Westwoodp;
use hotcc_cc_tests::random::{self, Timeouts};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, View};

const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

/// Returns a connection at 1 s with W = 150 segments of 1000 bytes, under Westwood+ from now on.
fn started(algo: &HostAlgo) -> (Flow<'_>, View) {
    let view = View {
        now_us: 1_000_000,
        snd_cwnd: 150,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: INFINITE_SSTHRESH,
        mss: 1000,
        delivered: 5000,
        data_segs_out: 5000,
        is_cwnd_limited: 1,
        ..View::default()
    };
    let mut flow = Flow::new(algo);
    flow.set(&view);
    flow.init();
    assert_eq!(flow.get(&view), view); // a connection taken over keeps its window
    (flow, view)
}

fn ack(flow: &mut Flow<'_>, view: &mut View, after_us: u64, acked: u32, rtt_us: Option<u32>) {
    view.now_us += after_us;
    view.delivered += acked;
    flow.set(view);
    flow.pkts_acked(acked, rtt_us);
}

#[test]
fn a_loss_sets_the_window_to_the_bandwidth_delay_product() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    // 100 segments of 1000 bytes in 100 ms: 1,000,000 bytes/s (eq 3); it starts both filters
    ack(&mut flow, &mut view, 100_000, 100, Some(100_000));
    assert_eq!(flow.private("bandwidth.second_q8"), 1_000_000 * 256);
    // eq 4: 1,000,000 * 0.1 s / 1000 = 100 segments, less than W = 150
    assert_eq!(flow.ssthresh(), 100);

    // 200 segments in the next 100 ms: 2,000,000 bytes/s.
    // First filter 7/8 * 1,000,000 + 1/8 * 2,000,000 = 1,125,000;
    // second 7/8 * 1,000,000 + 1/8 * 1,125,000 = 1,015,625; eq 4: 101.56 segments
    ack(&mut flow, &mut view, 100_000, 200, Some(100_000));
    assert_eq!(flow.private("bandwidth.first_q8"), 1_125_000 * 256);
    assert_eq!(flow.private("bandwidth.second_q8"), 1_015_625 * 256);
    assert_eq!(flow.ssthresh(), 101);
}

#[test]
fn a_loss_never_raises_the_window_and_slow_start_goes_on_to_eq_4() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    ack(&mut flow, &mut view, 100_000, 100, Some(100_000)); // eq 4: 100 segments, as above
    view.snd_cwnd = 60;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 60); // W stays
    view.ca_state = RECOVERY;
    view.snd_ssthresh = 60;
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (60, 100));
    // slow start again: 50 segments acknowledged take W from 60 to 100 and leave 10, counted towards W = 101
    view.ca_state = 0;
    flow.set(&view);
    flow.cong_avoid(50);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_cwnd_cnt), (100, 10));
}

#[test]
fn a_timeout_sets_ssthresh_to_eq_4_and_leaves_w_to_the_kernel() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    ack(&mut flow, &mut view, 100_000, 100, Some(100_000)); // eq 4: 100 segments
    view.snd_cwnd = 60;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 60);
    view.snd_ssthresh = 60;
    flow.set(&view);
    flow.cwnd_event(EVENT_LOSS);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (60, 100)); // Algorithm 1 line 11
    // the bandwidth of that moment counts: 200 more segments in 100 ms make it 101.56 segments, as above
    ack(&mut flow, &mut view, 100_000, 200, Some(100_000));
    flow.cwnd_event(EVENT_LOSS);
    view = flow.get(&view);
    assert_eq!(view.snd_ssthresh, 101);
    view.snd_cwnd = 1; // line 12: the kernel
    flow.set(&view);
    flow.set_state(LOSS as u8);
    assert_eq!(flow.get(&view), view);
}

/// The kernel asks for no ssthresh and reports no timeout then, and has set W to 1 already.
#[test]
fn a_timeout_within_a_recovery_is_like_any() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    ack(&mut flow, &mut view, 100_000, 100, Some(100_000)); // eq 4: 100 segments
    assert_eq!(flow.ssthresh(), 100);
    (view.snd_cwnd, view.snd_ssthresh, view.ca_state) = (1, 60, RECOVERY);
    flow.set(&view);
    flow.set_state(LOSS as u8);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (1, 100));
    view.ca_state = LOSS;
    ack(&mut flow, &mut view, 1000, 1, Some(300_000));
    assert_eq!(flow.private("base_us"), 300_000); // RTTmin is measured again
}

#[test]
fn an_undo_brings_the_window_back_and_forgets_eq_4() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    ack(&mut flow, &mut view, 100_000, 100, Some(100_000));
    assert_eq!(flow.ssthresh(), 100);
    (view.snd_cwnd, view.snd_ssthresh, view.prior_cwnd) = (100, 100, 150);
    flow.set(&view);
    assert_eq!(flow.undo_cwnd(), 150);
    (view.snd_cwnd, view.snd_ssthresh) = (150, 700);
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    assert_eq!(flow.get(&view).snd_ssthresh, 700);
}

#[test]
fn samples_span_an_rtt_and_50_ms() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    assert_eq!(algo.tunable("min_sample_us"), 50_000);
    let second = |flow: &Flow<'_>| flow.private("bandwidth.second_q8");
    ack(&mut flow, &mut view, 49_999, 10, Some(10_000)); // below 50 ms
    assert_eq!(second(&flow), 0);
    ack(&mut flow, &mut view, 50_001, 10, Some(100_001)); // 100,000 us: below this ACK's RTT
    assert_eq!(second(&flow), 0);
    ack(&mut flow, &mut view, 0, 5, None); // no RTT sample with this ACK: 25,000 bytes in 0.1 s
    assert_eq!(second(&flow), 250_000 * 256);
}

#[test]
fn never_less_than_two_segments_and_reno_before_the_first_sample() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    assert_eq!(flow.ssthresh(), 75); // no bandwidth yet: W/2
    view.snd_cwnd = 3;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 2); // max(3/2, 2)
    // one segment in 1 s: 1000 bytes/s, eq 4: 1000 * 1 s / 1000 = 1
    view.snd_cwnd = 150;
    ack(&mut flow, &mut view, 1_000_000, 1, Some(1_000_000));
    assert_eq!(flow.ssthresh(), 75); // W/2 in the recovery
    algo.set_tunable("recovery", 1); // eq 4 at once
    assert_eq!(flow.ssthresh(), 2);
}

/// The first overflow of a fast link comes before the estimate has caught up: here it is a tenth of the link's rate.
#[test]
fn an_estimate_that_is_low_at_a_loss_counts_only_when_it_is_over() {
    let algo = HostAlgo::load("westwoodp");
    let ends = |samples: u32| {
        let (mut flow, mut view) = started(&algo);
        ack(&mut flow, &mut view, 100_000, 10, Some(100_000)); // 100,000 bytes/s, eq 4: 10 segments
        assert_eq!(flow.ssthresh(), 75); // half of W = 150
        (view.snd_cwnd, view.snd_ssthresh, view.ca_state) = (75, 75, RECOVERY);
        for _ in 0..samples {
            ack(&mut flow, &mut view, 100_000, 100, Some(100_000));
        }
        flow.cwnd_event(EVENT_COMPLETE_CWR);
        view = flow.get(&view);
        (view.snd_cwnd, view.snd_ssthresh)
    };
    assert_eq!(ends(0), (10, 10)); // the estimate is unchanged, and W falls to it
    // filters after 40 samples of 1,000,000: within 4 % of it, more than W
    let (window, ssthresh) = ends(40);
    assert_eq!(window, 75);
    assert!((96..100).contains(&ssthresh), "{ssthresh}");

    algo.set_tunable("recovery", 1); // as printed
    let (mut flow, mut view) = started(&algo);
    ack(&mut flow, &mut view, 100_000, 10, Some(100_000));
    assert_eq!(flow.ssthresh(), 10);
}

#[test]
fn before_a_bandwidth_is_known_a_recovery_ends_at_half() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    assert_eq!(flow.ssthresh(), 75);
    (view.snd_cwnd, view.snd_ssthresh) = (75, 75);
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    view = flow.get(&view);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (75, 75));
}

#[test]
fn arithmetic_does_not_overflow_at_400_gbit_per_s() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    (view.mss, view.snd_cwnd) = (9000, 80_000_000);
    // 55,555,556 segments of 9000 bytes in 10 s: 500,000,004,000 bytes in 10 s
    ack(&mut flow, &mut view, 10_000_000, 55_555_556, Some(10_000_000));
    assert_eq!(flow.private("bandwidth.second_q8"), 50_000_000_400 * 256);
    assert_eq!(flow.ssthresh(), 55_555_556);
}

/// Goes through an idle time that is negative as a signed 32-bit number of microseconds, and one that exceeds 32 bits.
#[test]
fn samples_go_on_after_an_idle_hour() {
    let algo = HostAlgo::load("westwoodp");
    for minutes in [30, 36, 40, 60, 71] {
        let (mut flow, mut view) = started(&algo);
        ack(&mut flow, &mut view, 100_000, 100, Some(100_000)); // 1,000,000 bytes/s
        view.now_us += minutes * 60_000_000;
        flow.set(&view);
        flow.cwnd_event(EVENT_TX_START);
        // 6,000,000 bytes in that many minutes; first filter 7/8 * 1,000,000 + 1/8 * that
        ack(&mut flow, &mut view, 0, 6000, Some(100_000));
        let sample = 100_000 / minutes;
        assert_eq!(flow.private("bandwidth.first_q8"), 875_000 * 256 + sample * 256 / 8, "{minutes} minutes");
        // and from then on as before
        let before = flow.private("bandwidth.first_q8");
        ack(&mut flow, &mut view, 100_000, 100, Some(100_000));
        assert_eq!(flow.private("bandwidth.first_q8"), (7 * before + 1_000_000 * 256) / 8, "{minutes} minutes");
    }
    for minutes in [72, 100, 107, 143, 1000] {
        let (mut flow, mut view) = started(&algo);
        ack(&mut flow, &mut view, 100_000, 100, Some(100_000));
        ack(&mut flow, &mut view, minutes * 60_000_000, 1, Some(100_000));
        ack(&mut flow, &mut view, 100_000, 100, Some(100_000));
        let before = flow.private("bandwidth.first_q8");
        ack(&mut flow, &mut view, 100_000, 200, Some(100_000)); // 2,000,000 bytes/s
        assert_eq!(flow.private("bandwidth.first_q8"), (7 * before + 2_000_000 * 256) / 8, "{minutes} minutes");
    }
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("westwoodp");
    let totals = random::check(&algo, 1, 4000, 400, Timeouts::Mixed, |random| {
        Westwoodp::new(
            random.pick(&[50_000, 50_000, 1000, 10_000_000]),
            random.pick(&[10_000_000, 10_000_000, 0, 1_000_000]),
            random.pick(&[false, false, true]),
        )
    });
    totals.require_variety();
    // below a kbyte/s, a whole byte/s is more than 0.1 %
    totals.require_rare("samples that left a bandwidth beyond 0.1 %", 100, totals.covered("samples"));
    totals.require_rare("thresholds rounded the other way", 100, totals.covered("bandwidth thresholds"));
    totals.require_rare(
        "application-limited samples ranked the other way",
        1000,
        totals.covered("application-limited samples filtered"),
    );
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
    totals.require_counted(&algo);
}

/// A chunk of 20 segments every 2 s, each within one round trip, after a second of full load.
#[test]
fn an_idle_application_does_not_lower_the_bandwidth() {
    let algo = HostAlgo::load("westwoodp");
    let (mut flow, mut view) = started(&algo);
    for _ in 0..10 {
        ack(&mut flow, &mut view, 100_000, 100, Some(100_000)); // 1,000,000 bytes/s
    }
    for _ in 0..20 {
        view.app_limited = view.delivered;
        ack(&mut flow, &mut view, 2_000_000, 2, Some(100_000));
        view.app_limited = 0;
        ack(&mut flow, &mut view, 10_000, 18, Some(100_000));
    }
    assert_eq!(flow.private("bandwidth.second_q8"), 1_000_000 * 256);
    assert_eq!(flow.ssthresh(), 100);
}

/// The kernel's module drops RTTmin at a timeout; here it also expires if it was not seen for `base_window_us`.
#[test]
fn the_least_rtt_is_renewed_at_a_timeout_and_ages() {
    for name in ["westwoodp", "westwood_bpf", "dcmplus", "dcm"] {
        let algo = HostAlgo::load(name);
        let base = |flow: &Flow<'_>| flow.private("base_us");
        let (mut flow, mut view) = started(&algo);
        ack(&mut flow, &mut view, 100_000, 10, Some(20_000));
        ack(&mut flow, &mut view, 100_000, 10, Some(60_000));
        flow.cwnd_event(EVENT_LOSS);
        assert_eq!(base(&flow), 20_000, "{name}");
        ack(&mut flow, &mut view, 100_000, 10, None);
        assert_eq!(base(&flow), 20_000, "{name}");
        ack(&mut flow, &mut view, 100_000, 10, Some(60_000));
        assert_eq!(base(&flow), 60_000, "{name}");

        algo.set_tunable("base_window_us", 10_000_000); // the default of all but `dcmplus`
        ack(&mut flow, &mut view, 100_000, 10, Some(20_000));
        ack(&mut flow, &mut view, 9_999_999, 10, Some(60_000));
        assert_eq!(base(&flow), 20_000, "{name}");
        ack(&mut flow, &mut view, 1, 10, Some(60_000));
        assert_eq!(base(&flow), 60_000, "{name}");
        // if it is seen again, it is kept
        for _ in 0..3 {
            ack(&mut flow, &mut view, 9_000_000, 10, Some(60_000));
            ack(&mut flow, &mut view, 900_000, 10, Some(70_000));
            assert_eq!(base(&flow), 60_000, "{name}");
        }

        algo.set_tunable("base_window_us", 0); // as in the paper: the whole connection's least RTT
        ack(&mut flow, &mut view, 20_000_000, 10, Some(70_000));
        flow.cwnd_event(EVENT_LOSS);
        ack(&mut flow, &mut view, 100_000, 10, Some(70_000));
        assert_eq!(base(&flow), 60_000, "{name}");
    }
}

/// In the loss state, the queue from before the timeout may remain. If the timeout was spurious, the path is the same.
#[test]
fn dcmplus_renews_the_least_rtt_after_the_loss_state() {
    let algo = HostAlgo::load("dcmplus");
    for (is_undone, expected_us) in [(false, 60_000), (true, 20_000)] {
        let (mut flow, mut view) = started(&algo);
        ack(&mut flow, &mut view, 100_000, 10, Some(20_000));
        flow.cwnd_event(EVENT_LOSS);
        view.ca_state = 4;
        ack(&mut flow, &mut view, 100_000, 10, Some(400_000));
        assert_eq!(flow.private("base_us"), 20_000);
        if is_undone {
            let _ = flow.undo_cwnd();
        }
        view.ca_state = 0;
        ack(&mut flow, &mut view, 100_000, 10, Some(60_000));
        assert_eq!(flow.private("base_us"), expected_us, "undone: {is_undone}");
    }
}

#[test]
fn a_connection_taken_over_starts_with_its_least_rtt() {
    for name in ["westwoodp", "westwood_bpf", "dcmplus", "dcm"] {
        let algo = HostAlgo::load(name);
        let (mut flow, mut view) = started(&algo);
        for (rtt_min, base) in [(30_000, 30_000), (u32::MAX, 0)] {
            view.min_rtt_us = rtt_min; // the kernel's value is the greatest number before the first sample
            flow.set(&view);
            flow.init();
            assert_eq!(flow.private("base_us"), base, "{name}");
        }
        view.min_rtt_us = 30_000;
        flow.set(&view);
        flow.init();
        ack(&mut flow, &mut view, 100_000, 100, Some(50_000)); // not below 30 ms
        assert_eq!(flow.private("base_us"), 30_000, "{name}");
    }
}
