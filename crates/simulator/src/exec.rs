//! Executes a plan in simulated time.

use crate::algorithms::{Registry, Settings};
use crate::congestion::CongestionControl;
use crate::flow::Flow;
use crate::network::{Network, Transit};
use crate::packet::{HEADER_BYTES, Packet};
use crate::pep::{Dated, Pep};
use crate::receive_window::ReceiveWindow;
use crate::receiver::Receiver;
use crate::sender::{Config, Sender};
use anyhow::{Context, Result, bail};
use hotcc_lab_proto::plan::{Action, PATH_PUBLISHED, Plan, PlannedFlow, PlannedReading, USUAL_BUFFERS};
use hotcc_lab_proto::records::{AckRecord, NO_FLOW, PacketRecord};
use hotcc_lab_proto::run_record::RunRecord;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The last value of [`USUAL_BUFFERS`]: a buffer below it is a bound.
const USUAL_MOST_BYTES: u64 = 67_108_864;

const ECN: &str = "net.ipv4.tcp_ecn";
const RECEIVE_BUFFER: &str = "net.ipv4.tcp_rmem";
/// The sysctls of hosts that the simulator supports. Others in a plan have no effect.
pub const SYSCTLS: [&str; 2] = [ECN, RECEIVE_BUFFER];

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Counts, and the final states of flows.
    pub record: RunRecord,
    /// Packet records, in order of arrival.
    pub packets: Vec<PacketRecord>,
    /// ACK records, in order of time.
    pub acks: Vec<AckRecord>,
}

/// An event of the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// An entry of `agenda` is due; its index.
    Planned(usize),
    /// A packet reaches a host; its index in `under_way`.
    Arrival(u32),
    /// A flow is due; its index.
    Flow(u16),
    /// A cell is due.
    Cells,
    /// An agent of the PEP is due.
    Pep,
}

/// An entry of the agenda, from the plan.
enum Entry<'a> {
    Reading(usize, &'a PlannedReading),
    Stop(usize),
    Action(&'a Action),
}

/// Executes a plan. `settings` resolves the values of tunables.
///
/// # Errors
/// If the plan needs something that the simulator does not support.
pub fn simulate(plan: &Plan, settings: &Settings<'_>) -> Result<Outcome> {
    Simulation::new(plan, settings)?.run()
}

struct Simulation<'a> {
    plan: &'a Plan,
    registry: Registry<'a>,
    network: Network,
    flows: Vec<Flow>,
    agenda: Vec<(u64, Entry<'a>)>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    under_way: Vec<(usize, Transit)>,
    free: Vec<u32>,
    cells_due_ns: Option<u64>,
    pep: Option<Pep>,
    /// The earliest wake-up of the PEP that is already in the queue of events.
    pep_due_ns: Option<u64>,
    out: Vec<Packet>,
    acks: Vec<AckRecord>,
    happened: Vec<String>,
}

impl<'a> Simulation<'a> {
    fn new(plan: &'a Plan, settings: &'a Settings<'a>) -> Result<Self> {
        if let Some(host) = plan.hosts.iter().find(|host| host.rx.is_some()) {
            bail!(
                "host {} holds its senders back with a receiver program, which the simulator does not have",
                host.name
            );
        }
        let mut registry = Registry::new(&plan.algorithms, settings)?;
        let network = Network::new(plan)?;
        let pep = plan.pep.as_ref().map(|pep| Pep::start(pep, &network)).transpose()?;
        let mut flows = Vec::new();
        for (place, planned) in plan.flows.iter().enumerate() {
            let place = u16::try_from(place).context("too many flows")?;
            flows.push(
                make_flow(plan, &network, &mut registry, place, planned)
                    .with_context(|| format!("flow {}", planned.name))?,
            );
        }
        let mut agenda: Vec<(u64, Entry<'_>)> = Vec::new();
        for (feed, planned) in plan.feeds.iter().enumerate() {
            agenda.extend(planned.readings.iter().map(|r| (r.at_ns, Entry::Reading(feed, r))));
        }
        agenda.extend(plan.flows.iter().enumerate().map(|(flow, p)| (p.stop_ns, Entry::Stop(flow))));
        agenda.extend(plan.events.iter().map(|e| (e.at_ns, Entry::Action(&e.action))));
        agenda.retain(|(at_ns, _)| *at_ns <= plan.duration_ns);
        agenda.sort_by_key(|(at_ns, _)| *at_ns); // stable: entries of the same time keep the guest's order
        Ok(Self {
            plan,
            registry,
            network,
            flows,
            agenda,
            events: BinaryHeap::new(),
            order: 0,
            under_way: Vec::new(),
            free: Vec::new(),
            cells_due_ns: None,
            pep,
            pep_due_ns: None,
            out: Vec::new(),
            acks: Vec::new(),
            happened: Vec::new(),
        })
    }

    fn run(mut self) -> Result<Outcome> {
        for entry in 0..self.agenda.len() {
            self.schedule(self.agenda[entry].0, Event::Planned(entry));
        }
        for flow in 0..self.flows.len() {
            self.reschedule(flow);
        }
        while let Some(Reverse((now_ns, _, event))) = self.events.pop() {
            if now_ns > self.plan.duration_ns {
                break;
            }
            self.handle(now_ns, event)?;
        }
        let end_ns = self.plan.duration_ns;
        self.flows.iter_mut().for_each(|flow| flow.stop(end_ns));
        let links = self.network.finish(end_ns);
        let record = RunRecord {
            flows: self.flows.iter().map(Flow::end).collect(),
            links,
            events: self.happened,
            packet_records: self.network.records.len() as u64,
            ack_records: self.acks.len() as u64,
            missing_records: self.network.missing,
            ..RunRecord::default()
        };
        Ok(Outcome { record, packets: self.network.records, acks: self.acks })
    }

    fn schedule(&mut self, at_ns: u64, event: Event) {
        self.events.push(Reverse((at_ns, self.order, event)));
        self.order += 1;
    }

    fn handle(&mut self, now_ns: u64, event: Event) -> Result<()> {
        match event {
            Event::Planned(entry) => self.happen(now_ns, entry)?,
            Event::Flow(flow) => {
                let flow = usize::from(flow);
                if self.flows[flow].scheduled_ns == Some(now_ns) {
                    self.flows[flow].scheduled_ns = None;
                    if self.flows[flow].next_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                        self.flows[flow].wake(now_ns, &mut self.out);
                    }
                    self.send(now_ns, flow);
                }
            }
            Event::Arrival(place) => {
                let (host, transit) = self.under_way[place as usize];
                self.free.push(place);
                self.show_pep(now_ns, host, &transit.packet);
                if !self.network.is_at_end(host, transit.to) {
                    self.give(now_ns, host, transit);
                } else if transit.packet.flow != NO_FLOW {
                    let flow = usize::from(transit.packet.flow);
                    self.flows[flow].arrive(now_ns, &transit.packet, &mut self.out);
                    self.send(now_ns, flow);
                }
            }
            Event::Cells => {
                if self.cells_due_ns == Some(now_ns) {
                    self.serve_cells(now_ns);
                }
            }
            Event::Pep => {
                if self.pep_due_ns == Some(now_ns) {
                    self.pep_due_ns = None;
                    self.run_pep(now_ns);
                }
            }
        }
        Ok(())
    }

    /// Shows the PEP a packet that reaches a host.
    fn show_pep(&mut self, now_ns: u64, host: usize, packet: &Packet) {
        let source = self.flows.get(usize::from(packet.flow)).map(|flow| flow.addresses.0);
        if self.pep.as_mut().is_some_and(|pep| pep.see(now_ns, host, source, packet)) {
            self.run_pep(now_ns);
        }
    }

    /// Lets the PEP's agents do what is due, then schedules their next event.
    fn run_pep(&mut self, now_ns: u64) {
        let Some(pep) = &mut self.pep else { return };
        let flows = &self.flows;
        pep.wake(now_ns, |flow| flows[usize::from(flow)].addresses.0);
        let (out, taken) = (std::mem::take(&mut pep.out), std::mem::take(&mut pep.taken));
        if let Some(at_ns) = pep.next_ns()
            && self.pep_due_ns.is_none_or(|due_ns| at_ns < due_ns)
        {
            self.pep_due_ns = Some(at_ns);
            self.schedule(at_ns, Event::Pep);
        }
        for (host, transit) in out {
            self.give(now_ns, host, transit);
        }
        for dated in taken {
            self.inform(now_ns, &dated);
        }
    }

    /// Gives a flow a report of the PEP's border. The flow may send what its window then allows.
    fn inform(&mut self, now_ns: u64, dated: &Dated) {
        let place = usize::from(dated.report.flow);
        let (Some(pep), flow) = (&mut self.pep, &mut self.flows[place]) else { return };
        if flow.is_stopped() {
            return;
        }
        let Some(sender) = flow.sender().filter(|sender| sender.is_connected()) else { return };
        let (changed, clocks) = pep.write(now_ns, dated, &sender.flight());
        if changed {
            sender.congestion_control().set_pep(pep.record(dated.report.flow));
        }
        if clocks {
            flow.clock(now_ns, &mut self.out);
            self.send(now_ns, place);
        }
    }

    /// Sends what a flow has queued for sending, then schedules the flow's next event.
    fn send(&mut self, now_ns: u64, flow: usize) {
        for packet in std::mem::take(&mut self.out) {
            let Flow { hosts, addresses, .. } = &self.flows[flow];
            let (host, to) = if packet.towards_receiver() { (hosts.0, addresses.1) } else { (hosts.1, addresses.0) };
            self.give(now_ns, host, Transit { to, packet });
        }
        if let Some(sender) = self.flows[flow].sender() {
            self.acks.append(&mut sender.records);
        }
        self.reschedule(flow);
    }

    fn give(&mut self, now_ns: u64, host: usize, transit: Transit) {
        if self.network.is_at_end(host, transit.to) {
            self.put_under_way(now_ns, host, transit); // both ends are on the same host
            return;
        }
        if self.network.send(now_ns, host, transit) {
            self.serve_cells(now_ns);
        }
        self.take_departures();
    }

    fn take_departures(&mut self) {
        while self.network.has_departures() {
            let departures: Vec<_> = self.network.departures().collect();
            for departure in departures {
                self.put_under_way(departure.at_ns, departure.host, departure.transit);
            }
        }
    }

    fn put_under_way(&mut self, at_ns: u64, host: usize, transit: Transit) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.under_way.push((host, transit));
            (self.under_way.len() - 1) as u32
        });
        self.under_way[place as usize] = (host, transit);
        self.schedule(at_ns, Event::Arrival(place));
    }

    fn serve_cells(&mut self, now_ns: u64) {
        self.cells_due_ns = self.network.serve_cells(now_ns).map(|at_ns| at_ns.max(now_ns + 1));
        self.take_departures();
        if let Some(at_ns) = self.cells_due_ns {
            self.schedule(at_ns, Event::Cells);
        }
    }

    fn reschedule(&mut self, flow: usize) {
        let one = &mut self.flows[flow];
        let Some(at_ns) = one.next_ns() else { return };
        if one.scheduled_ns.is_none_or(|scheduled| at_ns < scheduled) {
            one.scheduled_ns = Some(at_ns);
            let place = one.place;
            self.schedule(at_ns, Event::Flow(place));
        }
    }

    fn happen(&mut self, now_ns: u64, entry: usize) -> Result<()> {
        match &self.agenda[entry].1 {
            Entry::Stop(flow) => self.flows[*flow].stop(now_ns),
            Entry::Reading(feed, reading) => {
                let feed = &self.plan.feeds[*feed];
                for flow in self.flows.iter_mut().filter(|flow| flow.addresses.1 == feed.address) {
                    if let Some(sender) = flow.sender() {
                        sender.congestion_control().set_radio(Some(reading), feed.max_age_ms);
                    }
                }
            }
            Entry::Action(action) => {
                let text = self.act(now_ns, action)?;
                self.happened.push(format!("{} {text}", now_ns as f64 / 1e9));
            }
        }
        Ok(())
    }

    /// Executes an action, and returns the guest's description of it.
    fn act(&mut self, now_ns: u64, action: &Action) -> Result<String> {
        Ok(match action {
            Action::Note(text) => text.clone(),
            Action::Route { host, arguments, watched } => {
                let peers: Vec<_> = self.flows.iter().map(|flow| flow.addresses.1).collect();
                let moved = self.network.reroute(*host, arguments, &peers)?;
                if !*watched || moved.is_empty() {
                    return Ok(arguments.clone());
                }
                for flow in self.flows.iter_mut().filter(|flow| moved.contains(&flow.addresses.1)) {
                    if let Some(sender) = flow.sender() {
                        sender.congestion_control().change_path();
                    }
                }
                format!("{arguments}{PATH_PUBLISHED}")
            }
            Action::Tune { cc, set } => {
                let changed = self.registry.tune(cc, set)?;
                let mut texts = Vec::new();
                for flow in self.flows.iter_mut().filter(|flow| flow.cc == *cc) {
                    let Some(sender) = flow.sender() else { continue };
                    let control = sender.congestion_control();
                    texts = changed.iter().map(|(name, value)| changes(&*control, name, *value)).collect();
                    for (name, value) in &changed {
                        control.set_tunable(name, *value);
                    }
                }
                format!("set {cc} {}", texts.join(" "))
            }
            Action::Swap { cc, new, object } => {
                self.registry.swap(cc, object)?;
                let mut moved = 0;
                for place in 0..self.flows.len() {
                    moved += u32::from(self.replace(now_ns, place, cc)?);
                }
                format!("swap {cc} -> {new}: {moved} connections moved")
            }
            Action::Border(runs) => {
                self.pep.as_mut().context("the scenario has no PEP")?.set_running(*runs);
                format!("the border's agent {}", if *runs { "starts again" } else { "is killed" })
            }
        })
    }

    /// Gives a flow the implementation that is behind its congestion control's name now. Returns whether its connection
    /// was open.
    fn replace(&mut self, now_ns: u64, place: usize, cc: &str) -> Result<bool> {
        let flow = &mut self.flows[place];
        if flow.cc != cc || flow.is_stopped() {
            return Ok(false);
        }
        let mut control = self.registry.make(cc, seed(self.plan, flow.place), flow.addresses)?;
        if let Some(feed) = self.plan.feeds.iter().find(|feed| feed.address == flow.addresses.1) {
            let so_far = feed.readings.iter().take_while(|reading| reading.at_ns <= now_ns);
            control.set_radio(so_far.last(), feed.max_age_ms);
        }
        control.set_pep(self.pep.as_ref().and_then(|pep| pep.record(flow.place)));
        let Some(sender) = flow.sender() else { return Ok(false) };
        let was_open = sender.is_connected();
        sender.replace(now_ns, control);
        Ok(was_open)
    }
}

/// Returns the description of a tunable's change, in the format of `hotcc set`.
fn changes(control: &dyn CongestionControl, name: &str, value: u32) -> String {
    let before = control.tunable(name).map_or_else(|| "unknown".to_owned(), |before| before.to_string());
    format!("{name}={value} (was {before})")
}

fn make_flow(
    plan: &Plan,
    network: &Network,
    registry: &mut Registry<'_>,
    place: u16,
    planned: &PlannedFlow,
) -> Result<Flow> {
    let source = network.source(planned.from, planned.address)?;
    let Some(cc) = &planned.cc else {
        return Ok(Flow::udp(place, planned, source, planned.pace.context("no rate")?));
    };
    let cables = plan.cables.iter().filter(|cable| cable.ends.iter().any(|end| planned.way.contains(&end.receives)));
    let (mut mtu, mut delay_ns) = (u32::MAX, 0);
    for cable in cables {
        mtu = mtu.min(cable.mtu);
        for end in &cable.ends {
            delay_ns += plan.links[end.receives].phases.first().map_or(0, |phase| phase.delay_ns);
        }
    }
    let first = plan.cables.iter().find(|cable| cable.ends.iter().any(|e| Some(&e.receives) == planned.way.first()));
    let mss = mtu - HEADER_BYTES;
    let window = receive_window(plan, planned.to, mss, delay_ns)?;
    let config = Config {
        flow: place,
        mss,
        offload_segments: first.map_or(1, |cable| cable.offload_segments),
        paced: planned.paced,
        ecn: has_ecn(plan, planned),
        window_bytes: window.in_syn_ack(),
    };
    let mut control = registry.make(cc, seed(plan, place), (source, planned.address))?;
    let watched = planned.watch.and_then(|(offset, _)| control.field_at(offset));
    if let Some(feed) = plan.feeds.iter().find(|feed| feed.address == planned.address) {
        control.set_radio(None, feed.max_age_ms);
    }
    let sender = Sender::new(config, planned, control, watched);
    Ok(Flow::tcp(place, planned, source, sender, Receiver::new(window, delay_ns), config.ecn))
}

/// Returns a number that differs for each flow of each run.
fn seed(plan: &Plan, flow: u16) -> u64 {
    plan.links.first().map_or(0, |link| link.seed).wrapping_add(flow.into())
}

fn sysctl<'a>(plan: &'a Plan, host: usize, key: &str) -> Option<&'a str> {
    plan.hosts[host].sysctls.iter().find(|(known, _)| known == key).map(|(_, value)| value.trim())
}

/// Returns whether the sender requests ECN (1), and the receiver does not decline it (0).
fn has_ecn(plan: &Plan, flow: &PlannedFlow) -> bool {
    sysctl(plan, flow.from, ECN) == Some("1") && sysctl(plan, flow.to, ECN) != Some("0")
}

/// Returns the window that a host's `tcp_rmem` allows. If the last value is below the lab's default, it is a bound: the
/// window is always half of it, because the packets' own memory takes the other half. Otherwise the kernel's tuning
/// applies.
fn receive_window(plan: &Plan, host: usize, mss: u32, rtt_ns: u64) -> Result<ReceiveWindow> {
    let value = sysctl(plan, host, RECEIVE_BUFFER).unwrap_or(USUAL_BUFFERS);
    let sizes: Vec<u64> =
        value.split_whitespace().map(str::parse).collect::<Result<_, _>>().context("invalid tcp_rmem")?;
    let [_, first, most] = sizes[..] else { bail!("invalid tcp_rmem `{value}`: expected three sizes") };
    let tuned = || ReceiveWindow::tuned(first, most, mss, rtt_ns);
    Ok(if most >= USUAL_MOST_BYTES { tuned() } else { ReceiveWindow::fixed(most / 2) })
}
