//! DCM+ against examples worked by hand, and on a simulated path: its window must grow.

use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, Flow, HostAlgo, INFINITE_SSTHRESH, View};
use std::collections::VecDeque;

const ONE: u64 = 65_536;

fn paper(algo: &HostAlgo) {
    for (name, value) in [
        ("rate_min_permille", 0),
        ("rate_max_permille", 1_000_000),
        ("onset_permille", 0),
        ("estimate", 1),
        ("lower", 1),
    ] {
        algo.set_tunable(name, value);
    }
}

/// Returns a connection at 1 s with W = 100 segments of 1000 bytes, under DCM+ from now on.
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
        ..View::default()
    };
    let mut flow = Flow::new(algo);
    flow.set(&view);
    flow.init();
    assert_eq!(flow.get(&view), view); // a connection keeps its window and threshold
    (flow, view)
}

/// Sends one ACK, which ends a round and a bandwidth sample of 100 ms: `acked` * 10,000 bytes/s.
fn round(flow: &mut Flow<'_>, view: &mut View, acked: u32, rtt_us: u32) {
    view.now_us += 100_000;
    view.delivered += acked;
    view.srtt_us = 8 * rtt_us;
    view.snd_una = view.snd_nxt;
    view.snd_nxt = view.snd_nxt.wrapping_add(1000 * view.snd_cwnd);
    flow.set(view);
    flow.pkts_acked(acked, Some(rtt_us));
    *view = flow.get(view);
}

fn grow(flow: &mut Flow<'_>, view: &mut View, acked: u32) -> u32 {
    flow.set(view);
    flow.cong_avoid(acked);
    *view = flow.get(view);
    view.snd_cwnd
}

#[test]
fn growth_is_eq_7() {
    let algo = HostAlgo::load("dcmplus");
    let (mut flow, mut view) = started(&algo, 120);
    round(&mut flow, &mut view, 100, 100_000);
    round(&mut flow, &mut view, 100, 80_000);
    assert_eq!((flow.private("rate_q16"), flow.private("inverse_q16")), (ONE * 5 / 4, ONE * 4 / 5));
    assert_eq!(grow(&mut flow, &mut view, 7), 117); // 2 * 1.25 for each: 17.5
    assert_eq!(grow(&mut flow, &mut view, 7), 120); // ssthresh; the rest is dropped
    assert_eq!(grow(&mut flow, &mut view, 75), 120); // 2 / 1.25 for each window: 75 of 120 make one
    assert_eq!(grow(&mut flow, &mut view, 1), 121);
}

#[test]
fn a_queue_puts_ssthresh_in_force_and_the_window_tracks_it() {
    let algo = HostAlgo::load("dcmplus");
    let (mut flow, mut view) = started(&algo, INFINITE_SSTHRESH);
    round(&mut flow, &mut view, 80, 50_000); // 800,000 bytes/s; base 50 ms; no queue
    assert_eq!((view.snd_cwnd, view.snd_ssthresh, flow.private("tracking")), (100, INFINITE_SSTHRESH, 0));
    round(&mut flow, &mut view, 80, 62_500); // 1.25 of it is not over 1.25
    assert_eq!(flow.private("tracking"), 0);
    round(&mut flow, &mut view, 80, 62_501); // eq 4: 800,000 bytes/s * 0.05 s = 40 segments
    assert_eq!((view.snd_cwnd, view.snd_ssthresh, flow.private("tracking")), (40, 40, 1));
    // the newest sample, 1,000,000 bytes/s, raises it: 50 segments; BWE is 803,125
    round(&mut flow, &mut view, 100, 62_000);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (50, 50));
    // eq 7 grows W beyond it until the next sample
    assert_eq!(grow(&mut flow, &mut view, 50), 51); // 2 / rate_CA, which is a little over 1
    // 600,000 bytes/s do not lower it, but after a round with a queue they do, to BWE: 821,875, 794,140.6 and 769,873.0
    // in the first stage, 802,001.9 and 797,985.8 in the second
    round(&mut flow, &mut view, 60, 62_501);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (51, 50));
    round(&mut flow, &mut view, 60, 62_501);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (39, 39));
    assert_eq!(flow.private("avoidance"), 0);
    // a recovery leaves W alone
    (view.ca_state, view.snd_cwnd) = (3, 35);
    round(&mut flow, &mut view, 200, 62_000);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (35, 39));
}

#[test]
fn the_paper_profile_waits_for_a_loss_and_raises_by_the_filter() {
    let algo = HostAlgo::load("dcmplus");
    paper(&algo);
    let (mut flow, mut view) = started(&algo, INFINITE_SSTHRESH);
    round(&mut flow, &mut view, 80, 50_000);
    round(&mut flow, &mut view, 80, 500_000); // no sample either: it took less than this RTT
    assert_eq!((view.snd_cwnd, flow.private("tracking")), (100, 0));
    assert_eq!(flow.ssthresh(), 40);
    view.snd_ssthresh = 40;
    flow.set(&view);
    flow.cwnd_event(EVENT_COMPLETE_CWR);
    assert_eq!(flow.private("tracking"), 1);
    // 160 segments in 200 ms are 800,000 bytes/s, then 1,312,000: 808,000 = 40.4 segments, and at the next 41.5
    round(&mut flow, &mut view, 80, 50_000);
    assert_eq!((view.snd_cwnd, view.snd_ssthresh), (40, 40));
    for segments in [40, 41] {
        view.now_us += 25_000;
        round(&mut flow, &mut view, 164, 50_000);
        assert_eq!((view.snd_cwnd, view.snd_ssthresh), (segments, segments));
    }
    let (mut other, _) = started(&algo, 50);
    other.cwnd_event(EVENT_LOSS);
    assert_eq!(other.private("tracking"), 1);
}

#[test]
fn an_application_limited_epoch_only_raises_the_estimate() {
    let algo = HostAlgo::load("dcmplus");
    let (mut flow, mut view) = started(&algo, 50);
    round(&mut flow, &mut view, 100, 50_000);
    assert_eq!(flow.ssthresh(), 50);
    view.app_limited = 1;
    round(&mut flow, &mut view, 20, 50_000); // limited at its end
    view.app_limited = 0;
    round(&mut flow, &mut view, 20, 50_000); // and this one at its start
    assert_eq!(flow.private("newest_q8"), 1_000_000 * 256);
    assert_eq!(flow.private("bandwidth.second_q8"), 1_000_000 * 256);
    assert_eq!(view.snd_cwnd, 100);
    view.app_limited = 1;
    round(&mut flow, &mut view, 180, 50_000); // more than BWE: 1,012,500 after both stages
    assert_eq!(flow.private("bandwidth.second_q8"), 1_012_500 * 256);
    assert_eq!(view.snd_cwnd, 100);
}

/// A bottleneck with a queue, on a path without loss or other traffic, and a sender that always has data.
struct Path {
    /// Segments per second.
    rate: f64,
    /// Round trip without a queue, us.
    base_us: f64,
    /// Size of the queue, segments.
    queue: f64,
}

/// Results of some seconds.
#[derive(Debug)]
struct Came {
    delivered_share: f64,
    mean_window: f64,
    greatest_window: u32,
    losses: u32,
}

struct Sender<'a> {
    flow: Flow<'a>,
    view: View,
    /// Times of sending and of the ACK for each segment in flight, us; `None`: lost.
    in_flight: VecDeque<(f64, Option<f64>)>,
    /// When the bottleneck is free, us.
    free_at: f64,
    now: f64,
    recover_at: u32,
}

impl<'a> Sender<'a> {
    fn new(algo: &'a HostAlgo) -> Self {
        let view = View {
            snd_cwnd: 10,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            mss: 1448,
            is_cwnd_limited: 1,
            ..View::default()
        };
        let mut flow = Flow::new(algo);
        flow.set(&view);
        flow.init();
        Self { flow, view, in_flight: VecDeque::new(), free_at: 0.0, now: 0.0, recover_at: 0 }
    }

    fn send(&mut self, path: &Path) {
        while self.in_flight.len() < self.view.snd_cwnd as usize {
            let starts = self.free_at.max(self.now);
            let lost = (starts - self.now) * path.rate / 1e6 > path.queue;
            if !lost {
                self.free_at = starts + 1e6 / path.rate;
            }
            let ack = (!lost).then_some(self.free_at + path.base_us);
            self.in_flight.push_back((self.now, ack));
            self.view.snd_nxt = self.view.snd_nxt.wrapping_add(self.view.mss);
        }
    }

    /// Performs the shortest possible recovery: one reduction for all losses of one window.
    fn lose(&mut self) -> bool {
        self.view.delivered += 1; // its retransmission
        if (self.view.snd_una.wrapping_sub(self.recover_at) as i32) < 0 {
            return false;
        }
        self.recover_at = self.view.snd_nxt;
        self.flow.set(&self.view);
        self.view.snd_ssthresh = self.flow.ssthresh();
        self.view.snd_cwnd = self.view.snd_ssthresh;
        self.flow.set(&self.view);
        self.flow.cwnd_event(EVENT_COMPLETE_CWR);
        self.view = self.flow.get(&self.view);
        true
    }

    fn run(&mut self, path: &Path, seconds: f64) -> Came {
        let (from, until) = (self.now, self.now + seconds * 1e6);
        let mut came = Came { delivered_share: 0.0, mean_window: 0.0, greatest_window: 0, losses: 0 };
        let (mut acks, mut windows) = (0.0, 0.0);
        while self.now < until {
            self.send(path);
            let Some((sent, ack)) = self.in_flight.pop_front() else { break };
            self.view.snd_una = self.view.snd_una.wrapping_add(self.view.mss);
            let Some(ack) = ack else {
                came.losses += u32::from(self.lose());
                continue;
            };
            self.now = ack;
            let rtt = (ack - sent) as u32;
            let v = &mut self.view;
            v.now_us = ack as u64;
            v.srtt_us = if v.srtt_us == 0 { 8 * rtt } else { v.srtt_us - (v.srtt_us >> 3) + rtt };
            v.delivered += 1;
            v.data_segs_out += 1;
            v.max_packets_out = v.snd_cwnd;
            self.flow.set(v);
            self.flow.pkts_acked(1, Some(rtt));
            self.flow.cong_avoid(1);
            self.view = self.flow.get(&self.view);
            acks += 1.0;
            windows += f64::from(self.view.snd_cwnd);
            came.greatest_window = came.greatest_window.max(self.view.snd_cwnd);
        }
        came.delivered_share = acks / ((self.now - from) / 1e6 * path.rate);
        came.mean_window = windows / acks;
        came
    }
}

/// 100 Mbit/s over 40 ms: 345 segments.
const PATH: Path = Path { rate: 8632.0, base_us: 40_000.0, queue: 345.0 };
const BDP: f64 = PATH.rate * PATH.base_us / 1e6;
/// Largest W in BDPs: from 1.25 times the least RTT on there is a queue, which takes W back to 1 BDP; W had grown by 2
/// per round.
const MAX_BDPS: f64 = 1.27;

/// From the first ACK on, BWE * RTTmin is at most W: if ssthresh took effect then, W would stay at the initial window.
/// Slow start overshoots and loses; the newest sample shows the path's bandwidth.
#[test]
fn the_window_grows_to_the_path_and_stays_there() {
    let algo = HostAlgo::load("dcmplus");
    let mut sender = Sender::new(&algo);
    let start = sender.run(&PATH, 2.0);
    let there = sender.run(&PATH, 28.0);
    println!("{start:?}\n{there:?}");
    assert!(f64::from(start.greatest_window) > BDP && start.losses > 0, "{start:?}");
    assert!(start.delivered_share > 0.8, "{start:?}");
    assert!(there.delivered_share > 0.98 && there.losses == 0, "{there:?}");
    assert!((0.98..MAX_BDPS).contains(&(there.mean_window / BDP)), "{there:?}");
}

/// If the queue holds the segments that slow start sends beyond the path's capacity, slow start ends without a loss.
#[test]
fn a_queue_alone_ends_slow_start() {
    let algo = HostAlgo::load("dcmplus");
    let mut sender = Sender::new(&algo);
    let deep = Path { queue: 4000.0, ..PATH };
    let start = sender.run(&deep, 2.0);
    assert!(start.losses == 0 && f64::from(start.greatest_window) > BDP, "{start:?}");
    let there = sender.run(&deep, 28.0);
    println!("{start:?}\n{there:?}");
    assert!(there.delivered_share > 0.98 && there.mean_window < MAX_BDPS * BDP && there.losses == 0, "{there:?}");
}

#[test]
fn the_window_follows_the_capacity_up_and_down() {
    let algo = HostAlgo::load("dcmplus");
    let mut sender = Sender::new(&algo);
    sender.run(&PATH, 20.0);
    let wider = Path { rate: 2.0 * PATH.rate, ..PATH };
    sender.run(&wider, 20.0);
    let up = sender.run(&wider, 5.0);
    let narrower = Path { rate: 0.5 * PATH.rate, ..PATH };
    sender.run(&narrower, 5.0);
    let down = sender.run(&narrower, 5.0);
    println!("{up:?}\n{down:?}");
    assert!(up.delivered_share > 0.98 && up.mean_window < 2.0 * MAX_BDPS * BDP, "{up:?}");
    assert!(down.delivered_share > 0.95 && down.mean_window < 0.5 * MAX_BDPS * BDP, "{down:?}");
}

/// With the paper's rule, BWE itself raises ssthresh: by a few segments per second, and by fewer near the path's
/// capacity.
#[test]
fn the_paper_profile_grows_slowly() {
    let algo = HostAlgo::load("dcmplus");
    paper(&algo);
    let mut sender = Sender::new(&algo);
    let start = sender.run(&PATH, 5.0);
    assert!(start.losses > 0 && f64::from(start.greatest_window) > BDP, "{start:?}");
    let climb = sender.run(&PATH, 15.0);
    sender.run(&PATH, 60.0);
    let there = sender.run(&PATH, 10.0);
    println!("{start:?}\n{climb:?}\n{there:?}");
    assert!(climb.greatest_window > 150 && climb.losses == 0, "{climb:?}");
    assert!(there.delivered_share > 0.75 && there.losses == 0, "{there:?}");
}

/// A round may last as long as the queue, and W would triple once more within it.
#[test]
fn the_first_rtts_of_a_round_with_a_queue_end_slow_starts_growth() {
    let algo = HostAlgo::load("dcmplus");
    let (mut flow, mut view) = started(&algo, INFINITE_SSTHRESH);
    round(&mut flow, &mut view, 100, 100_000);
    assert_eq!(grow(&mut flow, &mut view, 100), 300);
    let acks = |flow: &mut Flow<'_>, view: &mut View, count: u32, rtt_us: u32| {
        for _ in 0..count {
            (view.now_us, view.delivered, view.snd_una) = (view.now_us + 1, view.delivered + 1, view.snd_una + 1000);
            flow.set(view);
            flow.pkts_acked(1, Some(rtt_us));
            *view = flow.get(view);
        }
    };
    acks(&mut flow, &mut view, 7, 125_001);
    assert_eq!((view.snd_ssthresh, flow.private("tracking")), (INFINITE_SSTHRESH, 0));
    acks(&mut flow, &mut view, 1, 125_001);
    assert_eq!((view.snd_ssthresh, flow.private("tracking")), (300, 0));
    assert_eq!(grow(&mut flow, &mut view, 300), 302); // avoidance: 2 per RTT

    // one RTT without the queue is enough to continue; an application that has nothing to send shows nothing
    for (least_us, app_limited) in [(125_000, 0), (125_001, 1)] {
        let (mut flow, mut view) = started(&algo, INFINITE_SSTHRESH);
        round(&mut flow, &mut view, 100, 100_000);
        view.app_limited = app_limited;
        acks(&mut flow, &mut view, 1, least_us);
        acks(&mut flow, &mut view, 20, 200_000);
        assert_eq!(view.snd_ssthresh, INFINITE_SSTHRESH);
    }
    paper(&algo);
    let (mut flow, mut view) = started(&algo, INFINITE_SSTHRESH);
    round(&mut flow, &mut view, 100, 100_000);
    acks(&mut flow, &mut view, 20, 200_000);
    assert_eq!(view.snd_ssthresh, INFINITE_SSTHRESH);
}

/// A connection that migrates in during a recovery keeps the ssthresh that ends it.
#[test]
fn a_recovery_keeps_its_ssthresh() {
    let algo = HostAlgo::load("dcmplus");
    let (mut flow, mut view) = started(&algo, 100);
    round(&mut flow, &mut view, 10, 40_000);
    (view.snd_cwnd, view.snd_ssthresh, view.ca_state) = (5, 100, 3);
    for _ in 0..8 {
        view.now_us += 1000;
        flow.set(&view);
        flow.pkts_acked(1, Some(60_000));
        view = flow.get(&view);
    }
    assert_eq!(view.snd_ssthresh, 100);
}
