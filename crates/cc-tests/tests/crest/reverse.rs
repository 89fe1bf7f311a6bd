//! crest and the way back: what the receiver's clock in the ACKs tells of the queue in which they wait.

use super::{Connection, MSS};
use hotcc_host_algo::HostAlgo;

/// The receivers' clock at the connection's start, in ms: far from the sender's.
const CLOCK_MS: f64 = 4_000_000_000.7;

impl Connection<'_> {
    /// Runs one slice of 10 ms with a steady rate of 2000 segments/s. The ACKs arrive `wait_us` later than without a
    /// queue on the way back, and carry a clock that counts `per_ms` units in each millisecond.
    fn slice(&mut self, rtt_us: i64, wait_us: u64, per_ms: f64) {
        self.stamp(10_000, wait_us, per_ms);
        self.ack(10_000, 20, (2000 * rtt_us / 1_000_000) as i32, rtt_us);
    }

    /// Sets the receiver's time in the ACK that arrives in `after_us`.
    fn stamp(&mut self, after_us: u64, wait_us: u64, per_ms: f64) {
        let left_ms = (self.view.now_us + after_us - wait_us) as f64 / 1e3;
        self.view.rcv_tsval = if per_ms > 0.0 { (CLOCK_MS + left_ms * per_ms) as u64 as u32 } else { 0 };
    }

    /// Runs such slices to the end of the round.
    fn end_round(&mut self, rtt_us: i64, wait_us: u64, per_ms: f64) {
        while self.state("round_rtt_us") != 0 {
            self.slice(rtt_us, wait_us, per_ms);
        }
    }

    /// Returns the queue that crest has seen in the round, in ms.
    fn queue_ms(&self) -> f64 {
        (self.state("round_rtt_us") as f64 - self.state("base_us") as f64) / 1e3
    }

    /// Runs such slices to the end of the round, and returns the queue that crest sees in the next one, in ms.
    fn seen_ms(&mut self, rtt_us: i64, wait_us: u64, per_ms: f64) -> f64 {
        self.end_round(rtt_us, wait_us, per_ms);
        while self.state("round_rtt_us") == 0 {
            self.slice(rtt_us, wait_us, per_ms);
        }
        self.queue_ms()
    }

    /// Returns W, in segments.
    fn window(&self) -> f64 {
        self.state("window") as f64 / 256.0
    }
}

/// Returns a connection with a least RTT of 40 ms, whose receiver's clock was seen for some slices without a queue.
fn connection(algo: &HostAlgo, per_ms: f64) -> Connection<'_> {
    let mut connection = Connection::cruising(algo);
    for _ in 0..12 {
        connection.slice(42_000, 0, per_ms);
    }
    connection
}

/// The queue of the data stands for longer than the eight slices after which a clock would be believed.
#[test]
fn a_receiver_without_timestamps_hides_no_queue() {
    let algo = HostAlgo::load("crest");
    let mut connection = connection(&algo, 0.0);
    for slice in 0..12 {
        connection.slice(142_000, 0, 0.0);
        assert_eq!(connection.state("wait"), 0, "slice {slice}");
    }
}

#[test]
fn acks_that_wait_make_the_path_longer_and_are_no_queue() {
    let algo = HostAlgo::load("crest");
    let mut connection = connection(&algo, 1.0);
    let before = connection.window();
    for _ in 0..4 {
        connection.slice(142_000, 100_000, 1.0);
    }
    // of the 102 ms that the RTT has grown by, all but one or two are the way back's
    let seen_ms = connection.seen_ms(142_000, 100_000, 1.0);
    assert!((1.9..=3.1).contains(&seen_ms), "{seen_ms} ms");
    // B = 2000 segments/s: 200 segments wait on the way back
    let more = connection.window() - before;
    assert!((180.0..240.0).contains(&more), "{more} segments more");
    let rate = connection.window() * f64::from(MSS) * 1.25 / connection.view.pacing_rate as f64;
    assert!((0.137..0.141).contains(&rate), "paced over {rate} s");
}

/// The receiver delays the last ACK of a slice by 40 ms. All of the slice's ACKs waited on the way back.
#[test]
fn an_ack_that_the_receiver_delays_does_not_hide_that_others_waited() {
    let algo = HostAlgo::load("crest");
    let mut connection = connection(&algo, 1.0);
    for _ in 0..4 {
        connection.slice(62_000, 20_000, 1.0);
    }
    connection.end_round(62_000, 20_000, 1.0);
    for (after_us, rtt_us) in [(5_000, 62_000), (40_000, 102_000)] {
        connection.stamp(after_us, 20_000, 1.0);
        connection.ack(after_us, 2, 124, rtt_us);
    }
    let seen_ms = connection.queue_ms();
    assert!((1.9..=3.1).contains(&seen_ms), "{seen_ms} ms");
}

#[test]
fn a_queue_of_the_data_remains_one() {
    let algo = HostAlgo::load("crest");
    let mut connection = connection(&algo, 1.0);
    let seen_ms = connection.seen_ms(142_000, 0, 1.0);
    assert!((101.0..=102.0).contains(&seen_ms), "{seen_ms} ms");
}

/// Receivers may send no timestamps, or count in units of 4, 10 or 100 ms, or of 1 us. Clocks also differ by 200 ppm.
#[test]
fn only_a_clock_of_milliseconds_is_believed() {
    let algo = HostAlgo::load("crest");
    for (per_ms, believed) in
        [(0.0, false), (0.25, false), (0.1, false), (0.01, false), (1000.0, false), (0.9998, true), (1.0002, true)]
    {
        let mut connection = connection(&algo, per_ms);
        for _ in 0..3000 {
            connection.slice(42_000, 0, per_ms);
        }
        let seen_ms = connection.seen_ms(142_000, 100_000, per_ms);
        assert_eq!(seen_ms < 50.0, believed, "{per_ms} units per ms: {seen_ms} ms");
    }
}

/// A queue on the way back that comes and goes hides no queue of the data.
#[test]
fn the_least_time_follows_the_clock_when_the_queue_goes() {
    let algo = HostAlgo::load("crest");
    let mut connection = connection(&algo, 1.0);
    for _ in 0..50 {
        connection.slice(82_000, 40_000, 1.0);
    }
    for _ in 0..50 {
        connection.slice(82_000, 0, 1.0);
    }
    let seen_ms = connection.seen_ms(82_000, 0, 1.0);
    assert!(seen_ms > 41.0, "{seen_ms} ms");
}

#[test]
fn nothing_of_a_queue_that_has_gone_remains_in_the_path() {
    let algo = HostAlgo::load("crest");
    let mut connection = connection(&algo, 1.0);
    for _ in 0..10 {
        connection.slice(62_000, 20_000, 1.0);
    }
    assert!(connection.state("wait") > 280);
    for _ in 0..100 {
        connection.slice(42_000, 0, 1.0);
    }
    assert_eq!(connection.state("wait"), 0);
}
