//! crest on connections: examples worked by hand, one ACK at a time.

#[path = "crest/border.rs"]
mod border;
#[path = "crest/limits.rs"]
mod limits;
#[path = "crest/losses.rs"]
mod losses;
#[path = "crest/radio.rs"]
mod radio;
#[path = "crest/reverse.rs"]
mod reverse;
#[path = "crest/siblings.rs"]
mod siblings;

use hotcc_host_algo::ca_state::{LOSS, OPEN};
use hotcc_host_algo::{EVENT_TX_START, Flow, HostAlgo, INFINITE_SSTHRESH, RateSample, View};

const START: u64 = 0;
const CRUISE: u64 = 1;
const PROBE: u64 = 2;
const COMPETE: u64 = 4;
const RECHECK: u64 = 5;
const MSS: u32 = 1000;
/// The largest receive window (RFC 7323).
const RECEIVE_WINDOW_MAX: u64 = 1 << 30;

/// A connection under crest with segments of 1000 bytes.
struct Connection<'a> {
    flow: Flow<'a>,
    view: View,
}

impl<'a> Connection<'a> {
    /// Returns a connection at 1 s, with a window of ten segments.
    fn new(algo: &'a HostAlgo) -> Self {
        let view = View {
            now_us: 1_000_000,
            snd_cwnd: 10,
            snd_cwnd_clamp: u32::MAX,
            snd_ssthresh: INFINITE_SSTHRESH,
            srtt_us: 8 * 40_000,
            mss: MSS,
            delivered: 5000,
            data_segs_out: 5000,
            is_cwnd_limited: 1,
            snd_una: 7_000_000,
            snd_nxt: 7_010_000,
            ..View::default()
        };
        let mut flow = Flow::new(algo);
        flow.set(&view);
        flow.init();
        let view = flow.get(&view);
        Self { flow, view }
    }

    /// Receives an ACK for `acked` segments after `after_us`. While the last of them was in flight, for `rtt_us`,
    /// `flight` segments were delivered.
    fn ack(&mut self, after_us: u64, acked: u32, flight: i32, rtt_us: i64) {
        self.view.now_us += after_us;
        self.view.delivered += acked;
        self.view.snd_una = self.view.snd_una.wrapping_add(acked * MSS);
        let in_flight = (u64::from(self.view.snd_cwnd) * u64::from(MSS)).min(RECEIVE_WINDOW_MAX);
        self.view.snd_nxt = self.view.snd_una.wrapping_add(in_flight as u32);
        let sample = RateSample {
            prior_delivered: self.view.delivered.wrapping_sub(flight as u32),
            delivered: flight,
            interval_us: rtt_us,
            rtt_us,
            acked_sacked: acked,
            ..RateSample::default()
        };
        self.flow.set(&self.view);
        self.flow.cong_control(&sample);
        self.view = self.flow.get(&self.view);
    }

    fn state(&self, name: &str) -> u64 {
        self.flow.private(name)
    }

    /// Returns a connection past START: a queue of 10 ms over a least RTT of 40 ms, with 100 segments in each flight.
    fn cruising(algo: &'a HostAlgo) -> Self {
        let mut connection = Self::new(algo);
        connection.ack(10_000, 4, 100, 40_000);
        connection.ack(10_000, 4, 100, 50_000);
        assert_eq!(connection.state("phase"), CRUISE);
        connection
    }

    /// Returns a connection in CRUISE that grew to 200 segments, without a queue.
    fn wide(algo: &'a HostAlgo) -> Self {
        let mut connection = Self::cruising(algo);
        for _ in 0..100 {
            let window = connection.view.snd_cwnd;
            if window >= 200 {
                return connection;
            }
            connection.ack(40_000, window, window as i32, 40_000);
        }
        panic!("W is {}", connection.view.snd_cwnd);
    }
}

#[test]
fn the_start_doubles_the_window_and_paces_it_at_five_per_round_trip() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    assert_eq!((connection.view.snd_cwnd, connection.state("phase")), (10, START));
    // 10 x 1000 bytes x 5 / 40 ms
    assert_eq!(connection.view.pacing_rate, 1_250_000);
    for _ in 0..5 {
        connection.ack(1000, 2, 10, 40_000);
    }
    assert_eq!((connection.view.snd_cwnd, connection.state("phase")), (20, START));
    assert_eq!(connection.view.pacing_rate, 2_500_000);
}

/// The kernel calls samples of the first flight limited by the application: there was nothing to send before.
#[test]
fn the_first_flight_doubles_the_window_unless_the_application_had_no_more_to_send() {
    let algo = HostAlgo::load("crest");
    for (is_cwnd_limited, max_packets_out, doubles) in [(1, 10, true), (0, 10, true), (0, 3, false)] {
        let mut connection = Connection::new(&algo);
        connection.view.is_cwnd_limited = is_cwnd_limited;
        connection.view.max_packets_out = max_packets_out;
        connection.view.now_us += 40_000;
        connection.view.delivered += 10;
        connection.flow.set(&connection.view);
        let sample = RateSample { acked_sacked: 10, rtt_us: 40_000, is_app_limited: true, ..RateSample::default() };
        connection.flow.cong_control(&sample);
        let window = connection.flow.get(&connection.view).snd_cwnd;
        assert_eq!(window, if doubles { 20 } else { 10 }, "{is_cwnd_limited} {max_packets_out}");
    }
}

#[test]
fn a_flow_that_moves_here_takes_the_least_rtt_that_the_kernel_saw() {
    let algo = HostAlgo::load("crest");
    let view = View { data_segs_out: 5000, min_rtt_us: 30_000, ..Connection::new(&algo).view };
    for (data_segs_out, min_rtt_us, want) in [(5000, 30_000, 30_000), (0, 30_000, 0), (5000, u32::MAX, 0)] {
        let mut flow = Flow::new(&algo);
        flow.set(&View { data_segs_out, min_rtt_us, ..view });
        flow.init();
        assert_eq!(flow.private("base_us"), want, "{data_segs_out} {min_rtt_us}");
    }
}

#[test]
fn the_window_is_what_the_flight_delivered_and_a_small_queue() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    // B = 100 / 50 ms = 2000 segments/s. B (40 + 5 ms) = 90, and 1.25 sqrt(W) of W = 18, the window of START: 5.3
    let w = connection.state("window") as f64 / 256.0;
    assert!((95.0..95.6).contains(&w), "{w}");
    // the same flight again: 1.25 sqrt(95.3) = 12.2
    connection.ack(10_000, 20, 100, 50_000);
    let w = connection.state("window") as f64 / 256.0;
    assert!((101.9..102.5).contains(&w), "{w}");
    // snd_cwnd follows by two segments per segment that arrives: 14 + 8, then + 40
    assert_eq!(connection.view.snd_cwnd, 14 + 8 + 40);
}

#[test]
fn a_segment_that_was_sent_again_gives_no_sample() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let before = connection.state("window");
    connection.view.now_us += 10_000;
    connection.view.delivered += 20;
    connection.flow.set(&connection.view);
    let sample =
        RateSample { delivered: 1, rtt_us: 50_000, acked_sacked: 20, is_retrans: true, ..RateSample::default() };
    connection.flow.cong_control(&sample);
    assert_eq!(connection.state("window"), before);
}

#[test]
fn an_outdated_minimum_rtt_is_probed_for() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let mut probed = false;
    for _ in 0..20 {
        connection.ack(50_000, 100, 100, 50_000);
        if connection.state("phase") == PROBE {
            probed = true;
            break;
        }
    }
    assert!(probed, "300 ms for a newcomer");
    // half of the window, or 7/8 of what the path held: 100 / 50 ms x 40 ms x 7/8 = 70
    let w = connection.state("window") as f64 / 256.0;
    assert!(w <= 70.0, "{w}");
    let resume = connection.state("resume");
    // the RTT of the path: W is restored
    connection.ack(50_000, 60, 60, 40_000);
    let back = (connection.state("window") as f64).log2() * 1024.0;
    assert!((back - resume as f64).abs() < 20.0, "{back} {resume}");
}

#[test]
fn idle_time_is_excluded_from_slices() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    connection.view.now_us += 5_000_000;
    connection.flow.set(&connection.view);
    connection.flow.cwnd_event(EVENT_TX_START);
    connection.ack(10_000, 20, 100, 50_000);
    assert_eq!(connection.state("last_time"), 10_000 / 64);
    assert_eq!(connection.state("last_delivered"), 20);
}

impl Connection<'_> {
    /// Runs rounds of `flight` segments at `rtt_us` until the phase changes; returns their number.
    fn rounds_in(&mut self, phase: u64, flight: i32, rtt_us: i64) -> u32 {
        let mut rounds = 0;
        while self.state("phase") == phase && rounds < 300 {
            self.ack(rtt_us as u64, flight as u32, flight, rtt_us);
            rounds += 1;
        }
        rounds
    }

    /// Runs a connection through probes, beside a queue of 40 ms on which its window has no effect, until it competes.
    fn competing(algo: &'_ HostAlgo) -> Connection<'_> {
        let mut connection = Connection::cruising(algo);
        for _ in 0..200 {
            connection.ack(80_000, 50, 50, 80_000);
            if connection.state("phase") == COMPETE {
                return connection;
            }
        }
        panic!("a queue that stands for 200 rounds is another's");
    }
}

#[test]
fn crest_competes_for_a_standing_queue_of_other_flows() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::competing(&algo);
    let before = connection.state("window") as f64;
    connection.ack(80_000, 50, 50, 80_000);
    // not decided yet: an eighth per round
    let grown = connection.state("window") as f64 / before;
    assert!((1.12..1.13).contains(&grown), "{grown}");
    // a loss costs a tenth, and shows that the queue is full
    let (before, rtt) = (connection.state("window") as f64, 80_000);
    let _ = connection.flow.ssthresh();
    let left = connection.state("window") as f64 / before;
    assert!((0.89..0.91).contains(&left), "{left}");
    assert_eq!(connection.state("filled"), 0);
    connection.view.lost += 1;
    connection.ack(80_000, 50, 50, rtt);
    assert_eq!(connection.state("filled"), 1);
}

#[test]
fn a_queue_that_follows_the_window_is_not_a_rivals() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::competing(&algo);
    // W had no effect so far; now the queue doubles, and all of it falls with the window
    assert!(connection.rounds_in(COMPETE, 50, 150_000) < 13);
    assert_eq!(connection.state("phase"), RECHECK);
    assert!(connection.rounds_in(RECHECK, 50, 95_000) <= 2);
    assert_eq!(connection.state("rivals"), 0);
    connection.ack(50_000, 50, 50, 50_000);
    connection.ack(50_000, 50, 50, 50_000);
    assert_eq!(connection.state("phase"), CRUISE);
}

/// Returns W over its value before, and the rounds, until the flow knows that its RTT is now that of a longer path. `rtt_us`
/// is the RTT of a round in which this many segments are in flight.
fn longer(connection: &mut Connection, most_rounds: u32, rtt_us: impl Fn(u32) -> i64) -> Option<(f64, u32)> {
    let (first, base_us) = (connection.view.snd_cwnd, connection.state("base_us"));
    for round in 0..most_rounds {
        let window = connection.view.snd_cwnd;
        connection.ack(rtt_us(window) as u64, window, window as i32, rtt_us(window));
        if connection.state("base_us") > base_us {
            return Some((f64::from(connection.view.snd_cwnd) / f64::from(first), round));
        }
    }
    None
}

/// W falls by more than a quarter in each round, at the same RTT. So it also does at the rate of a link that gets slower
/// and slower; but then the probe shows that the queue is the flow's own.
#[test]
fn a_path_is_longer_if_a_smaller_window_sees_the_same_rtt() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::wide(&algo);
    let (left, rounds) = longer(&mut connection, 20, |_| 80_000).unwrap();
    assert!(left > 0.1, "{left} of W after {rounds} rounds");
    assert_eq!(connection.state("base_us"), 80_000);
    let mut connection = Connection::wide(&algo);
    assert_eq!(longer(&mut connection, 200, |window| 40_000 + 200 * i64::from(window)), None, "the RTT follows W");
}

#[test]
fn crest_stops_competing_for_a_queue_that_never_fills() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::competing(&algo);
    let (mut rounds, mut tests) = (0, 0);
    while connection.state("doubt") == 0 {
        let rtt = 80_000 + i64::from(rounds % 7) * 1500; // W has no measurable effect
        let before = connection.state("phase");
        connection.ack(rtt as u64, 50, 50, rtt);
        tests += u32::from(before == COMPETE && connection.state("phase") == RECHECK);
        rounds += 1;
        assert!(rounds < 200, "phase {}", connection.state("phase"));
    }
    assert_eq!(tests, 3);
    assert_eq!((connection.state("rivals"), connection.state("filled")), (0, 0));
}

/// In a pause, the flow's own queue goes, as in a probe. A timeout has the same event, and so has each segment of a flow
/// that has one segment in flight.
#[test]
fn a_pause_is_no_reason_for_a_probe() {
    let algo = HostAlgo::load("crest");
    for (pauses, pause_us, state, phase) in
        [(1, 6_000_000, OPEN, CRUISE), (1, 6_000_000, LOSS, PROBE), (100, 60_000, OPEN, PROBE)]
    {
        let mut connection = Connection::wide(&algo);
        (connection.view.srtt_us, connection.view.ca_state) = (40_000 << 3, u32::from(state));
        for _ in 0..pauses {
            connection.view.now_us += pause_us;
            connection.flow.set(&connection.view);
            connection.flow.cwnd_event(EVENT_TX_START);
        }
        connection.view.ca_state = u32::from(OPEN);
        connection.ack(41_000, 2, 2, 41_000);
        assert_eq!(connection.state("phase"), phase, "{pauses} {state}");
    }
}
