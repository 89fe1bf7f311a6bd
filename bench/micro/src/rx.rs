//! Cost of `hotcc rx load` per received packet: on enrolled connections, and with `arwa` also on all others, because
//! tcp_probe runs for the whole host.
//!
//! The time that the programs take at both ends is divided by the number of packets that both ends receive, data and
//! ACKs. The time per data packet is reported as well.
//!
//! An empty program runs on the same tracepoint. Its time is the overhead of calling and measuring a program, and is
//! subtracted.

use super::awake::Awake;
use super::crowd::{CONNECTIONS, Crowd};
use super::options::Options;
use super::report::{Bound, Finding, significant};
use super::run_time::{loaded, loaded_since, run_times_of};
use super::wire::{Flow, RECEIVER, Wire};
use anyhow::{Context, Result, ensure};
use hotcc::cgroup::{self, cgroup2_root};
use hotcc::rx::{self, Method, Request};
use hotcc_testbed::netlab::{is_of_dead_process, pause};
use hotcc_testbed::statistics::{median, quartiles};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the measure for `--only`.
pub const NAME: &str = "rx";
/// Name of the cgroup, without the process id at its end.
const CGROUP: &str = "hotcc-microbench";
const ENROLLED_NS: f64 = 400.0;
const OTHERS_NS: f64 = 50.0;
const RATE: &str = "1gbit";
const SSTHRESH: u32 = 64;
/// Data in a segment on this cable, with TCP timestamps.
const SEGMENT_BYTES: u64 = 1448;
const PER_PACKET: &str = "ns per packet received";
/// Number of segments that one of many connections receives at a time, as a new connection does.
const INITIAL_WINDOW: usize = 10;
/// Size of receive buffers that are never read.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
/// Number of disturbed rounds with many connections before the measure is given up.
const DISTURBED_ROUNDS: usize = 3;
/// Time to wait for delayed ACKs.
const AFTER_A_ROUND: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_millis(100);
const TURN: Duration = Duration::from_millis(200);

/// Ids of the measuring program, the program for options, and the empty program; 0, which is no program's id, if there
/// is no measuring program.
type Programs = [u32; 3];
/// Number of calls and nanoseconds of each of [`Programs`].
type Counts = [(f64, f64); 3];

/// Nanoseconds that the receiver's programs take at both ends.
struct Cost {
    per_received: f64,
    per_data: f64,
}

impl Cost {
    /// Divides the cost by packets. The empty program on the tracepoint is called for each packet that either end
    /// receives, so its calls count these packets.
    fn of(before: &Counts, after: &Counts, data_packets: f64) -> Result<Self> {
        let [measure, options] = net(before, after)?;
        let (ns, received) = (measure.1 + options.1, after[2].0 - before[2].0);
        // there is one ACK for each data packet or for several; more packets than that are other traffic. The counts
        // are not taken at the same moment.
        ensure!(
            (0.9..2.2).contains(&(received / data_packets)),
            "{received} packets received, but {data_packets} data packets sent: there may be other traffic on this machine"
        );
        Ok(Self { per_received: ns / received, per_data: ns / data_packets })
    }
}

/// Kind of connection.
#[derive(Clone, Copy)]
enum Whose<'a> {
    Enrolled(&'a Receiver),
    /// A connection that is not enrolled, and whose sockets have no BPF storage.
    Other,
    /// A connection that is not enrolled, and whose sockets have storage of another program: of this object.
    OtherWithStorage(&'a Object),
}

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let (link, storage) = nothing()?;
    let nothing = link.info()?.prog_id;
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let mut findings = Vec::new();
    for method in [Method::Arwa, Method::Drwa] {
        let name = method.name();
        let receiver = Receiver::load(method, nothing)?;
        findings.extend(single(options, &receiver, &storage)?);
        eprintln!("  opening {CONNECTIONS} connections");
        let (_wire, mut crowd) = receiver.enter(crowd)?;
        for (burst, rounds) in [(INITIAL_WINDOW, 3), (1, if options.quick { 5 } else { 20 })] {
            let subject = format!("{name}, {CONNECTIONS} enrolled connections, bursts of {burst}");
            findings.push(enrolled_finding(&subject, &costs(&mut crowd, receiver.programs, burst, rounds)?));
        }
    }
    Ok(findings)
}

/// Measures single connections, alternating between an enrolled one and others.
fn single(options: &Options, receiver: &Receiver, storage: &Object) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 10 } else { 40 };
    let (name, programs) = (receiver.method.name(), receiver.programs);
    let (mut enrolled, mut others) = (Vec::new(), [const { Vec::new() }; 2]);
    for round in 0..rounds {
        eprintln!("  {name}: round {} of {rounds}", round + 1);
        enrolled.push(turn(Whose::Enrolled(receiver), programs)?.0);
        if receiver.method == Method::Arwa {
            others[0].push(turn(Whose::Other, programs)?.1);
            others[1].push(turn(Whose::OtherWithStorage(storage), programs)?.1);
        }
    }
    let mut findings = vec![enrolled_finding(&format!("{name}, enrolled connection"), &enrolled)];
    if receiver.method == Method::Arwa {
        let [other, with_storage] = &others;
        findings.push(finding("other connections", "ns per call", other, OTHERS_NS));
        findings.push(finding(
            "other connections, with another program's storage",
            "ns per call",
            with_storage,
            OTHERS_NS,
        ));
    }
    Ok(findings)
}

fn enrolled_finding(subject: &str, costs: &[Cost]) -> Finding {
    let received: Vec<f64> = costs.iter().map(|cost| cost.per_received).collect();
    let data: Vec<f64> = costs.iter().map(|cost| cost.per_data).collect();
    let per_data = median(&data).map_or("-".to_owned(), significant);
    finding(subject, PER_PACKET, &received, ENROLLED_NS).figure(format!("{per_data} ns per data packet"))
}

fn finding(subject: &str, judged: &'static str, costs: &[f64], most_ns: f64) -> Finding {
    let quartiles = quartiles(costs).map_or("-".to_owned(), |of| of.map(significant).join(", "));
    Finding::new(NAME, subject, judged, median(costs), Bound::AtMost(most_ns))
        .figure(format!("quartiles {quartiles} ns"))
}

/// Returns the cost per packet, and the nanoseconds per call on the tracepoint.
fn turn(whose: Whose<'_>, programs: Programs) -> Result<(Cost, f64)> {
    let start = || {
        let wire = Wire::new()?;
        wire.narrow(RATE, SSTHRESH)?;
        let flow = Flow::start(&wire, "reno")?;
        Ok((flow, wire))
    };
    let (flow, _wire) = match whose {
        Whose::Enrolled(receiver) => receiver.enter(start)?,
        Whose::Other => start()?,
        Whose::OtherWithStorage(object) => {
            let started = start()?;
            let storage = object
                .maps()
                .find(|map| map.name() == "others")
                .context("object `probe_nothing` has no map `others`")?;
            for socket in started.0.sockets() {
                storage.update(&socket.to_ne_bytes(), &0u64.to_ne_bytes(), MapFlags::ANY)?;
            }
            started
        }
    };
    pause(WARM_UP)?;
    let (before, delivered) = (run_times_of(programs), flow.delivered());
    pause(TURN)?;
    let (after, delivered) = (run_times_of(programs), flow.delivered() - delivered);
    let packets = delivered / SEGMENT_BYTES;
    ensure!(
        packets > 1000,
        "too few packets in a turn: expected over 1000, got {packets}; the machine may be too busy"
    );
    let [measure, _] = net(&before, &after)?;
    Ok((Cost::of(&before, &after, packets as f64)?, measure.1 / measure.0))
}

/// Opens many connections, which receive data in turn, so that the state of none of them is in a cache.
fn crowd() -> Result<(Wire, Crowd)> {
    let wire = Wire::new()?;
    wire.split()?;
    let connect = |_, port| Ok(TcpStream::connect((RECEIVER, port))?);
    let crowd = Crowd::open(&wire, RECEIVE_BUFFER_BYTES, connect)?;
    Ok((wire, crowd))
}

/// Returns the cost when each connection receives `burst` segments at a time.
fn costs(crowd: &mut Crowd, programs: Programs, burst: usize, rounds: usize) -> Result<Vec<Cost>> {
    let data = vec![0; burst * SEGMENT_BYTES as usize];
    let (mut costs, mut disturbed) = (Vec::new(), 0);
    while costs.len() <= rounds {
        eprintln!("  round {} of {rounds}", costs.len());
        let before = run_times_of(programs);
        for sender in &mut crowd.senders {
            sender.write_all(&data)?;
        }
        pause(AFTER_A_ROUND)?;
        match Cost::of(&before, &run_times_of(programs), (CONNECTIONS * burst) as f64) {
            Ok(cost) => costs.push(cost),
            Err(error) if disturbed == DISTURBED_ROUNDS => return Err(error),
            Err(error) => {
                disturbed += 1;
                eprintln!("  retrying: {error:#}");
            }
        }
    }
    costs.remove(0); // the first round includes every connection's first packet
    Ok(costs)
}

/// Returns calls and nanoseconds of the measuring program and of the program for options, without the overhead of
/// calling and measuring them.
fn net(before: &Counts, after: &Counts) -> Result<[(f64, f64); 2]> {
    let [measure, options, nothing] = [0, 1, 2].map(|p| (after[p].0 - before[p].0, after[p].1 - before[p].1));
    ensure!(nothing.0 > 0.0, "no packet was received");
    let call_ns = nothing.1 / nothing.0;
    Ok([measure, options].map(|(calls, ns)| (calls, ns - calls * call_ns)))
}

fn nothing() -> Result<(Link, Object)> {
    let embedded = hotcc_bpf::TEST_OBJECTS
        .iter()
        .find(|o| o.name == "probe_nothing")
        .context("this build has no embedded object `probe_nothing`")?;
    let object = ObjectBuilder::default().open_memory(embedded.bytes)?.load()?;
    let link = object.progs_mut().next().context("object `probe_nothing` has no program")?.attach()?;
    Ok((link, object))
}

/// A receiver that is loaded for a cgroup of its own; when it is dropped, both are removed.
struct Receiver {
    method: Method,
    programs: Programs,
    /// The cgroup in which this process was before.
    home: PathBuf,
    cgroup: PathBuf,
}

impl Receiver {
    fn load(method: Method, nothing: u32) -> Result<Self> {
        let (root, home) = (cgroup2_root()?, cgroup::own()?);
        remove_left_over(&root);
        let cgroup = root.join(format!("{CGROUP}-{}", std::process::id()));
        fs::create_dir(&cgroup).with_context(|| format!("cannot create {}", cgroup.display()))?;
        let mut receiver = Self { method, programs: [0, 0, nothing], home, cgroup: cgroup.clone() };
        let profile = "default".to_owned();
        let before = loaded();
        rx::load(&Request { method, cgroup: Some(cgroup), profile, set: Vec::new() })?;
        receiver.programs[1] = loaded_since(&before, "options").context("the receiver has no program `options`")?;
        if method == Method::Arwa {
            receiver.programs[0] = loaded_since(&before, "measure").context("the receiver has no program `measure`")?;
        }
        Ok(receiver)
    }

    /// Runs `work` while this process is in the cgroup: sockets that `work` creates stay in that cgroup.
    fn enter<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let to = |cgroup: &PathBuf| {
            fs::write(cgroup.join("cgroup.procs"), "0").context("cannot move this process to another cgroup")
        };
        to(&self.cgroup)?;
        let result = work();
        to(&self.home)?;
        result
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Err(error) = rx::unload(self.method) {
            eprintln!("  {error:#}");
        }
        let _ = fs::remove_dir(&self.cgroup);
    }
}

/// Removes the cgroups of killed processes: unlike links, cgroups stay.
fn remove_left_over(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if is_of_dead_process(&entry.file_name().to_string_lossy(), CGROUP)
            && let Err(error) = fs::remove_dir(entry.path())
        {
            eprintln!("  cannot remove {}: {error}", entry.path().display());
        }
    }
}
