//! A server, a router and a client. The agent runs on the server, a border's transport on the router, and a flow from
//! the server to the client.

use hotcc::ops::{self, Request};
use hotcc::sockets::flows::Connection;
use hotcc_abi::clock::monotonic_ns;
use hotcc_testbed::kernel::{KernelLock, exclusive, is_root, skipped};
use hotcc_testbed::netlab::{Lab, Namespace};
use hotcc_testbed::sequence::next_to_write;
use nix::libc;
use pep_agent::attach::Method;
use pep_agent::auth::{Keys, LiveKeys};
use pep_agent::report::{FlowKey, FlowReport, SeqRange, Transport};
use pep_agent::server::{Counters, DatagramFate, Options, RecordFate, Server};
use pep_agent::transport::{self, Inband, Udp};
use pep_agent::wire::PORT;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

pub const PATIENCE: Duration = Duration::from_secs(8);
pub const SERVER: &str = "10.248.1.1";
pub const SERVER_V6: &str = "fd48:1::1";

/// The exclusive right to change the kernel's congestion controls, for one test, with `mdcubic` loaded under a name of
/// its own.
pub struct KernelTest {
    _lock: KernelLock,
    pub cc: &'static str,
    pub dir: tempfile::TempDir,
}

/// Prepares a test. If it cannot run, prints a line that says so and returns `None`.
pub fn kernel_test(name: &str, cc: &'static str, set: &[&str]) -> Option<KernelTest> {
    if !is_root(name) {
        return None;
    }
    if !Path::new("/proc/sys/net/ipv4/tcp_rto_min_us").exists() {
        skipped(name, "cannot keep timeouts away before Linux 6.11");
        return None;
    }
    let test = KernelTest { _lock: exclusive(name)?, cc, dir: tempfile::tempdir().unwrap() };
    let _ = ops::unload(cc, None); // left by a killed run
    let set = set.iter().map(|&s| s.to_owned()).collect();
    let profile = "default".to_owned();
    ops::load(&Request { object: "mdcubic".to_owned(), cc_name: Some(cc.to_owned()), profile, set }).unwrap();
    Some(test)
}

impl Drop for KernelTest {
    fn drop(&mut self) {
        let _ = ops::unload(self.cc, None);
    }
}

impl KernelTest {
    /// Writes a file with these keys.
    pub fn key_file(&self, keys: &[(u8, &str)]) -> PathBuf {
        let path = self.dir.path().join("keys");
        let lines = keys.iter().map(|(id, digits)| format!("{id} {}\n", digits.repeat(32)));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }
}

/// The three hosts. The router's addresses end with 254; each interface is named after the host at its other end.
pub struct Hosts {
    _lab: Lab,
    pub server: Namespace,
    pub router: Namespace,
    pub client: Namespace,
}

impl Hosts {
    pub fn new() -> Self {
        let lab = Lab::new("hotcc-pep-server").unwrap();
        let [server, router, client] = ["server", "router", "client"].map(|name| lab.namespace(name).unwrap());
        server.sysctl("net.ipv4.conf.all.rp_filter", "1").unwrap();
        lab.veth(&server, "10.248.1.1/24", &router, "10.248.1.254/24").unwrap();
        lab.veth(&client, "10.248.2.2/24", &router, "10.248.2.254/24").unwrap();
        for (host, interface, address) in [
            (&server, "router", "fd48:1::1/64"),
            (&router, "server", "fd48:1::254/64"),
            (&router, "client", "fd48:2::254/64"),
            (&client, "router", "fd48:2::2/64"),
        ] {
            host.ip(&format!("-6 address add {address} dev {interface} nodad")).unwrap();
        }
        router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        router.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
        // so that only reports clock the sender while the client's ACKs are held back
        server.sysctl("net.ipv4.tcp_early_retrans", "0").unwrap();
        server.sysctl("net.ipv4.tcp_rto_min_us", "10000000").unwrap();
        server.sysctl("net.ipv4.tcp_wmem", "4096 16777216 16777216").unwrap();
        client.sysctl("net.ipv4.tcp_rmem", "4096 16777216 16777216").unwrap();
        server.ip("route add default via 10.248.1.254").unwrap();
        server.ip("-6 route add default via fd48:1::254").unwrap();
        client.ip("route add default via 10.248.2.254 initrwnd 2000").unwrap();
        client.ip("-6 route add default via fd48:2::254 initrwnd 2000").unwrap();
        server.ip("link set router gso_max_segs 1").unwrap();
        let hosts = Self { _lab: lab, server, router, client };
        [SERVER, SERVER_V6].into_iter().for_each(|address| hosts.wait_for_way_to(address));
        hosts
    }

    /// Waits until the address can be reached. Links come up a moment after the command for it; until then the kernel
    /// reports the host as unreachable.
    fn wait_for_way_to(&self, address: &str) {
        let server = self.server.enter(|| UdpSocket::bind((address, 0)).unwrap()).unwrap();
        server.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let any = if address.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let client = self.client.enter(|| UdpSocket::bind(any).unwrap()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while client.send_to(&[0], server.local_addr().unwrap()).is_err() || server.recv(&mut [0]).is_err() {
            assert!(Instant::now() < end, "no way to {address}");
            sleep(Duration::from_millis(20));
        }
    }

    /// From now on, no packet leaves the client.
    pub fn hold_acks(&self) {
        self.client.ip(&format!("route add blackhole {SERVER}/32")).unwrap();
        self.client.ip(&format!("-6 route add blackhole {SERVER_V6}/128")).unwrap();
    }

    pub fn release_acks(&self) {
        self.client.ip(&format!("route del blackhole {SERVER}/32")).unwrap();
        self.client.ip(&format!("-6 route del blackhole {SERVER_V6}/128")).unwrap();
    }

    /// Returns a border's transport for in-band reports.
    pub fn inband_border(&self, keys: &Path) -> Inband {
        let keys = LiveKeys::new(Keys::read(keys).unwrap());
        self.router.enter(|| transport::inband(keys)).unwrap().unwrap()
    }

    /// Sends a frame, unchanged, from the router's end of the link to the server.
    pub fn send_frame(&self, frame: &[u8]) {
        use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socket};
        let open = || {
            let fd = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None).unwrap();
            let index = nix::net::if_::if_nametoindex("server").unwrap();
            // SAFETY: the structure consists of integers only, for which zero is a valid value.
            let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            to.sll_family = libc::AF_PACKET as u16;
            to.sll_ifindex = index as i32;
            let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: the kernel reads `length` bytes of `to`, which lives through the call.
            assert_eq!(unsafe { libc::bind(fd.as_raw_fd(), (&raw const to).cast(), length) }, 0);
            send(fd.as_raw_fd(), frame, MsgFlags::empty()).unwrap();
        };
        self.router.enter(open).unwrap();
    }

    /// Returns a border's transport for UDP datagrams.
    pub fn border(&self, keys: &Path) -> Udp {
        let keys = LiveKeys::new(Keys::read(keys).unwrap());
        self.router.enter(|| transport::udp(keys, PORT)).unwrap().unwrap()
    }
}

/// The set-up of most tests; `keys` is a file with key 1.
pub struct Scene {
    pub test: KernelTest,
    pub hosts: Hosts,
    pub keys: PathBuf,
    pub agent: Agent,
    pub flow: Flow,
}

/// Prepares the set-up. If the test cannot run, prints a line that says so and returns `None`.
pub fn scene(name: &str, cc: &'static str) -> Option<Scene> {
    let test = kernel_test(name, cc, &[])?;
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, options());
    let flow = Flow::open(&hosts, SERVER, cc);
    Some(Scene { test, hosts, keys, agent, flow })
}

/// The agent, on a thread in the server's namespace, stopped when dropped.
pub struct Agent {
    pub counters: Arc<Counters>,
    pub keys: LiveKeys,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub fn options() -> Options {
    Options {
        listen: format!("[::]:{PORT}").parse().unwrap(),
        clock: true,
        control_share: 0.0,
        inband: Vec::new(),
        attach: Method::Auto,
        max_age: Duration::from_secs(1),
        rate_per_second: 1_000_000,
    }
}

impl Agent {
    pub fn start(hosts: &Hosts, keys: &Path, options: Options) -> Self {
        Self::start_then(hosts, keys, options, || {})
    }

    /// Starts the agent, and drops all its capabilities once it has started.
    pub fn start_unprivileged(hosts: &Hosts, keys: &Path, options: Options) -> Self {
        Self::start_then(hosts, keys, options, drop_capabilities)
    }

    fn start_then(hosts: &Hosts, keys: &Path, options: Options, then: fn()) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = mpsc::channel();
        let (host, keys) = (hosts.server.clone(), Keys::read(keys).unwrap());
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut server = Server::start(options, keys).unwrap();
                then();
                started.send((server.counters(), server.keys())).unwrap();
                tokio::select! {
                    served = server.serve() => served.unwrap(),
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::spawn(move || host.enter(serve).unwrap());
        let (counters, keys) = starting.recv().expect("the agent starts");
        Self { counters, keys, stop: Some(stop), thread: Some(thread) }
    }

    pub fn datagrams(&self, fate: DatagramFate) -> u64 {
        self.counters.datagrams(fate)
    }

    pub fn records(&self, fate: RecordFate) -> u64 {
        self.counters.records(fate)
    }

    pub fn told(&self) -> String {
        let all = DatagramFate::ALL.iter().map(|f| (f.label(), self.datagrams(*f)));
        let all = all.chain(RecordFate::ALL.iter().map(|f| (f.label(), self.records(*f))));
        all.filter(|(_, n)| *n > 0).map(|(label, n)| format!("{label} {n}, ")).collect()
    }
}

/// Drops all capabilities of this thread.
fn drop_capabilities() {
    const VERSION_3: u32 = 0x2008_0522;
    let (header, none) = ([VERSION_3, 0], [0u32; 6]);
    // SAFETY: the kernel reads a header of two words and three sets of two, all of which live through the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(result, 0);
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection whose server side sends. The client reads nothing by itself.
pub struct Flow {
    pub server: TcpStream,
    pub client: TcpStream,
    pub key: FlowKey,
    /// Sequence number of its first byte.
    pub first: u32,
    written: Arc<AtomicU32>,
    cc: &'static str,
}

/// Period of the pattern that a flow carries, so long that missing or repeated data is always detected.
const PERIOD: u32 = 65_521;
static PATTERN: LazyLock<Vec<u8>> = LazyLock::new(|| (0..2 * PERIOD).map(byte_at).collect());

fn byte_at(position: u32) -> u8 {
    let position = position % PERIOD;
    (position ^ position >> 8) as u8
}

const SIOCOUTQNSD: libc::c_ulong = 0x894b;

impl Flow {
    pub fn open(hosts: &Hosts, server: &str, cc: &'static str) -> Self {
        let address: IpAddr = server.parse().unwrap();
        let listener = hosts.server.enter(|| TcpListener::bind((address, 0)).unwrap()).unwrap();
        let name = OsString::from(cc);
        nix::sys::socket::setsockopt(&listener, nix::sys::socket::sockopt::TcpCongestion, &name).unwrap();
        let to = listener.local_addr().unwrap();
        let client = hosts.client.enter(|| TcpStream::connect(to).unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let key = FlowKey { server: to, client: client.local_addr().unwrap() };
        let first = next_to_write(&server).unwrap();
        Self { server, client, key, first, written: Arc::default(), cc }
    }

    /// Queues as much as the socket accepts. The number of writes is limited, because a client may read as fast.
    pub fn fill(&self) {
        for _ in 0..64 {
            let at = (self.written.load(Relaxed) % PERIOD) as usize;
            let Ok(n) = (&self.server).write(&PATTERN[at..]) else { break };
            self.written.fetch_add(n as u32, Relaxed);
        }
    }

    /// Sends this many bytes. The flow must have sent nothing yet, and its client must read.
    pub fn send(&self, bytes: usize) {
        self.server.set_nonblocking(false).unwrap();
        let all: Vec<u8> = (0..bytes as u32).map(byte_at).collect();
        (&self.server).write_all(&all).unwrap();
        self.written.fetch_add(bytes as u32, Relaxed);
    }

    /// Returns the kernel's `tcp_info` of the sending socket.
    pub fn info(&self) -> libc::tcp_info {
        // SAFETY: the structure consists of integers only, for which zero is a valid value.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (fd, to) = (self.server.as_raw_fd(), (&raw mut info).cast());
        // SAFETY: the kernel writes at most `length` bytes to `info`, and both live through the call.
        let result = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length) };
        assert_eq!(result, 0);
        info
    }

    pub fn unacked(&self) -> u32 {
        self.info().tcpi_unacked
    }

    /// Returns the report of everything sent so far, by a border that missed nothing. All segments must be full.
    pub fn seen(&self) -> FlowReport {
        let info = self.info();
        let sent = info.tcpi_bytes_acked as u32 + info.tcpi_unacked * info.tcpi_snd_mss;
        self.seen_to(self.first.wrapping_add(sent))
    }

    /// Returns a handle that makes the reports of a border that misses nothing.
    pub fn border_view(&self) -> BorderView {
        let (sender, written) = (self.server.try_clone().unwrap(), Arc::clone(&self.written));
        BorderView { key: self.key, first: self.first, sender, written }
    }

    /// Reads on a thread that ends with the flow, and checks the data. The thread returns the number of bytes.
    pub fn read_at_client(&self) -> JoinHandle<u32> {
        let mut client = self.client.try_clone().unwrap();
        std::thread::spawn(move || {
            let (mut buffer, mut total) = (vec![0; PERIOD as usize], 0);
            while let Ok(n @ 1..) = client.read(&mut buffer) {
                let at = (total % PERIOD) as usize;
                assert!(buffer[..n] == PATTERN[at..at + n], "after {total} bytes");
                total += n as u32;
            }
            total
        })
    }

    /// Attaches a filter at the client that drops packets beginning within a span of so many segments, somewhat beyond
    /// the data that it has, until [`Self::lose_nothing`].
    pub fn lose_at_client(&self, segments: u32) {
        const SEQUENCE_AT: u32 = 4;
        /// Segments before the span: more than can arrive before the filter is attached, even on a busy machine.
        const AHEAD: u32 = 2000;
        let mss = self.info().tcpi_snd_mss;
        let from = self.first.wrapping_add(self.info().tcpi_bytes_acked as u32).wrapping_add(AHEAD * mss);
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, SEQUENCE_AT),
            step(libc::BPF_ALU | libc::BPF_SUB | libc::BPF_K, 0, 0, from),
            step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, segments * mss),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        set_option(&self.client, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program);
    }

    pub fn lose_nothing(&self) {
        set_option(&self.client, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
    }

    /// Shuts down both ends.
    pub fn end(&self) {
        let _ = self.server.shutdown(Shutdown::Both);
        let _ = self.client.shutdown(Shutdown::Both);
    }

    pub fn seen_to(&self, in_order: u32) -> FlowReport {
        let segments = in_order.wrapping_sub(self.first) / self.info().tcpi_snd_mss;
        FlowReport { key: self.key, in_order, ranges: Vec::<SeqRange>::new(), segments, seen_at_us: now_us() }
    }

    /// Returns the connection as `hotcc flows` shows it.
    pub fn connection(&self) -> Connection {
        let found = hotcc::sockets::flows::connections(Some(self.cc), &[]).unwrap();
        // flows to several servers may share the client's port
        let is_it = |c: &Connection| (c.local, c.peer) == (self.key.server, self.key.client);
        found.into_iter().find(is_it).expect("the flow is open")
    }

    pub fn state(&self, field: &str) -> i128 {
        self.connection().state.iter().find(|f| f.name == field).unwrap().value
    }
}

/// Makes the reports of a border that misses nothing.
pub struct BorderView {
    key: FlowKey,
    first: u32,
    sender: TcpStream,
    written: Arc<AtomicU32>,
}

impl BorderView {
    pub fn report(&self) -> FlowReport {
        let (mut unsent, written) = (0i32, self.written.load(Relaxed));
        // SAFETY: the kernel writes one int to `unsent`, which lives through the call.
        let result = unsafe { libc::ioctl(self.sender.as_raw_fd(), SIOCOUTQNSD, &raw mut unsent) };
        assert_eq!(result, 0);
        let sent = written.saturating_sub(unsent as u32);
        let (ranges, seen_at_us) = (Vec::new(), now_us());
        FlowReport { key: self.key, in_order: self.first.wrapping_add(sent), ranges, segments: sent / 1000, seen_at_us }
    }
}

/// Work that is repeated every millisecond until this is dropped.
pub struct Always(Arc<AtomicBool>, Option<JoinHandle<()>>);

pub fn always(mut work: impl FnMut() + Send + 'static) -> Always {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        while !stopped.load(Relaxed) {
            work();
            sleep(Duration::from_millis(1));
        }
    });
    Always(stop, Some(thread))
}

impl Drop for Always {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

pub fn now_us() -> u64 {
    monotonic_ns() / 1000
}

pub fn wait(what: &str, told: impl Fn() -> String, mut ready: impl FnMut() -> bool) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < PATIENCE, "{what} does not come; {}", told());
        sleep(Duration::from_millis(2));
    }
}

/// Sends reports until one of the flow has reached the kernel: first, the border must answer a probe.
pub fn introduce(border: &mut Udp, agent: &Agent, flow: &Flow) {
    let known = |agent: &Agent| agent.records(RecordFate::Written) + agent.records(RecordFate::Clocked);
    let before = known(agent);
    wait(
        "the border's proof",
        || agent.told(),
        || {
            let report = flow.seen_to(flow.first);
            border.send(&[report], now_us());
            sleep(Duration::from_millis(10));
            known(agent) > before
        },
    );
}

fn set_option<T>(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) {
    let (fd, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of `value`, which lives through the call.
    let result = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}
