//! A sender and a receiver with a slow link and a long queue between them, and a cgroup whose sockets a receiver
//! applies to.

use crate::common::{NetNs, json};
use hotcc_cc_tests::storage::{newest, sockets_in};
use libbpf_rs::{ObjectBuilder, OpenObject};
use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt};
use serde_json::Value;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TCPI_OPT_WSCALE: u8 = 4;
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const RECEIVER_V4: &str = "192.0.2.2";
pub const RECEIVER_V6: &str = "2001:db8:2::2";

/// The path: a router with 40 Mbit/s to the receiver and a queue of 2 MB; the direction of ACKs has neither limit nor
/// queue.
pub struct Path {
    pub sender: NetNs,
    pub receiver: NetNs,
    pub router: NetNs,
}

impl Path {
    pub fn new() -> Self {
        let router = NetNs::new("hotcc-rx-mid");
        let (sender, receiver) = (NetNs::new("hotcc-rx-snd"), NetNs::new("hotcc-rx-rcv"));
        router.sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
        for (name, ns, number) in [("snd", &sender, 1), ("rcv", &receiver, 2)] {
            router.sh(&format!(
                "ip link add {name} type veth peer name wire netns hotcc-rx-{name}
                 ip addr add 192.0.{number}.1/24 dev {name}
                 ip addr add 2001:db8:{number}::1/64 dev {name} nodad
                 ip link set {name} up"
            ));
            ns.sh(&format!(
                "ip addr add 192.0.{number}.2/24 dev wire
                 ip addr add 2001:db8:{number}::2/64 dev wire nodad
                 ip link set wire gso_max_segs 4 up
                 ip route add default via 192.0.{number}.1
                 ip route add default via 2001:db8:{number}::1"
            ));
        }
        router.sh("tc qdisc add dev rcv root tbf rate 40mbit burst 16kb limit 2mb");
        Self { sender, receiver, router }
    }
}

/// Opens one of the test objects.
pub fn open_object(name: &str) -> OpenObject {
    let object = hotcc_bpf::TEST_OBJECTS.iter().find(|o| o.name == name).unwrap();
    ObjectBuilder::default().open_memory(object.bytes).unwrap()
}

/// A cgroup that is removed when the value is dropped.
pub struct Cgroup(pub PathBuf);

impl Cgroup {
    pub fn new(name: &str) -> Self {
        let path = hotcc::cgroup::cgroup2_root().unwrap().join(name);
        let _ = std::fs::remove_dir(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Runs `work` with this process in the cgroup: sockets that it creates belong to the cgroup for their lifetime.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Back(PathBuf);
        impl Drop for Back {
            fn drop(&mut self) {
                std::fs::write(self.0.join("cgroup.procs"), "0").unwrap();
            }
        }
        let root = hotcc::cgroup::cgroup2_root().unwrap();
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
        let _back = Back(root.join(before.trim_start_matches('/')));
        std::fs::write(self.0.join("cgroup.procs"), "0").unwrap();
        work()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let began = Instant::now();
        // sockets that are being closed keep the cgroup busy for a moment
        while std::fs::remove_dir(&self.0).is_err() && began.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A loaded receiver, which is unloaded when the value is dropped.
pub struct Loaded(&'static str);

impl Loaded {
    pub fn new(method: &'static str, arguments: &[&str]) -> Self {
        let _ = crate::common::hotcc(&["rx", "unload", method]); // left by a killed test
        crate::common::ok(&[&["rx", "load", method][..], arguments].concat());
        Self(method)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = crate::common::hotcc(&["rx", "unload", self.0]);
    }
}

/// The counters of `hotcc rx status` at one time, to compute what was added later.
pub struct Before(Value);

impl Before {
    pub fn now() -> Self {
        Self(json(&["rx", "status", "--json"])["counters"].clone())
    }

    pub fn added(&self, name: &str) -> u64 {
        self.added_all([name])[0]
    }

    /// Returns what was added to several counters, which are read at the same time.
    pub fn added_all<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        let now = Self::now();
        names.map(|name| now.0[name].as_u64().unwrap() - self.0[name].as_u64().unwrap())
    }
}

/// Returns the number of sockets that have a value in the newest map of this name.
pub fn states(map: &str) -> usize {
    sockets_in(&newest(map))
}

pub fn wait(for_what: &str, mut ready: impl FnMut() -> bool) {
    let began = Instant::now();
    while !ready() {
        assert!(began.elapsed() < PATIENCE, "{for_what} does not come: {:#}", json(&["rx", "status", "--json"]));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A connection from the sender's side to the receiver's.
pub struct Flow {
    pub client: TcpStream,
    pub server: TcpStream,
}

/// The ends of a flow whose sockets are in the receiver's cgroup.
#[derive(Clone, Copy, PartialEq)]
pub enum Enrolled {
    Both,
    SenderOnly,
    ReceiverOnly,
}

impl Flow {
    pub fn open(path: &Path, cgroup: &Cgroup, enrolled: Enrolled, to: &str, cc: &str) -> Self {
        let sender = (enrolled != Enrolled::ReceiverOnly).then_some(cgroup);
        let receiver = (enrolled != Enrolled::SenderOnly).then_some(cgroup);
        Self::open_in(path, sender, receiver, to, cc)
    }

    /// Opens a flow with its sockets in these cgroups.
    pub fn open_in(path: &Path, sender: Option<&Cgroup>, receiver: Option<&Cgroup>, to: &str, cc: &str) -> Self {
        let listen = || path.receiver.enter(|| TcpListener::bind(SocketAddr::new(to.parse::<IpAddr>().unwrap(), 0)));
        let listener = receiver.map_or_else(listen, |cgroup| cgroup.enter(listen)).unwrap();
        let address = listener.local_addr().unwrap();
        let connecting = || path.sender.enter(|| connected(address, cc));
        let client = sender.map_or_else(connecting, |cgroup| cgroup.enter(connecting));
        let (server, _) = listener.accept().unwrap();
        Self { client, server }
    }

    /// Returns whether the ends agreed on scaled windows (RFC 7323).
    pub fn scales_windows(&self) -> bool {
        socket_option::<libc::tcp_info>(&self.server, libc::TCP_INFO).tcpi_options & TCPI_OPT_WSCALE != 0
    }
}

/// Returns the value of a TCP socket option. `T` consists of plain numbers; what the kernel does not fill is 0.
pub fn socket_option<T>(socket: &impl AsFd, option: libc::c_int) -> T {
    // SAFETY: `T` consists of numbers, for which zeros are valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    let at = (&raw mut value).cast();
    // SAFETY: the kernel writes at most `length` bytes into the value, which has that length.
    let code = unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), libc::IPPROTO_TCP, option, at, &raw mut length) };
    assert_eq!(code, 0);
    value
}

pub fn set_socket_option(socket: &impl AsFd, option: libc::c_int, value: libc::c_int) {
    let (socket, length) = (socket.as_fd().as_raw_fd(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes, which is the value's length.
    let code = unsafe { libc::setsockopt(socket, libc::IPPROTO_TCP, option, (&raw const value).cast(), length) };
    assert_eq!(code, 0);
}

fn connected(address: SocketAddr, cc: &str) -> TcpStream {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    setsockopt(&fd, sockopt::TcpCongestion, &OsString::from(cc)).unwrap_or_else(|e| panic!("{cc}: {e}"));
    connect(fd.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
    // SAFETY: the descriptor was just created, and its ownership moves here.
    unsafe { TcpStream::from_raw_fd(fd.into_raw_fd()) }
}

/// A flow that sends continuously.
pub struct Transfer {
    pub flow: Flow,
    cc: String,
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    pub fn start(flow: Flow, cc: &str) -> Self {
        let (mut client, mut server) = (flow.client.try_clone().unwrap(), flow.server.try_clone().unwrap());
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let threads = vec![
            std::thread::spawn(move || while client.write_all(&[7; 1 << 14]).is_ok() {}),
            std::thread::spawn(move || {
                let mut buffer = [0; 1 << 16];
                while let Ok(n @ 1..) = server.read(&mut buffer) {
                    count.fetch_add(n as u64, Ordering::Relaxed);
                }
            }),
        ];
        Self { flow, cc: cc.to_owned(), received, threads }
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the sending connection, as `hotcc flows` shows it.
    pub fn shown(&self) -> Value {
        let port = self.flow.client.local_addr().unwrap().port().to_string();
        let all = json(&["flows", "--cc", &self.cc, "--json"]);
        let found =
            all.as_array().unwrap().iter().find(|f| f["local"].as_str().unwrap().ends_with(&format!(":{port}")));
        found.unwrap_or_else(|| panic!("{all:#}")).clone()
    }

    pub fn number(&self, field: &str) -> u64 {
        self.shown()[field].as_u64().unwrap_or(0)
    }

    /// Samples the sender `looks` times. Returns the median of its smoothed RTT, and the bytes per second received
    /// meanwhile.
    pub fn observe(&self, looks: usize) -> (u64, f64) {
        let (began, before) = (Instant::now(), self.received());
        let mut rtts: Vec<u64> = (0..looks)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(40));
                self.number("srtt_us")
            })
            .collect();
        rtts.sort_unstable();
        (rtts[looks / 2], (self.received() - before) as f64 / began.elapsed().as_secs_f64())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // both threads then end; either socket may already be closed
        let _ = self.flow.client.shutdown(Shutdown::Both);
        let _ = self.flow.server.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
