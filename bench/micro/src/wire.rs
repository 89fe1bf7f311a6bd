//! Two hosts connected by a cable, and single TCP flows between them.

use anyhow::{Context, Result, bail, ensure};
use hotcc_testbed::netlab::{Lab, Namespace};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, connect, recv, setsockopt, socket, sockopt::TcpCongestion,
};
use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// The receiver's address.
pub const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 249, 7, 2);
const NETWORK: &str = "10.249.7.0/24";
/// Open files besides the many sockets: standard streams, listeners, and the runtime's.
pub const OTHER_FILES: u64 = 64;
/// Size of one write, and the most that one read takes.
const BLOCK: usize = 1 << 20;

/// Two hosts, one of which sends to the other. They are removed when the value is dropped.
#[derive(Debug)]
pub struct Wire {
    /// The sender.
    pub sender: Namespace,
    /// The receiver.
    pub receiver: Namespace,
    listener: TcpListener,
    _lab: Lab,
}

impl Wire {
    /// Creates both hosts.
    pub fn new() -> Result<Self> {
        let lab = Lab::new("hotcc-microbench")?;
        let (sender, receiver) = (lab.namespace("sender")?, lab.namespace("receiver")?);
        lab.veth(&sender, "10.249.7.1/24", &receiver, "10.249.7.2/24")?;
        let listener = receiver.enter(|| TcpListener::bind((RECEIVER, 0)))?.context("cannot listen on the receiver")?;
        Ok(Self { sender, receiver, listener, _lab: lab })
    }

    /// Makes the sender send one packet per segment.
    pub fn split(&self) -> Result<()> {
        self.sender.ip("link set receiver gso_max_segs 1")
    }

    /// Adds a bottleneck whose queue does not fill within a second, and makes the sender send one packet per segment
    /// with almost no slow start. So there are many ACKs, the window limits a flow, and no packet is lost.
    pub fn narrow(&self, rate: &str, ssthresh: u32) -> Result<()> {
        let host = &self.sender;
        self.split()?;
        host.tc(&format!("qdisc replace dev receiver root tbf rate {rate} burst 64kb limit 8mb"))?;
        host.sysctl("net.ipv4.tcp_no_ssthresh_metrics_save", "0")?; // otherwise, the kernel ignores a route's ssthresh
        host.ip(&format!("route replace {NETWORK} dev receiver ssthresh lock {ssthresh}"))
    }

    fn connect(&self, cc: &str) -> Result<(TcpStream, TcpStream)> {
        let SocketAddr::V4(address) = self.listener.local_addr()? else { bail!("the listener has no IPv4 address") };
        let sender = self.sender.enter(|| open(cc, address))??;
        let (receiver, _) = self.listener.accept().context("cannot accept")?;
        Ok((sender, receiver))
    }
}

/// Raises the limit on open files to at least `needed`.
pub fn allow_files(needed: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    ensure!(
        hard >= needed,
        "{needed} open files are needed, but only {hard} are allowed: raise the hard limit (`ulimit -Hn {needed}`)"
    );
    Ok(setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard)?)
}

/// Opens a connection whose local end uses `cc`.
pub fn open(cc: &str, to: SocketAddrV4) -> Result<TcpStream> {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, TcpCongestion, &OsString::from(cc))
        .with_context(|| format!("cannot use congestion control `{cc}`: the kernel may lack it, see net.ipv4.tcp_available_congestion_control"))?;
    connect(fd.as_raw_fd(), &SockaddrIn::from(to)).with_context(|| format!("cannot connect to {to}"))?;
    Ok(TcpStream::from(fd))
}

/// A flow that sends as fast as it can until it is dropped.
#[derive(Debug)]
pub struct Flow {
    sender: Arc<TcpStream>,
    receiver: Arc<TcpStream>,
    stop: Arc<AtomicBool>,
    delivered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    /// Opens a connection and starts the flow.
    pub fn start(wire: &Wire, cc: &str) -> Result<Self> {
        let (sender, receiver) = wire.connect(cc)?;
        Self::between(sender, receiver)
    }

    /// Starts the flow over an existing connection.
    pub fn between(sender: TcpStream, receiver: TcpStream) -> Result<Self> {
        sender.set_write_timeout(Some(Duration::from_millis(200)))?;
        receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
        let (sender, receiver) = (Arc::new(sender), Arc::new(receiver));
        let (stop, delivered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let writing = {
            let (sender, stop) = (Arc::clone(&sender), Arc::clone(&stop));
            std::thread::spawn(move || write_until(&sender, &stop))
        };
        let reading = {
            let (receiver, stop, delivered) = (Arc::clone(&receiver), Arc::clone(&stop), Arc::clone(&delivered));
            std::thread::spawn(move || read_until(&receiver, &stop, &delivered))
        };
        Ok(Self { sender, receiver, stop, delivered, threads: vec![writing, reading] })
    }

    /// Changes the flow's congestion control; the window stays.
    pub fn choose(&self, cc: &str) -> Result<()> {
        setsockopt(&self.sender, TcpCongestion, &OsString::from(cc))
            .with_context(|| format!("cannot change to congestion control `{cc}`"))
    }

    /// Returns the sockets of the sender and the receiver.
    #[must_use]
    pub fn sockets(&self) -> [RawFd; 2] {
        [self.sender.as_raw_fd(), self.receiver.as_raw_fd()]
    }

    /// Returns the number of bytes that the receiver has taken so far.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Relaxed)
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for socket in [&self.receiver, &self.sender] {
            let _ = socket.shutdown(Shutdown::Both); // fails if the other end has already closed
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn write_until(mut sender: &TcpStream, stop: &AtomicBool) {
    let block = vec![0u8; BLOCK];
    while !stop.load(Relaxed) {
        match sender.write(&block) {
            Err(e) if e.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}

fn read_until(receiver: &TcpStream, stop: &AtomicBool, delivered: &AtomicU64) {
    // MSG_TRUNC discards the data without copying it, so that the sender is what limits the flow
    let mut block = vec![0u8; BLOCK];
    while !stop.load(Relaxed) {
        match recv(receiver.as_raw_fd(), &mut block, MsgFlags::MSG_TRUNC) {
            Ok(0) => return,
            Ok(n) => drop(delivered.fetch_add(n as u64, Relaxed)),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}
