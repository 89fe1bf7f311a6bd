//! The plan's flows: each has a sender thread and a receiver thread, with real sockets on their hosts.

use super::net::{Namespace, Net, enter};
use super::receivers::{Receivers, join};
use anyhow::{Context, Result, anyhow};
use hotcc_abi::clock::monotonic_ns;
use hotcc_lab_proto::plan::{FIRST_FLOW_PORT, Pace, Plan, PlannedFlow};
use hotcc_lab_proto::run_record::{FlowEnd, ReceiverEnd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile;
use nix::sys::socket::{MsgFlags, getsockopt, setsockopt, sockopt};
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Size of the file that TCP senders send repeatedly; its pages are never copied.
const PIECE_BYTES: usize = 1 << 20;
const STACK_BYTES: usize = 128 << 10;

/// All flows.
#[derive(Debug)]
pub(super) struct Traffic {
    zero_ns: u64,
    flows: Vec<Arc<Shared>>,
}

/// The place where one of a flow's sockets is created.
struct End<'a> {
    host: &'a Namespace,
    /// The cgroup, for a host that has a receiver loaded.
    group: Option<&'a Path>,
}

/// The state that a flow's threads share with the schedule.
#[derive(Debug)]
struct Shared {
    /// The planned congestion control; `None` for UDP.
    cc: Option<String>,
    bytes_wanted: Option<u64>,
    received: AtomicU64,
    /// Time at which the receiver had all wanted bytes; 0 until then.
    complete_ns: AtomicU64,
    /// The sender's socket.
    socket: Mutex<Option<TcpStream>>,
    /// The receiver's socket.
    accepted: Mutex<Option<TcpStream>>,
    end: Mutex<Option<FlowEnd>>,
    error: Mutex<Option<String>>,
    stopped: std::sync::atomic::AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sleeps until a time of CLOCK_MONOTONIC.
pub(super) fn sleep_until(at_ns: u64) {
    let at = nix::sys::time::TimeSpec::new((at_ns / 1_000_000_000) as i64, (at_ns % 1_000_000_000) as i64);
    // if a signal interrupts the sleep, the loop checks the clock again
    while monotonic_ns() < at_ns {
        let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at);
    }
}

impl Traffic {
    /// Starts the receivers, which wait from now on, and the senders, which start at their planned times.
    pub fn start(plan: &Plan, net: &Net, receivers: &Receivers, zero_ns: u64) -> Result<Self> {
        let zeros = memfd_create("zeros", MFdFlags::empty())?;
        nix::unistd::ftruncate(&zeros, PIECE_BYTES as i64)?;
        let zeros = Arc::new(zeros);
        let mut flows = Vec::new();
        for (place, flow) in plan.flows.iter().enumerate() {
            let port = FIRST_FLOW_PORT + u16::try_from(place)?;
            let shared = Arc::new(Shared {
                cc: flow.cc.clone(),
                bytes_wanted: flow.bytes,
                received: AtomicU64::new(0),
                complete_ns: AtomicU64::new(0),
                socket: Mutex::default(),
                accepted: Mutex::default(),
                end: Mutex::default(),
                error: Mutex::default(),
                stopped: false.into(),
            });
            let end = |host: usize| End {
                host: &net.hosts[host],
                group: plan.hosts[host].rx.and_then(|method| receivers.group(method)),
            };
            let (sender, receiver) = (end(flow.from), end(flow.to));
            let started = if flow.cc.is_some() {
                start_tcp(flow, port, &shared, &sender, &receiver, zero_ns, &zeros)
            } else {
                start_udp(flow, port, &shared, sender.host, receiver.host, zero_ns)
            };
            started.with_context(|| format!("flow {}", flow.name))?;
            flows.push(shared);
        }
        Ok(Self { zero_ns, flows })
    }

    /// Stops a flow now, unless it has been stopped.
    pub fn stop(&self, flow: usize) {
        let shared = &self.flows[flow];
        let mut end = locked(&shared.end);
        if end.is_some() {
            return;
        }
        shared.stopped.store(true, Ordering::SeqCst);
        let bytes = shared.received.load(Ordering::SeqCst); // before the time: never more than fits into it
        let now_ns = monotonic_ns() - self.zero_ns;
        let complete_ns = shared.complete_ns.load(Ordering::SeqCst);
        let mut ended = FlowEnd {
            cc: shared.cc.clone().unwrap_or_else(|| "udp".to_owned()),
            bytes,
            end_ns: if complete_ns > 0 { complete_ns - self.zero_ns } else { now_ns },
            complete: shared.bytes_wanted.is_none_or(|_| complete_ns > 0),
            ..FlowEnd::default()
        };
        let sender = locked(&shared.socket).take();
        let sent = sender.as_ref().and_then(|socket| tcp_info(socket).ok());
        if let Some(received) = locked(&shared.accepted).take().and_then(|socket| tcp_info(&socket).ok()) {
            ended.receiver = Some(receiver_end(&received, sent.as_ref()));
        }
        if let Some(socket) = sender {
            ended.cc = congestion_control(&socket).unwrap_or(ended.cc);
            ended.retransmits = sent.map_or(0, |info| info.tcpi_total_retrans.into());
            // a reset, because data that are still in the buffer must not compete with other flows
            let abort = nix::libc::linger { l_onoff: 1, l_linger: 0 };
            let _ = setsockopt(&socket, sockopt::Linger, &abort);
            let _ = socket.shutdown(Shutdown::Both);
        }
        *end = Some(ended);
    }

    /// Stops all flows, and returns their final states.
    pub fn end(self) -> Vec<FlowEnd> {
        for flow in 0..self.flows.len() {
            self.stop(flow);
        }
        let ended = |shared: &Arc<Shared>| FlowEnd {
            error: locked(&shared.error).take(),
            ..locked(&shared.end).take().unwrap_or_default()
        };
        self.flows.iter().map(ended).collect()
    }
}

fn congestion_control(socket: &TcpStream) -> nix::Result<String> {
    let name = getsockopt(socket, sockopt::TcpCongestion)?;
    Ok(name.to_string_lossy().trim_end_matches('\0').to_owned())
}

/// Returns the kernel's `tcp_info`. Fields that the kernel does not have are zero.
fn tcp_info(socket: &TcpStream) -> nix::Result<nix::libc::tcp_info> {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut info: nix::libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as nix::libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into the structure, which is that long.
    let code = unsafe {
        nix::libc::getsockopt(
            socket.as_raw_fd(),
            nix::libc::IPPROTO_TCP,
            nix::libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    nix::errno::Errno::result(code)?;
    Ok(info)
}

fn receiver_end(received: &nix::libc::tcp_info, sent: Option<&nix::libc::tcp_info>) -> ReceiverEnd {
    ReceiverEnd {
        segments: Some(received.tcpi_segs_in.into()),
        data_segments: received.tcpi_data_segs_in.into(),
        out_of_order_segments: received.tcpi_rcv_ooopack.into(),
        bytes: received.tcpi_bytes_received,
        last_window_bytes: sent.map(|info| info.tcpi_snd_wnd.into()),
        window_limited_us: sent.map(|info| info.tcpi_rwnd_limited),
        ece_segments: sent.map(|info| info.tcpi_delivered_ce.into()),
    }
}

fn spawn(name: &str, shared: &Arc<Shared>, work: impl FnOnce(&Shared) -> Result<()> + Send + 'static) -> Result<()> {
    let shared = Arc::clone(shared);
    let run = move || {
        if let Err(error) = work(&shared)
            && !shared.stopped.load(Ordering::SeqCst)
        {
            locked(&shared.error).get_or_insert_with(|| format!("{error:#}"));
        }
    };
    std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run)?;
    Ok(())
}

fn start_tcp(
    flow: &PlannedFlow,
    port: u16,
    shared: &Arc<Shared>,
    sender: &End<'_>,
    receiver: &End<'_>,
    zero_ns: u64,
    zeros: &Arc<OwnedFd>,
) -> Result<()> {
    let address = SocketAddrV4::new(flow.address, port);
    let listener = receiver.host.enter(|| {
        join(receiver.group)?;
        Ok::<_, anyhow::Error>(TcpListener::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?)
    })??;
    spawn("receiver", shared, move |shared| {
        let (socket, _) = listener.accept()?;
        drop(listener);
        *locked(&shared.accepted) = Some(socket.try_clone()?);
        let received = receive(&socket, shared, MsgFlags::MSG_TRUNC);
        let _ = socket.shutdown(Shutdown::Both); // closes the connection; `stop` still reads the counters
        received
    })?;
    let (flow, zeros) = (flow.clone(), Arc::clone(zeros));
    let (namespace, group) = (sender.host.file()?, sender.group.map(Path::to_owned));
    spawn("sender", shared, move |shared| {
        sleep_until(zero_ns + flow.start_ns);
        enter(&namespace)?;
        join(group.as_deref())?;
        let socket = TcpStream::connect(SocketAddr::V4(address)).context("cannot connect")?;
        let cc = flow.cc.context("no congestion control")?;
        // after the handshake, as `hotcc run` does: before it, the segment size is not known
        setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(&cc))
            .with_context(|| format!("cannot choose {cc}"))?;
        if flow.paced {
            turn_pacing_on(&socket).context("cannot turn pacing on")?;
        }
        {
            let end = locked(&shared.end); // `stop` holds this lock: it sees the socket, or this thread the end
            if end.is_some() {
                return Ok(());
            }
            *locked(&shared.socket) = Some(socket.try_clone()?);
        }
        send(&socket, &zeros, flow.bytes, flow.pace)?;
        if flow.bytes.is_some() {
            // The receiver closes the connection. If the sender closed it with data in flight, tcp_probe would no
            // longer see it.
            io::copy(&mut &socket, &mut io::sink())?;
        }
        Ok(())
    })
}

/// Makes TCP pace its packets by its own estimate of the rate. Without fq, the kernel does so only for a socket that
/// has a limit for this rate, so this sets the highest limit. All ones would mean "no limit", and change nothing.
fn turn_pacing_on(socket: &TcpStream) -> Result<()> {
    let limit_bytes_per_s = u64::MAX - 1;
    // SAFETY: the kernel reads as many bytes as the value has, and keeps no reference to it.
    let code = unsafe {
        nix::libc::setsockopt(
            socket.as_raw_fd(),
            nix::libc::SOL_SOCKET,
            nix::libc::SO_MAX_PACING_RATE,
            (&raw const limit_bytes_per_s).cast(),
            size_of_val(&limit_bytes_per_s) as nix::libc::socklen_t,
        )
    };
    nix::errno::Errno::result(code)?;
    Ok(())
}

/// Sends `bytes` bytes, or sends until the socket is shut down if `bytes` is `None`.
fn send(socket: &TcpStream, zeros: &OwnedFd, bytes: Option<u64>, pace: Option<Pace>) -> Result<()> {
    let mut left = bytes.unwrap_or(u64::MAX);
    let mut next_ns = monotonic_ns();
    let mut socket = socket;
    while left > 0 {
        let sent = match pace {
            None => {
                let mut offset = 0;
                sendfile(socket, zeros, Some(&mut offset), left.min(PIECE_BYTES as u64) as usize)? as u64
            }
            Some(pace) => {
                sleep_until(next_ns);
                next_ns += pace.interval_ns;
                let piece = left.min(u64::from(pace.write_bytes)) as usize;
                socket.write_all(&vec![0; piece])?;
                piece as u64
            }
        };
        left -= sent;
    }
    Ok(())
}

/// Counts the bytes that arrive, until all wanted bytes have arrived or the connection ends.
fn receive(socket: &impl AsFd, shared: &Shared, flags: MsgFlags) -> Result<()> {
    let mut buffer = vec![0u8; 65536];
    loop {
        // TCP with MSG_TRUNC: the kernel discards the data and copies nothing
        let got = nix::sys::socket::recv(socket.as_fd().as_raw_fd(), &mut buffer, flags)?;
        if got == 0 {
            return Ok(());
        }
        let received = shared.received.fetch_add(got as u64, Ordering::SeqCst) + got as u64;
        if shared.bytes_wanted.is_some_and(|wanted| received >= wanted) {
            shared.complete_ns.store(monotonic_ns(), Ordering::SeqCst);
            return Ok(());
        }
    }
}

fn start_udp(
    flow: &PlannedFlow,
    port: u16,
    shared: &Arc<Shared>,
    sender: &Namespace,
    receiver: &Namespace,
    zero_ns: u64,
) -> Result<()> {
    let socket = receiver.enter(|| UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)))??;
    spawn("receiver", shared, move |shared| receive(&socket, shared, MsgFlags::empty()))?;
    let socket = sender.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    socket.connect(SocketAddrV4::new(flow.address, port))?;
    let (pace, start_ns) = (flow.pace.ok_or_else(|| anyhow!("no rate"))?, zero_ns + flow.start_ns);
    let mut left = flow.bytes.unwrap_or(u64::MAX);
    spawn("sender", shared, move |shared| {
        let payload = vec![0; pace.write_bytes as usize];
        let mut next_ns = start_ns;
        while left > 0 && !shared.stopped.load(Ordering::SeqCst) {
            sleep_until(next_ns);
            next_ns += pace.interval_ns;
            socket
                .send(&payload)
                .or_else(|e| if e.kind() == io::ErrorKind::ConnectionRefused { Ok(0) } else { Err(e) })?;
            left = left.saturating_sub(u64::from(pace.write_bytes));
        }
        Ok(())
    })
}
