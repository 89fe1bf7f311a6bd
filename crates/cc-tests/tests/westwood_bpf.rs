//! The original Westwood against examples worked by hand.

use hotcc_cc_tests::models::close;
use hotcc_host_algo::ca_state::CWR;
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, View};

/// Returns a connection at 1 s with W = 150 segments of 1000 bytes, under Westwood from now on.
fn new_connection(algo: &HostAlgo) -> (Flow<'_>, View) {
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
    assert_eq!(flow.get(&view), view); // a connection keeps its window
    (flow, view)
}

fn ack(flow: &mut Flow<'_>, view: &mut View, after_us: u64, acked: u32, rtt_us: Option<u32>) {
    view.now_us += after_us;
    view.delivered = view.delivered.wrapping_add(acked);
    flow.set(view);
    flow.pkts_acked(acked, rtt_us);
}

#[track_caller]
fn assert_bandwidth(flow: &Flow<'_>, want: f64) {
    let got = flow.private("bandwidth_q8") as f64 / 256.0;
    assert!(close(got, want, 0.0, 1.0), "{got} bytes/s, expected {want}");
}

#[test]
fn every_ack_is_a_sample() {
    let algo = HostAlgo::load("westwood_bpf");
    assert_eq!(algo.tunable("tau_ms"), 500);
    let (mut flow, mut view) = new_connection(&algo);
    ack(&mut flow, &mut view, 10_000, 10, Some(100_000)); // 10,000 bytes in 10 ms; the first one starts the filter
    assert_bandwidth(&flow, 1_000_000.0);
    // 2,000,000 bytes/s: a = (1000 - 10) / (1000 + 10); a * 1,000,000 + (1 - a) * (1,000,000 + 2,000,000) / 2
    ack(&mut flow, &mut view, 10_000, 20, Some(100_000));
    assert_bandwidth(&flow, 1_009_900.99);
    // the same timestamp: these 5 count with the next ACK
    ack(&mut flow, &mut view, 0, 5, Some(100_000));
    assert_bandwidth(&flow, 1_009_900.99);
    // 20 segments in 10 ms: a * 1,009,900.99 + (1 - a) * (2,000,000 + 2,000,000) / 2
    ack(&mut flow, &mut view, 10_000, 15, Some(100_000));
    assert_bandwidth(&flow, 1_029_506.91);
}

#[test]
fn silence_counts_as_samples_of_zero() {
    let algo = HostAlgo::load("westwood_bpf");
    let (mut flow, mut view) = new_connection(&algo);
    ack(&mut flow, &mut view, 10_000, 10, Some(100_000)); // 1,000,000 bytes/s
    // 600 ms: two virtual samples of 250 ms, a = (1000 - 250) / (1000 + 250) = 0.6:
    // 0.6 * 1,000,000 + 0.4 * (0 + 1,000,000) / 2 = 800,000, then 0.6 * 800,000 = 480,000;
    // 10 segments in the 100 ms left are 100,000 bytes/s, a = 9/11: 480,000 * 9/11 + 2/11 * 100,000 / 2
    ack(&mut flow, &mut view, 600_000, 10, Some(100_000));
    assert_bandwidth(&flow, 401_818.18);
    // exactly tau / 2 does not count as silence: 100 segments, 400,000 bytes/s, 0.6 * 401,818 + 0.4 * (100,000 +
    // 400,000) / 2
    ack(&mut flow, &mut view, 250_000, 100, Some(100_000));
    assert_bandwidth(&flow, 341_090.91);
}

#[test]
fn a_long_silence_restarts_the_filter() {
    let algo = HostAlgo::load("westwood_bpf");
    // 33 intervals of 250 ms: 32 virtual samples and a rest of 250 ms
    let (mut flow, mut view) = new_connection(&algo);
    ack(&mut flow, &mut view, 10_000, 10, Some(100_000));
    ack(&mut flow, &mut view, 8_250_000, 25, Some(100_000)); // 100,000 bytes/s over the rest, 0.4 * half of it
    assert_bandwidth(&flow, 20_000.07); // and 0.6^32 * 4/3 * 1,000,000 * 0.6 of the old value
    // a microsecond more, and one sample covers the whole time
    let (mut flow, mut view) = new_connection(&algo);
    ack(&mut flow, &mut view, 10_000, 10, Some(100_000));
    ack(&mut flow, &mut view, 8_250_001, 33, Some(100_000));
    assert_bandwidth(&flow, 4_000.0);
}

#[test]
fn a_loss_or_timeout_sets_ssthresh_to_the_bandwidth_delay_product() {
    let algo = HostAlgo::load("westwood_bpf");
    let (mut flow, mut view) = new_connection(&algo);
    assert_eq!(flow.ssthresh(), 75); // no bandwidth yet: W/2
    ack(&mut flow, &mut view, 10_000, 10, Some(100_000)); // 1,000,000 bytes/s * 0.1 s / 1000 = 100 segments
    assert_eq!(flow.ssthresh(), 100);
    view.snd_cwnd = 60;
    flow.set(&view);
    assert_eq!(flow.ssthresh(), 60); // a loss never raises W,
    view.snd_ssthresh = 60;
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    assert_eq!(flow.get(&view).snd_ssthresh, 100); // and slow start continues up to eq 4
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    assert_eq!(flow.get(&view).snd_ssthresh, 60); // only once
    flow.cwnd_event(EVENT_LOSS);
    assert_eq!(flow.get(&view).snd_ssthresh, 100);
}

#[test]
fn arithmetic_does_not_overflow_at_400_gbit_per_s() {
    let algo = HostAlgo::load("westwood_bpf");
    algo.set_tunable("tau_ms", 10_000);
    let (mut flow, mut view) = new_connection(&algo);
    (view.mss, view.snd_cwnd) = (9000, 80_000_000);
    for _ in 0..2000 {
        // 50,000,000,400 bytes/s over the longest piece, and 50,000 MB/s over 18 us
        ack(&mut flow, &mut view, 5_000_000, 27_777_778, Some(10_000_000));
        ack(&mut flow, &mut view, 18, 100, Some(10_000_000));
    }
    let bandwidth = flow.private("bandwidth_q8") as f64 / 256.0;
    assert!(close(bandwidth, 5e10, 1e-6, 0.0), "{bandwidth}");
    assert_eq!(flow.ssthresh(), 55_555_555); // 50,000 MB/s * 10 s / 9000
}

/// A chunk of 20 segments every 2 s, each within one round trip: the application makes the pause between two chunks.
#[test]
fn an_idle_application_is_no_sample_of_zero_bandwidth() {
    for name in ["westwood_bpf", "dcm"] {
        let algo = HostAlgo::load(name);
        let (mut flow, mut view) = new_connection(&algo);
        for _ in 0..10 {
            flow.set(&view);
            flow.cwnd_event(EVENT_TX_START);
            ack(&mut flow, &mut view, 100_000, 2, Some(100_000));
            for _ in 0..9 {
                ack(&mut flow, &mut view, 1000, 2, Some(100_000));
            }
            view.now_us += 2_000_000;
        }
        // 20 segments in 109 ms
        let (window, bandwidth) = (flow.ssthresh(), flow.private("bandwidth_q8") / 256);
        assert!((10..=20).contains(&window), "{name}: {window}, {bandwidth} bytes/s");
    }
}

/// The first segment after a timeout starts with nothing in flight, too, but the path caused that silence.
#[test]
fn silence_before_a_timeout_lowers_the_bandwidth() {
    let algo = HostAlgo::load("westwood_bpf");
    let (mut flow, mut view) = new_connection(&algo);
    ack(&mut flow, &mut view, 10_000, 10, Some(100_000)); // 1,000,000 bytes/s
    view.now_us += 500_000;
    view.ca_state = 4;
    flow.set(&view);
    flow.cwnd_event(EVENT_TX_START);
    // as without the event: 401,818 bytes/s after 600 ms
    ack(&mut flow, &mut view, 100_000, 10, Some(100_000));
    assert_bandwidth(&flow, 401_818.18);
}

/// The kernel leaves CWR only with an ACK of something that was sent later.
#[test]
fn a_pause_after_a_mark_is_the_applications() {
    for name in ["westwood_bpf", "dcm"] {
        let algo = HostAlgo::load(name);
        let (mut flow, mut view) = new_connection(&algo);
        ack(&mut flow, &mut view, 10_000, 10, Some(100_000)); // 1,000,000 bytes/s
        view.ca_state = CWR.into();
        view.now_us += 5_000_000;
        flow.set(&view);
        flow.cwnd_event(EVENT_TX_START);
        // 100,000 bytes/s over 100 ms: 9/11 * 1,000,000 + 2/11 * (0 + 100,000) / 2
        ack(&mut flow, &mut view, 100_000, 10, Some(100_000));
        assert_bandwidth(&flow, 827_272.7);
    }
}

/// A first sample lasts an RTT. Three exchanges end just before that.
#[test]
fn what_came_before_a_silence_is_not_in_the_first_sample_after_it() {
    let algo = HostAlgo::load("westwood_bpf");
    let (mut flow, mut view) = new_connection(&algo);
    view.srtt_us = 8 * 100_000;
    for (after_us, bandwidth) in [(99_000, 0.0), (99_000, 0.0), (99_000, 0.0), (100_000, 100_000.0)] {
        flow.set(&view);
        flow.cwnd_event(EVENT_TX_START);
        ack(&mut flow, &mut view, after_us, 10, Some(100_000));
        assert_bandwidth(&flow, bandwidth);
        view.now_us += 1_000_000;
    }
}
