//! Tests what algorithms hand over to each other when a connection moves.

use hotcc_cc_tests::models::close;
use hotcc_host_algo::{Flow, HostAlgo, Learned, RateSample, View};

const BANDWIDTH: u32 = 1;
const BASE: u32 = 2;
const N: u32 = 4;

/// Every algorithm, and what it gives and takes.
const ALGORITHMS: [(&str, u32); 9] = [
    ("westwood_bpf", BANDWIDTH | BASE),
    ("westwoodp", BANDWIDTH | BASE),
    ("dcm", BANDWIDTH | BASE),
    ("dcmplus", BANDWIDTH | BASE),
    ("dtcp", BANDWIDTH | BASE | N),
    ("crest", BASE),
    ("fbtcp", BASE),
    ("arwa", 0),
    ("mdcubic", 0),
];

/// Returns a connection with W = 100 segments of 1000 bytes that has sent data, with an RTT of 100 ms and a least RTT of
/// 90 ms.
fn open() -> View {
    View {
        now_us: 1_000_000,
        snd_cwnd: 100,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: 100,
        mss: 1000,
        delivered: 5000,
        data_segs_out: 5000,
        is_cwnd_limited: 1,
        srtt_us: 8 * 100_000,
        min_rtt_us: 90_000,
        ..View::default()
    }
}

/// Runs a connection at 1,000,000 bytes/s for 2 s, with a least RTT of 95 ms, and returns what the algorithm learned.
fn learned_by(name: &str) -> Learned {
    let algo = HostAlgo::load(name);
    let mut view = View { min_rtt_us: 95_000, ..open() };
    let mut flow = Flow::new(&algo);
    flow.set(&view);
    flow.init();
    for _ in 0..200 {
        view.now_us += 10_000;
        view.delivered += 10;
        view.snd_una = view.snd_una.wrapping_add(10_000);
        view.snd_nxt = view.snd_una + 100_000;
        view.packets_out = 100;
        flow.set(&view);
        if algo.has_cong_control() {
            flow.cong_control(&RateSample {
                prior_mstamp: view.now_us - 100_000,
                prior_delivered: view.delivered - 100,
                delivered: 100,
                interval_us: 100_000,
                rtt_us: 95_000,
                losses: 0,
                acked_sacked: 10,
                is_app_limited: false,
                is_retrans: false,
            });
        } else {
            flow.pkts_acked(10, Some(95_000));
        }
    }
    flow.leave()
}

/// Returns what `name` takes of `from`, and its connection.
fn moved_to<'a>(algo: &'a HostAlgo, from: &Learned) -> (u32, Flow<'a>) {
    let mut flow = Flow::new(algo);
    flow.set(&open());
    let taken = flow.take_over(from).taken;
    (taken, flow)
}

/// Whatever the unit of an algorithm's own field, the record's is byte/s / 256, us, and segments per RTT / 65536.
#[test]
fn all_algorithms_report_the_same_path_in_the_same_units() {
    for (name, fields) in ALGORITHMS {
        let learned = learned_by(name);
        let bandwidth = learned.bandwidth_q8 as f64 / 256.0;
        match fields & BANDWIDTH {
            0 => assert_eq!(learned.bandwidth_q8, 0, "{name}"),
            _ => assert!(close(bandwidth, 1e6, 0.02, 0.0), "{name}: {bandwidth} bytes/s"),
        }
        assert_eq!(learned.base_us, if fields & BASE == 0 { 0 } else { 95_000 }, "{name}");
        match fields & N {
            0 => assert_eq!(learned.n_q16, 0, "{name}"),
            _ => assert!((1 << 16..=100 << 16).contains(&learned.n_q16), "{name}: {learned:?}"),
        }
    }
}

#[test]
fn each_pair_hands_over_the_fields_that_both_have() {
    for (from, given) in ALGORITHMS {
        let learned = learned_by(from);
        for (to, takes) in ALGORITHMS {
            let algo = HostAlgo::load(to);
            let (taken, flow) = moved_to(&algo, &learned);
            assert_eq!(taken, given & takes, "{from} to {to}");
            for field in ["base_us", "base.us"].into_iter().filter(|field| algo.has_field(field)) {
                let base_us = flow.private(field);
                assert_eq!(base_us, if given & BASE == 0 { 90_000 } else { 95_000 }, "{from} to {to}: {field}");
            }
            for field in ["bandwidth.first_q8", "bandwidth.second_q8", "bandwidth_q8"] {
                if algo.has_field(field) {
                    assert_eq!(flow.private(field), learned.bandwidth_q8, "{from} to {to}: {field}");
                }
            }
        }
    }
}

#[test]
fn a_loss_right_after_the_move_uses_the_bandwidth_of_the_former_algorithm() {
    let learned = Learned { bandwidth_q8: 600_000 * 256, base_us: 100_000, ..Learned::default() };
    for name in ["westwood_bpf", "dcm", "dcmplus"] {
        let algo = HostAlgo::load(name);
        // eq 4: 600,000 bytes/s * 0.1 s / 1000 bytes
        assert_eq!(moved_to(&algo, &learned).1.ssthresh(), 60, "{name}");
        assert_eq!(moved_to(&algo, &Learned::default()).1.ssthresh(), 50, "{name}: Reno's half");
    }
}

#[test]
fn nothing_is_handed_over_outside_a_move() {
    let algo = HostAlgo::load("westwoodp");
    let mut flow = Flow::new(&algo);
    flow.set(&open());
    flow.take_over(&Learned { bandwidth_q8: 1 << 20, base_us: 95_000, ..Learned::default() });
    flow.release();
    flow.init();
    assert_eq!((flow.private("bandwidth.second_q8"), flow.private("base_us")), (0, 90_000));
}

#[test]
fn values_out_of_bounds_are_refused() {
    let algo = HostAlgo::load("dtcp");
    let n = |n_q16| Learned { n_q16, ..Learned::default() };
    let base = |base_us| Learned { base_us, ..Learned::default() };
    let bandwidth = |bandwidth_q8| Learned { bandwidth_q8, ..Learned::default() };
    for (from, taken) in [
        (base(100_000), BASE),
        (base(100_001), 0), // above the smoothed RTT
        (bandwidth(1 << 47), BANDWIDTH),
        (bandwidth((1 << 47) + 1), 0),
        (n(65_535), 0),
        (n(65_536), N),
        (n(25 << 16), N),
        (n((25 << 16) + 1), 0), // above W / 4
        (Learned::default(), 0),
    ] {
        let (got, flow) = moved_to(&algo, &from);
        assert_eq!(got, taken, "{from:?}");
        let want = |bit: u32, value: u64, other: u64| if taken & bit == 0 { other } else { value };
        assert_eq!(flow.private("base.us"), want(BASE, from.base_us.into(), 90_000), "{from:?}");
        assert_eq!(flow.private("bandwidth_q8"), want(BANDWIDTH, from.bandwidth_q8, 0), "{from:?}");
        assert_eq!(flow.private("n_q16"), want(N, from.n_q16, 65_536), "{from:?}");
    }
}
