//! The plan that the guest executes: a scenario's case with a seed, in which every number is fixed.

use crate::queue::{Kind, Parameters};
use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

/// Everything that the guest needs. Times are in nanoseconds since the start of the measurement.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// Length of the measurement.
    pub duration_ns: u64,
    /// The hosts.
    pub hosts: Vec<PlannedHost>,
    /// The cables between them.
    pub cables: Vec<PlannedCable>,
    /// Directions of links; cables refer to them by their index here.
    pub links: Vec<PlannedLink>,
    /// Congestion controls to load.
    pub algorithms: Vec<Algorithm>,
    /// The flows. The receiver's port is [`FIRST_FLOW_PORT`] plus the flow's index here.
    pub flows: Vec<PlannedFlow>,
    /// The feeds that publish radio readings.
    pub feeds: Vec<Feed>,
    /// The ACKing border PEP.
    #[serde(default)]
    pub pep: Option<PlannedPep>,
    /// Events, in order of time.
    pub events: Vec<PlannedEvent>,
    /// Maximum number of packet records.
    pub packet_records: u32,
    /// Maximum number of ACK records.
    pub ack_records: u32,
}

impl Plan {
    /// Returns the links of each cell, by their indices. A link that has a queueing discipline and shares no air is a
    /// cell of its own.
    #[must_use]
    pub fn cells(&self) -> Vec<Vec<usize>> {
        let mut cells: Vec<Vec<usize>> = Vec::new();
        for (place, cell) in self.links.iter().enumerate().filter_map(|(place, l)| l.cell.map(|cell| (place, cell))) {
            cells.resize_with(cells.len().max(cell + 1), Vec::new);
            cells[cell].push(place);
        }
        let alone = self.links.iter().enumerate().filter(|(_, link)| link.cell.is_none() && link.discipline.is_some());
        cells.extend(alone.map(|(place, _)| vec![place]));
        cells
    }

    /// Returns for each link the index of its cell, if it is in one.
    #[must_use]
    pub fn cell_of_links(&self) -> Vec<Option<usize>> {
        let cells = self.cells();
        (0..self.links.len()).map(|link| cells.iter().position(|cell| cell.contains(&link))).collect()
    }
}

/// The receiver's port of flow 0; see `bpf/lab/records.h`.
pub const FIRST_FLOW_PORT: u16 = 20000;

/// A host's `tcp_rmem` and `tcp_wmem` where a scenario sets none: buffers that do not limit.
pub const USUAL_BUFFERS: &str = "4096 1048576 67108864";

/// A host: a network namespace.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedHost {
    /// Its name.
    pub name: String,
    /// Lines for `ip -batch` on this host, to run once its cables exist.
    pub setup: Vec<String>,
    /// sysctls: the key, with dots, and the value.
    pub sysctls: Vec<(String, String)>,
    /// How the host slows down its senders, if it does.
    pub rx: Option<RxMethod>,
}

/// How a host slows down its senders; the names are those of `hotcc rx load`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RxMethod {
    /// Hints in a TCP option.
    Arwa,
    /// The receive window.
    Drwa,
}

/// A cable: each end is on a host, and the middle is in the namespace of cables.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedCable {
    /// Its two ends.
    pub ends: [End; 2],
    /// Maximum size of an IP packet.
    pub mtu: u32,
    /// Maximum number of segments in a bundle of packets (GSO).
    pub offload_segments: u32,
}

/// One end of a cable.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct End {
    /// Index of the host.
    pub host: usize,
    /// Interface on the host.
    pub device: String,
    /// Index of the link whose packets the host receives here.
    pub receives: usize,
}

/// Returns the hardware address of the interface at one end of a cable. Neighbour entries with it are added in advance.
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
    /// Rates in bit/s, each with the number of steps that it lasts; empty if the rate is unlimited. They cover the
    /// whole run. Within a step, the rate times the nanoseconds must stay below 2^64, which 20 Mbit/s reach in 15
    /// minutes.
    pub rates: Vec<(u32, u64)>,
    /// Capacity of the queue.
    pub queue_bytes: u64,
    /// Queue length above which packets are marked; 0 if never.
    pub mark_bytes: u64,
    /// Policer before the queue.
    #[serde(default)]
    pub police: Option<PlannedPolice>,
    /// How the queue chooses what to send, drop and mark; `None` for drop-tail.
    #[serde(default)]
    pub discipline: Option<Parameters>,
    /// What follows the queue, in order of time; the first phase starts at 0.
    pub phases: Vec<PlannedPhase>,
    /// Index of the cell whose air the link shares; the rates are then those of the whole cell.
    #[serde(default)]
    pub cell: Option<usize>,
}

impl PlannedLink {
    /// Returns whether the link keeps records of the packets that arrive.
    #[must_use]
    pub fn keeps_records(&self) -> bool {
        !self.rates.is_empty() || self.police.is_some() || self.phases.iter().any(|p| p.loss > 0.0 || p.bit_error > 0.0)
    }

    /// Returns whether the link may mark packets (CE).
    #[must_use]
    pub fn marks(&self) -> bool {
        self.mark_bytes > 0 || self.discipline.is_some_and(|queue| queue.ecn || queue.kind == Kind::Dualpi2)
    }

    /// Returns the rate of each step, in bit/s.
    pub fn rates_by_step(&self) -> impl Iterator<Item = u64> + '_ {
        self.rates.iter().flat_map(|(count, rate)| std::iter::repeat_n(*rate, *count as usize))
    }
}

/// A policer: a token bucket without a queue.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedPolice {
    /// Rate at which the bucket fills.
    pub rate_bps: u64,
    /// Capacity of the bucket.
    pub burst_bytes: u64,
}

/// Delay and loss from some time on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct PlannedPhase {
    /// Start of the phase.
    pub from_ns: u64,
    /// Delay.
    pub delay_ns: u64,
    /// Maximum of the additional random delay.
    pub jitter_ns: u64,
    /// Share of packets that arrive later than packets sent after them.
    pub reorder: f64,
    /// Additional delay of a reordered packet.
    pub hold_ns: u64,
    /// Share of packets that are lost.
    pub loss: f64,
    /// Share of bits that are wrong.
    pub bit_error: f64,
}

/// A built-in algorithm or an object file, with how to load it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Algorithm {
    /// The argument of `hotcc load`: a built-in name, or a path in the guest.
    pub object: String,
    /// Name under which to register it.
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
    /// Index of the sending host.
    pub from: usize,
    /// Index of the receiving host.
    pub to: usize,
    /// The receiver's address.
    pub address: Ipv4Addr,
    /// Congestion control; `None` for UDP.
    pub cc: Option<String>,
    /// Offset and size of the watched field in the algorithm's state.
    pub watch: Option<(u32, u32)>,
    /// Time at which the flow starts.
    pub start_ns: u64,
    /// Time at which the flow is stopped.
    pub stop_ns: u64,
    /// Bytes to send; `None` if there is no limit.
    pub bytes: Option<u64>,
    /// Time between the application's writes, and their size; `None` if it always has data to send.
    pub pace: Option<Pace>,
    /// Whether TCP itself paces the flow, whatever the congestion control is.
    pub paced: bool,
    /// Indices of the links that the flow's data pass, in order.
    pub way: Vec<usize>,
}

/// An application that does not always have something to send.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Pace {
    /// Time between writes.
    pub interval_ns: u64,
    /// Bytes of each write.
    pub write_bytes: u32,
}

/// The agents of a PEP, and the hosts that they run on.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PlannedPep {
    /// Index of the host at the border.
    pub border: usize,
    /// The border's interfaces towards the servers.
    pub internet: Vec<String>,
    /// All its other interfaces.
    pub access: Vec<String>,
    /// The servers: the index of the host, and the address that its flows use.
    pub servers: Vec<(usize, Ipv4Addr)>,
    /// Segments after which the border sends a report; `None` for the agent's default.
    pub segments: Option<u32>,
    /// Time after which the border sends a report; `None` for the agent's default.
    pub delay_us: Option<u32>,
    /// What is wrong with the PEP.
    pub fault: Fault,
}

/// What may be wrong with a PEP.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The border's agent is killed after one third of the run, and started again after two thirds.
    Dies,
    /// The border's datagrams take 500 ms longer.
    Delayed,
    /// Each of the border's datagrams is repeated 100 ms and one second later.
    Replayed,
    /// Reports claim that the border saw every segment.
    SeesAll,
    /// Reports claim that the border also saw segments that have not reached it yet.
    SeesAhead,
    /// Reports claim that the border missed one segment in every 16, although it saw them all.
    SeesHoles,
}

impl Fault {
    /// Returns whether the fault applies to the datagrams between border and server.
    #[must_use]
    pub fn is_on_the_way(self) -> bool {
        !matches!(self, Self::None | Self::Dies)
    }
}

/// Readings of one host's radio link.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Feed {
    /// Address of the host.
    pub address: Ipv4Addr,
    /// Age at which readings become stale.
    pub max_age_ms: u32,
    /// Time between readings.
    pub period_ms: u32,
    /// The readings, in order of time.
    pub readings: Vec<PlannedReading>,
}

/// One reading.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedReading {
    /// Time at which the reading is published.
    pub at_ns: u64,
    /// Time at which the reading was taken.
    pub made_ns: u64,
    /// SINR, dB.
    pub sinr_db: Option<f32>,
    /// Running average, dB.
    pub average_db: Option<f32>,
    /// Capacity, bit/s.
    pub capacity_bps: Option<u64>,
    /// Number of changes of the serving cell so far.
    pub cell: u32,
}

/// An event.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct PlannedEvent {
    /// Time of the event.
    pub at_ns: u64,
    /// What happens.
    pub action: Action,
}

/// Text that follows a route change in the log if the change is published to flows.
pub const PATH_PUBLISHED: &str = ", published as a new path";

/// What an event does. Changes of links are part of the links' rates and phases and need no action.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Replaces the implementation behind a name, including that of open connections.
    Swap {
        /// The name that is registered.
        cc: String,
        /// The scenario's name of the new implementation.
        new: String,
        /// The new implementation as an argument of `hotcc swap`: a built-in name, or a path in the guest.
        object: String,
    },
    /// Sets tunables.
    Tune {
        /// The name that is registered.
        cc: String,
        /// `tunable=value`.
        set: Vec<String>,
    },
    /// Starts the agent at the PEP's border (`true`), or kills it as a crash would (`false`).
    Border(bool),
    /// Changes a host's routing table.
    Route {
        /// Index of the host.
        host: usize,
        /// Arguments of `ip`.
        arguments: String,
        /// Whether the change is published to flows, as `hotcc paths watch` does.
        watched: bool,
    },
    /// Adds a line to the log for something that is done already.
    Note(String),
}
