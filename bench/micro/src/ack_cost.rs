//! CPU time per ACK, from the kernel's own run-time statistics of BPF programs.
//!
//! These statistics add two clock reads to every call, and the trampoline has a cost, too. An empty program costs
//! exactly these two, so one is measured in the same rounds and its cost is subtracted. The yardstick is the kernel's
//! CUBIC, called through the same struct_ops glue.

use super::awake::Awake;
use super::options::Options;
use super::registered::register;
use super::report::{Bound, Finding, significant};
use super::wire::{Flow, RECEIVER, Wire};
use anyhow::{Context, Result, bail, ensure};
use hotcc::object::Loaded;
use hotcc_abi::radio::{self, IndexKey};
use hotcc_abi::{clock, pins};
use hotcc_radio_map::{LinkOptions, RadioMap, Reading};
use hotcc_testbed::netlab::pause;
use hotcc_testbed::statistics::{median, quartiles};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Program};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

/// Name of the measure for `--only`.
pub const NAME: &str = "ack";
const BOUND: f64 = 1.5;
/// Callbacks that the kernel calls for every ACK of new data; the others run once per loss or per flow. The first is
/// always called, the second not during a recovery.
const HOOKS: [&str; 2] = ["pkts_acked", "cong_avoid"];
const EMPTY: usize = 0;
const CUBIC: usize = 1;
/// The first two, at [`EMPTY`] and [`CUBIC`], are the baselines and have no finding of their own.
const SUBJECTS: [Subject; 5] = [
    Subject::plain("empty"),
    Subject::plain("cubic_bpf"),
    Subject::plain("westwoodp"),
    Subject::plain("dtcp"),
    Subject { label: "dtcp with SINR", object: "dtcp", is_fed: true },
];
/// Long enough for a reading to stay fresh for a whole turn.
const MAX_AGE_MS: u32 = 2000;
const RATE: &str = "2gbit";
const SSTHRESH: u32 = 64;
const WARM_UP: Duration = Duration::from_millis(50);
const TURN: Duration = Duration::from_millis(150);
/// Least number of calls in a valid turn. A turn normally has a few thousand; with fewer than this, the machine was
/// busy with something else.
const MIN_CALLS: f64 = 200.0;
const ATTEMPTS: usize = 5;

/// A program that is measured.
struct Subject {
    label: &'static str,
    object: &'static str,
    /// Whether the receiver's radio link has a reading.
    is_fed: bool,
}

impl Subject {
    const fn plain(object: &'static str) -> Self {
        Self { label: object, object, is_fed: false }
    }
}

/// A congestion control that stays registered while the value lives.
struct Cc {
    name: String,
    is_fed: bool,
    /// Program ids, in the order of [`HOOKS`].
    programs: [u32; HOOKS.len()],
    _link: Link,
    _loaded: Loaded,
}

#[derive(Clone, Copy, Default)]
struct Calls {
    count: f64,
    ns: f64,
}

/// The calls of each of [`HOOKS`] in one turn.
type Turn = [Calls; HOOKS.len()];

/// All turns of one congestion control.
struct Series<'a>(&'a [Turn]);

impl Series<'_> {
    fn each(&self, hook: usize) -> Vec<f64> {
        self.0.iter().map(|turn| turn[hook].ns / turn[hook].count).collect()
    }

    fn calls_per_ack(&self, hook: usize) -> Vec<f64> {
        self.0.iter().map(|turn| turn[hook].count / turn[0].count).collect()
    }

    /// Returns the nanoseconds per ACK beyond the cost of the empty program in the same round.
    fn net(&self, empty: &Series<'_>) -> Vec<f64> {
        let mut sums = vec![0.0; self.0.len()];
        for hook in 0..HOOKS.len() {
            let (each, empty, share) = (self.each(hook), empty.each(hook), self.calls_per_ack(hook));
            for (round, sum) in sums.iter_mut().enumerate() {
                *sum += share[round] * (each[round] - empty[round]);
            }
        }
        sums
    }
}

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 10 } else { 40 };
    let wire = Wire::new()?;
    wire.narrow(RATE, SSTHRESH)?;
    let ccs: Vec<Cc> = SUBJECTS.iter().enumerate().map(load).collect::<Result<_>>()?;
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); ccs.len()];
    for round in 0..rounds {
        eprintln!("  round {} of {rounds}", round + 1);
        for place in 0..ccs.len() {
            let which = (place + round) % ccs.len(); // each comes first in turn
            turns[which].push(turn(&wire, &ccs[which])?);
        }
    }
    let series: Vec<Series<'_>> = turns.iter().map(|t| Series(t)).collect();
    Ok((CUBIC + 1..SUBJECTS.len()).map(|which| finding(&series, which)).collect())
}

/// Divides the medians over rounds, not each round's values: the yardstick of a single round may be close to 0.
fn finding(series: &[Series<'_>], which: usize) -> Finding {
    let net = |which: usize| series[which].net(&series[EMPTY]);
    let yardstick = median(&net(CUBIC)).filter(|ns| *ns > 0.0);
    let ratio = yardstick.and_then(|yardstick| median(&net(which)).map(|ns| ns / yardstick));
    let mut finding = Finding::new(NAME, SUBJECTS[which].label, "cost / cubic_bpf's", ratio, Bound::AtMost(BOUND));
    for shown in [which, CUBIC] {
        let text = quartiles(&net(shown)).map_or("-".to_owned(), |[low, middle, high]| {
            format!("{} ns per ACK (quartiles {} to {})", significant(middle), significant(low), significant(high))
        });
        finding = finding.figure(format!("{}: {text}", SUBJECTS[shown].label));
    }
    for (hook, name) in HOOKS.iter().enumerate() {
        let each = |which: usize| median(&series[which].each(hook)).map_or("-".to_owned(), significant);
        let raw = [which, CUBIC, EMPTY].map(|shown| format!("{} {}", SUBJECTS[shown].label, each(shown)));
        finding = finding.figure(format!("raw ns per {name}: {}", raw.join(", ")));
    }
    finding
}

fn load((place, subject): (usize, &Subject)) -> Result<Cc> {
    let object = subject.object;
    let name = format!("b{place}_{object}");
    let (loaded, link) = register(object, &name)?;
    let mut programs = [0; HOOKS.len()];
    for program in loaded.object.progs() {
        if let Some(hook) = HOOKS.iter().position(|hook| program.name().to_string_lossy().ends_with(hook)) {
            programs[hook] = Program::id_from_fd(program.as_fd())?;
        }
    }
    ensure!(!programs.contains(&0), "object `{object}` must implement {}", HOOKS.join(" and "));
    Ok(Cc { name, is_fed: subject.is_fed, programs, _link: link, _loaded: loaded })
}

/// Measures turns until one has enough calls.
fn turn(wire: &Wire, cc: &Cc) -> Result<Turn> {
    for _ in 0..ATTEMPTS {
        let turn = try_turn(wire, cc)?;
        if turn.iter().all(|calls| calls.count >= MIN_CALLS) {
            return Ok(turn);
        }
        eprintln!("  {}: only {} calls, retrying", cc.name, turn[0].count);
    }
    bail!(
        "{}: fewer than {MIN_CALLS} calls in each of {ATTEMPTS} turns: the machine may be too busy, run again on an idle one",
        cc.name
    )
}

fn try_turn(wire: &Wire, cc: &Cc) -> Result<Turn> {
    let _feed = if cc.is_fed { Some(Feed::start()?) } else { None };
    let _flow = Flow::start(wire, &cc.name)?;
    pause(WARM_UP)?;
    let before = counts(cc);
    pause(TURN)?;
    let mut turn = counts(cc);
    for (after, before) in turn.iter_mut().zip(before) {
        after.count -= before.count;
        after.ns -= before.ns;
    }
    Ok(turn)
}

fn counts(cc: &Cc) -> Turn {
    let mut counts = Turn::default();
    for program in ProgInfoIter::default() {
        if let Some(hook) = cc.programs.iter().position(|id| *id == program.id) {
            counts[hook] = Calls { count: program.run_cnt as f64, ns: program.run_time_ns as f64 };
        }
    }
    counts
}

/// A fresh reading of the receiver's link. When the value is dropped, the link is removed, so flows that start later do
/// not find it.
struct Feed {
    map: RadioMap,
    key: IndexKey,
}

impl Feed {
    fn start() -> Result<Self> {
        let mut map = RadioMap::open_or_create(Path::new(pins::ROOT))?;
        let key = IndexKey::prefix(RECEIVER.into(), 32).context("invalid address prefix")?;
        let options =
            LinkOptions { source: radio::SOURCE_TRACE, max_age_ms: MAX_AGE_MS, period_ms: 0, take_over: false };
        let reading = Reading { sinr_db: Some(15.0), average_db: Some(12.0), ..Reading::default() };
        map.take_link(key, &options)?.publish(&reading, clock::monotonic_ms32())?;
        Ok(Self { map, key })
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Err(error) = self.map.remove_link(self.key, true) {
            eprintln!("  {error:#}");
        }
    }
}
