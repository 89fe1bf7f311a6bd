//! Cost of policy rules: per connection with a large set of prefixes, and per packet, where there must be none.
//!
//! An empty program runs for the same events. Its time is the overhead of calling and measuring a program, and is
//! subtracted.

use super::awake::Awake;
use super::options::Options;
use super::report::{Bound, Finding, significant};
use super::run_time::run_times_of;
use anyhow::{Context, Result, ensure};
use hotcc::cgroup::cgroup2_root;
use hotcc::declared;
use hotcc_abi::pins;
use hotcc_testbed::netlab::{Lab, Namespace, check, stem};
use hotcc_testbed::statistics::median;
use libbpf_rs::{Link, Object, ObjectBuilder};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Name of the measure for `--only`.
pub const NAME: &str = "policy";
const PREFIX: &str = "hotcc-microbench";
const PREFIXES: u32 = 100_000;
const BOUND_NS: f64 = 2_000.0;
/// Number of connections of a round, open at the same time: below the usual limit of 1024 files.
const CONNECTIONS: usize = 400;
/// Ends of the connections of a round: rules choose for both.
const ENDS: f64 = 2.0 * CONNECTIONS as f64;
const LITTLE_BYTES: usize = 1;
const MUCH_BYTES: usize = 1 << 20;

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let rounds = if options.quick { 3 } else { 20 };
    let lab = Lab::new(PREFIX)?;
    let host = lab.namespace("host")?;
    let files = tempfile::tempdir().context("cannot create a temporary directory")?;
    let (rules, nothing) = (files.path().join("hotcc.toml"), files.path().join("nothing.toml"));
    let set = files.path().join("prefixes");
    // the connections' address is in one of the set's prefixes, which differ in their last 24 bits
    let prefixes = (0..PREFIXES).map(|n| format!("{}/32\n", Ipv4Addr::from(0x7f00_0000 | n)));
    fs::write(&set, prefixes.collect::<String>()).with_context(|| format!("cannot write {}", set.display()))?;
    let rule = format!(
        "[[policy]]\nnetns = '{}'\nremote_set = '{}'\ncongestion_control = 'reno'\n",
        stem(PREFIX) + host.name(),
        set.display()
    );
    fs::write(&rules, rule).with_context(|| format!("cannot write {}", rules.display()))?;
    fs::write(&nothing, []).with_context(|| format!("cannot write {}", nothing.display()))?;
    declared::apply(&rules)?;
    let measured = measure(&host, rounds);
    declared::apply(&nothing)?;
    let Measured { choosing, counting, more_calls } = measured?;
    let of_an_end = |what: &str, nanoseconds: &[f64], bound: Bound| {
        let median = median(nanoseconds);
        let text = median.map_or("-".to_owned(), significant);
        let figure = format!("median {text} ns of {rounds} rounds of {CONNECTIONS} connections");
        Finding::new(NAME, what, "median ns per end", median, bound).figure(figure)
    };
    let packets = Finding::new(
        NAME,
        "the packets of a connection",
        "calls for 1 MiB beyond those for 1 byte",
        Some(more_calls),
        Bound::AtMost(0.0),
    );
    Ok(vec![
        of_an_end(
            &format!("choosing for both ends of a connection, {PREFIXES} prefixes"),
            &choosing,
            Bound::AtMost(BOUND_NS),
        ),
        of_an_end("counting what a connection did", &counting, Bound::None),
        packets.figure(format!("{more_calls} calls more in {CONNECTIONS} connections")),
    ])
}

struct Measured {
    /// Nanoseconds per end of a connection until it is established, of each round.
    choosing: Vec<f64>,
    /// The same from then on, until the connection has ended.
    counting: Vec<f64>,
    /// Calls of the program that a round with much data has beyond one with little.
    more_calls: f64,
}

fn measure(host: &Namespace, rounds: usize) -> Result<Measured> {
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let listener = host.enter(|| TcpListener::bind("127.0.0.1:0"))??;
    let (idle, _object) = idle()?;
    let rules = Path::new(pins::POLICY).join("link");
    let rules = Link::open(&rules).with_context(|| format!("cannot open {}", rules.display()))?;
    let programs = [rules.info()?.prog_id, idle.info()?.prog_id];
    let times = || run_times_of(programs);
    // calls of the rules' program, and its nanoseconds beyond those of as many calls of the empty one
    let between = |before: [(f64, f64); 2], after: [(f64, f64); 2]| {
        let [chosen, idle] = [0, 1].map(|n| (after[n].0 - before[n].0, after[n].1 - before[n].1));
        ensure!(idle.0 > 0.0, "no event of a connection");
        Ok((chosen.0, (chosen.1 - chosen.0 * idle.1 / idle.0) / ENDS))
    };
    let round = |bytes: usize| -> Result<[(f64, f64); 2]> {
        let begun = times();
        let open: Vec<_> = (0..CONNECTIONS).map(|_| connect(host, &listener)).collect::<Result<_>>()?;
        let established = times();
        for (client, server) in open {
            exchange(client, server, bytes)?;
        }
        Ok([between(begun, established)?, between(established, times())?])
    };
    round(LITTLE_BYTES)?;
    let (mut choosing, mut counting, mut calls) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..rounds {
        check()?;
        let [first, second] = round(LITTLE_BYTES)?;
        choosing.push(first.1);
        counting.push(second.1);
        calls = first.0 + second.0;
    }
    let [first, second] = round(MUCH_BYTES)?;
    Ok(Measured { choosing, counting, more_calls: first.0 + second.0 - calls })
}

/// Attaches an empty program that runs for all events for which the rules' program runs.
fn idle() -> Result<(Link, Object)> {
    let embedded = hotcc_bpf::TEST_OBJECTS.iter().find(|object| object.name == "sockops_idle");
    let bytes = embedded.context("this build has no embedded object `sockops_idle`")?.bytes;
    let object = ObjectBuilder::default().open_memory(bytes)?.load()?;
    let root = fs::File::open(cgroup2_root()?).context("cannot open the root cgroup")?;
    let program = object.progs_mut().next().context("the object `sockops_idle` has no program")?;
    let link = program.attach_cgroup(root.as_raw_fd())?;
    Ok((link, object))
}

/// Opens a connection, and returns both ends.
fn connect(host: &Namespace, listener: &TcpListener) -> Result<(TcpStream, TcpStream)> {
    let address = listener.local_addr()?;
    let client = host.enter(|| TcpStream::connect(address))??;
    Ok((client, listener.accept()?.0))
}

/// Sends data, and closes both ends.
fn exchange(mut client: TcpStream, mut server: TcpStream, bytes: usize) -> Result<()> {
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || client.write_all(&vec![7; bytes]));
        let received = std::io::copy(&mut server, &mut std::io::sink())?;
        sent.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
        ensure!(received == bytes as u64, "{received} of {bytes} bytes arrived");
        Ok(())
    })
}
