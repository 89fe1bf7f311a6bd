//! A scrape of `hotcc exporter`, compared with `ss -tin` over the same sockets: both read the kernel's state of each
//! socket. Then its processor time, and whether many scrapes need more memory.
//!
//! The sockets and the exporter are in separate processes, so neither is slowed down by the other's open files.

use super::load_guard::LoadGuard;
use super::options::Options;
use super::process::resident_pages;
use super::report::{Bound, Finding, significant};
use super::wire::{OTHER_FILES, allow_files, open};
use anyhow::{Context, Result, ensure};
use hotcc::exporter;
use hotcc_testbed::metrics;
use hotcc_testbed::netlab::{Process, check, output, pause, quiet};
use hotcc_testbed::soak;
use hotcc_testbed::statistics::median;
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the measure for `--only`.
pub const NAME: &str = "scrape";
/// Argument with which this program runs [`hold`].
pub const HOLDER: &str = "holder";
/// Argument with which this program runs [`serve_metrics`].
pub const EXPORTER: &str = "exporter";
const BOUND: f64 = 0.2;
/// Time between two scrapes of Prometheus, in the examples of the manual.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(15);
const CORE_BOUND: f64 = 0.02;
const MEMORY_BOUND: f64 = 1.1;
const CC: &str = "b_scrape";
/// Connections of a process, which may not have as many open files as all connections need.
const CONNECTIONS: usize = 5_000;

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let (pairs, holders, scrapes) = if options.quick { (5, 1, 200) } else { (20, 10, soak::times(10_000)) };
    let sockets = 2 * holders * CONNECTIONS;
    let _loaded = LoadGuard::load("dtcp", CC)?;
    eprintln!("  opening {} connections", holders * CONNECTIONS);
    let holders = (0..holders).map(|_| ourselves(quiet, HOLDER, CC)).collect::<Result<Vec<_>>>()?;
    let (exporter, address) = ourselves(quiet, EXPORTER, "127.0.0.1:0")?;
    let address: SocketAddr = address
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .parse()
        .with_context(|| format!("invalid exporter address `{address}`"))?;
    check_both(address, sockets)?;
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let before = cpu_time(&exporter)?;
    for pair in 0..pairs {
        pause(Duration::from_millis(20))?;
        let (scrape, ss);
        if pair % 2 == 0 {
            scrape = timed(|| scrape_page(address))?;
            ss = timed(run_ss)?;
        } else {
            ss = timed(run_ss)?;
            scrape = timed(|| scrape_page(address))?;
        }
        eprintln!("  pair {} of {pairs}: {scrape:.1} and {ss:.1} ms", pair + 1);
        ours.push(scrape);
        theirs.push(ss);
        ratios.push(scrape / ss);
    }
    let one_s = (cpu_time(&exporter)? - before).as_secs_f64() / f64::from(pairs);
    drop(holders);
    let growth = growth(&exporter, address, scrapes)?;
    let text = |values: &[f64]| median(values).map_or("-".to_owned(), significant);
    let subject = format!("{sockets} sockets");
    let core = one_s / SCRAPE_INTERVAL.as_secs_f64();
    let core_judged = "share of a core, scraped every 15 s";
    let (memory, memory_judged) = (format!("{scrapes} scrapes"), "resident memory / that after a tenth of them");
    Ok(vec![
        Finding::new(NAME, &subject, "time / ss -tin's", median(&ratios), Bound::AtMost(BOUND))
            .figure(format!("network namespaces visited by the scrape: {}", hotcc_host::netns::all()?.len()))
            .figure(format!("median: scrape {} ms, ss {} ms, of {pairs} pairs", text(&ours), text(&theirs))),
        Finding::new(NAME, &subject, core_judged, Some(core), Bound::AtMost(CORE_BOUND))
            .figure(format!("{} ms of processor time per scrape", significant(one_s * 1e3))),
        Finding::new(NAME, memory, memory_judged, Some(growth), Bound::AtMost(MEMORY_BOUND)),
    ])
}

/// Returns the process ids of the exporter: its own, and that of the child that serves HTTP.
fn both(exporter: &Process) -> Result<[i32; 2]> {
    let id = exporter.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    let child = children.trim().parse().with_context(|| format!("the exporter's children: `{children}`"))?;
    Ok([id.cast_signed(), child])
}

/// Returns the processor time that the exporter has used.
fn cpu_time(exporter: &Process) -> Result<Duration> {
    let times = both(exporter)?.map(|id| clock_getcpuclockid(Pid::from_raw(id)).and_then(clock_gettime));
    times.into_iter().map(|time| Ok(Duration::from(time?))).sum()
}

/// Scrapes so many times. Returns the exporter's resident memory, relative to that after a tenth of the scrapes.
fn growth(exporter: &Process, address: SocketAddr, scrapes: u64) -> Result<f64> {
    let resident = || both(exporter)?.map(|id| resident_pages(&id.to_string())).into_iter().sum::<Result<f64>>();
    let scrape = |count| (0..count).try_for_each(|_| check().and_then(|()| scrape_page(address)).map(drop));
    eprintln!("  scraping {scrapes} times");
    scrape(scrapes / 10)?;
    let early = resident()?;
    scrape(scrapes - scrapes / 10)?;
    Ok(resident()? / early)
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<f64> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

/// Checks that both see all sockets: otherwise the comparison would be of different work.
fn check_both(address: SocketAddr, sockets: usize) -> Result<()> {
    let lines = output(quiet("ss").arg("-tin"))?.lines().filter(|l| l.starts_with("ESTAB")).count();
    ensure!(lines >= sockets, "ss shows only {lines} of {sockets} sockets");
    let page = scrape_page(address)?;
    let counts = page.lines().filter(|l| l.starts_with("hotcc_sockets{")).filter_map(|l| l.rsplit(' ').next());
    let sum: usize = counts.filter_map(|n| n.parse::<usize>().ok()).sum();
    ensure!(sum >= sockets, "the exporter shows only {sum} of {sockets} sockets");
    Ok(())
}

/// Runs `ss -tin`. The kernel discards its output, so this is the least that it can cost.
fn run_ss() -> Result<()> {
    let status = quiet("ss").arg("-tin").stdout(Stdio::null()).status().context("cannot run ss")?;
    ensure!(status.success(), "ss failed ({status})");
    Ok(())
}

fn scrape_page(address: SocketAddr) -> Result<String> {
    metrics::open_metrics(address)
}

/// Starts this program again in another role, by a command that `place` makes. Returns it with the first line that it
/// prints, which reports that it is ready.
pub(super) fn ourselves(place: impl Fn(&str) -> Command, role: &str, argument: &str) -> Result<(Process, String)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let program = program.to_str().context("this program's path is not valid UTF-8")?;
    let (reader, writer) = std::io::pipe()?;
    let mut command = place(program);
    let process = Process::start(command.args([role, argument]).stdout(writer))?;
    drop(command); // it holds a copy of the pipe's write end, which would hide the end of the process
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line)?;
    ensure!(!line.is_empty(), "`{program} {role}` exited before it was ready");
    Ok((process, line.trim_end().to_owned()))
}

/// Opens the connections, reports that they are open, and keeps them until it is killed.
pub fn hold(cc: &str) -> Result<()> {
    allow_files(2 * CONNECTIONS as u64 + OTHER_FILES)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr()?.port());
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let connection = [open(cc, to)?, listener.accept()?.0];
        for end in &connection {
            // a reset instead of TIME_WAIT when it is closed, so that the machine keeps no state
            setsockopt(end, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
        }
        held.push(connection);
    }
    println!("ready");
    loop {
        std::thread::park();
    }
}

/// Runs `hotcc exporter`.
pub fn serve_metrics(listen: SocketAddr) -> Result<()> {
    Ok(exporter::serve(exporter::Options { listen, max_links: 256, page: exporter::PageOn::Never })?)
}
