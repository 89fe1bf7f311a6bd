//! crest's window against the f64 model, slice by slice, through random connections.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_cc_tests::models::crest::Slice;
use hotcc_cc_tests::random::Random;
use hotcc_host_algo::{Flow, HostAlgo, INFINITE_SSTHRESH, RateSample, View};

const CRUISE: u64 = 1;
const MSS: u32 = 1448;
/// The logarithms' errors, of which the square root of W has two.
const TOLERANCE: f64 = 0.02;

struct Connection<'a> {
    flow: Flow<'a>,
    view: View,
}

impl Connection<'_> {
    fn state(&self, name: &str) -> f64 {
        self.flow.private(name) as f64
    }

    fn ack(&mut self, sample: &RateSample) {
        self.view.delivered += sample.acked_sacked;
        self.view.snd_una = self.view.snd_una.wrapping_add(sample.acked_sacked * MSS);
        self.view.snd_nxt = self.view.snd_una.wrapping_add(self.view.snd_cwnd * MSS);
        self.flow.set(&self.view);
        self.flow.cong_control(sample);
        self.view = self.flow.get(&self.view);
    }
}

/// Plays one connection; the number of slices that the model judged, and of those in which W grew beyond its rate.
fn play(algo: &HostAlgo, seed: u64) -> (u32, u32) {
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
    let mut connection = Connection { view: flow.get(&view), flow };
    let mut rate = random.scale(100.0, 100_000.0);
    let (mut judged, mut grew) = (0, 0);
    for _ in 0..400 {
        rate = (rate * random.scale(0.7, 1.4)).clamp(50.0, 1e6);
        let elapsed_us = (base_us / 4).max(8000) + random.between(0, 3000);
        let queue_us = if random.once_in(3) { 0 } else { random.scale(100.0, 2.0 * base_us as f64) as u64 };
        let rtt_us = base_us + queue_us;
        let acked = ((rate * elapsed_us as f64 / 1e6) as u32).max(4);
        if random.once_in(20) {
            connection.view.lost += random.between(1, u64::from(acked)) as u32;
        }
        let before = ["window", "burst", "room", "empty", "loss", "last_us", "last_delivered", "policed", "resume"]
            .map(|name| connection.state(name));
        let [window, burst, room, empty, loss, last_us, last_delivered, policed, resume] = before;
        let cruised = connection.flow.private("phase") == CRUISE;
        connection.view.now_us += elapsed_us;
        let delivered = ((rate * rtt_us as f64 / 1e6) as i32).max(1);
        let sample = RateSample {
            delivered,
            interval_us: rtt_us as i64,
            rtt_us: rtt_us as i64,
            acked_sacked: acked,
            ..RateSample::default()
        };
        connection.ack(&sample);
        let ended = connection.flow.private("slice_start_us") == connection.view.now_us;
        if !ended || !cruised || connection.flow.private("phase") != CRUISE {
            continue;
        }
        let elapsed_s = elapsed_us as f64 / 1e6;
        let slice = Slice {
            flight_rate: f64::from(delivered) / (rtt_us as f64 / 1e6),
            own_rate: f64::from(acked) / elapsed_s,
            recent_rate: (f64::from(acked) + last_delivered) / (elapsed_s + last_us / 1e6),
            elapsed_s,
            rtt_s: rtt_us as f64 / 1e6,
            base_s: connection.state("base_us") / 1e6,
            window: window / 256.0,
            burst: burst / 1000.0,
            room: room / 255.0,
            empty_rtts: empty / 8.0,
            limit: if (51.0..204.0).contains(&policed) { (resume / 1024.0).exp2() / 256.0 } else { f64::INFINITY },
            lossy: loss > 30.0,
        };
        let (expected, got) = (slice.window_after(), connection.state("window") / 256.0);
        let close = (got - expected).abs() <= TOLERANCE * expected + 0.1;
        assert!(close, "seed {seed}: W {got}, by the model {expected}; {slice:?}");
        judged += 1;
        grew += u32::from(got > 1.5 * slice.rate() * slice.base_s + 50.0);
    }
    (judged, grew)
}

#[test]
fn the_window_is_the_models_through_random_connections() {
    let algo = HostAlgo::load("crest");
    let (mut judged, mut grew) = (0, 0);
    for seed in 0..200 {
        let counts = play(&algo, seed);
        judged += counts.0;
        grew += counts.1;
    }
    println!("{judged} slices, in {grew} of which W grew beyond its rate");
    assert!(judged > 20_000 && grew > 100, "{judged} slices judged, {grew} of them growth");
}
