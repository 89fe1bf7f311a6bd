//! Hosts, their routes, and the links between them.

use crate::packet::Packet;
use anyhow::{Context, Result, bail};
use bytemuck::Zeroable;
use hotcc_lab_proto::cell::Cell;
use hotcc_lab_proto::link_model::{self, Fate, LinkModel, Offer};
use hotcc_lab_proto::plan::{Plan, PlannedHost};
use hotcc_lab_proto::queue::{Ecn, Header, flow_key};
use hotcc_lab_proto::records::{LOST, POLICED, PacketRecord, QUEUE_DROP, SENT};
use hotcc_lab_proto::run_record::LinkEnd;
use std::net::Ipv4Addr;

/// The first three bytes of an address. Every network of the lab is a /24.
type Subnet = [u8; 3];

/// A packet with its destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transit {
    /// Destination address.
    pub to: Ipv4Addr,
    /// The packet.
    pub packet: Packet,
}

/// A packet that leaves a link.
#[derive(Debug)]
pub(crate) struct Departure {
    /// Time at which it arrives at the next host.
    pub at_ns: u64,
    /// Index of the next host.
    pub host: usize,
    /// The packet.
    pub transit: Transit,
}

#[derive(Debug, Default)]
struct Host {
    addresses: Vec<Ipv4Addr>,
    /// Networks of the host's own interfaces, each with the outgoing link.
    connected: Vec<(Subnet, usize)>,
    /// Other networks, each with the neighbour's address.
    routes: Vec<(Subnet, Ipv4Addr)>,
}

/// A packet that waits in a cell.
#[derive(Debug)]
struct InCell {
    transit: Transit,
    link: usize,
    arrived: link_model::Packet,
    came_ns: u64,
    queue_bytes: u32,
    record: Option<usize>,
}

/// The network.
#[derive(Debug)]
pub(crate) struct Network {
    hosts: Vec<Host>,
    links: Vec<LinkModel>,
    /// For each link, the host at its end.
    ends: Vec<usize>,
    cells: Vec<Cell<InCell>>,
    cell_of: Vec<Option<usize>>,
    kept: Vec<bool>,
    room: usize,
    /// Records of packets, on the links that keep records.
    pub records: Vec<PacketRecord>,
    /// Number of records that were not kept because there was no room for them.
    pub missing: u64,
    departures: Vec<Departure>,
}

impl Network {
    /// Creates a plan's network at time 0.
    pub fn new(plan: &Plan) -> Result<Self> {
        let mut ends = vec![0; plan.links.len()];
        for end in plan.cables.iter().flat_map(|cable| &cable.ends) {
            *ends.get_mut(end.receives).context("a cable has no link")? = end.host;
        }
        let hosts = plan.hosts.iter().enumerate().map(|(place, host)| Host::set_up(plan, place, host));
        Ok(Self {
            hosts: hosts.collect::<Result<_>>()?,
            links: plan.links.iter().map(LinkModel::new).collect(),
            ends,
            cells: Cell::of_plan(plan),
            cell_of: plan.cell_of_links(),
            kept: plan.links.iter().map(|link| link.keeps_records()).collect(),
            room: plan.packet_records as usize,
            records: Vec::new(),
            missing: 0,
            departures: Vec::new(),
        })
    }

    /// Returns the source address of a host's packets to `to`.
    pub fn source(&self, host: usize, to: Ipv4Addr) -> Result<Ipv4Addr> {
        let host = &self.hosts[host];
        let near = host.neighbour(to).with_context(|| format!("no route to {to}"))?;
        let own = host.addresses.iter().find(|address| subnet(**address) == subnet(near));
        own.copied().with_context(|| format!("no address of its own towards {to}"))
    }

    /// Returns whether a packet to this address has arrived at its destination.
    pub fn is_at_end(&self, host: usize, to: Ipv4Addr) -> bool {
        self.hosts[host].addresses.contains(&to)
    }

    /// Applies an `ip` command to a host: `route replace NETWORK via ADDRESS`. Returns those of the addresses `of`
    /// whose next hop has changed.
    pub fn reroute(&mut self, host: usize, arguments: &str, of: &[Ipv4Addr]) -> Result<Vec<Ipv4Addr>> {
        let host = &mut self.hosts[host];
        let before: Vec<_> = of.iter().map(|to| host.neighbour(*to)).collect();
        host.configure(arguments)?;
        Ok(of.iter().zip(before).filter(|(to, was)| host.neighbour(**to) != *was).map(|(to, _)| *to).collect())
    }

    /// Sends a packet from a host, which may be its source or forward it. Returns `true` if a cell has changed.
    pub fn send(&mut self, now_ns: u64, host: usize, transit: Transit) -> bool {
        let Some(link) = self.hosts[host].link_to(transit.to) else { return false };
        let record = self.new_record(link);
        let (bytes, segments) = (transit.packet.bytes(), transit.packet.segments());
        let Some(cell) = self.cell_of[link] else {
            let offer = self.links[link].offer(now_ns, bytes, segments);
            self.pass(now_ns, link, transit, record, &offer);
            return false;
        };
        self.serve(cell, now_ns);
        let arrived = self.links[link].arrive(now_ns, bytes, segments);
        if self.links[link].polices(&arrived, now_ns) {
            let offer = Offer { queue_bytes: 0, wait_ns: 0, fate: Fate::Policed };
            self.pass(now_ns, link, transit, record, &offer);
            return true;
        }
        let queue_bytes = self.cells[cell].queue_bytes(link);
        let waiting = InCell { transit, link, arrived, came_ns: now_ns, queue_bytes, record };
        self.cells[cell].join(link, now_ns, header(&transit.packet), waiting);
        self.serve(cell, now_ns);
        true
    }

    /// Serves all cells until `now_ns`. Returns when a cell is due next.
    pub fn serve_cells(&mut self, now_ns: u64) -> Option<u64> {
        (0..self.cells.len()).for_each(|cell| self.serve(cell, now_ns));
        let (cells, links) = (&mut self.cells, &self.links);
        cells.iter_mut().filter_map(|cell| cell.next_ns(links)).min()
    }

    /// Takes the packets that have left the links.
    pub fn departures(&mut self) -> impl Iterator<Item = Departure> {
        self.departures.drain(..)
    }

    /// Returns whether packets have left the links.
    pub fn has_departures(&self) -> bool {
        !self.departures.is_empty()
    }

    /// Ends the run: writes the records of packets that still wait in cells, and returns each link's counts.
    pub fn finish(&mut self, end_ns: u64) -> Vec<LinkEnd> {
        (0..self.cells.len()).for_each(|cell| self.serve(cell, 0)); // what has left its queue but was not taken yet
        for cell in std::mem::take(&mut self.cells) {
            for waiting in cell.into_waiting() {
                let InCell { transit, link, came_ns, queue_bytes, record, .. } = waiting;
                let wait_ns = end_ns.saturating_sub(came_ns);
                self.write(record, came_ns, link, &transit.packet, (queue_bytes, wait_ns), (SENT, false));
            }
        }
        self.links.iter().map(|link| LinkEnd::from(link.state())).collect()
    }

    fn serve(&mut self, cell: usize, now_ns: u64) {
        for gone in self.cells[cell].serve(now_ns, &self.links) {
            let InCell { transit, link, arrived, came_ns, queue_bytes, record } = gone.item;
            let fate = self.links[link].end(&arrived, queue_bytes, gone.at_ns, gone.end);
            self.pass(came_ns, link, transit, record, &Offer { queue_bytes, wait_ns: gone.wait_ns, fate });
        }
    }

    /// Applies a packet's fate: marks and records the packet, and passes it on.
    fn pass(&mut self, came_ns: u64, link: usize, mut transit: Transit, record: Option<usize>, offer: &Offer) {
        let (fate, marked) = match offer.fate {
            Fate::QueueDrop => (QUEUE_DROP, false),
            Fate::Lost => (LOST, false),
            Fate::Policed => (POLICED, false),
            Fate::Leaves { mark, .. } => (SENT, mark && transit.packet.ect),
        };
        if marked {
            transit.packet.ce = true;
            self.links[link].marked(transit.packet.segments());
        }
        self.write(record, came_ns, link, &transit.packet, (offer.queue_bytes, offer.wait_ns), (fate, marked));
        if let Fate::Leaves { at_ns, .. } = offer.fate {
            self.departures.push(Departure { at_ns, host: self.ends[link], transit });
        }
    }

    fn write(
        &mut self,
        at: Option<usize>,
        time_ns: u64,
        link: usize,
        packet: &Packet,
        (queue_bytes, wait_ns): (u32, u64),
        (fate, marked): (u8, bool),
    ) {
        let Some(record) = at.and_then(|at| self.records.get_mut(at)) else { return };
        *record = PacketRecord::with(fate, marked, packet.towards_receiver());
        record.time_ns = time_ns;
        record.wait_ns = wait_ns;
        record.queue_bytes = queue_bytes;
        record.bytes = packet.bytes();
        record.flow = packet.flow;
        record.link = link as u16;
        record.segments = packet.segments() as u16;
    }

    /// Reserves a record that is written later, if the link keeps records. Returns its index.
    fn new_record(&mut self, link: usize) -> Option<usize> {
        if !self.kept[link] {
            return None;
        }
        if self.records.len() >= self.room {
            self.missing += 1;
            return None;
        }
        self.records.push(PacketRecord::zeroed());
        Some(self.records.len() - 1)
    }
}

impl Host {
    fn set_up(plan: &Plan, place: usize, planned: &PlannedHost) -> Result<Self> {
        let mut host = Self::default();
        let mut devices = Vec::new();
        for cable in &plan.cables {
            for (own, other) in [(0, 1), (1, 0)] {
                if cable.ends[own].host == place {
                    devices.push((cable.ends[own].device.as_str(), cable.ends[other].receives));
                }
            }
        }
        for line in &planned.setup {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["address", "add", address, "dev", device] = words[..] {
                let address: Ipv4Addr = address.trim_end_matches("/24").parse().context("invalid address")?;
                let link = devices.iter().find(|(name, _)| *name == device).context("no such interface")?.1;
                host.addresses.push(address);
                host.connected.push((subnet(address), link));
            } else if words.first() == Some(&"route") {
                host.configure(line)?;
            }
        }
        Ok(host)
    }

    fn configure(&mut self, arguments: &str) -> Result<()> {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let ["route", "add" | "replace", network, "via", via] = words[..] else {
            bail!("cannot simulate `ip {arguments}`: expected `route replace NETWORK/24 via ADDRESS`");
        };
        let network: Ipv4Addr = network.trim_end_matches("/24").parse().context("invalid network")?;
        let via: Ipv4Addr = via.parse().context("invalid address")?;
        self.routes.retain(|(known, _)| *known != subnet(network));
        self.routes.push((subnet(network), via));
        Ok(())
    }

    /// Returns the address of the next host towards `to`.
    fn neighbour(&self, to: Ipv4Addr) -> Option<Ipv4Addr> {
        let network = subnet(to);
        // a route to this network takes precedence over the host's own interface in it, because the plan asks for its
        // `via`
        if let Some((_, via)) = self.routes.iter().find(|(known, _)| *known == network) {
            return Some(*via);
        }
        self.connected.iter().any(|(known, _)| *known == network).then_some(to)
    }

    fn link_to(&self, to: Ipv4Addr) -> Option<usize> {
        let near = subnet(self.neighbour(to)?);
        self.connected.iter().find(|(known, _)| *known == near).map(|(_, link)| *link)
    }
}

/// Returns what a queueing discipline needs to know about a packet.
fn header(packet: &Packet) -> Header {
    let ecn = match (packet.ce, packet.ect) {
        (true, _) => Ecn::Ce,
        (false, true) => Ecn::Ect0,
        (false, false) => Ecn::NotEct,
    };
    Header { bytes: packet.bytes(), ecn, flow: flow_key(packet.flow, packet.towards_receiver()) }
}

fn subnet(address: Ipv4Addr) -> Subnet {
    let [a, b, c, _] = address.octets();
    [a, b, c]
}
