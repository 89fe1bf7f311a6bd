//! crest's window, its use of the radio's signal, and its rules per round against the f64 model, slice by slice,
//! through random connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "crest_model/rounds.rs"]
mod rounds;

use hotcc_abi::radio::{Capacity, PackedSinr};
use hotcc_cc_tests::models::crest::{Signal, Slice, WayBack};
use hotcc_cc_tests::random::Random;
use hotcc_host_algo::{Flow, HostAlgo, INFINITE_SSTHRESH, RadioLine, RateSample, View};
use hotcc_testbed::soak;
use rounds::{Measured, RoundCounts};

const START: u64 = 0;
const CRUISE: u64 = 1;
const COMPETE: u64 = 4;
const CWR: u8 = 2;
const MSS: u32 = 1448;
/// The largest receive window (RFC 7323).
const RECEIVE_WINDOW_MAX: u64 = 1 << 30;
/// The rate of 100 Gbit/s, segments/s.
const FASTEST: f64 = 100e9 / 8.0 / MSS as f64;
/// The receiver's clock when the sender's is 0.
const RECEIVER_START_MS: u32 = 4_000_000_000;
/// Error of several logarithms; the square root of W has two.
const TOLERANCE: f64 = 0.025;
/// Error of one logarithm to base 2.
const LOG_ERROR: f64 = 0.015;

struct Connection<'a> {
    flow: Flow<'a>,
    view: View,
    /// Segments delivered before the segment that was acknowledged last was sent.
    prior_delivered: u32,
}

impl Connection<'_> {
    fn state(&self, name: &str) -> f64 {
        self.flow.private(name) as f64
    }

    fn ack(&mut self, sample: RateSample) {
        self.view.delivered += sample.acked_sacked;
        self.prior_delivered = self.view.delivered.wrapping_sub(sample.delivered as u32);
        self.view.snd_una = self.view.snd_una.wrapping_add(sample.acked_sacked * MSS);
        let in_flight = (u64::from(self.view.snd_cwnd) * u64::from(MSS)).min(RECEIVE_WINDOW_MAX);
        self.view.snd_nxt = self.view.snd_una.wrapping_add(in_flight as u32);
        self.flow.set(&self.view);
        self.flow.cong_control(&RateSample { prior_delivered: self.prior_delivered, ..sample });
        self.view = self.flow.get(&self.view);
    }
}

/// log2 of 16: the algorithm takes logarithms of a segment rate in 1/16 per second.
const RATE_LOG: f64 = 4.0;
const SINR: u64 = 1;
const CAPACITY: u64 = 2;
const NO_READING: i16 = i16::MIN;

/// The radio's reading at a slice.
#[derive(Clone, Copy, Debug)]
enum RawReading {
    Nothing,
    Sinr(f64),
    Capacity(f64),
}

impl RawReading {
    /// Draws a reading: mostly of the usual kind, now and then none or the other kind; near the rate to come, or not.
    fn draw(random: &mut Random, usual: u64, rate: f64, is_wrong: bool) -> Self {
        let rate = if is_wrong { random.scale(100.0, 100_000.0) } else { rate * random.scale(0.9, 1.1) };
        match if random.once_in(20) { random.between(0, 2) } else { usual } {
            SINR => Self::Sinr((10.0 * (rate / 100.0).log10()).clamp(-10.0, 40.0)),
            CAPACITY => Self::Capacity(rate * f64::from(MSS) * 8.0),
            _ => Self::Nothing,
        }
    }

    fn tell(self, algo: &HostAlgo, now_us: u64) {
        let time_ms = (now_us / 1000) as u32;
        let (mut line, q8) = (RadioLine { max_age_ms: 100, ..RadioLine::default() }, |db: f64| (db * 256.0) as i16);
        match self {
            Self::Nothing => {}
            Self::Sinr(db) => line.sinr = PackedSinr { sinr_q8_db: q8(db), average_q8_db: 0, time_ms }.pack(),
            Self::Capacity(bps) => line.capacity = Capacity::new(bps, false, time_ms).map_or(0, Capacity::pack),
        }
        algo.set_radio_line(Some(line));
    }

    /// Returns its kind and logarithm, as the algorithm must have them.
    fn reading(self) -> Option<(u64, f64)> {
        match self {
            Self::Nothing => None,
            Self::Sinr(db) => Some((SINR, (1.0 + 10f64.powf((db * 256.0).trunc() / 2560.0)).log2().log2())),
            Self::Capacity(bps) => Some((CAPACITY, (bps / 1e3).round().log2() - 20.0)),
        }
    }
}

impl Connection<'_> {
    fn signal_state(&self, name: &str) -> u64 {
        self.flow.private(&format!("signal.{name}"))
    }

    /// Returns the flow's knowledge of the way back, by its own clock; the queue and the slice are not known yet.
    fn way_back(&self) -> WayBack {
        let tick = |us: f64| (us / 64.0).floor() as i64;
        let way = tick(self.view.now_us as f64) - tick(f64::from(self.view.rcv_tsval) * 1000.0);
        let late = (way - self.signal_state("reverse_least") as i64) as i16;
        let sure = self.signal_state("reverse_sure");
        WayBack { late_ms: f64::from(late) * 0.064, queue_ms: 0.0, elapsed_ms: 0.0, sure }
    }

    /// Returns the flow's knowledge of the kind of signal that it gets now.
    fn signal(&self, heard: Option<u64>) -> Signal {
        let kind = self.signal_state("radio.kind");
        let turns = heard.is_some_and(|heard| kind != 0 && heard != kind);
        let (level, error) = if turns { ("other_level", "other_error") } else { ("level", "error_with") };
        let level = self.signal_state(level);
        let reading = |log: u16| (log as i16 != NO_READING && !turns).then_some(f64::from(log as i16) / 1024.0);
        // of the last slices, the newest first
        let history = |name: &str| [0, 1, 2, 3].map(|slice| self.signal_state(&format!("{name}[{slice}]")) as u16);
        let busy = self.signal_state("busy");
        Signal {
            level: (level != 0).then_some(level as f64 / 1024.0),
            error_with: self.signal_state(error) as f64 / 8192.0,
            error_without: self.signal_state("error_without") as f64 / 8192.0,
            rates: history("rates").map(|log| (log != 0).then_some(f64::from(log) / 1024.0)),
            readings: history("readings").map(reading),
            queued: [0, 1, 2, 3].map(|slice| busy >> slice & 1 == 1),
        }
    }
}

/// Counts of the checks of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    windows: u32,
    /// Slices in which W grew beyond its rate.
    grown: u32,
    /// Slices in which marks kept W below what losses leave.
    marked: u32,
    /// Slices whose last ACK waited on the way back.
    waited: u32,
    /// Slices in which the way back was known to the flow or to the model alone.
    unsure: u32,
    forecasts: u32,
    /// Slices in which the forecast's weight was more than a half.
    believed: u32,
    rounds: RoundCounts,
}

/// Runs one connection, whose radio gives the `usual` kind of readings, and checks each slice.
fn apply(algo: &HostAlgo, seed: u64, usual: u64) -> Counts {
    let mut random = Random::new(seed);
    let base_us = random.scale(2000.0, 300_000.0) as u64;
    let view = View {
        now_us: 1_000_000,
        snd_cwnd: 10,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: INFINITE_SSTHRESH,
        srtt_us: 8 * base_us as u32,
        mss: MSS,
        is_cwnd_limited: 1,
        ..View::default()
    };
    let mut flow = Flow::new(algo);
    flow.set(&view);
    flow.init();
    let mut connection = Connection { view: flow.get(&view), flow, prior_delivered: 0 };
    let most_rate = if random.once_in(4) { FASTEST } else { 100_000.0 };
    let mut rate = random.scale(100.0, most_rate);
    let mut counts = Counts::default();
    let is_wrong = random.once_in(3);
    let marked_once_in = if random.once_in(3) { 2 } else { 50 };
    let mut coming = [rate; 5];
    let waits_once_in = if random.once_in(2) { 2 } else { 1000 };
    let is_policed = random.once_in(4);
    // a queue of others; a probe lowers it by the flow's own part
    let rivals_us = if random.once_in(3) { (random.scale(0.5, 3.0) * base_us as f64) as u64 } else { 0 };
    let seldom = if rivals_us > 0 { 100 } else { 1 }; // the buffer is never full
    let least_part = random.pick(&[0.4, 1.0]);
    let least_stand = if random.once_in(4) { 1.0 } else { 0.8 }; // a queue that never varies is a longer path
    let (mut slice_us, mut slice_acked) = (0, 0);
    for step in 0..600 {
        rate = (rate * random.scale(0.7, 1.4)).clamp(50.0, most_rate.max(1e6));
        coming.rotate_left(1);
        coming[4] = rate;
        let said = RawReading::draw(&mut random, usual, rate, is_wrong);
        // the segments that arrive now were served two slices ago
        let rate = if usual == 0 { rate } else { coming[2] };
        let elapsed_us = (base_us / 4).max(8000) + random.between(0, 3000);
        let no_queue = if is_policed { !random.once_in(300) } else { random.once_in(3) };
        let queue_us = if no_queue { 0 } else { random.scale(100.0, 2.0 * base_us as f64) as u64 };
        let wait_us = if random.once_in(waits_once_in) { random.scale(100.0, base_us as f64) as u64 } else { 0 };
        let queue_us = if step > 20 && rivals_us > 0 {
            let part = if connection.is_probing() { random.scale(least_part, 1.0) } else { 1.0 };
            (rivals_us as f64 * part * random.scale(least_stand, 1.0)) as u64 + queue_us / 50
        } else {
            queue_us
        };
        let rtt_us = base_us + queue_us + wait_us;
        let acked = ((rate * elapsed_us as f64 / 1e6) as u32).max(4);
        if is_policed && step / 50 % 3 != 2 {
            connection.view.lost += (f64::from(acked) * random.scale(0.01, 0.1)) as u32;
        } else if random.once_in(20 * seldom) {
            connection.view.lost += random.between(1, u64::from(acked)) as u32;
        }
        if connection.flow.private("phase") == COMPETE && random.once_in(30) {
            connection.lose(&mut counts.rounds);
        }
        if connection.flow.private("phase") != START && random.once_in(marked_once_in * seldom) {
            connection.mark(&mut counts.rounds);
        }
        let rounds_before = connection.rounds();
        let before =
            ["window", "burst", "room", "empty", "last_time", "last_delivered", "policed", "resume", "base_us", "wait"]
                .map(|name| connection.state(name));
        let [window, burst, room, empty, last_time, last_delivered, policed, resume, base_before, wait] = before;
        let (cruised, competed) = [CRUISE, COMPETE].map(|phase| connection.flow.private("phase") == phase).into();
        connection.view.now_us += elapsed_us;
        connection.view.max_packets_out = connection.view.snd_cwnd / if random.once_in(4) { 3 } else { 1 };
        connection.view.rcv_tsval = RECEIVER_START_MS + ((connection.view.now_us - wait_us) / 1000) as u32;
        said.tell(algo, connection.view.now_us);
        let heard = said.reading();
        let way_back = connection.way_back();
        let signal = connection.signal(heard.map(|(kind, _)| kind));
        let delivered = ((rate * rtt_us as f64 / 1e6) as i32).max(1);
        let sample = RateSample {
            delivered,
            interval_us: rtt_us as i64,
            rtt_us: rtt_us as i64,
            acked_sacked: acked,
            ..RateSample::default()
        };
        connection.ack(sample);
        let ended = connection.flow.private("slice_start_us") == connection.view.now_us;
        (slice_us, slice_acked) = (slice_us + elapsed_us, slice_acked + acked);
        if !ended {
            continue;
        }
        let base_before_us = if base_before == 0.0 { rtt_us as f64 } else { base_before };
        let queue_ms = (rtt_us as f64 - base_before_us).max(0.0) / 1e3;
        let (wait_ms, sure) = WayBack { queue_ms, elapsed_ms: slice_us as f64 / 1e3, ..way_back }.wait_ms();
        let (elapsed_s, acked, is_whole) = (slice_us as f64 / 1e6, slice_acked, slice_us == elapsed_us);
        (slice_us, slice_acked) = (0, 0);
        let forecast = connection.judge_signal(signal, heard, f64::from(acked) / elapsed_s);
        counts.forecasts += u32::from(forecast.is_some());
        counts.believed += u32::from(forecast.is_some_and(|(_, weight)| weight > 0.5));
        if connection.signal_state("reverse_sure") != sure {
            counts.unsure += 1; // a tick of 64 us decided
            continue;
        }
        // two points in time are known to a tick of 64 us
        let error_s = if wait_ms > 0.0 { 128e-6 } else { 0.0 };
        let rtt_s = rtt_us as f64 / 1e6 - wait_ms / 1e3;
        if !is_whole {
            continue; // the least RTT may be that of an earlier ACK
        }
        let own_rate = (f64::from(acked) / elapsed_s * 16.0).floor() / 16.0; // whole units
        let slice = Slice {
            acked_rate: f64::from(delivered) / (rtt_us as f64 / 1e6),
            acked_rtt_s: rtt_us as f64 / 1e6,
            most_in_flight: f64::from(connection.view.max_packets_out),
            own_rate,
            recent_rate: (f64::from(acked) + last_delivered) / (elapsed_s + last_time * 64e-6),
            elapsed_s,
            rtt_s,
            base_s: rtt_s.min(base_before_us / 1e6),
            wait_s: f64::max(wait_ms / 1e3, (wait * 7.0 / 8.0).floor() * 64e-6), // whole ticks
            window: window / 256.0,
            burst: burst / 100.0,
            room: room / 255.0,
            empty_rtts: empty / 8.0,
            limit: if (51.0..204.0).contains(&policed) { (resume / 1024.0).exp2() / 256.0 } else { f64::INFINITY },
            lost: rounds_before.lost(),
            lossy: rounds_before.is_lossy(),
            forecast,
            trial_s: None,
        };
        let measured = Measured { rtt_s, error_s, flight_rate: slice.flight_rate(), own_rate };
        connection.judge_rounds(&rounds_before, measured, &mut counts.rounds);
        let phase = connection.flow.private("phase");
        if !(cruised && phase == CRUISE || competed && phase == COMPETE) {
            continue;
        }
        let slice = Slice { base_s: connection.state("base_us") / 1e6, ..slice };
        if competed {
            connection.judge_competition(&rounds_before, slice, error_s, &mut counts.rounds);
            continue;
        }
        let got = connection.state("window") / 256.0;
        // whether there is a queue is decided in whole microseconds, by two divisions that round down
        let most_error_s = error_s + 2e-6;
        let expected = [-most_error_s, 0.0, most_error_s].map(|error_s| {
            Slice { rtt_s: slice.rtt_s - error_s, wait_s: slice.wait_s + error_s, ..slice }.window_after()
        });
        let least = expected.into_iter().fold(f64::MAX, f64::min) * (1.0 - TOLERANCE) - 0.1;
        let most = expected.into_iter().fold(0.0, f64::max) * (1.0 + TOLERANCE) + 0.1;
        assert!((least..=most).contains(&got), "seed {seed}: W {got}, by the model {expected:?}; {slice:?}");
        counts.windows += 1;
        counts.waited += u32::from(wait_ms > 0.0);
        counts.marked += u32::from(room < 3.0);
        counts.grown += u32::from(got > 1.5 * slice.rate() * slice.base_s + 50.0);
    }
    counts
}

impl Connection<'_> {
    /// Compares the flow's signal after a slice at `rate` segments/s with the model's; returns the forecast in
    /// segments/s, and its weight.
    fn judge_signal(&self, before: Signal, heard: Option<(u64, f64)>, rate: f64) -> Option<(f64, f64)> {
        let now = self.signal(None);
        let (got_rate, rate) = (now.rates[0]?, rate.log2() + RATE_LOG);
        assert!((got_rate - rate).abs() < LOG_ERROR, "rate {got_rate}, by the model {rate}");
        let (got_reading, (_, reading)) = (now.readings[0], heard?);
        let got_reading = got_reading.unwrap();
        assert!((got_reading - reading).abs() < LOG_ERROR, "reading {got_reading}, by the model {reading}: {heard:?}");
        // step by step, from the flow's own logarithms
        let model = before.after(got_rate, Some(got_reading), now.queued[0]);
        let close = |got: f64, expected: f64, unit: f64| (got - expected).abs() <= 2.5 / unit;
        let (Some(level), Some(expected)) = (now.level, model.level) else {
            assert_eq!(now.level.is_some(), model.level.is_some(), "{before:?} {now:?}");
            return None;
        };
        assert!(close(level, expected, 1024.0), "level {level}, by the model {expected}");
        assert!(close(now.error_with, model.error_with, 8192.0), "{now:?}, by the model {model:?}");
        assert!(close(now.error_without, model.error_without, 8192.0), "{now:?}, by the model {model:?}");
        let weight = self.signal_state("weight") as f64 / 256.0;
        assert!((weight - now.weight()).abs() < 0.01, "weight {weight}, by the model {}", now.weight());
        Some(((level + got_reading - RATE_LOG).exp2(), weight))
    }
}

#[test]
fn the_window_and_the_signal_are_the_models_through_random_connections() {
    let algo = HostAlgo::load("crest");
    let mut all = [Counts::default(); 3];
    let mut rounds = RoundCounts::default();
    let seeds = soak::seeds(0, 300);
    for seed in seeds.clone() {
        let (usual, one) = (seed % 3, apply(&algo, seed, seed % 3));
        rounds.add(one.rounds);
        let sum = &mut all[usual as usize];
        sum.windows += one.windows;
        sum.grown += one.grown;
        sum.marked += one.marked;
        sum.waited += one.waited;
        sum.unsure += one.unsure;
        sum.forecasts += one.forecasts;
        sum.believed += one.believed;
    }
    for (counts, usual) in all.into_iter().zip(["nothing", "SINR", "capacity"]) {
        let Counts { windows, grown, marked, waited, unsure, forecasts, believed, rounds: _ } = counts;
        println!("{usual}: {counts:?}");
        assert!(windows > 8000 && grown > 30 && marked > 500 && waited > 500, "{usual}: {counts:?}");
        assert!(unsure * 1000 < windows, "{usual}: {counts:?}");
        assert!(usual == "nothing" || (forecasts > 5000 && believed > 500), "{usual}: {counts:?}");
    }
    println!("{rounds:?}");
    rounds.assert_enough();
    soak::report(&format!("crest: {} connections agree", seeds.count()));
}
