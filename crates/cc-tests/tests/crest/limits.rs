//! crest at the limits of its numbers, and with applications that have nothing to send.

use super::{CRUISE, Connection, MSS, START};
use hotcc_host_algo::{EVENT_TX_START, HostAlgo, RateSample};

/// 2^30 in units of 1/256 segments.
const MOST_SEGMENTS: f64 = 4_194_304.0;

impl Connection<'_> {
    /// Runs slices of 50 ms at 100 Gbit/s on a path with a least RTT of 200 ms.
    fn fast_slices(&mut self, count: u32, rtt_us: i64) {
        for _ in 0..count {
            self.view.max_packets_out = self.view.snd_cwnd;
            self.ack(50_000, 625_000, (12_500_000 * rtt_us / 1_000_000) as i32, rtt_us);
        }
    }

    fn segments(&self) -> f64 {
        self.state("window") as f64 / 256.0
    }

    /// Runs slices of 10 ms, in which `flight` segments per 50 ms arrive.
    fn limited_slices(&mut self, count: u32, flight: i32, app_limited: impl Fn(u32) -> bool) {
        for i in 0..count {
            self.view.app_limited = if app_limited(i) { self.view.delivered.max(1) } else { 0 };
            self.ack(10_000, flight as u32 / 5, flight, 50_000);
        }
    }
}

#[test]
fn nothing_overflows_at_100_gbit_per_s_and_200_ms() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.fast_slices(1, 200_000);
    connection.fast_slices(40, 220_000);
    assert_eq!((connection.state("phase"), connection.state("base_us")), (CRUISE, 200_000));
    // 12.5 million segments/s x (200 + 25 ms), and 1.25 sqrt(W) = 2100
    let w = connection.segments();
    assert!((w / 2_814_600.0 - 1.0).abs() < 0.02, "{w}");
    let paced_s = w * f64::from(MSS) * 1.25 / connection.view.pacing_rate as f64;
    assert!((paced_s / 0.2 - 1.0).abs() < 0.001, "paced over {paced_s} s");
    assert!(f64::from(connection.view.snd_cwnd) <= w, "{}", connection.view.snd_cwnd);
}

/// Without a queue, W grows to its limit, and stays there.
#[test]
fn w_stops_at_its_limit() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.fast_slices(1, 200_000);
    connection.fast_slices(4, 220_000);
    let mut least = MOST_SEGMENTS;
    for _ in 0..100 {
        connection.fast_slices(1, 200_000);
        least = least.min(connection.segments());
        assert!(connection.segments() <= MOST_SEGMENTS, "{}", connection.segments());
    }
    assert!(least > 2_500_000.0, "W wrapped around: {least}");
    assert_eq!(f64::from(connection.view.snd_cwnd), MOST_SEGMENTS);
    let rate = connection.view.pacing_rate as f64;
    assert!((rate / (MOST_SEGMENTS * f64::from(MSS) * 1.25 / 0.2) - 1.0).abs() < 0.001, "{rate} bytes/s");
}

#[test]
fn an_rtt_of_a_minute_counts_as_the_longest() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    for _ in 0..20 {
        connection.ack(60_000_000, 10, 20, 60_000_000);
    }
    assert_eq!(connection.state("base_us"), 1 << 24);
    assert_eq!(connection.segments(), 210.0, "W grew by what arrived, 20 times 10 segments");
}

#[test]
fn w_stays_while_the_application_uses_a_fifth_of_it() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    connection.limited_slices(10, 100, |_| false);
    let before = connection.segments();
    connection.limited_slices(20, 20, |_| true);
    assert_eq!(connection.segments(), before);
}

/// `tcp_notsent_lowat` makes the application late now and then. What then arrives still is a full flight.
#[test]
fn an_application_that_is_late_now_and_then_does_not_change_w() {
    let algo = HostAlgo::load("crest");
    let window = |late: fn(u32) -> bool| {
        let mut connection = Connection::cruising(&algo);
        connection.limited_slices(15, 100, late);
        assert_eq!(connection.state("phase"), CRUISE);
        connection.segments()
    };
    let (always, late) = (window(|_| false), window(|i| i % 2 == 1));
    assert!((late / always - 1.0).abs() < 0.01, "{late} segments, {always} with data at all times");
}

/// At 100 Gbit/s over 200 ms, 5 % of a round trip are 86,000 segments.
#[test]
fn more_losses_than_16_bits_count() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.fast_slices(1, 200_000);
    connection.fast_slices(40, 220_000);
    for _ in 0..80 {
        connection.view.lost += 625_000 / 20;
        connection.fast_slices(1, 220_000);
    }
    let loss = connection.state("loss");
    assert!((45..=50).contains(&loss), "{loss} per mille");
}

#[test]
fn many_losses_end_the_start_at_100_gbit_per_s() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    while connection.segments() < 2_000_000.0 {
        let window = connection.view.snd_cwnd;
        connection.ack(100, window, window as i32, 200_000);
        assert_eq!(connection.state("phase"), START);
    }
    connection.view.lost += 400_000;
    connection.ack(100, 1, 1, 200_000);
    assert_eq!(connection.state("phase"), CRUISE);
}

/// Four segments of 88 bytes over a path of seconds are some hundred bytes per second.
#[test]
fn small_windows_are_paced_as_others() {
    let algo = HostAlgo::load("crest");
    for rtt_us in [150_000, 221_000, 600_000, 4_000_000] {
        let mut connection = Connection::new(&algo);
        connection.view.mss = 88;
        for _ in 0..20 {
            connection.ack(rtt_us, 4, 4, rtt_us as i64);
            connection.ack(rtt_us, 4, 4, 3 * rtt_us as i64);
        }
        let paced_s = connection.segments() * 88.0 * 1.25 / connection.view.pacing_rate as f64;
        let path_s = rtt_us as f64 / 1e6;
        assert!((paced_s / path_s - 1.0).abs() < 0.02, "paced over {paced_s} s, the path is {path_s} s");
    }
}

#[test]
fn the_applications_limit_for_the_pacing_rate_holds() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.view.max_pacing_rate = 2_000_000;
    for _ in 0..5 {
        connection.ack(1000, 2, 10, 40_000);
    }
    assert_eq!(connection.view.pacing_rate, 2_000_000, "2.5 MB/s without a limit");
}

/// The first ACKs after a pause are for what left when little was in flight.
#[test]
fn w_stays_after_a_pause() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    connection.limited_slices(10, 100, |_| false);
    let before = connection.segments();
    connection.view.now_us += 1_000_000;
    connection.view.max_packets_out = 100;
    connection.flow.set(&connection.view);
    connection.flow.cwnd_event(EVENT_TX_START);
    let prior_delivered = connection.view.delivered;
    for (after_us, acked, delivered) in [(40_000, 2, 2), (10_000, 25, 27), (10_000, 25, 52)] {
        connection.view.now_us += after_us;
        connection.view.delivered += acked;
        connection.flow.set(&connection.view); // app_limited is 0: the kernel has cleared it
        connection.flow.cong_control(&RateSample {
            prior_delivered,
            delivered,
            interval_us: 40_000,
            rtt_us: 40_000,
            acked_sacked: acked,
            is_app_limited: true,
            ..RateSample::default()
        });
        connection.view = connection.flow.get(&connection.view);
        assert!(connection.segments() >= before, "{} after {before}", connection.segments());
    }
}

#[test]
fn the_start_does_not_grow_beyond_the_clamp() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.view.snd_cwnd_clamp = 20;
    for _ in 0..100 {
        connection.ack(1000, 10, 20, 40_000);
    }
    assert_eq!((connection.state("phase"), connection.view.snd_cwnd), (START, 20));
    assert!((connection.segments() - 20.0).abs() < f64::EPSILON);
    // 5 x 20 segments per 40 ms
    assert!(connection.view.pacing_rate <= 2500 * u64::from(MSS), "{}", connection.view.pacing_rate);
}
