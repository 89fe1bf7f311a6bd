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
/// Number of connections of a round.
const CONNECTIONS: usize = 500;
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
    let (cost, more_calls) = measured?;
    let connection = Finding::new(
        NAME,
        format!("both ends of a connection, {PREFIXES} prefixes"),
        "median ns per end",
        median(&cost),
        Bound::AtMost(BOUND_NS),
    );
    let packets = Finding::new(
        NAME,
        "the packets of a connection",
        "calls for 1 MiB beyond those for 1 byte",
        Some(more_calls),
        Bound::AtMost(0.0),
    );
    Ok(vec![
        connection.figure(format!(
            "choosing, and counting at the end: median {} ns of {rounds} rounds of {CONNECTIONS} connections",
            median(&cost).map_or("-".to_owned(), significant)
        )),
        packets.figure(format!("{more_calls} calls more in {CONNECTIONS} connections")),
    ])
}

/// Returns nanoseconds of the program per end of a connection, of each round, and the number of calls that a round with
/// much data has beyond one with little.
fn measure(host: &Namespace, rounds: usize) -> Result<(Vec<f64>, f64)> {
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let listener = host.enter(|| TcpListener::bind("127.0.0.1:0"))??;
    let (idle, _object) = idle()?;
    let rules = Path::new(pins::POLICY).join("link");
    let rules = Link::open(&rules).with_context(|| format!("cannot open {}", rules.display()))?;
    let programs = [rules.info()?.prog_id, idle.info()?.prog_id];
    let round = |bytes: usize| -> Result<[(f64, f64); 2]> {
        let before = run_times_of(programs);
        for _ in 0..CONNECTIONS {
            exchange(host, &listener, bytes)?;
        }
        let after = run_times_of(programs);
        Ok([0, 1].map(|n| (after[n].0 - before[n].0, after[n].1 - before[n].1)))
    };
    round(LITTLE_BYTES)?;
    let (mut cost, mut calls) = (Vec::new(), 0.0);
    for _ in 0..rounds {
        check()?;
        let [chosen, idle] = round(LITTLE_BYTES)?;
        ensure!(idle.0 > 0.0, "no event of a connection");
        cost.push((chosen.1 - chosen.0 * idle.1 / idle.0) / ENDS);
        calls = chosen.0;
    }
    let [(many, _), _] = round(MUCH_BYTES)?;
    Ok((cost, many - calls))
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

/// Opens a connection, sends data, and closes both ends.
fn exchange(host: &Namespace, listener: &TcpListener, bytes: usize) -> Result<()> {
    let address = listener.local_addr()?;
    let mut client = host.enter(|| TcpStream::connect(address))??;
    let (mut server, _) = listener.accept()?;
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || client.write_all(&vec![7; bytes]));
        let received = std::io::copy(&mut server, &mut std::io::sink())?;
        sent.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??;
        ensure!(received == bytes as u64, "{received} of {bytes} bytes arrived");
        Ok(())
    })
}
