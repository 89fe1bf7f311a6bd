//! A relay between border and server, on the server's host, that applies a fault to the border's datagrams.

use anyhow::{Context, Result};
use hotcc_keys::{KEY_BYTES, Key};
use hotcc_lab_proto::plan::Fault;
use pep_agent::report::{FlowReport, SeqRange};
use pep_agent::wire::{Datagram, Kind, MAX_DATAGRAM_BYTES, PORT, ReportWriter};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum time between two checks for datagrams that are due.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const DELAY: Duration = Duration::from_millis(500);
/// Delays of a datagram that passes at once.
const AT_ONCE: [Duration; 1] = [Duration::ZERO];
const REPLAYS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(100), Duration::from_secs(1)];
/// Under `sees-holes`, reports leave out the first segment of each block of this many segments.
const BLOCK_SEGMENTS: u32 = 16;
/// Under `sees-ahead`, reports claim this many more segments than arrived. The server ignores a report of segments that
/// it has not sent yet.
const AHEAD_SEGMENTS: u32 = 16;
const SEGMENT_BYTES: u32 = 1448;

/// Forwards datagrams, with the fault applied to each. Stops when the value is dropped.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Arc<AtomicBool>,
    touched: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens on `port`. The calling thread must be in the namespace of the server's host.
    pub fn start(fault: Fault, port: u16, (id, secret): (u8, [u8; KEY_BYTES])) -> Result<Self> {
        let border = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
            .context("cannot bind the relay between border and server")?;
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        server.connect((Ipv4Addr::LOCALHOST, PORT))?;
        border.set_read_timeout(Some(POLL_INTERVAL))?;
        server.set_nonblocking(true)?;
        let (stop, touched) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (key, waiting) = (Key::new(id, &secret), BinaryHeap::new());
        let mut passing = Passing { fault, key, border, server, waiting, touched: Arc::clone(&touched) };
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || passing.run(&asked));
        Ok(Self { stop, touched, thread: Some(thread) })
    }

    /// Returns the number of datagrams that were delayed, duplicated or changed.
    pub fn touched(&self) -> u64 {
        self.touched.load(Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Passing {
    fault: Fault,
    key: Key,
    border: UdpSocket,
    server: UdpSocket,
    /// The datagrams to send to the server, by the time at which they are due.
    waiting: BinaryHeap<Reverse<(Instant, Vec<u8>)>>,
    touched: Arc<AtomicU64>,
}

impl Passing {
    fn run(&mut self, stop: &AtomicBool) {
        let (mut from_border, mut from_server) = ([0; MAX_DATAGRAM_BYTES + 1], [0; MAX_DATAGRAM_BYTES + 1]);
        let mut peer = None;
        while !stop.load(Relaxed) {
            let next = self
                .waiting
                .peek()
                .map_or(POLL_INTERVAL, |Reverse((due, _))| due.saturating_duration_since(Instant::now()));
            let _ = self.border.set_read_timeout(Some(next.clamp(Duration::from_micros(1), POLL_INTERVAL)));
            if let Ok((length, address)) = self.border.recv_from(&mut from_border) {
                peer = Some(address);
                self.receive(&from_border[..length]);
            }
            let now = Instant::now();
            while self.waiting.peek().is_some_and(|Reverse((due, _))| *due <= now) {
                if let Some(Reverse((_, bytes))) = self.waiting.pop() {
                    let _ = self.server.send(&bytes); // like a network, the relay drops what it cannot forward
                }
            }
            while let Ok(length) = self.server.recv(&mut from_server) {
                let _ = peer.map(|border: SocketAddr| self.border.send_to(&from_server[..length], border));
            }
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        let after: &[Duration] = match self.fault {
            Fault::Delayed => &[DELAY],
            Fault::Replayed => &REPLAYS,
            _ => &AT_ONCE,
        };
        let passed = match self.fault {
            Fault::SeesAll => retold(bytes, &self.key, sees_all),
            Fault::SeesAhead => retold(bytes, &self.key, sees_ahead),
            Fault::SeesHoles => retold(bytes, &self.key, sees_holes),
            _ => bytes.to_vec(),
        };
        if after != AT_ONCE || passed != bytes {
            self.touched.fetch_add(1, Relaxed);
        }
        self.waiting.extend(after.iter().map(|after| Reverse((now + *after, passed.clone()))));
    }
}

/// Returns the datagram with its reports changed by `lie`, signed as if the border had created it. If the datagram has
/// no reports, returns it unchanged.
fn retold(bytes: &[u8], key: &Key, lie: impl Fn(&mut FlowReport)) -> Vec<u8> {
    let Ok(datagram) = Datagram::parse(bytes) else { return bytes.to_vec() };
    let (header, Ok(mut reports)) = (datagram.header, datagram.reports()) else { return bytes.to_vec() };
    if header.kind != Kind::Report {
        return bytes.to_vec();
    }
    reports.iter_mut().for_each(lie);
    let mut writer = ReportWriter::new(header.epoch, header.time_us);
    for report in &reports {
        writer.push(report);
    }
    writer.finish(key, header.counter)
}

/// Changes a report to have no holes.
fn sees_all(report: &mut FlowReport) {
    if let Some(last) = report.ranges.pop() {
        report.in_order = last.end;
        report.ranges.clear();
    }
}

/// Changes a report to include segments that were sent after the latest one that arrived.
fn sees_ahead(report: &mut FlowReport) {
    sees_all(report);
    report.in_order = report.in_order.wrapping_add(AHEAD_SEGMENTS * SEGMENT_BYTES);
}

/// Changes a report to have a hole, even if it is only the segment that arrived last.
fn sees_holes(report: &mut FlowReport) {
    let into_block = report.in_order % (BLOCK_SEGMENTS * SEGMENT_BYTES);
    let seen = SeqRange { start: report.in_order - into_block + SEGMENT_BYTES, end: report.in_order };
    report.in_order -= into_block;
    report.ranges.clear();
    if into_block > SEGMENT_BYTES {
        report.ranges.push(seen);
    }
}
