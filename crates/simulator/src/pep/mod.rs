//! The ACKing border PEP of a plan: the border's agent, the servers' agents, and the datagrams between them, which cross
//! the plan's links. Datagrams are authentic, and the agents take no time.

mod account;
mod border;
mod seen;
mod server;

use crate::network::{Network, Transit};
use crate::packet::{Content, Echo, Packet};
use crate::sender::Flight;
use account::Account;
use anyhow::{Context, Result};
use border::Border;
use hotcc_abi::pep::PepFlow;
use hotcc_lab_proto::plan::PlannedPep;
use hotcc_lab_proto::records::NO_FLOW;
pub(crate) use server::Dated;
use server::Server;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// A server, and the addresses of its datagrams.
struct End {
    host: usize,
    address: Ipv4Addr,
    border: Ipv4Addr,
    agent: Server,
}

/// The agents.
pub(crate) struct Pep {
    /// The border's host.
    host: usize,
    border: Border,
    ends: Vec<End>,
    accounts: BTreeMap<u16, Account>,
    /// Packets to send, each with the host that sends it.
    pub out: Vec<(usize, Transit)>,
    /// Reports that reached a server and count.
    pub taken: Vec<Dated>,
}

impl Pep {
    /// Starts the agents.
    pub fn start(plan: &PlannedPep, network: &Network) -> Result<Self> {
        let end = |(place, &(host, address)): (usize, &(usize, Ipv4Addr))| {
            let border = network.source(plan.border, address)?;
            let place = u16::try_from(place).context("too many servers")?;
            Ok(End { host, address, border, agent: Server::start(place, plan.fault) })
        };
        Ok(Self {
            host: plan.border,
            border: Border::start(plan.segments, plan.delay_us),
            ends: plan.servers.iter().enumerate().map(end).collect::<Result<_>>()?,
            accounts: BTreeMap::new(),
            out: Vec::new(),
            taken: Vec::new(),
        })
    }

    /// Starts the border's agent again, or kills it.
    pub fn set_running(&mut self, runs: bool) {
        self.border.set_running(runs);
    }

    /// Looks at a packet that reaches a host; `source` is the address of its flow's sender. Returns whether it concerns
    /// the PEP.
    pub fn see(&mut self, now_ns: u64, host: usize, source: Option<Ipv4Addr>, packet: &Packet) -> bool {
        match packet.content {
            Content::Probe(probe) if host == self.host => {
                if self.border.run() == Some(probe.run) {
                    let to = self.ends[usize::from(probe.server)].address;
                    self.send(host, to, Content::Echo(Echo { probe, border_ns: now_ns }));
                }
            }
            Content::Report(_) | Content::Echo(_) => {
                let Some(end) = self.ends.iter_mut().find(|end| end.host == host) else { return false };
                self.taken.extend(end.agent.arrive(now_ns, packet.content));
            }
            _ => return host == self.host && self.watch(now_ns, source, packet),
        }
        true
    }

    /// The border looks at a packet of a flow of a cooperating server.
    fn watch(&mut self, now_ns: u64, source: Option<Ipv4Addr>, packet: &Packet) -> bool {
        let cooperates = self.ends.iter().any(|end| Some(end.address) == source);
        if cooperates {
            match &packet.content {
                Content::Syn => self.border.begin(now_ns, packet.flow),
                Content::SynAck => self.border.end(packet.flow),
                Content::Data(data) => self.border.data(now_ns, packet.flow, data),
                Content::Ack(ack) | Content::Fin(ack) => self.border.acknowledged(packet.flow, ack.cumulative),
                _ => {}
            }
        }
        cooperates
    }

    /// Returns when an agent is due.
    pub fn next_ns(&self) -> Option<u64> {
        let servers_ns = self.ends.iter().filter_map(|end| end.agent.next_ns());
        servers_ns.chain(self.border.next_ns()).min()
    }

    /// Lets the agents do what is due. `source` returns the address of a flow's sender.
    pub fn wake(&mut self, now_ns: u64, source: impl Fn(u16) -> Ipv4Addr) {
        for report in self.border.wake(now_ns) {
            self.send(self.host, source(report.flow), Content::Report(report));
        }
        let mut probes = Vec::new();
        for End { host, border, agent, .. } in &mut self.ends {
            while let Some(taken) = agent.take_delayed(now_ns) {
                self.taken.extend(taken);
            }
            probes.extend(agent.probes(now_ns).into_iter().map(|probe| (*host, *border, Content::Probe(probe))));
        }
        for (host, to, probe) in probes {
            self.send(host, to, probe);
        }
    }

    /// Writes a report into its flow's record. Returns whether the record has changed, and whether it clocks the sender.
    pub fn write(&mut self, now_ns: u64, dated: &Dated, flight: &Flight) -> (bool, bool) {
        self.accounts.entry(dated.report.flow).or_default().take(now_ns, dated, flight)
    }

    /// Returns the record of a flow.
    pub fn record(&self, flow: u16) -> Option<&PepFlow> {
        self.accounts.get(&flow)?.record.as_ref()
    }

    fn send(&mut self, host: usize, to: Ipv4Addr, content: Content) {
        let packet = Packet { flow: NO_FLOW, ect: false, ce: false, content };
        self.out.push((host, Transit { to, packet }));
    }
}
