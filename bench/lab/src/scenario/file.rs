//! The types of a scenario file: hosts, links, radio, flows and events.

use super::pep::Pep;
use super::quantity::{Probability, Queue, Rate};
use super::queue::LinkQueue;
use crate::algorithms;
use crate::results::Expected;
use hotcc_channel_model::{FeederSpec, RadioSpec};
use hotcc_lab_proto::plan::RxMethod;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// An error in a scenario file, with its position.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: std::io::Error,
    },
    /// A line has an error.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The error.
        what: String,
    },
    /// The parts of the scenario do not fit together.
    #[error("{}: case {case}: {why}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// The case, as its swept values.
        case: String,
        /// The error.
        why: String,
    },
}

/// A scenario, with all swept values filled in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name; by default, that of the file without `.toml`.
    #[serde(default)]
    pub name: String,
    /// Purpose of the scenario, in a sentence.
    #[serde(default)]
    pub summary: String,
    /// The paper whose set-up the scenario follows.
    pub paper: Option<String>,
    /// Length of the measurement.
    pub duration_s: Spanned<f64>,
    /// Seeds of all randomness; there is one run per seed.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// Period of the series.
    #[serde(default = "series_ms")]
    pub series_ms: Spanned<u64>,
    /// Whether tables also show two senders that know the capacity.
    #[serde(default = "no")]
    pub bounds: Spanned<bool>,
    /// The values for each `"$key"`; there is one case for each combination.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Congestion controls that the lab loads under their own names, so that profiles and tunables can be compared.
    #[serde(default)]
    pub variant: Vec<Variant>,
    /// sysctls of every host.
    #[serde(default)]
    pub sysctl: BTreeMap<String, Spanned<toml::Value>>,
    /// The hosts.
    #[serde(default)]
    pub host: Vec<Host>,
    /// The links between them.
    #[serde(default)]
    pub link: Vec<Link>,
    /// The radios.
    #[serde(default)]
    pub radio: Vec<Spanned<RadioSpec>>,
    /// Feeders that publish a radio's readings.
    #[serde(default)]
    pub feeder: Vec<Feeder>,
    /// The ACKing border PEP.
    #[serde(default)]
    pub pep: Vec<Pep>,
    /// The flows.
    #[serde(default)]
    pub flow: Vec<Flow>,
    /// Events during the run.
    #[serde(default)]
    pub event: Vec<Event>,
    /// Expected figures: those of the paper, and limits.
    #[serde(default)]
    pub expected: Vec<Spanned<Expected>>,
}

impl Scenario {
    /// Returns the radio with this name.
    #[must_use]
    pub fn radio(&self, name: &str) -> Option<&Spanned<RadioSpec>> {
        self.radio.iter().find(|radio| radio.get_ref().name() == name)
    }

    /// Returns the congestion controls of the flows that the lab loads.
    pub(crate) fn loaded_ccs(&self) -> impl Iterator<Item = &str> {
        let ccs = self.flow.iter().filter_map(|flow| flow.cc.as_ref()).map(|cc| cc.get_ref().as_str());
        ccs.filter(|cc| algorithms::is_loaded(cc))
    }

    /// Returns the object files that flows use, and those that events swap in.
    pub fn object_files(&self) -> impl Iterator<Item = &Spanned<String>> {
        let of_flows = self.flow.iter().filter_map(|flow| flow.cc.as_ref());
        let of_swaps = self.event.iter().filter_map(|event| event.swap.as_ref()).map(|swap| &swap.new);
        of_flows.chain(of_swaps).filter(|cc| algorithms::is_object_file(cc.get_ref()))
    }

    /// Returns the sysctls that the scenario sets, for all hosts and for single ones.
    pub(crate) fn sysctls(&self) -> impl Iterator<Item = (&String, &Spanned<toml::Value>)> {
        self.host.iter().flat_map(|host| &host.sysctl).chain(&self.sysctl)
    }

    /// Returns the number of hosts with this name.
    pub(crate) fn host_count(&self, name: &str) -> u32 {
        self.host.iter().find(|h| h.name.get_ref() == name).map_or(1, |h| *h.count.get_ref())
    }

    /// Returns the cells, and the number of links that share each.
    #[must_use]
    pub fn cells(&self) -> BTreeMap<&String, u32> {
        let mut cells = BTreeMap::new();
        for link in &self.link {
            let links: u32 = link.between.get_ref().iter().map(|host| self.host_count(host)).product();
            for over in [&link.forward, &link.reverse] {
                if let Some(cell) = over.cell.as_ref().or(link.both.cell.as_ref()) {
                    *cells.entry(cell.get_ref()).or_default() += links;
                }
            }
        }
        cells
    }

    /// Returns the trace files as the scenario names them.
    pub fn trace_files(&self) -> impl Iterator<Item = &Path> {
        let traces = self.radio.iter().filter_map(|radio| match radio.get_ref() {
            RadioSpec::Trace(trace) => Some(trace),
            _ => None,
        });
        traces.flat_map(|trace| [Some(&trace.file), trace.rtt_file.as_ref()]).flatten().map(PathBuf::as_path)
    }
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

fn series_ms() -> Spanned<u64> {
    Spanned::new(0..0, 100)
}

fn no() -> Spanned<bool> {
    Spanned::new(0..0, false)
}

fn no_receiver() -> Spanned<Rx> {
    Spanned::new(0..0, Rx::None)
}

fn one() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

/// A host, or several hosts of the same kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Name; `NAME-1`, `NAME-2`, … if there are several.
    pub name: Spanned<String>,
    /// Number of hosts.
    #[serde(default = "one")]
    pub count: Spanned<u32>,
    /// How the host slows down its senders, if it does.
    #[serde(default = "no_receiver")]
    pub rx: Spanned<Rx>,
    /// Whether algorithms are notified of changes of the host's routes.
    #[serde(default = "no")]
    pub watch_paths: Spanned<bool>,
    /// sysctls of this host, which override those of all hosts.
    #[serde(default)]
    pub sysctl: BTreeMap<String, Spanned<toml::Value>>,
}

/// The method of `hotcc rx load METHOD` for the sockets of one host.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Rx {
    /// None: the kernel tunes the host's buffer, and grants the free space in it.
    #[default]
    None,
    /// Hints to the senders.
    Arwa,
    /// The receive window.
    Drwa,
}

impl From<Rx> for Option<RxMethod> {
    fn from(rx: Rx) -> Self {
        match rx {
            Rx::None => None,
            Rx::Arwa => Some(RxMethod::Arwa),
            Rx::Drwa => Some(RxMethod::Drwa),
        }
    }
}

/// A link, or one link per member of a host with a `count`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name.
    pub name: Spanned<String>,
    /// The two hosts.
    pub between: Spanned<[String; 2]>,
    /// Maximum size of an IP packet, in bytes.
    #[serde(default = "mtu")]
    pub mtu: Spanned<u32>,
    /// Number of segments that a host may pass on as one packet (segmentation offload). More than one makes fast links
    /// cheaper to simulate, and queue and pacing coarser.
    #[serde(default = "one")]
    pub offload_segments: Spanned<u32>,
    /// Properties of both directions.
    #[serde(default)]
    pub both: Way,
    /// Properties of the direction from the first host to the second, where they differ from `both`.
    #[serde(default)]
    pub forward: Way,
    /// Properties of the direction from the second host to the first, where they differ from `both`.
    #[serde(default)]
    pub reverse: Way,
}

fn mtu() -> Spanned<u32> {
    Spanned::new(0..0, 1500)
}

/// One direction of a link. By default, it has no limit, no delay and no loss.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Rate, in bytes of IP packets.
    pub rate: Option<Spanned<Rate>>,
    /// Radio that sets the rate. If there are several links, each has its own realisation.
    pub radio: Option<Spanned<String>>,
    /// Cell that has this rate. All links that name the cell share it.
    pub cell: Option<Spanned<String>>,
    /// Token bucket that drops excess packets before the queue.
    pub police: Option<Spanned<Police>>,
    /// Capacity of the queue, by default one BDP if there is a rate; or a queueing discipline.
    pub queue: Option<Spanned<LinkQueue>>,
    /// Propagation delay.
    pub delay_ms: Option<Spanned<f64>>,
    /// Maximum of the additional random delay, which is uniformly distributed; the order of packets is kept.
    pub jitter_ms: Option<Spanned<f64>>,
    /// Probability that a packet is lost after the queue.
    pub loss: Option<Spanned<Probability>>,
    /// Probability that a bit is wrong; a packet with a wrong bit is lost.
    pub bit_error: Option<Spanned<Probability>>,
    /// Probability that a packet is delayed, so that later packets overtake it.
    pub reorder: Option<Spanned<Probability>>,
    /// Additional delay of such a packet.
    pub reorder_ms: Option<Spanned<f64>>,
    /// Queue length above which ECN-capable packets are marked.
    pub mark_above: Option<Spanned<Queue>>,
}

/// A policer, as used by operators to enforce a tariff: it has no queue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    /// Rate at which the bucket fills.
    pub rate: Spanned<Rate>,
    /// Capacity of the bucket.
    pub burst: Spanned<Queue>,
}

impl Way {
    /// Returns these properties, overridden by those in `over`.
    #[must_use]
    pub fn with(&self, over: &Self) -> Self {
        macro_rules! merged {
            ($($field:ident),*) => { Self { $($field: over.$field.clone().or_else(|| self.$field.clone())),* } };
        }
        let mut merged = merged!(
            rate, radio, cell, police, queue, delay_ms, jitter_ms, loss, bit_error, reorder, reorder_ms, mark_above
        );
        if over.rate.is_some() {
            merged.radio = over.radio.clone();
        } else if over.radio.is_some() {
            merged.rate = None;
        }
        merged
    }
}

/// A feeder: publishes a radio's readings for a link of the radio map.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feeder {
    /// The radio.
    pub radio: Spanned<String>,
    /// The host whose address the readings are about.
    pub towards: Spanned<String>,
    /// How the feeder reads the radio.
    pub readings: Spanned<FeederSpec>,
    /// The values that it publishes.
    #[serde(default)]
    pub publish: Publish,
    /// Age at which a reading becomes stale; by default, it follows from the period.
    pub max_age_ms: Option<u32>,
    /// Intervals without readings: start, end.
    #[serde(default)]
    pub outages_s: Vec<Spanned<[f64; 2]>>,
}

/// Values that a feeder publishes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Publish {
    /// SINR and its average.
    #[default]
    Sinr,
    /// Capacity.
    Capacity,
    /// SINR, its average and capacity.
    Both,
    /// Nothing, as if the feeder had no source.
    None,
}

impl Publish {
    /// Returns whether SINR is published.
    #[must_use]
    pub fn has_sinr(self) -> bool {
        matches!(self, Self::Sinr | Self::Both)
    }

    /// Returns whether capacity is published.
    #[must_use]
    pub fn has_capacity(self) -> bool {
        matches!(self, Self::Capacity | Self::Both)
    }
}

/// The kind of a flow.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A TCP connection.
    #[default]
    Tcp,
    /// Datagrams at a constant rate.
    Udp,
}

/// A hotcc algorithm or an object file, with a profile and tunables, under a name that flows can use as `cc`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Name.
    pub name: Spanned<String>,
    /// A hotcc algorithm, or an object file.
    pub cc: Spanned<String>,
    /// Profile.
    pub profile: Option<Spanned<String>>,
    /// Tunables.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
}

/// A flow, or several flows of the same kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Name; `NAME-1`, `NAME-2`, … if there are several.
    pub name: Spanned<String>,
    /// TCP or UDP.
    #[serde(default)]
    pub kind: Kind,
    /// Sender.
    pub from: Spanned<String>,
    /// Receiver; if several hosts have this name, there is a flow to each.
    pub to: Spanned<String>,
    /// Number of flows to each receiver.
    #[serde(default = "one")]
    pub count: Spanned<u32>,
    /// Congestion control: a hotcc algorithm, one of the kernel, a variant, or an object file.
    pub cc: Option<Spanned<String>>,
    /// Profile, if the lab loads the congestion control.
    pub profile: Option<Spanned<String>>,
    /// Tunables, if the lab loads the congestion control.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Field of the algorithm's per-flow state to include in the series.
    pub watch: Option<Spanned<String>>,
    /// Time at which the first flow starts.
    #[serde(default)]
    pub start_s: f64,
    /// Time between the starts of consecutive flows.
    #[serde(default)]
    pub stagger_s: f64,
    /// Time at which the flow stops; by default, the end of the run.
    pub stop_s: Option<Spanned<f64>>,
    /// Bytes to send; by default, as many as possible.
    pub bytes: Option<Spanned<u64>>,
    /// Whether TCP itself paces the flow, whatever the congestion control is.
    pub paced: Option<Spanned<bool>>,
    /// Rate of the application: of UDP packets, or of writes to TCP.
    pub rate: Option<Spanned<Rate>>,
    /// Size of UDP packets or of TCP writes at `rate`, in bytes.
    pub write_bytes: Option<Spanned<u32>>,
}

/// An event; it has exactly one key in addition to `at_s`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Time of the event.
    pub at_s: Spanned<f64>,
    /// Replaces the implementation behind a name, including that of open connections.
    pub swap: Option<Swap>,
    /// Changes the rate, delay or loss of a link, as a new route would.
    pub change: Option<Change>,
    /// Interrupts a link, then moves it to another cell.
    pub handover: Option<Handover>,
    /// Changes the next hop for a destination.
    pub route: Option<Route>,
    /// Sets tunables during the run.
    pub tune: Option<Tune>,
}

impl Event {
    /// Returns the congestion control that is swapped or tuned.
    pub(crate) fn cc(&self) -> Option<&Spanned<String>> {
        self.swap.as_ref().map(|swap| &swap.cc).or(self.tune.as_ref().map(|tune| &tune.cc))
    }
}

/// `hotcc swap CC NEW --live`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swap {
    /// The congestion control to replace.
    pub cc: Spanned<String>,
    /// The hotcc algorithm or object file that replaces it.
    pub new: Spanned<String>,
}

/// `hotcc set CC k=v`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// The congestion control to tune.
    pub cc: Spanned<String>,
    /// The new values.
    pub set: BTreeMap<String, toml::Value>,
}

/// New properties of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The link.
    pub link: Spanned<String>,
    /// Changes in both directions.
    #[serde(default)]
    pub both: Way,
    /// Changes from the first host to the second.
    #[serde(default)]
    pub forward: Way,
    /// Changes from the second host to the first.
    #[serde(default)]
    pub reverse: Way,
}

/// A handover of a radio link to another cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The link.
    pub link: Spanned<String>,
    /// Length of the interruption; packets wait.
    pub gap_ms: f64,
    /// Radio after the handover, in the direction that a radio drives.
    pub radio: Spanned<String>,
    /// Propagation delay after the handover.
    pub delay_ms: Option<Spanned<f64>>,
}

/// A route change.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Host whose routing table changes.
    pub host: Spanned<String>,
    /// Destination.
    pub to: Spanned<String>,
    /// Neighbour that is the new next hop.
    pub via: Spanned<String>,
}
