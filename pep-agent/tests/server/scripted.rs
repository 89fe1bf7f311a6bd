//! A border that a test controls byte by byte.

use crate::host::*;
use hotcc_keys::{KEY_BYTES, Key};
use pep_agent::report::FlowReport;
use pep_agent::server::{DatagramFate, RecordFate};
use pep_agent::wire::{self, Datagram, Header, Kind, PORT, ReportWriter};
use std::net::UdpSocket;

/// A border that sends exactly what a test tells it to send.
pub struct Scripted {
    pub socket: UdpSocket,
    pub key: Key,
    pub epoch: u64,
    pub counter: u64,
    /// How far its clock is ahead of this host's.
    pub ahead_us: u64,
}

impl Scripted {
    /// Returns a border that has answered the server's probe.
    pub fn authenticated(hosts: &Hosts, agent: &Agent, flow: &Flow) -> Self {
        Self::proven_by(0xa5, hosts, agent, flow)
    }

    /// The same, with a key that has number 1 and repeats the byte `secret`.
    pub fn proven_by(secret: u8, hosts: &Hosts, agent: &Agent, flow: &Flow) -> Self {
        Self::new(secret, hosts, 77).prove(agent, flow)
    }

    /// Makes the border answer a probe, and returns it.
    pub fn prove(self, agent: &Agent, flow: &Flow) -> Self {
        let mut border = self;
        let answers = agent.datagrams(DatagramFate::Echo);
        border.report(&[flow.seen_to(flow.first)]);
        wait("a probe", || agent.told(), || border.answers());
        wait("the proof", || agent.told(), || agent.datagrams(DatagramFate::Echo) == answers + 1);
        border
    }

    /// Returns a border that has sent nothing yet.
    pub fn new(secret: u8, hosts: &Hosts, epoch: u64) -> Self {
        let socket = hosts.router.enter(|| UdpSocket::bind("10.248.1.254:0").unwrap()).unwrap();
        socket.connect((SERVER, PORT)).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, key: Key::new(1, &[secret; KEY_BYTES]), epoch, counter: 0, ahead_us: 0 }
    }

    /// Answers the server's probe, if one has arrived. Returns whether it did.
    pub fn answers(&mut self) -> bool {
        let mut buffer = [0; wire::MAX_DATAGRAM_BYTES];
        let Ok(length) = self.socket.recv(&mut buffer) else { return false };
        let probe = Datagram::parse(&buffer[..length]).unwrap();
        assert!(probe.header.kind == Kind::Probe && probe.is_signed_by(&self.key));
        self.counter += 1;
        let header =
            Header { kind: Kind::Echo, counter: self.counter, time_us: now_us() + self.ahead_us, ..probe.header };
        self.send(&wire::probe(&header, probe.nonce().unwrap(), &self.key));
        true
    }

    pub fn send(&self, bytes: &[u8]) {
        self.socket.send(bytes).unwrap();
    }

    pub fn datagram(&mut self, reports: &[FlowReport]) -> Vec<u8> {
        let mut writer = ReportWriter::new(self.epoch, now_us() + self.ahead_us);
        assert!(reports.iter().all(|r| writer.push(r)));
        self.counter += 1;
        writer.finish(&self.key, self.counter)
    }

    pub fn report(&mut self, reports: &[FlowReport]) -> Vec<u8> {
        let bytes = self.datagram(reports);
        self.send(&bytes);
        bytes
    }

    /// Sends a report and waits until it has this result.
    pub fn meets(&mut self, agent: &Agent, report: FlowReport, fate: RecordFate) {
        let before = agent.records(fate);
        self.report(&[report]);
        wait(fate.label(), || agent.told(), || agent.records(fate) == before + 1);
    }
}

pub fn met(agent: &Agent, fate: DatagramFate, times: u64) {
    wait(fate.label(), || agent.told(), || agent.datagrams(fate) == times);
}
