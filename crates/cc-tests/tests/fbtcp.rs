//! FB-TCP on connections: examples worked by hand. Its tables by themselves are in `fbtcp_tables.rs`.

use bytemuck::Zeroable as _;
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, View};

const OPEN: u32 = 0;
const CWR: u32 = 2;
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

/// Sets the tunables in which the profiles differ to the paper's values; all others are the same in both profiles.
fn paper(algo: &HostAlgo) {
    let apart = ["limit_step", "exit_on_queue", "max_window_us", "base_window_us"];
    for name in apart.into_iter().chain(["loss_cap_permille", "access_loss_cap_permille"]) {
        algo.set_tunable(name, 0);
    }
}

/// A connection under FB-TCP with segments of 1000 bytes, whose window is always full.
struct Connection<'a> {
    flow: Flow<'a>,
    view: View,
}

impl<'a> Connection<'a> {
    /// Returns a connection at 1 s, in slow start.
    fn new(algo: &'a HostAlgo, cwnd: u32) -> Self {
        let view = View {
            now_us: 1_000_000,
            snd_cwnd: cwnd,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            mss: 1000,
            delivered: 5000,
            data_segs_out: 5000,
            is_cwnd_limited: 1,
            snd_una: 7_000_000,
            snd_nxt: 7_000_000 + cwnd * 1000,
            ..View::default()
        };
        let mut flow = Flow::new(algo);
        flow.set(&view);
        flow.init();
        assert_eq!(flow.get(&view), view); // a connection keeps its window
        Self { flow, view }
    }

    /// Returns a connection in congestion avoidance with a base RTT of 20 ms and a maxCwnd of 2100, which no later
    /// estimate changes.
    fn avoiding(algo: &'a HostAlgo, cwnd: u32) -> Self {
        let mut connection = Self::new(algo, cwnd);
        // 10,000 segments of 1000 bytes in 100 ms: 100,000,000 bytes/s; * 20 ms / 1000 bytes * 1.05 = 2100 (eq 1)
        connection.ack(100_000, 10_000, Some(20_000));
        assert_eq!(connection.state("max_cwnd"), 2100);
        algo.set_tunable("dp_interval_us", u32::MAX);
        (connection.view.snd_cwnd, connection.view.snd_ssthresh) = (cwnd, 2);
        connection.round(20_000); // ends the running round, which is not a whole one
        connection
    }

    fn state(&self, name: &str) -> u64 {
        self.flow.private(name)
    }

    /// Calls both hooks of an ACK, then fills the window again.
    fn ack(&mut self, after_us: u64, acked: u32, rtt_us: Option<u32>) {
        self.acked(after_us, acked, rtt_us);
        self.grow(acked);
        self.send();
    }

    fn acked(&mut self, after_us: u64, acked: u32, rtt_us: Option<u32>) {
        self.view.now_us += after_us;
        self.view.delivered = self.view.delivered.wrapping_add(acked);
        self.view.snd_una = self.view.snd_una.wrapping_add(acked.wrapping_mul(1000));
        self.show();
        self.flow.pkts_acked(acked, rtt_us);
        self.view = self.flow.get(&self.view);
    }

    fn grow(&mut self, acked: u32) {
        self.show();
        self.flow.cong_avoid(acked);
        self.view = self.flow.get(&self.view);
    }

    fn send(&mut self) {
        let bytes = self.view.snd_cwnd * 1000;
        let sent = self.view.snd_nxt.wrapping_sub(self.view.snd_una);
        if sent < bytes || sent > 1 << 31 {
            self.view.snd_nxt = self.view.snd_una.wrapping_add(bytes);
        }
    }

    fn show(&mut self) {
        self.flow.set(&self.view);
    }

    /// Acknowledges the rest of the round in quarters, without letting W grow. Before the last ACK a window is sent, so
    /// that the next round has W segments.
    fn round(&mut self, rtt_us: u32) {
        let left = |c: &Self| (c.state("round_end") as u32).wrapping_sub(c.view.snd_una) as i32 / 1000;
        let share = (left(self) / 4).max(1);
        while left(self) > share {
            self.acked(u64::from(rtt_us / 4), share as u32, Some(rtt_us));
        }
        let last = left(self).max(1) as u32;
        self.view.snd_nxt = self.view.snd_una.wrapping_add((last + self.view.snd_cwnd) * 1000);
        self.acked(u64::from(rtt_us / 4), last, Some(rtt_us));
    }

    /// Runs a round at W = `cwnd`, and returns the rule that fired at its end.
    fn rule(&mut self, cwnd: u32, rtt_us: u32) -> u64 {
        self.view.snd_cwnd = cwnd;
        self.round(rtt_us);
        self.state("rule")
    }

    fn enter(&mut self, state: u32) {
        self.show();
        self.flow.set_state(state as u8);
        self.view = self.flow.get(&self.view);
        self.view.ca_state = state;
        self.show();
    }

    fn event(&mut self, event: u32) {
        self.show();
        self.flow.cwnd_event(event);
        self.view = self.flow.get(&self.view);
    }

    /// Enters a recovery as the kernel does: calls `ssthresh()`, then sets the state.
    fn recovery(&mut self, state: u32) {
        self.show();
        self.view.prior_cwnd = self.view.snd_cwnd;
        self.view.snd_ssthresh = self.flow.ssthresh();
        self.enter(state);
    }

    /// Ends a recovery as the kernel does: sets W to ssthresh, then sends the event.
    fn complete(&mut self) {
        self.view.snd_cwnd = self.view.snd_ssthresh;
        self.event(EVENT_COMPLETE_CWR);
        self.enter(OPEN);
    }

    fn windows(&self) -> (u32, u32) {
        (self.view.snd_cwnd, self.view.snd_ssthresh)
    }
}

#[test]
fn max_cwnd_is_eq_1_every_100_ms_and_the_largest_counts() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::new(&algo, 100);
    c.ack(99_999, 500, Some(25_000));
    assert_eq!((c.state("base_us"), c.state("max_cwnd")), (25_000, 0));
    // 1000 segments in 100 ms: 10,000,000 bytes/s * 20 ms / 1000 bytes * 1.05 = 210
    c.ack(1, 500, Some(20_000));
    assert_eq!((c.state("base_us"), c.state("max_cwnd")), (20_000, 210));
    // 999 in 100 ms: 209.79, less; 1010: 212.1
    c.ack(100_000, 999, Some(30_000));
    assert_eq!(c.state("max_cwnd"), 210);
    c.ack(100_000, 1010, None);
    assert_eq!(c.state("max_cwnd"), 212);
    // limited by the application: an estimate counts only if it is not smaller
    c.view.app_limited = 1;
    c.ack(100_000, 900, None);
    c.ack(100_000, 1020, None); // 214.2
    assert_eq!((c.state("max_cwnd"), c.state("max_time_us")), (214, 1_500_000));
    // 10 s later a smaller estimate replaces it, but not one of an application-limited interval
    c.ack(9_900_000, 1, None);
    c.ack(100_000, 500, None);
    assert_eq!(c.state("max_cwnd"), 214);
    c.view.app_limited = 0;
    c.ack(100_000, 500, None); // limited when it began
    assert_eq!(c.state("max_cwnd"), 214);
    c.ack(100_000, 500, None); // 105
    assert_eq!(c.state("max_cwnd"), 105);
    // in the paper's profile no smaller estimate ever does
    algo.set_tunable("max_window_us", 0);
    c.ack(4_000_000_000, 1, None);
    assert_eq!(c.state("max_cwnd"), 105);
}

/// A drain is two rounds at 3/4 of the target, W * CSI; the least RTT of the second one becomes the base.
#[test]
fn a_base_rtt_not_seen_for_10_s_is_probed_for() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    c.view.now_us = c.state("base_time_us") + 10_000_000;
    c.round(40_000); // CSI 0.5
    assert_eq!((c.state("base_us"), c.state("drain_cwnd"), c.view.snd_cwnd), (20_000, 1000, 375));
    c.grow(1000); // a drain lets nothing grow
    c.round(40_000);
    assert_eq!((c.state("base_us"), c.view.snd_cwnd), (20_000, 375));
    c.round(30_000);
    assert_eq!((c.state("base_us"), c.state("drain_cwnd"), c.view.snd_cwnd), (30_000, 0, 1000));
    algo.set_tunable("base_window_us", 0);
    c.view.now_us += 60_000_000;
    c.round(40_000);
    assert_eq!((c.state("base_us"), c.state("drain_cwnd")), (30_000, 0));
}

/// In a drain, a timeout sets ssthresh to 3/4 of the W from before the drain, and a mark to half of that W. The next
/// drain is 10 s away.
#[test]
fn timeouts_and_marks_end_a_drain() {
    for (state, want) in [(LOSS, 750), (CWR, 500)] {
        let algo = HostAlgo::load("fbtcp");
        let mut c = Connection::avoiding(&algo, 1000);
        c.view.now_us = c.state("base_time_us") + 10_000_000;
        c.round(40_000);
        c.recovery(state);
        assert_eq!((c.state("drain_cwnd"), c.view.snd_ssthresh), (0, want));
        assert_eq!(c.state("base_time_us"), c.view.now_us);
    }
}

#[test]
fn a_step_is_spread_over_its_round_and_ends_at_max_cwnd() {
    let algo = HostAlgo::load("fbtcp");
    paper(&algo);
    let mut c = Connection::avoiding(&algo, 1200);
    assert_eq!(c.rule(1200, 20_000), 1); // CSI = 1: C1, 120 segments, one for every 10 acknowledged
    assert_eq!((c.view.snd_cwnd, c.state("step_left"), c.state("csi_q16")), (1200, 120, 65_536));
    c.grow(605);
    assert_eq!((c.view.snd_cwnd, c.state("step_left")), (1260, 60));
    c.grow(5); // the other half of a segment
    assert_eq!((c.view.snd_cwnd, c.state("step_left")), (1261, 59));
    c.grow(2000); // never more than the step
    assert_eq!((c.view.snd_cwnd, c.state("step_left")), (1320, 0));
    // what the clamp cuts off is lost
    assert_eq!(c.rule(1000, 20_000), 1);
    c.view.snd_cwnd_clamp = 1010;
    c.grow(500);
    assert_eq!((c.view.snd_cwnd, c.state("step_left")), (1010, 60));
    c.view.snd_cwnd_clamp = u32::MAX;

    // in the default profile a step ends at maxCwnd + 1 = 2101
    algo.set_tunable("limit_step", 1);
    assert_eq!(c.rule(2000, 20_000), 1);
    assert_eq!(c.state("step_left"), 101);
    assert_eq!(c.rule(2100, 20_000), 1);
    assert_eq!(c.state("step_left"), 1);
    // Divergence from there: D1
    assert_eq!(c.rule(2101, 20_000), 21);
    assert_eq!(c.state("step_left"), 1);
}

/// Each of these rounds earns less than a segment, and no fraction may be dropped.
#[test]
fn small_steps_add_up_over_rounds() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 2200);
    for _ in 0..60 {
        c.round(20_000);
        assert_eq!(c.state("rule"), 21); // D1: one segment per W acknowledged
        c.grow(1650); // three quarters of one
    }
    assert!((44..=45).contains(&(c.view.snd_cwnd - 2200)), "{}", c.view.snd_cwnd);
}

#[test]
fn b_rows_act_in_the_third_round() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    // 20 ms / 100 ms: CSI 0.2; C12: 25 segments, in the third round 50
    for (want, rule, repeat) in [(975, 12, 1), (950, 12, 2), (900, 112, 0), (875, 12, 1)] {
        c.round(100_000);
        assert_eq!((c.view.snd_cwnd, c.state("rule"), c.state("repeat")), (want, rule, repeat));
        assert_eq!(c.view.snd_ssthresh, 731); // 3/4 of 975, under W: slow start does not undo it
    }
    // 20 ms / 1 s: CSI 0.02; C14: 0.4 W = 350, and another row restarts the count
    c.round(1_000_000);
    assert_eq!((c.view.snd_cwnd, c.state("rule"), c.state("repeat")), (350, 14, 1));
    // over maxCwnd the same CSIs give D5 and D6
    for (cwnd, rtt_us, rule, want) in [
        (2400, 100_000, 25, 1800), // 0.75 W
        (2400, 100_000, 25, 1800),
        (2400, 100_000, 125, 1200),  // W/2
        (2400, 1_000_000, 26, 1200), // W/2
        (2400, 1_000_000, 26, 1200),
        (2400, 1_000_000, 126, 600), // W/4
    ] {
        assert_eq!((c.rule(cwnd, rtt_us), c.view.snd_cwnd), (rule, want));
    }
    // never under two segments
    c.view.snd_ssthresh = 2;
    assert_eq!((c.rule(20, 100_000), c.windows()), (12, (2, 2)));
    // with a base of 1 us, CSI rounds down to 0, which is a valid CSI
    c.view.snd_cwnd = 2400;
    c.acked(0, 1, Some(1));
    c.round(100_000);
    assert_eq!((c.rule(2400, 100_000), c.state("csi_q16")), (26, 0));
}

#[test]
fn a_window_is_held_for_thirty_rounds() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    for round in 1..=30 {
        assert_eq!((c.rule(1000, 40_000), c.state("repeat")), (10, round)); // CSI 0.5: C10
        assert_eq!((c.view.snd_cwnd, c.state("max_cwnd"), c.state("step_left")), (1000, 2100, 0));
    }
    assert_eq!((c.rule(1000, 40_000), c.state("repeat")), (110, 0));
    assert_eq!((c.view.snd_cwnd, c.state("max_cwnd")), (900, 1890)); // eqs 7 and 8
    // D3 (CSI 0.8), then D4 (CSI 0.5): each has its own count of rounds
    for _ in 0..30 {
        assert_eq!(c.rule(2000, 25_000), 23);
    }
    assert_eq!((c.rule(2000, 40_000), c.state("repeat"), c.view.snd_cwnd), (24, 1, 2000));
    for _ in 0..29 {
        assert_eq!(c.rule(2000, 40_000), 24);
    }
    assert_eq!((c.rule(2000, 40_000), c.view.snd_cwnd, c.state("max_cwnd")), (124, 1800, 1701)); // eqs 9 and 10
}

#[test]
fn too_few_samples_make_a_reno_step_and_an_idle_window_nothing() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 100);
    c.ack(20_000, 100, Some(100_000));
    c.ack(20_000, 100, Some(100_000)); // one or two samples in each round, and a queue
    assert_eq!((c.state("rule"), c.state("step"), c.view.snd_cwnd), (30, 1, 101));
    c.view.is_cwnd_limited = 0;
    c.round(20_000);
    assert_eq!((c.state("rule"), c.state("step_left")), (0, 0));
}

#[test]
fn slow_start_ends_at_900_segments_or_beyond_max_cwnd_with_a_queue() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::new(&algo, 899);
    c.acked(20_000, 899, Some(20_000)); // a round, but W < 900
    assert_eq!(c.windows(), (899, INFINITE_SSTHRESH));
    c.grow(899); // doubles
    assert_eq!(c.view.snd_cwnd, 1798);
    c.send();
    c.acked(20_000, 1798, Some(20_000));
    assert_eq!(c.windows(), (1798, 1798));

    // maxCwnd 210 (as above); 300 segments with a queue: CSI 20/40
    for (profile, want) in [("default", 300), ("paper", INFINITE_SSTHRESH)] {
        if profile == "paper" {
            paper(&algo);
        }
        let mut c = Connection::new(&algo, 100);
        c.ack(100_000, 1000, Some(20_000));
        c.view.snd_cwnd = 300;
        c.view.snd_nxt = c.view.snd_una;
        c.acked(20_000, 10, Some(20_000)); // ends the round in which 20 ms were seen
        assert_eq!((c.state("max_cwnd"), c.view.snd_ssthresh), (210, INFINITE_SSTHRESH));
        c.acked(20_000, 10, Some(40_000));
        assert_eq!(c.view.snd_ssthresh, want, "{profile}");
    }
}

#[test]
fn a_loss_moves_nothing_but_ends_slow_start() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    c.view.snd_ssthresh = 800;
    c.recovery(RECOVERY);
    assert_eq!(c.windows(), (1000, 1000)); // PRR aims at W
    c.view.snd_cwnd = 700; // what was left in flight
    c.view.snd_ssthresh = 700;
    c.complete();
    assert_eq!(c.windows(), (1000, 800));
    // in slow start: ssthresh just under W
    c.view.snd_ssthresh = INFINITE_SSTHRESH;
    c.recovery(RECOVERY);
    c.complete();
    assert_eq!(c.windows(), (1000, 999));
    // a small ssthresh from long ago is raised to 3/4 of W
    c.view.snd_ssthresh = 10;
    c.recovery(RECOVERY);
    c.complete();
    assert_eq!(c.windows(), (1000, 750));
    // after an undo, nothing is left to restore
    c.recovery(RECOVERY);
    assert_eq!(c.flow.undo_cwnd(), 1000);
    (c.view.snd_cwnd, c.view.snd_ssthresh) = (500, 600);
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.windows(), (500, 600));
}

/// A flow on a lossy path, or one that overflows the bottleneck in every round, is in recovery whenever a round ends.
#[test]
fn rows_move_the_window_that_a_recovery_ends_with() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    c.recovery(RECOVERY);
    c.round(20_000); // C1: 120 more, at once
    assert_eq!((c.state("rule"), c.state("step_left"), c.state("restore_cwnd")), (1, 0, 1120));
    assert_eq!(c.windows(), (1000, 1120)); // PRR sets W, and leads it to ssthresh
    c.round(100_000); // C12: 25 less
    assert_eq!((c.state("rule"), c.state("restore_cwnd")), (12, 1095));
    assert_eq!(c.windows(), (1000, 1095));
    c.complete();
    assert_eq!(c.windows(), (1095, 821));
}

#[test]
fn losses_clearly_above_2_percent_reduce_the_window() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    // rounds of 1000 segments; 29 lost are 8.42 more than 2 % of 1029, 30 are 9.4 more; two deviations are 9.08
    c.view.lost += 29;
    assert_eq!(c.rule(1000, 20_000), 1);
    c.view.lost += 30;
    assert_eq!((c.rule(1000, 20_000), c.windows(), c.state("step_left")), (0, (941, 705), 0));
    assert_eq!((c.state("max_cwnd"), c.state("loss_hold")), (941, 31));
    assert_eq!((c.rule(941, 20_000), c.state("step_left")), (21, 1)); // D1, though W <= maxCwnd
    // in a recovery the W to restore is lowered, and PRR's target with it
    c.view.snd_cwnd = 1000;
    c.recovery(RECOVERY);
    c.view.lost += 941; // as many as arrive: half of what arrived remains
    c.round(20_000);
    assert_eq!((c.state("restore_cwnd"), c.view.snd_ssthresh, c.view.snd_cwnd), (249, 249, 1000));
    c.round(20_000); // a round without losses: D1
    assert_eq!(c.state("restore_cwnd"), 250);
    c.complete();
    assert_eq!(c.windows(), (250, 249)); // ssthresh was 705
    // the paper's profile is immune
    paper(&algo);
    c.view.lost += 5000;
    assert_eq!((c.rule(250, 20_000), c.view.snd_cwnd), (21, 250)); // growth is still that of Divergence
}

/// A tenth of W is lost, which is over the cap: W falls by twice that, unless a PEP at the border saw the lost segments
/// pass.
#[test]
fn losses_that_the_pep_saw_pass_are_the_access_networks() {
    for (seen_segments, age_us, want) in
        [(None, 0, 798), (Some(500), 0, 1000), (Some(0), 0, 798), (Some(500), 1_001_000, 798)]
    {
        let algo = HostAlgo::load("fbtcp");
        let mut c = Connection::avoiding(&algo, 1000);
        c.view.snd_cwnd = 1000;
        if let Some(segments) = seen_segments {
            let mut record = PepFlow::zeroed();
            record.updates = 2;
            record.in_order = c.view.snd_una + segments * 1000;
            record.time_ns = (c.view.now_us - age_us) * 1000;
            algo.set_pep(Some(record));
        }
        // the client misses the first 100 of 200
        c.flow.set_sack(&[(c.view.snd_una + 100_000, c.view.snd_una + 200_000)]);
        c.recovery(RECOVERY);
        c.flow.set_sack(&[]);
        let round = (c.state("round_end") as u32 - c.view.snd_una) / 1000;
        c.view.lost += 112; // of 1112
        assert_eq!(round, 1000);
        c.view.snd_nxt = c.view.snd_una + 2_000_000;
        c.acked(20_000, round, Some(100_000)); // too few samples for a row
        let left = c.state("restore_cwnd");
        assert!(left.abs_diff(want) <= 1, "{left}, seen {seen_segments:?}, {age_us} us old");
        algo.set_pep(None);
    }
}

#[test]
fn a_connection_that_migrates_in_brings_its_least_rtt() {
    let algo = HostAlgo::load("fbtcp");
    let view =
        View { now_us: 1_000_000, min_rtt_us: 30_000, data_segs_out: 100, mss: 1000, snd_cwnd: 10, ..View::default() };
    for (data_segs_out, min_rtt_us, want) in [(100, 30_000, 30_000), (0, 30_000, 0), (100, u32::MAX, 0)] {
        let mut flow = Flow::new(&algo);
        flow.set(&View { data_segs_out, min_rtt_us, ..view });
        flow.init();
        assert_eq!(flow.private("base_us"), want);
    }
}

#[test]
fn a_mark_halves_the_window_and_a_timeout_sets_ssthresh_to_three_quarters() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1001);
    c.recovery(CWR);
    assert_eq!((c.windows(), c.state("restore_cwnd")), ((1001, 500), 0));
    c.complete();
    assert_eq!(c.windows(), (500, 500));

    c.round(100_000); // C12
    assert_eq!((c.state("rule"), c.state("repeat"), c.view.snd_cwnd), (12, 1, 475));
    c.show();
    assert_eq!(c.flow.ssthresh(), 475);
    c.view.snd_ssthresh = 475;
    c.event(EVENT_LOSS);
    assert_eq!((c.windows(), c.state("rule"), c.state("repeat")), ((475, 356), 0, 0));
    c.view.snd_cwnd = 1; // as the kernel does
    c.enter(LOSS);
    assert_eq!((c.windows(), c.state("restore_cwnd")), ((1, 356), 0));
    c.grow(400); // slow start, up to ssthresh; growth beyond it is dropped
    assert_eq!(c.windows(), (356, 356));
}

#[test]
fn idle_time_belongs_to_no_round_and_no_interval() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::new(&algo, 100);
    c.ack(10_000, 50, Some(20_000));
    c.view.now_us += 5_000_000;
    c.view.lost += 1000;
    c.event(EVENT_TX_START);
    assert_eq!((c.state("samples"), c.state("round_min_us"), c.state("base_us")), (0, 0, 20_000));
    // 500 segments in 100 ms: 5,000,000 bytes/s * 20 ms / 1000 bytes * 1.05 = 105
    c.ack(100_000, 500, None);
    assert_eq!(c.state("max_cwnd"), 105);
    assert_eq!(c.view.snd_cwnd, 650); // the thousand lost segments count for no round
}

#[test]
fn a_takeover_resets_the_state_and_keeps_the_window() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    c.round(100_000);
    let before = c.view;
    c.show();
    c.flow.init();
    assert_eq!(c.flow.get(&before), before);
    for name in ["max_cwnd", "base_us", "rule", "repeat", "step_left", "samples", "restore_cwnd", "growth"] {
        assert_eq!(c.state(name), 0, "{name}");
    }
    assert_eq!(c.state("round_end"), u64::from(before.snd_nxt));
}

#[test]
fn arithmetic_does_not_overflow_at_400_gbit_per_s() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::new(&algo, 100);
    (c.view.mss, c.view.snd_cwnd) = (9000, 80_000_000);
    // 55,555,556 segments of 9000 bytes in 10 s: 50,000,000,400 bytes/s; * 10 s / 9000 bytes * 1.05 = 58,333,333.8
    c.acked(10_000_000, 55_555_556, Some(10_000_000));
    assert_eq!(c.state("max_cwnd"), 58_333_333);
}

/// Whether a timeout leaves segments in flight, and so causes a CA_EVENT_TX_START, does not matter.
#[test]
fn what_a_timeout_marks_as_lost_does_not_count_for_the_loss_cap() {
    let algo = HostAlgo::load("fbtcp");
    let mut c = Connection::avoiding(&algo, 1000);
    c.recovery(RECOVERY);
    c.view.lost += 500;
    c.view.snd_cwnd = 1;
    c.enter(LOSS);
    c.enter(OPEN);
    c.rule(50, 20_000);
    assert_eq!((c.state("loss_hold"), c.view.snd_cwnd), (0, 50));
}
