//! The receivers' arithmetic against models in f64.

use hotcc_cc_tests::random::Random;
use hotcc_cc_tests::rx::{Arrival, RxUnits, State};
use std::collections::VecDeque;

/// Applies lines 23 to 29 of Algorithm 1, with percentages.
fn hint(loss: f64) -> u32 {
    if loss >= 90.0 {
        (loss - 30.0).floor() as u32
    } else if loss >= 30.0 {
        ((loss - 30.0).powi(2) / 60.0 + 1e-9).floor() as u32
    } else if loss < 20.0 {
        100 + (20.0 - loss - 1e-9).ceil() as u32
    } else {
        0
    }
}

#[test]
fn hints_of_every_loss() {
    let units = RxUnits::load();
    for loss_bp in 0..=10_000 {
        let (got, want) = (units.arwa_hint_of(loss_bp), hint(f64::from(loss_bp) / 100.0));
        assert_eq!(got, want, "{loss_bp}");
        assert!(matches!(got, 0..=70 | 101..=120), "{loss_bp}: {got}");
    }
    let known = [(0, 120), (1999, 101), (2000, 0), (2999, 0), (6000, 15), (8999, 59), (9000, 60), (10_000, 70)];
    for (loss_bp, want) in known {
        assert_eq!(units.arwa_hint_of(loss_bp), want, "{loss_bp}");
    }
    // whatever the tunables are, hints without a meaning are never given, and nothing traps
    let mut random = Random::new(1);
    for _ in 0..2000 {
        units.set("limit_high_percent", random.between(2, 100) as u32);
        units.set("limit_low_percent", random.between(1, 99) as u32);
        units.set("lowest_percent", random.between(0, 20) as u32);
        for _ in 0..50 {
            assert!(matches!(units.arwa_hint_of(random.between(0, 10_000) as u32), 0..=70 | 101..=120));
        }
    }
}

#[test]
fn time_stamps_among_options() {
    let units = RxUnits::load();
    let find = |options: &[u8]| {
        let mut padded = [0; 40];
        padded[..options.len()].copy_from_slice(options);
        units.tcp_timestamp(&padded, options.len() as u32)
    };
    let stamp = [8, 10, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1];
    assert_eq!(find(&[&[1, 1][..], &stamp].concat()), Some(0x1234_5678));
    assert_eq!(find(&[&stamp[..], &[1, 1]].concat()), Some(0x1234_5678));
    let sack = [5, 26].into_iter().chain([0; 24]).collect::<Vec<u8>>();
    assert_eq!(find(&[&sack[..], &[1, 1], &stamp].concat()), Some(0x1234_5678), "at the very end");
    assert_eq!(find(&[254, 6, 0xa2, 0x7a, 8, 10]), None, "inside another one");
    for none in
        [&[][..], &[1, 1, 1, 1], &[0, 0], &[8, 9, 1, 2, 3, 4, 0, 0, 0, 1], &[5, 0, 8, 10], &[5, 1, 8, 10], &stamp[..9]]
    {
        assert_eq!(find(none), None, "{none:?}");
    }
    let mut random = Random::new(2);
    for _ in 0..200_000 {
        let mut options = [0; 40];
        options.iter_mut().for_each(|byte| *byte = [random.bits() as u8, 1, 8, 10][(random.bits() % 4) as usize]);
        let _ = units.tcp_timestamp(&options, random.between(0, 40) as u32); // would trap if it read beyond the options
    }
}

#[test]
fn the_usual_place_of_a_time_stamp_is_told_from_others() {
    let units = RxUnits::load();
    let mut random = Random::new(3);
    let mut found = 0;
    for _ in 0..200_000 {
        let mut options = [0; 40];
        options.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        let usual = [1, 1, 8, 10].map(|byte| if random.between(0, 9) == 0 { byte ^ 1 } else { byte });
        options[..4].copy_from_slice(&usual);
        let length = random.between(0, 40) as u32;
        let is_there = usual == [1, 1, 8, 10] && length >= 12;
        let aligned = units.tcp_aligned_timestamp(&options, length);
        assert_eq!(aligned.is_some(), is_there, "{options:?}, {length}");
        if is_there {
            assert_eq!(aligned, units.tcp_timestamp(&options, length));
            assert_eq!(aligned.unwrap().to_be_bytes(), options[4..8]);
            found += 1;
        }
    }
    assert!(found > 50_000, "{found}");
}

#[test]
fn kinds_of_clocks() {
    let units = RxUnits::load();
    for kind in [1, 1000, 4000, 10_000, 100_000] {
        for permille in [850, 1000, 1500, 1900] {
            let ticks = 5_000_000 / kind;
            assert_eq!(units.tick_kind_us(ticks * kind * permille / 1000, ticks), kind as u32, "{kind}, {permille}");
        }
    }
    for (elapsed, ticks) in [(1000, 10_000), (1_000_000, 10_000), (10_000_000, 2)] {
        assert_eq!(units.tick_kind_us(elapsed, ticks), 0, "{elapsed} / {ticks}");
    }
}

/// Algorithm 1 in f64. The model gets the sender's clock, which the algorithm has to find out and to unwrap.
#[derive(Default)]
struct Model {
    /// Times at which the first packet was received and sent.
    first_us: Option<(f64, f64)>,
    clock: Clock,
    least_us: f64,
    least_size: f64,
    estimated_us: f64,
    excess_us: f64,
    bytes: f64,
    packets: f64,
    old: u32,
    /// Tunable.
    jitter_us: f64,
}

/// Decides whether the receiver can know that the sender's clock ticks each millisecond.
#[derive(Default)]
struct Clock {
    is_known: bool,
    /// Times from the first packet to the last check, at the receiver and at the sender.
    looked_us: (f64, f64),
}

impl Clock {
    fn look(&mut self, elapsed_us: f64, sent_us: f64) {
        let (looked_us, looked_sent_us) = self.looked_us;
        let older = if self.is_known { 2.0 } else { 1.25 };
        let next_us = (looked_us / 1000.0 * older).floor() * 1000.0;
        if elapsed_us < next_us.max(20_000.0) || sent_us < 4000.0 || sent_us - looked_sent_us < 4000.0 {
            return;
        }
        // a queue that fills can make ticks look longer or shorter, but not for half a second, and at two checks
        let usual = |elapsed_us: f64, sent_us: f64| (0.8..3.2).contains(&(elapsed_us / sent_us));
        self.is_known |=
            usual(elapsed_us, sent_us) || (looked_us > 0.0 && usual(elapsed_us - looked_us, sent_us - looked_sent_us));
        // kept in milliseconds
        self.looked_us = ((elapsed_us / 1000.0).floor() * 1000.0, sent_us);
    }
}

/// One packet of a generated connection.
struct Packet {
    /// Time in its timestamp: in whole milliseconds.
    sent_us: f64,
    now_us: f64,
    size: f64,
    count: f64,
}

impl Model {
    /// Returns the hints that an exact and a slightly rounded loss give; `None`: no estimate.
    fn receive(&mut self, p: &Packet, rtt_us: u32) -> Option<[(u32, u32); 2]> {
        let delay_us = p.now_us - p.sent_us;
        let (first_us, first_sent_us) = *self.first_us.get_or_insert_with(|| {
            self.least_us = f64::INFINITY;
            (p.now_us, p.sent_us)
        });
        let is_least = delay_us < self.least_us;
        self.least_us = self.least_us.min(delay_us);
        self.clock.look(p.now_us - first_us, p.sent_us - first_sent_us);
        if !self.clock.is_known {
            return None;
        }
        if is_least || self.least_size == 0.0 {
            self.least_size = p.size;
        }
        self.excess_us += (delay_us - self.least_us - 500.0).max(0.0) * p.count;
        self.bytes += p.size * p.count;
        self.packets += p.count;
        let elapsed_us = p.now_us - self.estimated_us;
        if elapsed_us <= 30_000.0 && self.packets < 16.0 {
            return None;
        }
        let least_us = f64::from(rtt_us / 2).max(1000.0);
        let queue_us = (self.excess_us - self.jitter_us * self.packets).max(0.0);
        let rate = self.bytes / (least_us * self.packets + queue_us);
        let loss = (100.0 - 100.0 * rate / (self.least_size / least_us)).clamp(0.0, 100.0);
        (self.excess_us, self.bytes, self.packets, self.estimated_us) = (0.0, 0.0, 0.0, p.now_us);
        Some([loss, (loss + 0.0102).min(100.0)].map(|loss| self.softened(hint(loss), elapsed_us < 30_000.0)))
    }

    /// Applies lines 30 to 40: returns the hint, and the part of it that is kept.
    fn softened(&self, hint: u32, early: bool) -> (u32, u32) {
        if !early || hint >= 100 {
            return (hint, 0);
        }
        let less = if hint > self.old { hint - self.old } else { hint };
        (less, less)
    }
}

#[test]
fn estimates_are_the_models() {
    let (units, mut random) = (RxUnits::load(), Random::new(3));
    units.set("least_window_ms", 0);
    let (mut estimates, mut shrinking, mut growing, mut softened) = (0, 0, 0, 0);
    for connection in 0..300 {
        let jitter_us = random.pick(&[0, 4000, 30_000]);
        units.set("jitter_us", jitter_us);
        let (mut state, mut model) = (State::default(), Model { jitter_us: f64::from(jitter_us), ..Model::default() });
        let origin = random.bits() as u32 | 0xffff_0000; // the timestamps wrap
        let start_us = random.between(1, 1 << 40);
        let rtt_us = random.scale(100.0, 300_000.0) as u32;
        let pace_us = random.scale(50.0, 20_000.0);
        let deep_us = random.scale(100.0, 500_000.0);
        let (mut sent_us, mut now_us, mut queue_us) = (0.0, 0.0, 0.0);
        for _ in 0..400 {
            sent_us += random.scale(pace_us / 4.0, pace_us * 4.0);
            queue_us = (queue_us + (random.unit() - 0.5) * deep_us / 4.0).clamp(0.0, deep_us);
            now_us = f64::max(now_us, sent_us + queue_us).floor();
            let (size, count) = (random.pick(&[1448, 1448, 512]), random.pick(&[1, 1, 1, 2, 20]));
            let arrival = Arrival {
                now_us: start_us + now_us as u64,
                tsval: origin.wrapping_add((sent_us / 1000.0) as u32),
                size,
                count,
                rtt_us,
            };
            let packet = Packet {
                sent_us: (sent_us / 1000.0).floor() * 1000.0,
                now_us: start_us as f64 + now_us,
                size: f64::from(size),
                count: f64::from(count),
            };
            let got = units.arwa_receive(&mut state, &arrival);
            let want = model.receive(&packet, rtt_us);
            let tick_us = units.arwa_tick_us(&state);
            assert_eq!(tick_us, u32::from(model.clock.is_known) * 1000, "{connection}");
            let (Some(got), Some(want)) = (got, want) else {
                assert_eq!(got.is_some(), want.is_some(), "{connection}: {arrival:?} {want:?}");
                continue;
            };
            let agreed = want.into_iter().find(|(hint, _)| *hint == got);
            let (_, old) = agreed.unwrap_or_else(|| panic!("{connection}: {got} for {want:?}, {arrival:?}"));
            softened += u32::from(old > 0 && model.old > 0);
            model.old = old;
            estimates += 1;
            shrinking += u32::from((1..=70).contains(&got));
            growing += u32::from(got > 100);
        }
    }
    println!("{estimates} estimates: {shrinking} shrink, {growing} grow, {softened} softened");
    assert!(
        estimates > 5000 && shrinking > 500 && growing > 500 && softened > 50,
        "{estimates} {shrinking} {growing} {softened}"
    );
}

/// Returns one full segment that arrives by itself.
fn segment(now_us: u64, tsval: u32, rtt_us: u32) -> Arrival {
    Arrival { now_us, tsval, size: 1448, count: 1, rtt_us }
}

/// On a path of 10 ms with a packet each 2 ms, the radio retransmits every fifth packet 8 ms later, and the next ones
/// wait for it.
#[test]
fn link_layer_retransmissions_are_not_taken_for_a_queue() {
    let units = RxUnits::load();
    let hints = |jitter_us: u32, queue_us: u64| {
        units.set("jitter_us", jitter_us);
        let mut state = State::default();
        let mut hints = Vec::new();
        for n in 0..2000u32 {
            let sent_us = u64::from(n) * 2000;
            let again_us = 8000 - u64::from(n % 5) * 2000; // 4 ms on average
            let queued_us = if n < 1000 { 0 } else { queue_us };
            let arrival = segment(1_000_000 + sent_us + again_us + queued_us, sent_us as u32, 10_000);
            hints.extend(units.arwa_receive(&mut state, &arrival));
        }
        hints.split_off(hints.len() - 50)
    };
    let shrinks = |hint: &u32| (1..=70).contains(hint);
    assert!(hints(0, 0).iter().any(shrinks), "what the jitter is for");
    assert!(hints(4000, 0).iter().all(|hint| *hint > 100), "the queue is empty");
    assert!(hints(4000, 10_000).iter().all(shrinks), "a queue is one");
}

#[test]
fn clock_drift_is_not_taken_for_a_queue() {
    let units = RxUnits::load();
    let last_hints = |window_ms: u32, ppm: f64| {
        units.set("least_window_ms", window_ms);
        let mut state = State::default();
        let mut hints = Vec::new();
        for n in 0..60_000u32 {
            let sent_us = f64::from(n) * 10_000.0; // ten minutes
            let now_us = 1 + (sent_us * (1.0 + ppm / 1e6)) as u64;
            let arrival = segment(now_us, (sent_us / 1000.0) as u32, 20_000);
            hints.extend(units.arwa_receive(&mut state, &arrival));
        }
        hints.split_off(hints.len() - 100)
    };
    for ppm in [-50.0, 0.0, 50.0] {
        assert!(last_hints(10_000, ppm).iter().all(|hint| *hint > 100), "{ppm} ppm: the queue is empty");
    }
    assert!(last_hints(0, 50.0).iter().all(|hint| (1..=70).contains(hint)), "what the window is for");
}

/// Sends a packet every 3 ms over a path that is empty for four seconds and then has a queue of `queue_us`. Returns the
/// hints before and in the queue, and the tick that was found.
fn hints_before_and_in_a_queue(tick_us: u64, queue_us: u64) -> (Vec<u32>, Vec<u32>, u32) {
    let units = RxUnits::load();
    let (mut state, mut empty, mut queued) = (State::default(), Vec::new(), Vec::new());
    for n in 0..3000_u64 {
        let (sent_us, is_queued) = (n * 3000, n * 3000 > 4_000_000);
        let now_us = 1_000_000 + sent_us + if is_queued { queue_us } else { 0 };
        let arrival = segment(now_us, 0xffff_ff00_u32.wrapping_add((sent_us / tick_us) as u32), 200_000);
        if let Some(hint) = units.arwa_receive(&mut state, &arrival) {
            if is_queued { &mut queued } else { &mut empty }.push(hint);
        }
    }
    (empty, queued, units.arwa_tick_us(&state))
}

#[test]
fn a_queue_is_detected_with_every_kind_of_clock() {
    for tick_us in [1, 1000, 4000, 10_000, 100_000] {
        let (empty, queued, found_us) = hints_before_and_in_a_queue(tick_us, 500_000);
        assert_eq!(u64::from(found_us), tick_us);
        // a tick may be as long as the path itself: the rest of it looks like some delay, not like a queue
        assert!(
            empty.len() > 80 && !empty.iter().any(|hint| (1..=70).contains(hint)),
            "{tick_us} us, empty: {empty:?}"
        );
        assert!(tick_us == 100_000 || empty.iter().all(|hint| *hint > 100), "{tick_us} us, empty: {empty:?}");
        // the first estimate has packets from before and in the queue
        assert!(queued.len() > 80, "{tick_us} us: {queued:?}");
        assert!(queued[1..].iter().all(|hint| (1..=70).contains(hint)), "{tick_us} us, queue: {queued:?}");
    }
    // with a clock of no known kind, there are no hints
    let (empty, queued, found_us) = hints_before_and_in_a_queue(500_000, 500_000);
    assert_eq!((empty.len(), queued.len(), found_us), (0, 0, 0));
}

/// Sends a packet each `pace_us` over a link that holds back all packets of a period; returns the longest tick that was
/// accepted.
fn longest_tick_us(units: &RxUnits, pace_us: u64, stalled_us: std::ops::Range<u64>) -> u32 {
    let (mut state, mut longest_us) = (State::default(), 0);
    for n in 0..20_000_000 / pace_us {
        let sent_us = n * pace_us;
        let now_us = 1_000_000 + if stalled_us.contains(&sent_us) { stalled_us.end } else { sent_us };
        let tsval = 77 + (sent_us / 1000) as u32;
        units.arwa_receive(&mut state, &Arrival { now_us, tsval, size: 1448, count: 1, rtt_us: 20_000 });
        longest_us = longest_us.max(units.arwa_tick_us(&state));
    }
    longest_us
}

#[test]
fn a_stalled_link_is_not_taken_for_a_slower_clock() {
    let units = RxUnits::load();
    for pace_us in [500, 3000, 12_000] {
        for begin_ms in [50, 100, 150, 310, 500, 1000, 2000] {
            for times in [1.5, 2.5, 3.0, 5.0, 10.0] {
                let stalled_us = begin_ms * 1000..(begin_ms as f64 * 1000.0 * times) as u64;
                assert_eq!(longest_tick_us(&units, pace_us, stalled_us.clone()), 1000, "{pace_us}: {stalled_us:?}");
            }
        }
    }
}

/// Runs a connection's first two seconds: an initial window at once, and two packets for each that arrived, over a link
/// whose queue holds all of them. Returns hints, with the queue that their packet was in and their time, microseconds.
fn slow_start(units: &RxUnits, service_us: u64, rtt_us: u64) -> Vec<(u32, u64, u64)> {
    let (mut state, mut free_us, mut hints) = (State::default(), 0, Vec::new());
    let mut sent_us = VecDeque::from([0; 10]);
    while let Some(sent_us_of_this) = sent_us.pop_front().filter(|_| free_us < 2_000_000) {
        free_us = u64::max(free_us, sent_us_of_this) + service_us;
        let now_us = free_us + rtt_us / 2;
        sent_us.extend([now_us + rtt_us / 2; 2]);
        let tsval = 77 + (sent_us_of_this / 1000) as u32;
        let arrival = Arrival { now_us: 1_000_000 + now_us, tsval, size: 1448, count: 1, rtt_us: rtt_us as u32 };
        let hint = units.arwa_receive(&mut state, &arrival);
        hints.extend(hint.map(|hint| (hint, now_us - rtt_us / 2 - service_us - sent_us_of_this, now_us)));
        assert!(matches!(units.arwa_tick_us(&state), 0 | 1000), "{service_us} us");
    }
    hints
}

#[test]
fn a_slow_start_queue_is_not_taken_for_a_slower_clock() {
    let units = RxUnits::load();
    // from 100 kbit/s on
    for service_us in [121_000, 45_000, 12_000, 5000, 1200, 300] {
        for rtt_us in [10_000, 50_000] {
            let hints = slow_start(&units, service_us, rtt_us);
            let (_, _, first_us) = hints[0];
            assert!(first_us < 3 * (10 * service_us + rtt_us) / 2 + 20_000, "{service_us} us, {rtt_us}: {hints:?}");
            let (_, queued_us, _) = hints[hints.len() - 1];
            assert!(queued_us > 400_000, "{service_us} us, {rtt_us}: {queued_us}");
            let wrong = hints.iter().find(|(hint, queued_us, _)| *hint > 100 && *queued_us > rtt_us);
            assert!(wrong.is_none(), "{service_us} us, {rtt_us}: {wrong:?}");
        }
    }
}

#[test]
fn random_time_stamps_are_handled() {
    let (units, mut random) = (RxUnits::load(), Random::new(4));
    for _ in 0..200 {
        units.set("least_window_ms", random.pick(&[0, 1, 10_000]));
        let mut state = State::default();
        let mut now_us = random.bits() >> random.between(1, 60);
        for _ in 0..1000 {
            now_us = now_us.saturating_add(random.scale(1.0, 1e12) as u64).min(1 << 62);
            let arrival = Arrival {
                now_us,
                tsval: random.bits() as u32,
                size: random.between(1, 65_535) as u32,
                count: random.between(1, 8) as u32,
                rtt_us: (random.bits() >> random.between(32, 63)) as u32,
            };
            let hint = units.arwa_receive(&mut state, &arrival);
            assert!(matches!(hint, None | Some(0..=70 | 101..=120)), "{hint:?}");
        }
    }
}

#[test]
fn windows_are_the_models() {
    let (units, mut random) = (RxUnits::load(), Random::new(5));
    let (mut decided, mut at_floor) = (0, 0);
    for connection in 0..300 {
        let mut state = State::default();
        let base_us = random.scale(1000.0, 400_000.0);
        let mut now_us = random.between(1, 1 << 50);
        let mut received = random.between(0, 1 << 40);
        let (mut since_us, mut bytes, mut estimate, mut least_us) = (None, 0, None::<f64>, f64::INFINITY);
        let mut window = 0.0;
        let rate = random.scale(1e-4, 1e3); // bytes per microsecond
        for _ in 0..300 {
            let step_us = random.scale(base_us / 20.0, base_us * 6.0) as u64 + 1;
            now_us += step_us;
            received += (step_us as f64 * rate * random.unit()) as u64;
            let rtt_us = (base_us * random.scale(1.0, 8.0)) as u32;
            let got = units.drwa_receive(&mut state, now_us, received, rtt_us);
            let rtt = f64::from(rtt_us);
            let elapsed = since_us.map(|since| (now_us - since) as f64);
            if elapsed.is_none_or(|elapsed| elapsed >= rtt) {
                least_us = least_us.min(rtt);
                let in_rtt = elapsed
                    .filter(|e| *e <= 4.0 * rtt && received > bytes)
                    .map(|e| (received - bytes) as f64 * rtt / e);
                if let Some(in_rtt) = in_rtt {
                    let mean = estimate.map_or(in_rtt, |old| 0.875 * old + 0.125 * in_rtt);
                    estimate = Some(mean);
                    window = (3.0 * least_us / rtt * mean).clamp(3000.0, f64::from(1 << 30));
                    decided += 1;
                    at_floor += u32::from(window == 3000.0);
                }
                (since_us, bytes) = (Some(now_us), received);
            }
            // each update of W_est may lose a byte to rounding, times lambda in the window
            assert!((f64::from(got) - window).abs() <= 30.0 + window * 1e-6, "{connection}: {got} for {window}");
        }
    }
    assert!(decided > 10_000 && at_floor > 100, "{decided} {at_floor}");
}

/// Its clock has 32 bits of a millisecond, of which no difference is negative: 26 days are not the future.
#[test]
fn a_hint_is_sent_for_a_fifth_of_a_second() {
    const MS: u64 = 1_000_000;
    const DAY: u64 = 86_400_000 * MS;
    let units = RxUnits::load();
    for made_ns in [0, 10 * DAY, 60 * DAY] {
        for (age_ns, current) in
            [(0, true), (180 * MS, true), (220 * MS, false), (DAY, false), (26 * DAY, false), (40 * DAY, false)]
        {
            assert_eq!(units.hint_is_current(made_ns, made_ns + age_ns), current, "{age_ns} ns");
        }
    }
    assert!(units.hint_is_current(10 * DAY, 10 * DAY - 10 * MS), "a clock that is a tick behind");
}

#[test]
fn a_hints_sequence_is_never_0() {
    let units = RxUnits::load();
    for (sequence, next) in [(0, 1), (1, 2), (254, 255), (255, 1)] {
        assert_eq!(units.hint_sequence_after(sequence), next);
    }
}
