//! What the guest does: a scenario's case and seed, worked out to the last number.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Everything the guest needs. Times are since the start of the measurement, ns.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// Length of the measurement.
    pub duration_ns: u64,
    /// The hosts.
    pub hosts: Vec<PlannedHost>,
    /// The cables between them.
    pub cables: Vec<PlannedCable>,
    /// Directions of links; cables name them by their place here.
    pub links: Vec<PlannedLink>,
    /// Congestion controls to load.
    pub algorithms: Vec<Algorithm>,
    /// The flows; the receiver's port is [`FIRST_FLOW_PORT`] plus the place here.
    pub flows: Vec<PlannedFlow>,
    /// Who publishes readings.
    pub feeds: Vec<Feed>,
    /// The ACKing border PEP.
    #[serde(default)]
    pub pep: Option<PlannedPep>,
    /// What happens, in order of time.
    pub events: Vec<PlannedEvent>,
    /// Room for records of packets.
    pub packet_records: u32,
    /// Room for records of ACKs.
    pub ack_records: u32,
}

impl Plan {
    /// The links of each cell, by their place.
    #[must_use]
    pub fn cells(&self) -> Vec<Vec<usize>> {
        let mut cells: Vec<Vec<usize>> = Vec::new();
        for (place, cell) in self.links.iter().enumerate().filter_map(|(place, l)| l.cell.map(|cell| (place, cell))) {
            cells.resize_with(cells.len().max(cell + 1), Vec::new);
            cells[cell].push(place);
        }
        cells
    }
}

/// See `bpf/lab/records.h`.
pub const FIRST_FLOW_PORT: u16 = 20000;

/// A host: a network namespace.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedHost {
    /// Its name.
    pub name: String,
    /// What `ip -batch` is to do on it once its cables are there.
    pub setup: Vec<String>,
    /// sysctls: key with dots, value.
    pub sysctls: Vec<(String, String)>,
    /// How it holds back those that send to it.
    pub rx: Option<RxMethod>,
}

/// How a host holds back those that send to it, as `hotcc rx load` calls it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RxMethod {
    /// Hints in a TCP option.
    Arwa,
    /// The receive window.
    Drwa,
}

/// A cable: one end on each of two hosts, its middle in the namespace of cables.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedCable {
    /// Its two ends.
    pub ends: [End; 2],
    /// Largest IP packet.
    pub mtu: u32,
    /// Largest bundle of packets.
    pub offload_segments: u32,
}

/// One end of a cable.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct End {
    /// Host, by its place.
    pub host: usize,
    /// Interface on the host.
    pub device: String,
    /// Link, by its place, of what the host receives here.
    pub receives: usize,
}

/// Hardware address of the interface at one end of a cable, which neighbours are told beforehand.
#[must_use]
pub fn mac(cable: usize, side: usize) -> String {
    format!("02:00:00:{:02x}:{:02x}:{:02x}", cable >> 8, cable & 255, side + 1)
}

/// One direction of a link.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PlannedLink {
    /// `NAME:FROM>TO`.
    pub name: String,
    /// Seed of its losses, jitter and reordering.
    pub seed: u64,
    /// Length of a step.
    pub step_ns: u64,
    /// Rates, bit/s, with for how many steps each; none: no limit. They cover the whole run: within a step, rate times
    /// nanoseconds must stay below 2^64, and 20 Mbit/s get there in 15 minutes.
    pub rates: Vec<(u32, u64)>,
    /// Room in the queue.
    pub queue_bytes: u64,
    /// Queue from which packets are marked; 0: never.
    pub mark_bytes: u64,
    /// What is dropped before the queue.
    #[serde(default)]
    pub police: Option<PlannedPolice>,
    /// What follows the queue, in order of time; the first is from 0.
    pub phases: Vec<PlannedPhase>,
    /// Cell whose air it shares, from 0; the rates are those of the whole cell then.
    #[serde(default)]
    pub cell: Option<usize>,
}

impl PlannedLink {
    /// Whether what comes to it is written down.
    #[must_use]
    pub fn keeps_records(&self) -> bool {
        !self.rates.is_empty() || self.police.is_some() || self.phases.iter().any(|p| p.loss > 0.0 || p.bit_error > 0.0)
    }

    /// Rate in a step, bit/s; that of the last one after the end.
    pub fn rates_by_step(&self) -> impl Iterator<Item = u64> + '_ {
        self.rates.iter().flat_map(|(count, rate)| std::iter::repeat_n(*rate, *count as usize))
    }
}

/// A token bucket without a queue.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedPolice {
    /// At which it fills.
    pub rate_bps: u64,
    /// What it holds.
    pub burst_bytes: u64,
}

/// Delay and loss from a moment on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PlannedPhase {
    /// From when.
    pub from_ns: u64,
    /// Delay.
    pub delay_ns: u64,
    /// Up to this much more.
    pub jitter_ns: u64,
    /// Share of packets that come later than the ones behind them.
    pub reorder: f64,
    /// How much later.
    pub hold_ns: u64,
    /// Share of packets lost.
    pub loss: f64,
    /// Share of bits that go wrong.
    pub bit_error: f64,
}

/// One of ours or an object file, as it is to be loaded.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Algorithm {
    /// As `hotcc load` takes it: a built-in name, or a path in the guest.
    pub object: String,
    /// Name to register it under.
    pub cc: String,
    /// Profile.
    pub profile: String,
    /// `tunable=value`.
    pub set: Vec<String>,
}

/// One flow.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedFlow {
    /// Its name.
    pub name: String,
    /// Sender, by its place.
    pub from: usize,
    /// Receiver, by its place.
    pub to: usize,
    /// The receiver's address.
    pub address: Ipv4Addr,
    /// Congestion control; `None`: UDP.
    pub cc: Option<String>,
    /// Where in the algorithm's state the watched field is: offset and size.
    pub watch: Option<(u32, u32)>,
    /// When it starts.
    pub start_ns: u64,
    /// When it is stopped.
    pub stop_ns: u64,
    /// How much it sends.
    pub bytes: Option<u64>,
    /// What the application writes per second, and in which pieces.
    pub pace: Option<Pace>,
    /// Whether TCP itself spaces its packets, whatever the congestion control.
    pub paced: bool,
    /// Links that its data passes, by their place, in order.
    pub way: Vec<usize>,
}

/// An application that does not always have something to send.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Pace {
    /// Time between writes.
    pub interval_ns: u64,
    /// Bytes of each.
    pub write_bytes: u32,
}

/// The agents of a PEP.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PlannedPep {
    /// Host at the border, by its place.
    pub border: usize,
    /// Its interfaces towards the servers.
    pub internet: Vec<String>,
    /// All others.
    pub access: Vec<String>,
    /// The servers: host, by its place, and the address that its flows have.
    pub servers: Vec<(usize, Ipv4Addr)>,
    /// Segments until a report.
    pub segments: Option<u32>,
    /// Time until a report.
    pub delay_us: Option<u32>,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What may be wrong with a PEP.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The border's agent is killed after a third of the run, and starts again after two thirds.
    Dies,
    /// Its datagrams take 500 ms longer.
    Delayed,
    /// Each of its datagrams comes again, 100 ms and a second later.
    Replayed,
    /// Reports say that all was seen, whatever was.
    SeesAll,
    /// Reports say that what is still on its way was seen, too.
    SeesAhead,
    /// Reports say that a segment in every 16 was not seen, though it was.
    SeesHoles,
}

impl Fault {
    /// Whether it is made on the way of the datagrams.
    #[must_use]
    pub fn is_on_the_way(self) -> bool {
        !matches!(self, Self::None | Self::Dies)
    }
}

/// Readings of one host's radio.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Feed {
    /// Whose.
    pub address: Ipv4Addr,
    /// When they are no longer believed.
    pub max_age_ms: u32,
    /// Time between them.
    pub period_ms: u32,
    /// The readings, in order of time.
    pub readings: Vec<PlannedReading>,
}

/// One reading.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedReading {
    /// When it is published.
    pub at_ns: u64,
    /// When it was made.
    pub made_ns: u64,
    /// SINR, dB.
    pub sinr_db: Option<f32>,
    /// Running average, dB.
    pub average_db: Option<f32>,
    /// Capacity, bit/s.
    pub capacity_bps: Option<u64>,
    /// Serving cell: changes of it so far.
    pub cell: u32,
}

/// Something that happens.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedEvent {
    /// When.
    pub at_ns: u64,
    /// What.
    pub action: Action,
}

/// Follows a route's change in the log if the change is published to flows.
pub const PATH_PUBLISHED: &str = ", published as a new path";

/// What can happen. Changes of links are in the links' rates and phases and need no action.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Another implementation behind a name, open connections included.
    Swap {
        /// The name.
        cc: String,
        /// What the scenario calls the new one.
        new: String,
        /// The new one as `hotcc swap` takes it: a built-in name, or a path in the guest.
        object: String,
    },
    /// Tunables.
    Tune {
        /// The name.
        cc: String,
        /// `tunable=value`.
        set: Vec<String>,
    },
    /// The border's agent of a PEP: whether it runs from now on. It ends as by a crash.
    Border(bool),
    /// A host's routing table.
    Route {
        /// The host, by its place.
        host: usize,
        /// What `ip` is to do.
        arguments: String,
        /// Whether the change is published, as `hotcc paths watch` does.
        watched: bool,
    },
    /// Something that is done already, for the log.
    Note(String),
}
