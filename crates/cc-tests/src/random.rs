//! Connections generated from a seed. They run on algorithm and model; if these differ, the connection is reduced to
//! the events that matter.

use crate::kernel::{Counts, Event, Kernel};
use crate::models::Model;
use crate::signals::{Signals, Source};
use hotcc_abi::stats::AlgoStats;
use hotcc_host_algo::{HostAlgo, INFINITE_SSTHRESH, View};
use hotcc_testbed::soak;
use std::collections::BTreeMap;
use std::mem::offset_of;

/// splitmix64 (Steele, Lea, Flood 2014): reproducible from its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Returns a generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns an integer, uniform in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.bits() % (high - low + 1)
    }

    /// Returns true once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.bits().is_multiple_of(n)
    }

    /// Returns a number, uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number between `low` and `high`; each order of magnitude is equally likely.
    pub fn scale(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// Returns one of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.bits() % from.len() as u64) as usize]
    }
}

/// A connection: how it starts and what happens to it.
#[derive(Clone, Debug)]
pub struct Script {
    /// The connection as `init` sees it.
    pub start: View,
    /// Its events.
    pub events: Vec<Event>,
}

/// Whether timeouts may leave out `ssthresh()`, as the kernel does within a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeouts {
    /// Each timeout asks for an ssthresh.
    Asking,
    /// A timeout within a recovery or after another timeout may leave it out.
    Mixed,
}

/// Properties of the connections of a check.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// Their timeouts.
    pub timeouts: Timeouts,
    /// The signals that the algorithm gets.
    pub signals: Signals,
}

/// Draws a connection of `length` events, not counting signals.
pub fn script(random: &mut Random, length: usize, conditions: Conditions) -> Script {
    let start = start(random);
    let mut path = Path::new(random, start.mss);
    let mut source = Source::new(conditions.signals);
    let mut events = Vec::new();
    if start.data_segs_out == 0 && random.once_in(8) {
        // swaps back and forth before the first byte
        events.extend((0..random.between(1, 4)).map(|_| Event::Return));
    }
    events.extend(source.begin(random));
    for _ in 0..length {
        events.extend(source.draw(random));
        events.extend(path.next(random, conditions.timeouts));
    }
    Script { start, events }
}

/// Draws the connection as `init` sees it.
pub(crate) fn start(random: &mut Random) -> View {
    let second = 1_000_000;
    let now_us = match random.between(0, 3) {
        0 => random.between(1, 100 * second),
        1 => (1 << 32) * random.between(1, 5) - random.between(1, 20 * second),
        2 => 1000 * (1 << 32) - random.between(1, 20 * second),
        _ => random.between(1, 1 << 52),
    };
    let fresh = random.once_in(2);
    let snd_cwnd = match (fresh, random.between(0, 3)) {
        (true, _) => random.pick(&[1, 2, 4, 10, 10, 40]),
        (false, 0) => random.between(1, 4) as u32,
        (false, _) => random.scale(1.0, 1_000_000.0) as u32,
    };
    let clamp = if random.once_in(4) { snd_cwnd.max(2) + random.between(0, 300) as u32 } else { u32::MAX };
    let near = random.scale(1.0, 200_000.0) as u32;
    let delivered = if fresh { random.pick(&[0, 1]) } else { u32::MAX - near };
    let ssthresh = if random.once_in(3) { INFINITE_SSTHRESH } else { random.scale(2.0, 100_000.0) as u32 };
    let sequence = if random.once_in(2) { u32::MAX - random.scale(1.0, 1e9) as u32 } else { random.bits() as u32 };
    View {
        now_us,
        snd_cwnd,
        snd_cwnd_clamp: clamp,
        snd_ssthresh: ssthresh,
        mss: random.pick(&[500, 536, 1220, 1400, 1448, 1460, 8948, 9000]),
        delivered,
        data_segs_out: if fresh { 0 } else { delivered.max(1) },
        max_packets_out: snd_cwnd,
        snd_una: sequence,
        snd_nxt: sequence,
        is_cwnd_limited: 1,
        ..View::default()
    }
}

/// The network: generates the next events.
struct Path {
    base_us: f64,
    rate: f64,
    queue: f64,
    mss: u32,
}

const RATE_LIMIT: f64 = 50e9; // 400 Gbit/s in bytes/s

impl Path {
    fn new(random: &mut Random, mss: u32) -> Self {
        let mut path = Self { base_us: 0.0, rate: 0.0, queue: 0.0, mss };
        path.jump(random);
        path
    }

    fn jump(&mut self, random: &mut Random) {
        self.base_us = random.scale(50.0, 10e6);
        self.rate = if random.once_in(8) { RATE_LIMIT } else { random.scale(2e3, RATE_LIMIT) };
    }

    fn next(&mut self, random: &mut Random, timeouts: Timeouts) -> Vec<Event> {
        match random.between(0, 999) {
            0..802 => vec![self.ack(random)],
            802..805 => vec![Event::Path(random.between(0, 3) as u32)],
            805..817 => vec![Event::Duplicate { after_us: random.between(0, 1000) }],
            817..820 => vec![Event::Lost(random.scale(1.0, 1000.0) as u32)],
            820..824 => {
                self.jump(random);
                vec![]
            }
            824..840 => vec![Event::CwndLimited(random.once_in(2)), Event::CwndLimited(!random.once_in(4))],
            840..850 => vec![Event::CwndLimited(false)],
            850..862 => vec![Event::CwndLimited(true)],
            862..868 => vec![Event::AppLimited(true)],
            868..880 => vec![Event::AppLimited(false)],
            880..882 => {
                self.mss = random.pick(&[500, 1448, 8948]);
                vec![Event::Mss(self.mss)]
            }
            882..890 => vec![Event::Disorder],
            890..900 => vec![Event::Open],
            900..912 => vec![Event::Recovery],
            912..915 => vec![Event::Cwr],
            915..935 => vec![Event::Complete],
            935..939 => vec![Event::Undo],
            939..940 => vec![Event::Oversized],
            940..944 => {
                vec![Event::Timeout { ssthresh: timeouts == Timeouts::Asking || random.once_in(2) }]
            }
            944..952 => vec![Event::Idle { for_us: self.idle_us(random), restart: random.once_in(2) }],
            952..990 => vec![self.radio(random)],
            990..992 => vec![Event::Retune(random.bits())],
            992..994 => vec![Event::Return],
            994..997 => vec![Event::RadioGone(random.once_in(2))],
            _ => vec![Event::Path(random.between(0, 3) as u32)],
        }
    }

    fn idle_us(&self, random: &mut Random) -> u64 {
        match random.between(0, 5) {
            0 => random.between(1 << 31, (1 << 32) - 1), // more than a signed 32-bit number of microseconds holds
            1 => random.scale((1u64 << 32) as f64, (1u64 << 36) as f64) as u64, // more than an unsigned one holds
            _ => random.scale(1e3, 100e6) as u64,
        }
    }

    fn ack(&mut self, random: &mut Random) -> Event {
        let acked = match random.between(0, 29) {
            0 => random.scale(64.0, 60_000.0) as u64, // enough to reach 400 Gbit/s within a few hundred ACKs
            1..11 => random.between(1, 64),
            _ => random.between(1, 3),
        } as u32;
        let bytes = f64::from(acked) * f64::from(self.mss);
        let after_us = match random.between(0, 9) {
            0 if acked <= 64 => 0.0,
            1 => self.base_us.max(bytes / RATE_LIMIT * 1e6),
            _ => bytes / self.rate * 1e6 * random.scale(0.5, 2.0),
        };
        self.queue = (self.queue + random.unit() - 0.5).clamp(0.0, 4.0);
        let rtt = match random.between(0, 39) {
            0 => random.scale(50.0, 10e6),
            _ => self.base_us * (1.0 + if random.once_in(2) { 0.0 } else { self.queue }),
        };
        let rtt_us = match random.between(0, 499) {
            0 => Some(random.pick(&[0, 1])), // within the clock's resolution
            1..50 => None,
            _ => Some(rtt.clamp(50.0, 10e6) as u32),
        };
        let after_us = match random.between(0, 999) {
            0 => self.idle_us(random), // no ACK arrived for that long
            _ => after_us.min(20e6) as u64,
        };
        Event::Ack { after_us, acked, rtt_us }
    }

    fn radio(&self, random: &mut Random) -> Event {
        let q8 = |random: &mut Random| match random.between(0, 9) {
            0 => random.pick(&[i16::MIN, i16::MAX, -5120, 12_800, -5121, 12_801]),
            _ => (random.between(0, 70 * 256) as i32 - 20 * 256) as i16,
        };
        let sinr_q8 = q8(random);
        let average_q8 = if random.once_in(2) {
            q8(random)
        } else {
            (i32::from(sinr_q8) + random.between(0, 1024) as i32 - 512).clamp(-5120, 12_800) as i16
        };
        let max_age_ms = random.pick(&[0, 0, 1, 500, 5000, 30_000, 30_001, u32::MAX]);
        let limit = match max_age_ms {
            0 => 500,
            set => set.min(30_000) as i32,
        };
        let age_ms = match random.between(0, 5) {
            0 => -(random.between(0, 12) as i32),
            1 => limit + random.between(0, 2) as i32 - 1,
            2 => random.bits() as i32,
            _ => 0,
        };
        Event::Radio { sinr_q8, average_q8, age_ms, max_age_ms }
    }
}

/// Totals over many connections.
#[derive(Debug, Default)]
pub struct Totals {
    /// Number of connections.
    pub connections: u64,
    /// The kernel's counts.
    pub counts: Counts,
    /// How often the model took each branch.
    pub coverage: BTreeMap<&'static str, u64>,
    /// How often the limits of fixed point made a difference, by kind.
    pub rounding: BTreeMap<&'static str, u64>,
}

impl Totals {
    /// Returns a summary of the check against a model, in words.
    pub(crate) fn of<M>(&self) -> String {
        let path = std::any::type_name::<M>();
        let path = path.split('<').next().unwrap_or(path);
        let model = path.rsplit("::").next().unwrap_or(path).to_lowercase();
        format!("{model}: {} connections agree", self.connections)
    }

    /// Returns how often the model took a branch.
    #[must_use]
    pub fn covered(&self, branch: &str) -> u64 {
        self.coverage.get(branch).copied().unwrap_or(0)
    }

    /// Panics unless each of these branches was taken `at_least` times.
    pub fn require(&self, at_least: u64, branches: &[&str]) {
        for branch in branches {
            let times = self.covered(branch);
            assert!(times >= at_least, "only {times} of: {branch}\n{self:#?}");
        }
    }

    /// Panics if this limit of fixed point made a difference more than once in `per` of these.
    pub fn require_rare(&self, kind: &str, per: u64, of: u64) {
        let times = self.rounding[kind];
        assert!(times * per < of, "{times} times in {of}: {kind}\n{self:#?}");
    }

    /// Panics unless the kernel's events were varied.
    pub fn require_variety(&self) {
        let c = &self.counts;
        let all = [
            c.recoveries,
            c.marks,
            c.timeouts,
            c.undos,
            c.returns,
            c.idles,
            c.clock_wraps,
            c.delivered_wraps,
            c.sequence_wraps,
            c.duplicates,
        ];
        assert!(all.iter().all(|&n| n > 100), "{self:#?}");
        assert!([c.long_gaps, c.very_long_gaps].iter().all(|&n| n > 300), "{self:#?}");
        assert!([c.small_windows, c.large_windows, c.zero_intervals].iter().all(|&n| n > 1000), "{self:#?}");
    }

    /// Panics unless the algorithm's own counters agree with the events, and with the model's view of the radio.
    pub fn require_counted(&self, algo: &HostAlgo) {
        self.require_accounted(algo);
        let counter = |offset: usize| algo.stat(offset / 8);
        assert_eq!(counter(offset_of!(AlgoStats, signal_fresh)), self.covered("fresh signals"));
        assert_eq!(counter(offset_of!(AlgoStats, signal_stale)), self.covered("stale signals"));
        assert_eq!(counter(offset_of!(AlgoStats, signal_absent)), self.covered("absent signals"));
    }

    /// Panics unless the algorithm's own counters of flows agree with the events.
    pub fn require_accounted(&self, algo: &HostAlgo) {
        let counter = |offset: usize| algo.stat(offset / 8);
        assert_eq!(counter(offset_of!(AlgoStats, flows_opened)), self.connections + self.counts.returns);
        assert_eq!(counter(offset_of!(AlgoStats, flows_closed)), self.connections + self.counts.returns);
        assert_eq!(counter(offset_of!(AlgoStats, acked_bytes)), self.counts.acked_bytes);
        assert_eq!(counter(offset_of!(AlgoStats, loss_events)), self.counts.recoveries);
        assert_eq!(counter(offset_of!(AlgoStats, timeouts)), self.counts.timeouts);
    }

    /// Adds a finished connection.
    pub(crate) fn add<M: Model>(&mut self, counts: &Counts, model: &M) {
        let (a, b) = (&mut self.counts, counts);
        for (a, b) in [
            (&mut a.hooks, b.hooks),
            (&mut a.acks, b.acks),
            (&mut a.duplicates, b.duplicates),
            (&mut a.sequence_wraps, b.sequence_wraps),
            (&mut a.small_windows, b.small_windows),
            (&mut a.large_windows, b.large_windows),
            (&mut a.recoveries, b.recoveries),
            (&mut a.marks, b.marks),
            (&mut a.timeouts, b.timeouts),
            (&mut a.undos, b.undos),
            (&mut a.returns, b.returns),
            (&mut a.idles, b.idles),
            (&mut a.long_gaps, b.long_gaps),
            (&mut a.very_long_gaps, b.very_long_gaps),
            (&mut a.clock_wraps, b.clock_wraps),
            (&mut a.delivered_wraps, b.delivered_wraps),
            (&mut a.zero_intervals, b.zero_intervals),
            (&mut a.acked_bytes, b.acked_bytes),
        ] {
            *a += b;
        }
        for (branch, times) in model.coverage() {
            *self.coverage.entry(branch).or_default() += times;
        }
        for (kind, times) in model.rounding() {
            *self.rounding.entry(kind).or_default() += times;
        }
        self.connections += 1;
    }
}

/// Runs a script from its start; `Err` has the index of the event that failed (`None`: `init`) and the difference.
fn apply<M: Model>(
    algo: Option<&HostAlgo>,
    model: M,
    script: &Script,
    totals: &mut Totals,
) -> Result<(), (Option<usize>, String)> {
    let started = match algo {
        Some(algo) => Kernel::start(algo, model, script.start),
        None => Kernel::alone(model, script.start),
    };
    let mut kernel = started.map_err(|e| (None, e))?;
    for (i, event) in script.events.iter().enumerate() {
        kernel.apply(*event).map_err(|e| (Some(i), e))?;
    }
    kernel.finish().map_err(|e| (script.events.len().checked_sub(1), e))?;
    totals.add(&kernel.counts, &kernel.model);
    Ok(())
}

/// Runs `connections` scripts of `length` events from seeds `seed..`; `model` makes the model for each.
/// Panics at the first difference, with the shortest script found that shows one.
pub fn check<M: Model + Clone>(
    algo: &HostAlgo,
    seed: u64,
    connections: u64,
    length: usize,
    timeouts: Timeouts,
    model: impl Fn(&mut Random) -> M,
) -> Totals {
    let conditions = Conditions { timeouts, signals: Signals::Radio };
    check_under(conditions, Some(algo), seed, connections, length, model)
}

/// As [`check`], with a choice of signals. Without an algorithm, runs only the model's checks of itself.
pub fn check_under<M: Model + Clone>(
    conditions: Conditions,
    algo: Option<&HostAlgo>,
    seed: u64,
    connections: u64,
    length: usize,
    model: impl Fn(&mut Random) -> M,
) -> Totals {
    let mut totals = Totals::default();
    for seed in soak::seeds(seed, connections) {
        let _seed = ShownOnPanic(seed);
        let mut random = Random::new(seed);
        let fresh = model(&mut random);
        let mut script = script(&mut random, length, conditions);
        if let Err((at, difference)) = apply(algo, fresh.clone(), &script, &mut totals) {
            script.events.truncate(at.map_or(0, |i| i + 1));
            fail(algo, seed, &fresh, script, difference);
        }
    }
    soak::report(&totals.of::<M>());
    totals
}

/// Panics with the shortest script found that shows a difference.
pub(crate) fn fail<M: Model + Clone>(
    algo: Option<&HostAlgo>,
    seed: u64,
    fresh: &M,
    script: Script,
    difference: String,
) -> ! {
    let (shortest, shortest_difference) = shorten(algo, fresh, script, difference.clone());
    panic!(
        "seed {seed}: {difference}\nshortest: {shortest_difference}\ntunables {:?}\n{:#?}\n{:?}",
        fresh.tunables(),
        shortest.start,
        shortest.events
    );
}

/// Prints the seed of a connection on which a model's own checks failed.
struct ShownOnPanic(u64);

impl Drop for ShownOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

/// Shortens a script: removes runs of events, long ones first, as long as some difference remains.
fn shorten<M: Model + Clone>(
    algo: Option<&HostAlgo>,
    model: &M,
    mut script: Script,
    mut difference: String,
) -> (Script, String) {
    let mut run = script.events.len().div_ceil(2);
    while run > 0 {
        let mut at = 0;
        while at < script.events.len() {
            let mut shorter = script.clone();
            shorter.events.drain(at..(at + run).min(script.events.len()));
            match apply(algo, model.clone(), &shorter, &mut Totals::default()) {
                Err((failed, other)) => {
                    shorter.events.truncate(failed.map_or(0, |i| i + 1));
                    (script, difference) = (shorter, other);
                }
                Ok(()) => at += run,
            }
        }
        run /= 2;
    }
    (script, difference)
}
