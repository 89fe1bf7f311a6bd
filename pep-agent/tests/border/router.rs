//! The command on a router between two hosts, with real flows.

use crate::common::metric;
use aya::Ebpf;
use aya::maps::Array;
use aya::programs::{SchedClassifier, TcAttachType};
use hotcc_testbed::http;
use hotcc_testbed::kernel::{is_root_with_bpffs, skipped};
use nix::libc;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Server, router and client, which are removed when this value is dropped. The router's interfaces are `wan` and
/// `lan`.
pub struct Network {
    stem: String,
    pub pins: PathBuf,
}

const SERVER: [&str; 2] = ["10.201.1.1", "2001:db8:1::1"];

impl Network {
    /// Creates the hosts. Without root, prints a line that says so and returns `None`.
    pub fn new(test: &str) -> Option<Self> {
        if !is_root_with_bpffs(test) {
            return None;
        }
        let stem = format!("pepb-{}-{test}", std::process::id());
        let network = Self { pins: PathBuf::from("/sys/fs/bpf").join(&stem), stem };
        for host in ["s", "r", "c"] {
            run(&format!("ip netns add {}", network.name(host)));
            network.on(host, "ip link set lo up");
        }
        for (near, far, host, net) in [("wan", "srv", "s", 1), ("lan", "cli", "c", 2)] {
            network.on("r", &format!("ip link add {near} type veth peer name {far} netns {}", network.name(host)));
            network.on("r", &format!("ip address add 10.201.{net}.254/24 dev {near}"));
            network.on("r", &format!("ip address add 2001:db8:{net}::fe/64 dev {near} nodad"));
            network.on("r", &format!("ip link set {near} up"));
            network.on(host, &format!("ip address add 10.201.{net}.1/24 dev {far}"));
            network.on(host, &format!("ip address add 2001:db8:{net}::1/64 dev {far} nodad"));
            network.on(host, &format!("ip link set {far} up"));
            network.on(host, &format!("ip route add default via 10.201.{net}.254"));
            network.on(host, &format!("ip route add default via 2001:db8:{net}::fe"));
        }
        network.enter("r", || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        Some(network)
    }

    fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.stem)
    }

    fn file(&self, host: &str) -> File {
        File::open(format!("/run/netns/{}", self.name(host))).unwrap()
    }

    /// Runs a command on a host; its words are separated by spaces.
    pub fn on(&self, host: &str, command: &str) {
        run(&format!("ip netns exec {} {command}", self.name(host)));
    }

    /// Runs `work` on a thread in a host's network namespace, to which its sockets then belong.
    pub fn enter<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let file = self.file(host);
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(&file, CloneFlags::CLONE_NEWNET).unwrap();
                work()
            });
            inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Returns the command on the router, with the arguments that it needs and `options`.
    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pep-agent"));
        let file = self.file("r");
        let enter = move || setns(&file, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command.args(["border", "--listen", "127.0.0.1:0", "--dry-run", "--pins"]).arg(&self.pins);
        command.args(options).env_remove("RUST_LOG");
        command
    }

    /// Starts the border between `wan` and `lan`, for the server's addresses of both families.
    pub fn border(&self, options: &[&str]) -> Border {
        let own = ["--internet", "wan", "--access", "lan", "--server", "10.201.1.0/24", "--server", "2001:db8:1::/48"];
        Border::start(self, &[&own, options].concat())
    }

    /// Opens a connection from the client to the server. Returns the server's end and the client's end.
    pub fn connect(&self, family: usize) -> (TcpStream, TcpStream) {
        let at: IpAddr = SERVER[family].parse().unwrap();
        let listener = self.enter("s", || TcpListener::bind((at, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let client = self.enter("c", || TcpStream::connect(address)).unwrap();
        (listener.accept().unwrap().0, client)
    }

    /// Sends this many bytes from the server, and checks that the client receives all of them unchanged.
    pub fn transfer(&self, (server, client): &mut (TcpStream, TcpStream), bytes: usize) {
        let byte = |i: usize| (i * 31 + i / 251) as u8;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let block: Vec<u8> = (0..bytes).map(byte).collect();
                server.write_all(&block).unwrap();
            });
            let mut received = vec![0; bytes];
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.read_exact(&mut received).unwrap();
            assert!(received.iter().enumerate().all(|(i, b)| *b == byte(i)), "the bytes were changed");
        });
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for host in ["s", "r", "c"] {
            let _ = Command::new("ip").args(["netns", "delete", &self.name(host)]).output();
        }
        let _ = fs::remove_dir_all(&self.pins);
    }
}

#[track_caller]
fn run(command: &str) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A report as the command printed it.
#[derive(Clone, Debug)]
pub struct Report {
    pub server: SocketAddr,
    pub client: SocketAddr,
    pub in_order: u32,
    pub ranges: String,
    pub segments: u32,
}

impl Report {
    fn parse(line: &str) -> Self {
        let field = |name: &str| {
            let found = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_else(|| panic!("no {name} in `{line}`")).to_owned()
        };
        Self {
            server: field("server").parse().unwrap(),
            client: field("client").parse().unwrap(),
            in_order: field("in_order").parse().unwrap(),
            ranges: field("ranges"),
            segments: field("segments").parse().unwrap(),
        }
    }
}

/// The agent in the background; killed when dropped.
pub struct Border {
    child: Child,
    pub http: SocketAddr,
    reports: Arc<Mutex<Vec<Report>>>,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Border {
    pub fn start(network: &Network, options: &[&str]) -> Self {
        Self::start_with(network, options, |_| ())
    }

    pub fn start_with(network: &Network, options: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        let mut command = network.command(options);
        change(&mut command);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let Some(http) = first.trim_end().strip_prefix("listening on http://") else {
            let mut said = String::new();
            stderr.read_to_string(&mut said).unwrap();
            panic!("it did not start: {said}");
        };
        let (reports, said) = (Arc::<Mutex<Vec<Report>>>::default(), Arc::<Mutex<String>>::default());
        let (kept, heard) = (Arc::clone(&reports), Arc::clone(&said));
        let readers = vec![
            std::thread::spawn(move || {
                stdout.lines().map_while(Result::ok).for_each(|line| kept.lock().unwrap().push(Report::parse(&line)));
            }),
            std::thread::spawn(move || {
                stderr.lines().map_while(Result::ok).for_each(|line| *heard.lock().unwrap() += &(line + "\n"));
            }),
        ];
        Self { child, http: http.parse().unwrap(), reports, said, readers }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub fn reports(&self) -> Vec<Report> {
        self.reports.lock().unwrap().clone()
    }

    /// Sends a signal, and returns the exit status and the output on stderr.
    pub fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
        self.wait()
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        (status, self.said.lock().unwrap().clone())
    }

    /// Waits until the report with the highest in-order sequence number of a flow (the last one, if there are several)
    /// is as wanted, and returns it. A segment that came alone is reported when it is due, which may be after the
    /// segments that followed it were reported.
    #[track_caller]
    pub fn wait_for(&self, flow: &(TcpStream, TcpStream), wanted: impl Fn(&Report) -> bool) -> Report {
        let of_flow = |r: &Report| r.client == flow.0.peer_addr().unwrap() && r.server == flow.0.local_addr().unwrap();
        let started = Instant::now();
        loop {
            let mut of_flow = self.reports().into_iter().filter(of_flow).peekable();
            let first = of_flow.peek().map_or(0, |report| report.in_order);
            let last = of_flow.max_by_key(|report| report.in_order.wrapping_sub(first).cast_signed());
            if let Some(report) = last.clone().filter(&wanted) {
                return report;
            }
            assert!(started.elapsed() < PATIENCE, "not seen; last {last:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the head and the body of an HTTP answer.
    pub fn get(&self, network: &Network, path: &str) -> (String, String) {
        network.enter("r", || http::get(self.http, path)).unwrap()
    }

    /// Returns the value of a series, with its labels written as on the page.
    pub fn metric(&self, network: &Network, series: &str) -> f64 {
        let (head, page) = self.get(network, "/metrics");
        assert!(head.contains("200 OK"), "{head}\n{page}");
        metric(&page, series)
    }
}

impl Drop for Border {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn option<T: Copy>(socket: &TcpStream, name: i32, value: Option<T>, zero: T) -> T {
    let mut out = value.unwrap_or(zero);
    let mut length = size_of::<T>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    let place = (&raw mut out).cast();
    let result = match value {
        // SAFETY: `place` points to `length` bytes, which the kernel reads.
        Some(_) => unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, name, place, length) },
        // SAFETY: `place` points to `length` bytes, of a type for which any value is valid.
        None => unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, name, place, &raw mut length) },
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    out
}

/// Returns the sequence number after the last byte that was written to the socket, which it reads in TCP_REPAIR mode.
pub fn write_seq(socket: &TcpStream) -> u32 {
    option(socket, libc::TCP_REPAIR, Some(1i32), 0);
    option(socket, libc::TCP_REPAIR_QUEUE, Some(2i32), 0); // the send queue
    let seq = option(socket, libc::TCP_QUEUE_SEQ, None, 0u32);
    option(socket, libc::TCP_REPAIR, Some(-1i32), 0); // off, without a probe
    seq
}

/// Returns the number of segments that the socket retransmitted.
fn retransmits(socket: &TcpStream) -> u32 {
    let zero = [0u32; 26];
    option(socket, libc::TCP_INFO, None, zero)[25]
}

#[test]
fn the_last_report_is_where_the_sender_is() {
    let Some(network) = Network::new("flows") else { return };
    let border = network.border(&[]);
    for family in [0, 1] {
        let mut flow = network.connect(family);
        network.transfer(&mut flow, 3_000_000);
        let seq = write_seq(&flow.0);
        let report = border.wait_for(&flow, |r| r.in_order == seq);
        assert_eq!(report.ranges, "");
        assert!((2000..20_000).contains(&report.segments), "{report:?}");
    }
    // the same two hosts, the other direction: the client's data is not tracked
    let before = border.reports().len();
    let mut flow = network.connect(0);
    flow.1.write_all(&vec![1; 100_000]).unwrap();
    flow.1.shutdown(Shutdown::Write).unwrap();
    flow.0.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(border.reports().len(), before);
    assert_eq!(border.metric(&network, "hotcc_border_flows"), 3.0);
    assert!(border.metric(&network, "hotcc_border_tracked_segments_total") > 4000.0);
    assert_eq!(border.metric(&network, r#"hotcc_border_untracked_packets_total{reason="malformed"}"#), 0.0);
    assert_eq!(border.metric(&network, "hotcc_border_reports_lost_total"), 0.0);
}

#[test]
fn interfaces_the_wrong_way_round_are_told() {
    let Some(network) = Network::new("swapped") else { return };
    let border = Border::start(&network, &["--internet", "lan", "--access", "wan", "--server", "10.201.1.0/24"]);
    let mut flow = network.connect(0);
    let started = Instant::now();
    while !border.said().contains("was data of a cooperating server: check --internet, --access and --server") {
        network.transfer(&mut flow, 1_000_000);
        assert!(started.elapsed() < PATIENCE, "{}", border.said());
    }
    assert_eq!(border.metric(&network, "hotcc_border_tracked_segments_total"), 0.0);
}

#[test]
fn a_border_beside_the_base_stations_is_told() {
    let Some(network) = Network::new("gtp-u") else { return };
    let border = network.border(&[]);
    let gtp_u = || border.metric(&network, r#"hotcc_border_untracked_packets_total{reason="gtp_u"}"#);
    assert_eq!(gtp_u(), 0.0); // counting starts now
    let sent = network.enter("s", || UdpSocket::bind("0.0.0.0:0")?.send_to(&[0x30; 20], "10.201.2.1:2152"));
    assert_eq!(sent.unwrap(), 20);
    let started = Instant::now();
    while !border.said().contains("GTP-U packets (UDP port 2152) pass here") {
        assert!(started.elapsed() < PATIENCE, "{} GTP-U packets; {}", gtp_u(), border.said());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(gtp_u(), 1.0);
}

#[test]
fn hardware_vlan_tags_are_ignored() {
    let Some(network) = Network::new("tag") else { return };
    let border = network.border(&[]);
    let object = hotcc_bpf::TEST_OBJECTS.iter().find(|object| object.name == "priority_tag").unwrap();
    let mut ebpf = Ebpf::load(object.bytes).unwrap();
    let mut attach = |name: &str, host: &str, device: &str, direction| {
        let program: &mut SchedClassifier = ebpf.program_mut(name).unwrap().try_into().unwrap();
        program.load().unwrap();
        network.enter(host, || program.attach(device, direction)).unwrap();
    };
    attach("count_tags", "r", "wan", TcAttachType::Ingress);
    attach("priority_tag", "s", "srv", TcAttachType::Egress);
    for family in [0, 1] {
        let mut flow = network.connect(family);
        network.transfer(&mut flow, 300_000);
        let seq = write_seq(&flow.0);
        border.wait_for(&flow, |r| r.in_order == seq && r.ranges.is_empty());
    }
    let tagged: Array<_, u64> = ebpf.map(".bss").unwrap().try_into().unwrap();
    assert!(tagged.get(&0, 0).unwrap() > 20, "nothing was tagged: the test shows nothing");
}

#[test]
fn the_agent_polls_while_many_reports_arrive_and_then_stops() {
    let Some(network) = Network::new("polls") else { return };
    let border = network.border(&[]);
    let polls = || border.metric(&network, "hotcc_border_looks_total");
    let mut flow = network.connect(0);
    let started = Instant::now();
    while polls() == 0.0 {
        network.transfer(&mut flow, 10_000_000);
        assert!(started.elapsed() < PATIENCE, "it never polls");
    }
    let rests = || {
        let before = polls();
        std::thread::sleep(Duration::from_millis(10));
        polls() == before
    };
    while !rests() {
        assert!(started.elapsed() < 2 * PATIENCE, "it does not stop polling");
    }
    network.transfer(&mut flow, 1);
    let seq = write_seq(&flow.0);
    border.wait_for(&flow, |r| r.in_order == seq);
    assert_eq!(border.metric(&network, "hotcc_border_reports_lost_total"), 0.0);
}

/// The purpose of the PEP.
#[test]
fn a_loss_has_a_place() {
    let Some(network) = Network::new("place") else { return };
    let lossy = "tbf rate 200mbit burst 16kb limit 40kb";
    for (host, device, is_before) in [("s", "srv", true), ("r", "lan", false)] {
        network.on(host, &format!("tc qdisc replace dev {device} root {lossy}"));
        let border = network.border(&[]);
        let mut flow = network.connect(0);
        network.transfer(&mut flow, 8_000_000);
        let seq = write_seq(&flow.0);
        let last = border.wait_for(&flow, |r| r.in_order == seq);
        assert_eq!(last.ranges, "", "{last:?}");
        assert!(retransmits(&flow.0) > 0, "nothing was lost: the test shows nothing");
        let gaps = border.reports().iter().filter(|r| !r.ranges.is_empty()).count();
        assert_eq!(gaps > 0, is_before, "{gaps} reports with gaps; lost before the border: {is_before}");
        border.stop(Signal::SIGTERM);
        network.on(host, &format!("tc qdisc del dev {device} root"));
    }
}

#[test]
fn a_router_that_translates_addresses_knows_flows_as_their_servers_do() {
    const NAME: &str = "a_router_that_translates_addresses_knows_flows_as_their_servers_do";
    if Command::new("nft").arg("--version").output().is_err() {
        skipped(NAME, "needs nft");
        return;
    }
    let Some(network) = Network::new("nat") else { return };
    network.on("r", "nft add table ip nat");
    network.on("r", "nft add chain ip nat leaving { type nat hook postrouting priority 100 ; }");
    network.on("r", "nft add rule ip nat leaving oifname wan masquerade");
    network.on("s", "tc qdisc replace dev srv root tbf rate 200mbit burst 16kb limit 40kb");
    // without the option, the border sees the ACKs of addresses to which no server sends
    for (options, hears_clients) in [(&["--nat"][..], true), (&[], false)] {
        let border = network.border(options);
        let mut flow = network.connect(0);
        assert_ne!(flow.0.peer_addr().unwrap(), flow.1.local_addr().unwrap(), "nothing is translated");
        network.transfer(&mut flow, 8_000_000);
        assert!(retransmits(&flow.0) > 0, "nothing was lost: the test shows nothing");
        let heard = border.metric(&network, "hotcc_border_gap_acks_total");
        assert_eq!(heard > 0.0, hears_clients, "{heard} ACKs of flows with gaps");
        let seq = write_seq(&flow.0);
        border.wait_for(&flow, |r| !hears_clients || r.in_order == seq && r.ranges.is_empty());
        border.stop(Signal::SIGTERM);
    }
}
