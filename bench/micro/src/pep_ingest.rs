//! Number of flow reports that the PEP's server processes per second of its own processor time. It receives and
//! verifies them, determines the time of each, and writes them to their sockets, with and without clocking the senders.
//! Also, the cost of verifying a forged in-band report, in comparison.

use super::options::Options;
use super::report::{Bound, Finding, significant};
use super::wire::{OTHER_FILES, allow_files};
use anyhow::{Context, Result, bail, ensure};
use hotcc_abi::clock::monotonic_ns;
use hotcc_abi::pep::{INBAND_BYTES, Inband};
use hotcc_testbed::netlab::{Lab, Namespace, pause};
use hotcc_testbed::sequence::next_to_write;
use hotcc_testbed::statistics::median;
use nix::time::{ClockId, clock_gettime};
use pep_agent::attach::Method;
use pep_agent::auth::{Keys, LiveKeys};
use pep_agent::inband;
use pep_agent::report::{FlowKey, FlowReport, Transport};
use pep_agent::server::{self, Counters, RecordFate, Server};
use pep_agent::transport;
use std::hint::black_box;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Name of the measure for `--only`.
pub const NAME: &str = "pep-ingest";
const BOUND: f64 = 200_000.0;
const FLOWS: usize = 1000;
const SERVER: &str = "10.249.8.1";
/// Sysctl that keeps timeouts away, since Linux 6.11: after a timeout, a sender is not clocked.
const RTO_MIN: &str = "net.ipv4.tcp_rto_min_us";
/// Number of reports handed to the transport at once: two datagrams.
const BURST: usize = 88;

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let (rounds, each) = if options.quick { (3, Duration::from_millis(500)) } else { (10, Duration::from_secs(2)) };
    allow_files(2 * FLOWS as u64 + OTHER_FILES)?;
    let lab = Lab::new("hotcc-microbench")?;
    let (server, client) = (lab.namespace("server")?, lab.namespace("client")?);
    lab.veth(&server, "10.249.8.1/24", &client, "10.249.8.2/24")?;
    let keys = tempfile::NamedTempFile::new()?;
    std::fs::set_permissions(keys.path(), std::fs::Permissions::from_mode(0o600))?;
    std::fs::write(keys.path(), format!("1 {}\n", "a5".repeat(32)))?;
    let has_rto_min = Path::new("/proc/sys").join(RTO_MIN.replace('.', "/")).exists();
    if has_rto_min {
        server.sysctl(RTO_MIN, "100000000")?;
    }
    let flows = in_flight(&server, &client)?;
    let (mut written, mut verified) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        written.push(round(&server, &flows, keys.path(), false, each)?);
        verified.push(forged_per_second(&flows[0].report, keys.path(), each / 4)?);
    }
    let mut findings = vec![rate("reports written", &written, Bound::AtLeast(BOUND))];
    if has_rto_min {
        let clocked =
            (0..rounds).map(|_| round(&server, &flows, keys.path(), true, each)).collect::<Result<Vec<f64>>>()?;
        findings.push(rate("reports written, senders clocked", &clocked, Bound::None));
    } else {
        eprintln!("  not clocking the senders: timeouts would end it on a kernel without {RTO_MIN} (Linux 6.11)");
    }
    findings.push(verification(&written, &verified));
    Ok(findings)
}

fn rate(subject: &str, rates: &[f64], bound: Bound) -> Finding {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let text = format!("{FLOWS} flows; minimum of {} rounds: {} k/s", rates.len(), significant(least / 1e3));
    Finding::new(NAME, subject, "reports per second and core", median(rates), bound).figure(text)
}

/// Compares the time that a forged in-band report takes with the time of a written report, round by round. The server
/// verifies in-band reports before it limits their rate, so this time must be short.
fn verification(written: &[f64], verified: &[f64]) -> Finding {
    let ratios: Vec<f64> = written.iter().zip(verified).map(|(written, verified)| written / verified).collect();
    let rate = median(verified).unwrap_or(f64::NAN);
    let subject = "forged in-band reports verified";
    Finding::new(NAME, subject, "time of one, in that of a written report", median(&ratios), Bound::AtMost(1.0))
        .figure(format!("{} k/s and core", significant(rate / 1e3)))
}

/// Returns the number of in-band reports with a wrong authentication code that a core verifies per second.
fn forged_per_second(report: &FlowReport, keys: &Path, length: Duration) -> Result<f64> {
    let keys = Keys::read(keys)?;
    let key = keys.signing(report.key.server.ip()).context("no key for the server")?;
    let address = |of: SocketAddr| match of.ip() {
        IpAddr::V4(v4) => std::array::from_fn(|i| v4.octets().get(i).copied().unwrap_or(0)),
        IpAddr::V6(v6) => v6.octets(),
    };
    let mut forged = Inband {
        server: address(report.key.server),
        client: address(report.key.client),
        server_port: report.key.server.port().to_be_bytes(),
        client_port: report.key.client.port().to_be_bytes(),
        family: 4,
        option: inband::encode(report, monotonic_ns() / 1000, key),
        reserved: 0,
    };
    ensure!(inband::is_signed_by(&forged, key), "the report is invalid before it is changed");
    forged.option[INBAND_BYTES - 1] ^= 1;
    let mut verified = 0u32;
    let begun = cpu_seconds()?;
    let mut taken = 0.0;
    while taken < length.as_secs_f64() {
        for _ in 0..1000 {
            let decoded = black_box(inband::decode(black_box(&forged)));
            verified += u32::from(decoded.is_some() && !inband::is_signed_by(&forged, key));
        }
        taken = cpu_seconds()? - begun;
    }
    Ok(f64::from(verified) / taken)
}

/// A connection whose sender has segments in flight that are never acknowledged, and a report of it.
struct InFlight {
    report: FlowReport,
    ends: [TcpStream; 2],
}

fn in_flight(server: &Namespace, client: &Namespace) -> Result<Vec<InFlight>> {
    server.sysctl("net.ipv4.tcp_early_retrans", "0")?;
    let listener = server.enter(|| TcpListener::bind((SERVER, 0)))??;
    let address = listener.local_addr()?;
    let mut flows = Vec::new();
    for _ in 0..FLOWS {
        let receiver = client.enter(|| TcpStream::connect(address))??;
        let (sender, _) = listener.accept()?;
        let key = FlowKey { server: address, client: receiver.local_addr()? };
        let report = FlowReport {
            key,
            in_order: next_to_write(&sender)?.wrapping_add(1000),
            ranges: Vec::new(),
            segments: 0,
            seen_at_us: 0,
        };
        flows.push(InFlight { report, ends: [sender, receiver] });
    }
    // from now on, the client's ACKs are dropped
    client.ip(&format!("route add blackhole {SERVER}/32"))?;
    for flow in &flows {
        (&flow.ends[0]).write_all(&[7; 8000])?;
    }
    Ok(flows)
}

fn round(server: &Namespace, flows: &[InFlight], keys: &Path, clock: bool, length: Duration) -> Result<f64> {
    let options = server::Options {
        listen: (SERVER.parse::<IpAddr>()?, pep_agent::wire::PORT).into(),
        clock,
        control_share: 0.0,
        inband: Vec::new(),
        attach: Method::Auto,
        max_age: Duration::from_secs(1),
        rate_per_second: 10_000_000,
    };
    let (stop, stopped) = oneshot::channel();
    let (started, starting) = mpsc::channel();
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || server.enter(|| serve(options, keys, &started, stopped)));
        let join = || serving.join().unwrap_or_else(|p| std::panic::resume_unwind(p)).flatten();
        let Ok(counters) = starting.recv() else {
            join()?; // its error is the cause
            bail!("the server ended before it started");
        };
        let live = LiveKeys::new(Keys::read(keys)?);
        let mut border = server.enter(|| transport::udp(live, pep_agent::wire::PORT))??;
        let mut reports: Vec<FlowReport> = flows.iter().map(|f| f.report.clone()).collect();
        let end = monotonic_ns() + length.as_nanos() as u64;
        while monotonic_ns() < end {
            for burst in reports.chunks_mut(BURST) {
                let now_us = monotonic_ns() / 1000;
                burst.iter_mut().for_each(|report| report.seen_at_us = now_us);
                border.send(burst, now_us);
            }
            pause(Duration::from_millis(1))?;
        }
        drop(stop);
        let cpu_s = join()?;
        let (written, clocked) = (counters.records(RecordFate::Written), counters.records(RecordFate::Clocked));
        let expected = if clock { clocked } else { written };
        ensure!(
            expected * 10 > (written + clocked) * 9,
            "too few reports of the expected kind: {written} written, {clocked} clocked"
        );
        Ok((written + clocked) as f64 / cpu_s)
    })
}

/// Serves until `stopped` resolves. Returns the processor time that it took, in seconds.
fn serve(
    options: server::Options,
    keys: &Path,
    started: &mpsc::Sender<Arc<Counters>>,
    stopped: oneshot::Receiver<()>,
) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut server = Server::start(options, Keys::read(keys)?)?;
        started.send(server.counters())?;
        let before = cpu_seconds()?;
        tokio::select! {
            served = server.serve() => served?,
            _ = stopped => {}
        }
        Ok(cpu_seconds()? - before)
    })
}

fn cpu_seconds() -> Result<f64> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}
