//! What `hotcc rx load arwa` costs per packet received: on enrolled connections, and on all others, since tcp_probe runs
//! for the whole host.
//!
//! A program that does nothing runs on the same tracepoint: what it takes is the price of being called and measured, and is
//! taken off.

use super::Options;
use super::awake::Awake;
use super::report::{Bound, Finding, significant};
use super::statistics::{median, quartiles};
use super::wire::{Flow, Wire};
use crate::netlab::pause;
use anyhow::{Context, Result, ensure};
use hotcc::run::cgroup2_root;
use hotcc::rx::{self, Method, Request};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Link, Object, ObjectBuilder};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Name for `--only`.
pub const NAME: &str = "rx";
const PROGRAMS: [&str; 3] = ["measure", "options", "nothing"];
const ENROLLED_NS: f64 = 400.0;
const OTHERS_NS: f64 = 50.0;
const RATE: &str = "1gbit";
const SSTHRESH: u32 = 64;
/// Of a segment on this cable, with time stamps.
const SEGMENT_BYTES: u64 = 1448;
const WARM_UP: Duration = Duration::from_millis(100);
const TURN: Duration = Duration::from_millis(200);

/// Calls and nanoseconds of each of [`PROGRAMS`].
type Counts = [(f64, f64); PROGRAMS.len()];

/// Measures it.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 10 } else { 40 };
    let receiver = Receiver::load()?;
    let _nothing = nothing()?;
    let _stats = hotcc::sys::enable_stats().context("cannot turn on BPF run-time statistics")?;
    let _awake = Awake::keep();
    let mut costs = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        eprintln!("  round {} of {rounds}", round + 1);
        costs[0].push(turn(None)?.1);
        costs[1].push(turn(Some(&receiver))?.0);
    }
    let [others, enrolled] = &costs;
    Ok(vec![
        finding("other connections", "ns per call", others, OTHERS_NS),
        finding("enrolled connections", "ns per data packet, both ends", enrolled, ENROLLED_NS),
    ])
}

fn finding(subject: &str, judged: &'static str, costs: &[f64], most_ns: f64) -> Finding {
    let quartiles = quartiles(costs).map_or("-".to_owned(), |of| of.map(significant).join(", "));
    Finding::new(NAME, subject, judged, median(costs), Bound::AtMost(most_ns))
        .figure(format!("quartiles {quartiles} ns"))
}

/// Nanoseconds per data packet of all that the receiver's programs do at both ends, and per call on the tracepoint.
fn turn(enrolled: Option<&Receiver>) -> Result<(f64, f64)> {
    let start = || {
        let wire = Wire::new()?;
        wire.narrow(RATE, SSTHRESH)?;
        let flow = Flow::start(&wire, "reno")?;
        Ok((flow, wire))
    };
    let (flow, _wire) = enrolled.map_or_else(start, |receiver| receiver.enter(start))?;
    pause(WARM_UP)?;
    let (before, delivered) = (counts(), flow.delivered());
    pause(TURN)?;
    let (after, delivered) = (counts(), flow.delivered() - delivered);
    let [measure, options, nothing] = [0, 1, 2].map(|p| (after[p].0 - before[p].0, after[p].1 - before[p].1));
    let packets = delivered / SEGMENT_BYTES;
    ensure!(packets > 1000 && nothing.0 > 0.0, "only {packets} packets in a turn; is the machine that busy?");
    let call_ns = nothing.1 / nothing.0;
    let net = |(calls, ns): (f64, f64)| ns - calls * call_ns;
    Ok(((net(measure) + net(options)) / packets as f64, net(measure) / measure.0))
}

fn counts() -> Counts {
    let mut counts = Counts::default();
    for program in ProgInfoIter::default() {
        if let Some(place) = PROGRAMS.iter().position(|name| program.name.to_string_lossy() == *name) {
            counts[place].0 += program.run_cnt as f64;
            counts[place].1 += program.run_time_ns as f64;
        }
    }
    counts
}

fn nothing() -> Result<(Link, Object)> {
    let embedded =
        hotcc_bpf::TEST_OBJECTS.iter().find(|o| o.name == "probe_nothing").context("a test object is missing")?;
    let object = ObjectBuilder::default().open_memory(embedded.bytes)?.load()?;
    let link = object.progs_mut().next().context("no program")?.attach()?;
    Ok((link, object))
}

/// Loaded for a cgroup of its own; both go with the value.
struct Receiver {
    root: PathBuf,
    cgroup: PathBuf,
}

impl Receiver {
    fn load() -> Result<Self> {
        let root = cgroup2_root()?;
        let cgroup = root.join(format!("hotcc-microbench-{}", std::process::id()));
        fs::create_dir(&cgroup).with_context(|| format!("cannot make {}", cgroup.display()))?;
        let receiver = Self { root, cgroup: cgroup.clone() };
        let profile = "default".to_owned();
        rx::load(&Request { method: Method::Arwa, cgroup: Some(cgroup), profile, set: Vec::new() })?;
        Ok(receiver)
    }

    /// Runs `work` with this process in the cgroup: sockets that it makes belong there for good.
    fn enter<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let to = |cgroup: &PathBuf| fs::write(cgroup.join("cgroup.procs"), "0").context("cannot change the cgroup");
        to(&self.cgroup)?;
        let result = work();
        to(&self.root)?;
        result
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Err(error) = rx::unload(Method::Arwa) {
            eprintln!("  {error}");
        }
        let _ = fs::remove_dir(&self.cgroup);
    }
}
