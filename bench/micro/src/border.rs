//! Cost of the ACKing PEP's border for a router: nanoseconds per packet with 10,000 flows; the forwarding rate with the
//! border, including its datagrams, and without it; and the time from a segment until the report of it has been sent.
//!
//! Sender, router and receiver are network namespaces on a few processors, and the thread that makes the packets shares
//! these with the router. So the measured latency is that of a busy router.

use super::awake::Awake;
use super::options::Options;
use super::report::{Bound, Finding, significant, spread};
use super::run_time::{loaded, loaded_since, run_times_of};
use anyhow::{Context, Result, ensure};
use hotcc_abi::pins;
use hotcc_testbed::netlab::{Lab, Namespace, pause};
use hotcc_testbed::statistics::{mean_ratio, median, quartiles};
use libbpf_rs::{Object, ObjectBuilder, Program, TC_INGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
use pep_agent::auth::{Keys, LiveKeys};
use pep_agent::border::config::{BorderArgs, Config};
use pep_agent::border::kernel::Kernel;
use pep_agent::border::report_sender::{self, Delivered};
use pep_agent::border::urgent::Urgent;
use pep_agent::report::{Sent, Transport};
use pep_agent::transport;
use pep_agent::wire::PORT;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Name of the measure for `--only`.
pub const NAME: &str = "border";
const COST_BOUND_NS: f64 = 300.0;
const FORWARDING_BOUND: f64 = 0.9;
/// Least share of reports that leave within a millisecond: with it, the 99th percentile is at most a millisecond.
const LATENCY_BOUND: f64 = 0.99;
const FLOWS: u32 = 10_000;
/// Flow table size for a router with far more flows: a smaller part of a large table is in the cache.
const MANY_PLACES: u32 = 1 << 17;
/// Consecutive segments of a flow: an initial window.
const BURST: u32 = 10;
const PACKETS_PER_SECOND: u64 = 100_000;
const PACE: Pace = Pace::PacketsPerSecond(PACKETS_PER_SECOND);
/// Number of packets by which the load may lag behind its pace.
const MAX_PACKETS_BEHIND: u64 = 1000;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 249, 8, 1);
/// Turns within a pair, with (`true`) and without the border; their order spreads drift and intermittent load over
/// both.
const TURNS: [bool; 8] = [true, false, false, true, false, true, true, false];

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let router = Router::new()?;
    let (nothing, id) = attach_nothing(&router)?;
    let costs = [(BURST, None), (1, None), (1, Some(MANY_PLACES))]
        .map(|(burst, places)| cost(&router, options, id, burst, places));
    let [in_bursts, one_by_one, in_a_large_table] = costs;
    router.router.tc("qdisc del dev sender clsact")?;
    drop(nothing);
    Ok(vec![in_bursts?, one_by_one?, in_a_large_table?, forwarding(&router, options)?, latency(&router, options)?])
}

/// Sender and router; the receiver only receives the packets.
struct Router {
    sender: Namespace,
    router: Namespace,
    keys: NamedTempFile,
    /// Receives the reports in place of the servers' agent, whose cost is not the router's. It is never read: the
    /// kernel drops what does not fit into its buffer.
    _agent: UdpSocket,
    _lab: Lab,
}

impl Router {
    fn new() -> Result<Self> {
        let lab = Lab::new("hotcc-microbench")?;
        let (sender, router, receiver) =
            (lab.namespace("sender")?, lab.namespace("router")?, lab.namespace("receiver")?);
        lab.veth(&sender, "10.249.8.1/24", &router, "10.249.8.254/24")?;
        lab.veth(&router, "10.249.9.254/24", &receiver, "10.249.9.2/24")?;
        router.sysctl("net.ipv4.ip_forward", "1")?;
        sender.ip("route add default via 10.249.8.254")?;
        receiver.ip("route add 10.249.8.0/24 via 10.249.9.254")?;
        // the generated flows end at the receiver, which does not forward and does not answer
        router.ip("route add 10.250.0.0/16 via 10.249.9.2")?;
        for (host, device) in [(&sender, "router"), (&router, "sender"), (&router, "receiver"), (&receiver, "router")] {
            host.ip(&format!("link set {device} gso_max_segs 1"))?; // one packet per segment
        }
        let keys = NamedTempFile::new()?; // readable only by its owner
        std::fs::write(keys.path(), format!("1 {}\n", "a5".repeat(32)))?;
        let agent = sender.enter(|| UdpSocket::bind((SERVER, PORT)))??;
        Ok(Self { sender, router, keys, _agent: agent, _lab: lab })
    }

    /// Starts the border with room for `places` flows; `None` for the default number.
    fn border(&self, places: Option<u32>) -> Result<Border> {
        let own = |text: &str| vec![text.to_owned()];
        let args = BorderArgs {
            internet: own("sender"),
            access: own("receiver"),
            server: own("10.249.8.0/24"),
            flows: places,
            ..BorderArgs::default()
        };
        let config: Config = args.resolve()?;
        let pins = Path::new(pins::PEP).join("border-bench");
        let mut kernel = self.router.enter(|| Kernel::attach(&config, &pins))??;
        let mut ring = kernel.reports.take().context("the border has no ring buffer for reports")?;
        let (stop, delivered) = (Arc::<AtomicBool>::default(), Arc::<Delivered>::default());
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&delivered));
        let keys = LiveKeys::new(Keys::read(self.keys.path())?);
        let mut transport = self.router.enter(|| transport::udp(keys, PORT))??;
        let sent = transport.sent();
        let urgent = Urgent::begin();
        let sender = std::thread::spawn(move || report_sender::run(&mut ring, &mut transport, &counting, &stopping));
        drop(urgent);
        Ok(Border { router: self.router.clone(), kernel: Some(kernel), delivered, sent, stop, sender: Some(sender) })
    }
}

/// The border's agent; stops when it is dropped.
struct Border {
    router: Namespace,
    kernel: Option<Kernel>,
    delivered: Arc<Delivered>,
    sent: Arc<Sent>,
    stop: Arc<AtomicBool>,
    sender: Option<JoinHandle<hotcc_host::error::Result<()>>>,
}

impl Border {
    /// Checks that reports are still delivered: a border without reports costs less.
    fn check(&self) -> Result<()> {
        ensure!(
            self.sender.as_ref().is_some_and(|sender| !sender.is_finished()),
            "the border stopped delivering reports"
        );
        Ok(())
    }
}

impl Drop for Border {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(Ok(Err(error))) = self.sender.take().map(JoinHandle::join) {
            eprintln!("  {error:#}");
        }
        if let Some(kernel) = self.kernel.take()
            && let Err(error) = self.router.enter(|| kernel.detach()).and_then(|done| Ok(done?))
        {
            eprintln!("  {error:#}");
        }
    }
}

/// Rate of a load.
#[derive(Clone, Copy)]
enum Pace {
    PacketsPerSecond(u64),
    AsFastAsItGoes,
}

/// Sends segments of many flows in turn, a burst of each, until it is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(router: &Router, flows: u32, burst: u32, pace: Pace) -> Result<Self> {
        let raw = || socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw);
        let fd = router.sender.enter(raw)?.context("cannot open a raw socket")?;
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopping, counting) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || send(&fd, flows.into(), burst.into(), pace, &stopping, &counting));
        Ok(Self { stop, sent, thread: Some(thread) })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn send(fd: &OwnedFd, flows: u64, burst: u64, pace: Pace, stop: &AtomicBool, sent: &AtomicU64) {
    let started = Instant::now();
    let (mut count, mut given_up) = (0u64, 0u64);
    while !stop.load(Relaxed) {
        let mut due = match pace {
            Pace::PacketsPerSecond(rate) => started.elapsed().as_micros() as u64 * rate / 1_000_000 - given_up,
            Pace::AsFastAsItGoes => count + burst,
        };
        // a load that is too far behind skips the packets that it missed: the machine then sets the pace
        let missed = due.saturating_sub(count + MAX_PACKETS_BEHIND);
        given_up += missed;
        due -= missed;
        while count < due {
            let (flow, place) = (count / burst % flows, count / (burst * flows) * burst + count % burst);
            let to = Ipv4Addr::new(10, 250, (flow / 250) as u8, (flow % 250) as u8 + 1);
            let packet = segment(to, (place as u32).wrapping_mul(100));
            if sendto(fd.as_raw_fd(), &packet, &SockaddrIn::from(SocketAddrV4::new(to, 0)), MsgFlags::empty()).is_ok() {
                sent.fetch_add(1, Relaxed);
            }
            count += 1;
        }
        std::hint::spin_loop();
    }
}

/// Returns a segment with 100 bytes of data; the kernel fills in the IP header's checksum.
fn segment(to: Ipv4Addr, seq: u32) -> [u8; 140] {
    let mut packet = [0; 140];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 140, 0, 0, 0x40, 0, 64, 6]);
    packet[12..16].copy_from_slice(&SERVER.octets());
    packet[16..20].copy_from_slice(&to.octets());
    packet[20..24].copy_from_slice(&[1, 187, 0x13, 0x88]); // from port 443 to 5000
    packet[24..28].copy_from_slice(&seq.to_be_bytes());
    packet[32..36].copy_from_slice(&[0x50, 0x10, 1, 0]);
    packet
}

/// Attaches an empty program that runs for the same packets as the border's program. Returns it with its id.
fn attach_nothing(router: &Router) -> Result<(Object, u32)> {
    let bytes = hotcc_bpf::lab("nothing").context("this build has no embedded object `nothing`")?.bytes;
    let object = ObjectBuilder::default().open_memory(bytes)?.load()?;
    let program = object.progs().next().context("the object `nothing` has no program")?;
    let fd = program.as_fd();
    let id = Program::id_from_fd(fd)?;
    router.router.enter(|| -> Result<()> {
        let ifindex = if_nametoindex("sender")?.cast_signed();
        let mut hook = TcHookBuilder::new(fd).ifindex(ifindex).replace(true).hook(TC_INGRESS);
        hook.create()?;
        hook.attach()?;
        Ok(())
    })??;
    Ok((object, id))
}

fn cost(router: &Router, options: &Options, nothing: u32, burst: u32, places: Option<u32>) -> Result<Finding> {
    let turns = if options.quick { 5 } else { 30 };
    let _stats = hotcc::sys::enable_stats().context("cannot enable BPF run-time statistics")?;
    let _awake = Awake::keep();
    let before = loaded();
    let border = router.border(places)?;
    let data = loaded_since(&before, "border_data").context("the border has no program `border_data`")?;
    let load = Load::start(router, FLOWS, burst, PACE)?;
    pause(Duration::from_millis(1500))?; // after this time, all flows are known
    let (mut costs, mut own) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        let before = run_times_of([data, nothing]);
        pause(Duration::from_millis(200))?;
        let after = run_times_of([data, nothing]);
        ensure!(
            after[0].0 > before[0].0 + 100.0,
            "too few packets: expected over 100 in a turn, got {}",
            after[0].0 - before[0].0
        );
        let [with_statistics, statistics] = [0, 1].map(|i| (after[i].1 - before[i].1) / (after[i].0 - before[i].0));
        costs.push(with_statistics - statistics);
        own.push(statistics);
    }
    drop(load);
    border.check()?;
    let view = &border.kernel.as_ref().context("the border is not attached")?.view;
    let (flows, counters) = (view.flows(), view.counters()?);
    ensure!(flows >= u64::from(FLOWS), "the border tracks only {flows} of {FLOWS} flows");
    let [low, middle, high] = quartiles(&costs).context("no turn was measured")?.map(significant);
    let table = places.map(|places| format!(", --flows {places}")).unwrap_or_default();
    let subject = format!("cost, bursts of {burst}{table}");
    let statistics = significant(median(&own).context("no turn was measured")?);
    Ok(Finding::new(
        NAME,
        subject,
        "ns per packet, without overhead of statistics",
        median(&costs),
        if places.is_none() { Bound::AtMost(COST_BOUND_NS) } else { Bound::None },
    )
    .figure(format!("{middle} ns per packet (quartiles {low} to {high}) at {flows} flows"))
    .figure(format!("subtracted: {statistics} ns of an empty program"))
    .figure(format!("{} segments, {} reports", counters.tracked, counters.reports.iter().sum::<u64>())))
}

fn forwarding(router: &Router, options: &Options) -> Result<Finding> {
    let (pairs, turn) = if options.quick { (4, 250) } else { (12, 500) };
    let turn = Duration::from_millis(turn);
    let mut ratios = Vec::new();
    let load = Load::start(router, FLOWS, BURST, Pace::AsFastAsItGoes)?;
    for pair in 0..pairs {
        let mut rates = [0f64; 2];
        for with in TURNS.map(|with| with ^ (pair % 2 == 1)) {
            let border = if with { Some(router.border(None)?) } else { None };
            let datagrams = || border.as_ref().map_or(0, |border| border.sent.packets.load(Relaxed));
            let sent = datagrams();
            let (before, started) = (forwarded(router)?, Instant::now());
            pause(turn)?;
            let (after, elapsed) = (forwarded(router)?, started.elapsed());
            rates[usize::from(with)] += (after - before) / elapsed.as_secs_f64();
            ensure!(!with || datagrams() > sent, "the border sent no datagram while packets were counted");
            border.as_ref().map_or(Ok(()), Border::check)?;
        }
        let [without, with] = rates.map(|sum| 2.0 * sum / TURNS.len() as f64);
        eprintln!("  pair {} of {pairs}: {with:.0} packets/s with, {without:.0} without", pair + 1);
        ratios.push(with / without);
    }
    drop(load);
    let interval = mean_ratio(&ratios).context("no turn was measured")?;
    Ok(Finding::new(
        NAME,
        "forwarding",
        "packets/s with / without, 95 % low",
        Some(interval.low),
        Bound::AtLeast(FORWARDING_BOUND),
    )
    .figure(format!("{} ({}), {pairs} pairs", significant(interval.mean), spread(&interval))))
}

/// Returns the number of packets that the router forwarded to the receiver, one per segment.
fn forwarded(router: &Router) -> Result<f64> {
    let table = router.router.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))??;
    let line = table
        .lines()
        .find_map(|l| l.trim().strip_prefix("receiver:"))
        .context("the router has no interface `receiver`")?;
    line.split_whitespace()
        .nth(9)
        .and_then(|n| n.parse().ok())
        .context("cannot parse the packet count of `receiver` in /proc/net/dev")
}

fn latency(router: &Router, options: &Options) -> Result<Finding> {
    let seconds = if options.quick { 2 } else { 10 };
    let border = router.border(None)?;
    let load = Load::start(router, FLOWS, BURST, PACE)?;
    let started = Instant::now();
    pause(Duration::from_secs(seconds))?;
    let rate = load.sent.load(Relaxed) as f64 / started.elapsed().as_secs_f64();
    drop(load);
    border.check()?;
    let view = &border.kernel.as_ref().context("the border is not attached")?.view;
    let lost = view.counters()?.reports_lost;
    let unsent = border.sent.dropped_unsent.load(Relaxed) + border.sent.dropped_no_key.load(Relaxed);
    ensure!(
        rate > 0.99 * PACKETS_PER_SECOND as f64,
        "the load was only {rate:.0} of {PACKETS_PER_SECOND} packets/s: the machine may be too busy"
    );
    ensure!(border.sent.packets.load(Relaxed) > 0, "the border sent no datagram");
    let mut registry = Registry::default();
    registry.register("delay", "seconds", border.delivered.delay.clone());
    let mut page = String::new();
    encode(&mut page, &registry)?;
    let within = |bound: &str| {
        let prefix = format!("delay_bucket{{le=\"{bound}\"}} ");
        page.lines()
            .find_map(|l| l.strip_prefix(&prefix)?.parse::<f64>().ok())
            .with_context(|| format!("the delay histogram has no bucket `{bound}`"))
    };
    let all = within("+Inf")? + lost as f64; // a lost report is not in time
    ensure!(all > 100.0, "too few reports: expected over 100, got {all}");
    // a report that could not be sent is not in time either, although the histogram includes its delay
    let in_time = |bound: &str| Ok::<_, anyhow::Error>((within(bound)? - unsent as f64) / all);
    let share = in_time("0.001")?;
    Ok(Finding::new(NAME, "latency", "share within 1 ms", Some(share), Bound::AtLeast(LATENCY_BOUND))
        .figure(format!(
            "{all:.0} reports at {rate:.0} packets/s, intended delay up to 250 us; {lost} lost, {unsent} unsent"
        ))
        .figure(format!("within 0.5 ms {:.4}, 1 ms {share:.4}, 2 ms {:.4}", in_time("0.0005")?, in_time("0.002")?)))
}
