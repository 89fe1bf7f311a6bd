//! Sends reports as UDP datagrams to each flow's server, and answers the servers' probes.

use crate::auth::LiveKeys;
use crate::report::{FlowReport, Sent, Transport};
use crate::wire::{self, Datagram, Header, Kind, MAX_DATAGRAM_BYTES, ReportWriter};
use hotcc_abi::clock::monotonic_ns;
use nix::sys::socket::{MsgFlags, SockaddrStorage, sendto};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the threads check whether they must stop.
const STOP_CHECK: Duration = Duration::from_millis(200);

/// Shared by the sender and the threads that answer probes.
#[derive(Debug)]
struct Shared {
    keys: LiveKeys,
    epoch: u64,
    counter: AtomicU64,
    stop: AtomicBool,
    sent: Arc<Sent>,
}

impl Shared {
    fn next_counter(&self) -> u64 {
        self.counter.fetch_add(1, Relaxed) + 1
    }
}

/// The transport that sends reports as UDP datagrams. Dropping it ends its threads.
#[derive(Debug)]
pub struct Udp {
    shared: Arc<Shared>,
    port: u16,
    v4: Option<Arc<UdpSocket>>,
    v6: Option<Arc<UdpSocket>>,
    threads: Vec<JoinHandle<()>>,
}

/// Creates a transport that sends reports to `port` of each flow's server, signed with the key for that server.
///
/// Fails if neither IPv4 nor IPv6 can be used.
pub fn udp(keys: LiveKeys, port: u16) -> io::Result<Udp> {
    let mut epoch = [0; 8];
    getrandom::fill(&mut epoch)?;
    let shared = Arc::new(Shared {
        keys,
        epoch: u64::from_ne_bytes(epoch),
        counter: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        sent: Arc::default(),
    });
    let mut made = Udp { shared, port, v4: None, v6: None, threads: Vec::new() };
    let v4 = made.open(Ipv4Addr::UNSPECIFIED.into());
    let v6 = made.open(Ipv6Addr::UNSPECIFIED.into());
    match (v4, v6) {
        (Err(error), Err(_)) => return Err(error),
        (v4, v6) => (made.v4, made.v6) = (v4.ok(), v6.ok()),
    }
    Ok(made)
}

impl Udp {
    fn open(&mut self, from: IpAddr) -> io::Result<Arc<UdpSocket>> {
        let socket = Arc::new(UdpSocket::bind((from, 0))?);
        socket.set_read_timeout(Some(STOP_CHECK))?;
        let (shared, answering) = (Arc::clone(&self.shared), Arc::clone(&socket));
        let thread = std::thread::Builder::new().name("answer-probes".to_owned());
        self.threads.push(thread.spawn(move || answer_probes(&shared, &answering))?);
        Ok(socket)
    }

    fn send_datagram(&self, writer: ReportWriter, key: &hotcc_keys::Key, to: SocketAddr) -> bool {
        let reports = u64::from(writer.flows());
        let bytes = writer.finish(key, self.shared.next_counter());
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let sent = socket.as_ref().is_some_and(|socket| {
            let to = SockaddrStorage::from(to);
            sendto(socket.as_raw_fd(), &bytes, &to, MsgFlags::MSG_DONTWAIT).is_ok()
        });
        let counters = &self.shared.sent;
        if sent {
            counters.packets.fetch_add(1, Relaxed);
            counters.reports.fetch_add(reports, Relaxed);
        } else {
            counters.dropped_unsent.fetch_add(reports, Relaxed);
        }
        sent
    }
}

impl Transport for Udp {
    fn sent(&self) -> Arc<Sent> {
        Arc::clone(&self.shared.sent)
    }

    fn send(&mut self, reports: &[FlowReport], now_us: u64) -> usize {
        let Some(first) = reports.first() else { return 0 };
        let server = first.key.server.ip().to_canonical();
        let keys = self.shared.keys.get();
        let Some(key) = keys.signing(server) else {
            self.shared.sent.dropped_no_key.fetch_add(reports.len() as u64, Relaxed);
            return 0;
        };
        let to = SocketAddr::new(server, self.port);
        let mut datagrams = 0;
        let mut rest = reports;
        while !rest.is_empty() {
            let mut writer = ReportWriter::new(self.shared.epoch, now_us);
            let fitting = rest.iter().take_while(|r| writer.push(r)).count();
            datagrams += usize::from(self.send_datagram(writer, key, to));
            rest = &rest[fitting..];
        }
        datagrams
    }
}

impl Drop for Udp {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Answers probes. Runs on its own thread, because the server measures how long the answer takes.
fn answer_probes(shared: &Shared, socket: &UdpSocket) {
    let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
    while !shared.stop.load(Relaxed) {
        let Ok((length, server)) = socket.recv_from(&mut buffer) else { continue }; // timed out
        let counter = match echo(shared, &buffer[..length]) {
            Some(answer) if socket.send_to(&answer, server).is_ok() => &shared.sent.probes_answered,
            _ => &shared.sent.probes_refused,
        };
        counter.fetch_add(1, Relaxed);
    }
}

fn echo(shared: &Shared, bytes: &[u8]) -> Option<Vec<u8>> {
    let datagram = Datagram::parse(bytes).ok()?;
    let probe = datagram.header;
    if probe.kind != Kind::Probe || probe.epoch != shared.epoch {
        return None;
    }
    let keys = shared.keys.get();
    let key = keys.numbered(probe.key_id).find(|signer| datagram.is_signed_by(signer.key))?.key;
    let nonce = datagram.nonce().ok()?;
    let (counter, time_us) = (shared.next_counter(), monotonic_ns() / 1000);
    let header = Header { kind: Kind::Echo, key_id: key.id, epoch: shared.epoch, counter, time_us };
    Some(wire::probe(&header, nonce, key))
}
