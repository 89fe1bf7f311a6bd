//! The path of reports from the socket to the kernel: checks each datagram, dates each report, and hands it over.

use super::clock::Clock;
use super::counters::{Counters, DatagramFate, RecordFate};
use super::inband::{self, Attached, InbandReader};
use super::kernel::{Hand, Kernel};
use super::limit::Limiter;
use super::sessions::{Probe, RejectedDatagram, Sessions};
use super::socket::{Path, ReportSocket};
use crate::attach::Method;
use crate::auth::{Keys, LiveKeys, Signer};
use crate::report::{FlowKey, FlowReport};
use crate::wire::{self, Datagram, Header, Kind, MAX_DATAGRAM_BYTES, WireError};
use hotcc_abi::clock::monotonic_ns;
use hotcc_abi::pep::{CLOCK, CONTROL, PepRange, PepRecordUpdate};
use hotcc_host::error::{Result, Tried};
use hotcc_keys::Fingerprint;
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// Datagrams, or in-band reports, processed before other work gets a turn.
const BATCH: usize = 64;
const TICK: Duration = Duration::from_millis(20);
/// Ticks between two runs of `gc`.
const GC_TICKS: u32 = 50;

/// Options of the server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address at which to receive reports.
    pub listen: SocketAddr,
    /// Whether records clock the senders.
    pub clock: bool,
    /// Share of flows that get no records, 0 to 1.
    pub control_share: f64,
    /// Interfaces from which to take in-band reports.
    pub inband: Vec<String>,
    /// How to attach to these interfaces.
    pub attach: Method,
    /// Reports older than this are ignored.
    pub max_age: Duration,
    /// Datagrams per second from each border, and from each source prefix that no border is known to use; for in-band
    /// reports, from each key.
    pub rate_per_second: u64,
}

/// The server: its socket, the borders that send to it, and the kernel's programs.
pub struct Server {
    options: Options,
    socket: ReportSocket,
    keys: LiveKeys,
    kernel: Kernel,
    inband: Option<InbandReader>,
    attached: Option<Attached>,
    sessions: Sessions,
    limiter: Limiter,
    counters: Arc<Counters>,
    random: RandomState,
}

impl Server {
    /// Opens the socket and loads the BPF programs. Call it within a tokio runtime, in the network namespace of the
    /// flows.
    pub fn start(options: Options, keys: Keys) -> Result<Self> {
        let socket = ReportSocket::bind(options.listen)?;
        let reader =
            (!options.inband.is_empty()).then(|| InbandReader::attach(&options.inband, options.attach)).transpose()?;
        let (reader, attached) = reader.unzip();
        Attached::remove_left_over(attached.as_ref())?;
        Ok(Self {
            inband: reader,
            attached,
            limiter: Limiter::new(options.rate_per_second),
            options,
            socket,
            keys: LiveKeys::new(keys),
            kernel: Kernel::load()?,
            sessions: Sessions::default(),
            counters: Arc::default(),
            random: RandomState::new(),
        })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> Result<SocketAddr> {
        self.socket.address().tried(|| "cannot read the address at which reports are received".to_owned())
    }

    /// Takes its programs on interfaces, so that the caller can detach them after the server ends; otherwise they are
    /// detached when the server is dropped.
    pub fn take_attached(&mut self) -> Option<Attached> {
        self.attached.take()
    }

    /// Returns its keys, which may be replaced while it serves.
    #[must_use]
    pub fn keys(&self) -> LiveKeys {
        self.keys.clone()
    }

    /// Returns its counters of datagrams and records.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves until the future is dropped.
    pub async fn serve(&mut self) -> Result<()> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut ticks = 0u32;
        loop {
            tokio::select! {
                ready = self.socket.readable() => {
                    ready.tried(|| "cannot wait for datagrams".to_owned())?;
                    self.drain()?;
                }
                ready = readable(self.inband.as_ref()) => {
                    ready.tried(|| "cannot wait for in-band reports".to_owned())?;
                    self.drain_inband();
                }
                _ = tick.tick() => {
                    ticks = ticks.wrapping_add(1);
                    if ticks.is_multiple_of(GC_TICKS) && let Err(error) = self.gc() {
                        tracing::warn!("{error:#}");
                    }
                }
            }
            self.ask();
            // give the runtime the chance to find what else has become ready
            tokio::task::yield_now().await;
        }
    }

    fn drain(&mut self) -> Result<()> {
        let mut buffer = [0; MAX_DATAGRAM_BYTES + 1];
        for _ in 0..BATCH {
            match self.socket.receive(&mut buffer) {
                Ok((length, from)) => {
                    let fate = self.datagram(&buffer[..length], from);
                    self.counters.datagram(fate);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e).tried(|| "cannot receive datagrams".to_owned()),
            }
        }
        Ok(())
    }

    fn gc(&mut self) -> Result<()> {
        let now_us = monotonic_ns() / 1000;
        self.sessions.gc(now_us);
        self.limiter.gc(now_us);
        self.kernel.refresh_interfaces()?;
        let (borders, rtt_us) = self.sessions.authenticated();
        self.counters.borders.store(borders as u64, Relaxed);
        self.counters.rtt_us.store(rtt_us.unwrap_or(0).into(), Relaxed);
        if let Some(reader) = &self.inband {
            self.counters.inband_dropped.store(reader.dropped()?, Relaxed);
        }
        for (counters, cohort) in self.counters.cohorts.iter().zip(self.kernel.cohorts()?) {
            counters.flows.store(cohort.flows, Relaxed);
            counters.acked_bytes.store(cohort.acked_bytes, Relaxed);
            counters.active_ns.store(cohort.active_ns, Relaxed);
            counters.retransmits.store(cohort.retransmits, Relaxed);
        }
        Ok(())
    }

    /// Sends the probes that are due. A probe that cannot be sent counts as lost.
    fn ask(&mut self) {
        let keys = self.keys.get();
        for Probe { to, epoch, key } in self.sessions.due(monotonic_ns() / 1000) {
            let Some(key) = keys.named(&key) else { continue }; // its key was removed, and with it the right to report
            let time_us = monotonic_ns() / 1000;
            let header = Header { kind: Kind::Probe, key_id: key.id, epoch, counter: 0, time_us };
            let nonce = self.sessions.nonce(epoch, key.id, time_us);
            let _ = self.socket.send(&wire::probe(&header, nonce, key), to);
        }
    }

    fn datagram(&mut self, bytes: &[u8], from: Path) -> DatagramFate {
        let now_us = monotonic_ns() / 1000;
        let keys = self.keys.get();
        let parsed = Datagram::parse(bytes);
        let is_expected = parsed.is_ok_and(|datagram| self.expects(&datagram, &keys, now_us));
        if !is_expected && !self.limiter.allows_source(from.peer.ip(), now_us) {
            return DatagramFate::RateLimited;
        }
        let datagram = match parsed {
            Ok(datagram) => datagram,
            Err(error) => return malformed(error),
        };
        let mut signers: Vec<Signer<'_>> = keys.numbered(datagram.header.key_id).collect();
        if signers.is_empty() {
            return DatagramFate::UnknownKey;
        }
        signers.retain(|signer| datagram.is_signed_by(signer.key));
        let Some(Signer { key, .. }) = signers.first() else { return DatagramFate::WrongCode };
        match self.authentic(&datagram, key.fingerprint, &signers, from, now_us) {
            Ok(fate) => fate,
            Err(Error::Wire(error)) => malformed(error),
            Err(Error::Rejected(rejected)) => match rejected {
                RejectedDatagram::Unauthenticated => DatagramFate::Unauthenticated,
                RejectedDatagram::Replayed => DatagramFate::Replayed,
                RejectedDatagram::NotOutstanding => DatagramFate::NotOutstanding,
                RejectedDatagram::TooMany => DatagramFate::TooManyBorders,
            },
        }
    }

    /// Whether a datagram has values that only a third party that reads the wire can imitate. The code of such a
    /// datagram is verified at any rate, without quota.
    fn expects(&self, datagram: &Datagram<'_>, keys: &Keys, now_us: u64) -> bool {
        let header = &datagram.header;
        match header.kind {
            Kind::Probe => false,
            Kind::Echo => datagram.nonce().is_ok_and(|nonce| self.sessions.expects_echo(header, nonce, now_us)),
            Kind::Report => {
                let mut signers = keys.numbered(header.key_id);
                signers.any(|signer| self.sessions.expects_report(header, signer.key.fingerprint))
            }
        }
    }

    fn authentic(
        &mut self,
        datagram: &Datagram<'_>,
        key: Fingerprint,
        signers: &[Signer<'_>],
        from: Path,
        now_us: u64,
    ) -> std::result::Result<DatagramFate, Error> {
        let header = &datagram.header;
        match header.kind {
            Kind::Probe => Err(Error::Wire(WireError::NotOurs)),
            Kind::Echo => {
                self.sessions.echo(header, key, from, datagram.nonce()?, now_us)?;
                Ok(DatagramFate::Echo)
            }
            Kind::Report => {
                let reports = datagram.reports()?;
                let is_theirs = |server: IpAddr| signers.iter().any(|signer| signer.is_for(server));
                if !reports.iter().all(|report| is_theirs(report.key.server.ip())) {
                    return Ok(DatagramFate::UnknownKey);
                }
                let clock = self.sessions.report(header, key, from, now_us)?;
                if !self.limiter.allows_border((Some(header.epoch), key), now_us) {
                    return Ok(DatagramFate::RateLimited);
                }
                self.limiter.charge((Some(header.epoch), key));
                self.reports(&reports, &clock, self.border(Some(header.epoch), &key), now_us);
                Ok(DatagramFate::Accepted)
            }
        }
    }

    fn reports(&self, reports: &[FlowReport], clock: &Clock, border: u64, now_us: u64) {
        let hand = self.kernel.hand();
        for report in reports {
            let record = PepRecordUpdate { rtt_us: clock.rtt_us(), border, ..record_of(report) };
            let seen_us = clock.ours(report.seen_at_us, now_us);
            self.counters.record(self.update_record(hand.as_ref().ok(), report, record, seen_us, now_us));
        }
    }

    /// Identifies the clock of a record: a run of a border under its key. In-band reports name no run.
    fn border(&self, epoch: Option<u64>, key: &Fingerprint) -> u64 {
        self.random.hash_one((epoch, key))
    }

    fn drain_inband(&mut self) {
        let Some(mut reader) = self.inband.take() else { return };
        let (keys, hand) = (self.keys.get(), self.kernel.hand());
        for _ in 0..BATCH {
            let now_us = monotonic_ns() / 1000;
            let Some(taken) = reader.take(&keys) else { break };
            let fate = match taken {
                Ok((_, key)) if !self.limiter.allows_border((None, key), now_us) => DatagramFate::RateLimited,
                Ok((inband, key)) => {
                    let report = &inband.report;
                    let record = PepRecordUpdate { border: self.border(None, &key), ..record_of(report) };
                    let seen_us = now_us.saturating_sub(reader.age_us(&inband, key, now_us));
                    let fate = self.update_record(hand.as_ref().ok(), report, record, seen_us, now_us);
                    if fate.is_taken() {
                        self.limiter.charge((None, key)); // replayed reports use up no quota
                        reader.learn(&inband, key, now_us);
                    }
                    self.counters.record(fate);
                    DatagramFate::Accepted
                }
                Err(inband::RejectedReport::Malformed) => DatagramFate::Malformed,
                Err(inband::RejectedReport::UnknownKey) => DatagramFate::UnknownKey,
                Err(inband::RejectedReport::WrongCode) => DatagramFate::WrongCode,
            };
            self.counters.datagram(fate);
        }
        self.inband = Some(reader);
    }

    fn update_record(
        &self,
        hand: Option<&Hand<'_>>,
        report: &FlowReport,
        record: PepRecordUpdate,
        seen_us: u64,
        now_us: u64,
    ) -> RecordFate {
        if now_us - seen_us > self.options.max_age.as_micros() as u64 {
            return RecordFate::TooOld;
        }
        let flags = if self.is_control(&report.key) { CONTROL } else { u8::from(self.options.clock) * CLOCK };
        let record = PepRecordUpdate { flags, time_ns: seen_us * 1000, ..record };
        let verdict = hand.and_then(|hand| hand.over(&record).ok());
        verdict.map_or(RecordFate::Failed, RecordFate::of_verdict)
    }

    /// Whether a flow belongs to the control cohort. The result stays the same for the life of a flow, and after a
    /// restart.
    fn is_control(&self, flow: &FlowKey) -> bool {
        let share = self.options.control_share;
        share > 0.0 && (flow_hash(flow) as f64) < share * 2f64.powi(64)
    }
}

async fn readable(reader: Option<&InbandReader>) -> std::io::Result<()> {
    match reader {
        Some(reader) => reader.readable().await,
        None => std::future::pending().await,
    }
}

enum Error {
    Wire(WireError),
    Rejected(RejectedDatagram),
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<RejectedDatagram> for Error {
    fn from(rejected: RejectedDatagram) -> Self {
        Self::Rejected(rejected)
    }
}

fn malformed(error: WireError) -> DatagramFate {
    match error {
        WireError::Truncated => DatagramFate::Truncated,
        WireError::Oversized => DatagramFate::Oversized,
        WireError::NotOurs => DatagramFate::NotOurs,
        WireError::Version => DatagramFate::Version,
        WireError::Malformed => DatagramFate::Malformed,
    }
}

/// Converts a report to a record, without the fields that only the receiver knows.
fn record_of(report: &FlowReport) -> PepRecordUpdate {
    let mut record = PepRecordUpdate {
        server_port: report.key.server.port().to_be_bytes(),
        client_port: report.key.client.port().to_be_bytes(),
        range_count: report.ranges.len() as u16,
        in_order: report.in_order,
        segments: report.segments,
        border_us: report.seen_at_us as u32,
        ..PepRecordUpdate::default()
    };
    for (to, from) in record.ranges.iter_mut().zip(&report.ranges) {
        *to = PepRange { start: from.start, end: from.end };
    }
    let (server, client) = (report.key.server.ip().to_canonical(), report.key.client.ip().to_canonical());
    record.family = if server.is_ipv4() && client.is_ipv4() { 4 } else { 6 };
    put_address(&mut record.server, server);
    put_address(&mut record.client, client);
    record
}

fn put_address(field: &mut [u8; 16], address: IpAddr) {
    match address {
        IpAddr::V4(v4) => field[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => *field = v6.octets(),
    }
}

/// FNV-1a with a final mixer, because the high bits of FNV-1a alone are not evenly distributed.
fn flow_hash(flow: &FlowKey) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for end in [flow.server, flow.client] {
        let mut address = [0; 16];
        put_address(&mut address, end.ip().to_canonical());
        add(&address);
        add(&end.port().to_be_bytes());
    }
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_spread_evenly_over_the_arms() {
        let flow = |port: u16| FlowKey {
            server: "192.0.2.1:443".parse().unwrap(),
            client: SocketAddr::new([198, 51, 100, (port % 7) as u8].into(), port),
        };
        let limit = (0.05 * 2f64.powi(64)) as u64;
        let control = (0..20_000).filter(|port| flow_hash(&flow(*port)) < limit).count();
        assert!((800..1200).contains(&control), "{control} of 20,000 for 5 %");
        assert_eq!(flow_hash(&flow(1)), 12_903_681_758_447_390_769, "it must not change between versions");
    }
}
