//! crest with a radio map: the choice of a signal, its weight, and a change of the cell.

use super::{Connection, MSS};
use hotcc_abi::radio::{Capacity, PackedSinr};
use hotcc_host_algo::{Group, HostAlgo, RadioLine};

const SINR: u64 = 1;
const CAPACITY: u64 = 2;

/// The radio map's reading of the connection's link.
#[derive(Clone, Copy, Default)]
struct RawReading {
    sinr_db: Option<f64>,
    average_db: f64,
    capacity: Option<(f64, bool)>,
    cell: u32,
    age_ms: u32,
}

impl Connection<'_> {
    /// Writes a reading to the radio map.
    fn publish(&self, algo: &HostAlgo, raw: RawReading) {
        let time_ms = (self.view.now_us / 1000) as u32 - raw.age_ms;
        let q8 = |db: f64| (db * 256.0) as i16;
        let sinr = |db| PackedSinr { sinr_q8_db: q8(db), average_q8_db: q8(raw.average_db), time_ms }.pack();
        let capacity = raw.capacity.and_then(|(bps, derived)| Capacity::new(bps, derived, time_ms));
        algo.set_radio_line(Some(RadioLine {
            sinr: raw.sinr_db.map_or(0, sinr),
            capacity: capacity.map_or(0, Capacity::pack),
            cell: raw.cell,
            max_age_ms: 500,
        }));
    }

    /// Runs slices with a queue, in each of which `flight` segments arrive per flight, with this reading of the radio.
    fn slices(&mut self, algo: &HostAlgo, count: u32, flight: i32, raw: RawReading) {
        for _ in 0..count {
            self.publish(algo, raw);
            self.ack(10_000, flight as u32 / 5, flight, 50_000);
        }
    }
}

#[test]
fn a_measured_capacity_takes_precedence_over_the_sinr() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let sinr_db = Some(10.0);
    for (raw, kind) in [
        (RawReading { sinr_db, ..RawReading::default() }, SINR),
        (RawReading { sinr_db, capacity: Some((16e6, false)), ..RawReading::default() }, CAPACITY),
        (RawReading { sinr_db, capacity: Some((16e6, true)), ..RawReading::default() }, SINR),
        (RawReading { capacity: Some((16e6, false)), ..RawReading::default() }, CAPACITY),
    ] {
        connection.slices(&algo, 1, 100, raw);
        assert_eq!(connection.state("signal.radio.kind"), kind);
    }
    // too old, or derived without a SINR: not used
    for raw in [
        RawReading { capacity: Some((16e6, false)), age_ms: 501, ..RawReading::default() },
        RawReading { capacity: Some((16e6, true)), ..RawReading::default() },
    ] {
        connection.slices(&algo, 1, 100, raw);
        assert_eq!(connection.state("signal.readings[0]"), 0x8000, "no reading");
    }
}

/// What was learned about one kind of signal is kept, and does not carry over: the other kind has to earn its own
/// weight.
#[test]
fn each_signal_keeps_its_own_weight() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let sinr = RawReading { sinr_db: Some(10.0), ..RawReading::default() };
    let learned = |c: &Connection<'_>| (c.state("signal.level"), c.state("signal.error_with"));
    connection.slices(&algo, 40, 100, sinr);
    let of_sinr = learned(&connection);
    assert!(of_sinr.0 > 0);
    let capacity = RawReading { capacity: Some((16e6, false)), ..sinr };
    connection.slices(&algo, 1, 100, capacity);
    assert_eq!(learned(&connection), (0, 0), "nothing is known of the capacity yet");
    assert_eq!((connection.state("signal.other_level"), connection.state("signal.other_error")), of_sinr);
    connection.slices(&algo, 40, 100, capacity);
    // 2000 segments/s of a capacity of 16 Mbit/s: log2(16 * 2000) + 20 - log2(16000) = 21, in 1/1024
    let level = connection.state("signal.level") as i64;
    assert!((level - 21 * 1024).abs() < 100, "{level}");
    let of_capacity = learned(&connection);
    connection.slices(&algo, 1, 100, sinr);
    assert_eq!(learned(&connection), of_sinr);
    connection.slices(&algo, 1, 100, capacity);
    assert_eq!(learned(&connection), of_capacity);
}

/// A capacity that predicts the rate moves W before the packets show it, and one that is wrong loses its weight.
#[test]
fn the_weight_of_a_capacity_follows_its_accuracy() {
    let algo = HostAlgo::load("crest");
    let weight = |wrong: bool| {
        let mut connection = Connection::cruising(&algo);
        let mut rates = [100, 100, 100, 100, 100];
        for i in 0..400 {
            let flight = if i / 7 % 2 == 0 { 60 } else { 140 };
            // the radio knows the rate four slices before it is measured
            rates.rotate_left(1);
            rates[4] = flight;
            let factor = if wrong { if i / 50 % 2 == 0 { 10.0 } else { 0.1 } } else { 1.0 };
            let bps = f64::from(flight) / 0.05 * f64::from(MSS) * 8.0 * factor;
            connection.publish(&algo, RawReading { capacity: Some((bps, false)), ..RawReading::default() });
            // a queue that a smaller W finds again would be a longer path
            let rtt_us = 35_000 + 100 * i64::from(rates[2]);
            connection.ack(10_000, rates[2] as u32 / 5, rates[2], rtt_us);
        }
        connection.state("signal.weight")
    };
    assert!(weight(false) > 100, "{}", weight(false));
    assert!(weight(true) < 60, "{}", weight(true));
}

/// crest reads the SINR, and not the average that the feeder publishes with it.
#[test]
fn a_forged_average_has_no_effect() {
    let window = |average_db: f64, from_db: f64| {
        let algo = HostAlgo::load("crest");
        let mut connection = Connection::cruising(&algo);
        for i in 0..40 {
            let sinr_db = Some(from_db + f64::from(i % 7));
            connection.slices(&algo, 1, 100, RawReading { sinr_db, average_db, ..RawReading::default() });
        }
        connection.state("window")
    };
    assert_eq!(window(0.0, 10.0), window(10.0, 10.0));
    assert_ne!(window(10.0, 0.0), window(10.0, 10.0), "the SINR has one");
}

#[test]
fn a_radio_that_is_turned_off_leaves_nothing() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let raw = RawReading { capacity: Some((16e6, false)), cell: 7, ..RawReading::default() };
    connection.slices(&algo, 40, 100, raw);
    let fields = ["signal.radio.slot", "signal.radio.cell", "signal.level"];
    assert!(fields.iter().all(|field| connection.state(field) > 0));
    algo.set_tunable("radio", 0);
    connection.slices(&algo, 40, 100, RawReading { cell: 8, ..raw });
    for field in fields {
        assert_eq!(connection.state(field), 0, "{field}");
    }
    assert_ne!(connection.state("phase"), 6, "not MOVED");
}

#[test]
fn a_change_of_the_cell_restarts_the_least_rtt_and_keeps_the_window_meanwhile() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let raw = RawReading { capacity: Some((16e6, false)), cell: 7, ..RawReading::default() };
    connection.slices(&algo, 10, 100, raw);
    assert_eq!(connection.state("base_us"), 40_000, "the first cell is no change");
    let round = |connection: &mut Connection<'_>, rtt_us| {
        connection.publish(&algo, RawReading { cell: 8, ..raw });
        connection.ack(100_000, 400, 100, rtt_us);
    };
    // at the end of the first round the flow sees the change; the second acknowledges segments sent before that
    round(&mut connection, 60_000);
    let window = connection.state("window");
    assert!(window < 140 * 256, "less than 7/8 of 400 segments per 100 ms, over 40 ms: it keeps no queue");
    for rtt_us in [70_000, 80_000] {
        assert_eq!((connection.state("base_us"), connection.state("window")), (40_000, window));
        round(&mut connection, rtt_us);
    }
    assert_eq!(connection.state("base_us"), 80_000);
    let w = connection.state("window") as f64 / 256.0;
    let paced_s = w * f64::from(MSS) * 1.25 / connection.view.pacing_rate as f64;
    assert!((paced_s / 0.08 - 1.0).abs() < 0.01, "paced over {paced_s} s");
    let after = connection.state("window");
    assert!(after.abs_diff(window) < window / 200, "{window}, then {after}");
    for _ in 0..3 {
        round(&mut connection, 85_000);
        assert_eq!(connection.state("base_us"), 80_000, "then it holds");
    }
}

/// What a sibling learned about the capacity, and what a newcomer finds.
#[derive(Clone, Copy)]
struct Known {
    /// Capacity that the sibling reads, in bit/s; it gets 2000 segments/s of it.
    of_sibling_bps: fn(u32) -> f64,
    /// The newcomer's reading.
    reading: RawReading,
    rtt_us: i64,
    after_s: u64,
    /// Segments that the newcomer's first round lost.
    lost: u32,
}

impl<'a> Connection<'a> {
    /// Returns a connection that has read this capacity for four seconds.
    fn that_read(algo: &'a HostAlgo, bps: fn(u32) -> f64) -> Self {
        let mut connection = Self::cruising(algo);
        for slice in 0..400 {
            let capacity = Some((bps(slice), false));
            connection.slices(algo, 1, 100, RawReading { capacity, ..RawReading::default() });
        }
        connection
    }

    /// Returns W, in segments, after a newcomer's first round, in which 10 segments arrived.
    fn window_of_newcomer(&self, algo: &HostAlgo, known: Known) -> f64 {
        let mut newcomer = Connection::new(algo);
        newcomer.view.now_us = self.view.now_us + known.after_s * 1_000_000;
        newcomer.publish(algo, known.reading);
        newcomer.view.lost += known.lost;
        newcomer.ack(known.rtt_us as u64, 10, 10, known.rtt_us);
        assert!(newcomer.view.snd_cwnd <= 30, "two segments for each that arrives");
        newcomer.state("window") as f64 / 256.0
    }
}

/// Returns crest for the flows of a group.
fn group() -> HostAlgo {
    let mut algo = HostAlgo::load("crest");
    algo.join(&Group::default());
    algo
}

const READING: RawReading =
    RawReading { sinr_db: None, average_db: 0.0, capacity: Some((16e6, false)), cell: 0, age_ms: 0 };
const KNOWN: Known = Known { of_sibling_bps: |_| 16e6, reading: READING, rtt_us: 40_000, after_s: 1, lost: 0 };

fn assert_jumps(window: f64, segments: f64) {
    assert!((window / segments - 1.0).abs() < 0.03, "{window}, expected {segments}");
}

/// Until a flow's readings have foretold its rate, they say nothing.
#[test]
fn a_flow_that_has_not_learned_yet_leaves_what_its_siblings_learned() {
    let algo = group();
    let sibling = Connection::that_read(&algo, KNOWN.of_sibling_bps);
    let mut short = Connection::cruising(&algo);
    short.view.now_us = sibling.view.now_us;
    short.slices(&algo, 20, 100, READING);
    assert!(short.state("signal.error_with") > 512, "it has not learned");
    assert_jumps(sibling.window_of_newcomer(&algo, KNOWN), 40.0);
}

/// On another processor, the second that just began here may not have begun yet.
#[test]
fn a_flow_whose_clock_is_slightly_behind_leaves_what_its_siblings_know() {
    let algo = group();
    let mut sibling = Connection::that_read(&algo, KNOWN.of_sibling_bps);
    let mut other = Connection::cruising(&algo);
    let second_us = 1024 * 1000;
    let begin_us = (sibling.view.now_us / second_us + 2) * second_us;
    for (connection, now_us) in [(&mut sibling, begin_us + 500), (&mut other, begin_us - 500)] {
        connection.view.now_us = now_us - 50_000;
        connection.publish(&algo, READING);
        connection.ack(50_000, 100, 100, 50_000);
    }
    assert_jumps(sibling.window_of_newcomer(&algo, KNOWN), 40.0);
}

/// The sibling gets 2000 segments/s at 40 ms: 80 segments.
#[test]
fn a_newcomer_jumps_to_half_of_what_its_siblings_get_of_the_capacity() {
    let (known, reading) = (KNOWN, READING);
    let jumps = |known: Known, segments: f64| {
        let algo = group();
        assert_jumps(Connection::that_read(&algo, known.of_sibling_bps).window_of_newcomer(&algo, known), segments);
    };
    let capacity = |bps| RawReading { capacity: Some((bps, false)), ..RawReading::default() };
    jumps(known, 40.0);
    jumps(Known { reading: capacity(64e6), ..known }, 160.0);
    jumps(Known { after_s: 9, ..known }, 40.0);
    jumps(Known { reading: capacity(2e12), ..known }, 4_194_304.0); // W's limit; without it, 5 million
    // else W doubles
    for other in [
        Known { reading: capacity(4e6), ..known },
        Known { reading: RawReading::default(), ..known },
        Known { reading: RawReading { sinr_db: Some(10.0), ..RawReading::default() }, ..known },
        Known { reading: RawReading { capacity: Some((16e6, true)), sinr_db: Some(10.0), ..known.reading }, ..known },
        Known { reading: RawReading { age_ms: 501, ..reading }, ..known },
        Known { of_sibling_bps: |slice| if slice / 7 % 2 == 0 { 4e6 } else { 64e6 }, ..known },
        Known { rtt_us: 80_000, ..known },
        Known { after_s: 12, ..known },
        Known { lost: 3, ..known },
    ] {
        jumps(other, 20.0);
    }
}
