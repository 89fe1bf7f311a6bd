//! A scenario file as types: hosts, links, radio, flows and events.

use super::pep::Pep;
use super::quantity::{Probability, Queue, Rate};
use crate::algorithms;
use crate::results::Expected;
use hotcc_channel_model::{FeederSpec, RadioSpec};
use hotcc_lab_proto::plan::RxMethod;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// What is wrong with a scenario file, and where.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Its parts do not go together.
    #[error("{}: case {case}: {why}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// With which swept values.
        case: String,
        /// What is wrong.
        why: String,
    },
}

/// A scenario, with what is swept filled in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name; that of the file without `.toml` where it has none.
    #[serde(default)]
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub summary: String,
    /// The paper whose set-up it is.
    pub paper: Option<String>,
    /// Length of the measurement.
    pub duration_s: Spanned<f64>,
    /// Seeds of everything random; one run each.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// Period of the series.
    #[serde(default = "series_ms")]
    pub series_ms: Spanned<u64>,
    /// Whether tables show two senders that know the capacity.
    #[serde(default = "no")]
    pub bounds: Spanned<bool>,
    /// Values that `"$key"` stands for, one case for each combination.
    #[serde(default)]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Congestion controls that the lab loads under names of their own, so that profiles and tunables can be compared.
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
    /// Its radios.
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
    /// What happens while they run.
    #[serde(default)]
    pub event: Vec<Event>,
    /// The paper's figures.
    #[serde(default)]
    pub expected: Vec<Spanned<Expected>>,
}

impl Scenario {
    /// The radio of that name.
    #[must_use]
    pub fn radio(&self, name: &str) -> Option<&Spanned<RadioSpec>> {
        self.radio.iter().find(|radio| radio.get_ref().name() == name)
    }

    /// Those of its flows' congestion controls that the lab loads.
    pub(crate) fn loaded_ccs(&self) -> impl Iterator<Item = &str> {
        let ccs = self.flow.iter().filter_map(|flow| flow.cc.as_ref()).map(|cc| cc.get_ref().as_str());
        ccs.filter(|cc| algorithms::is_loaded(cc))
    }

    /// The object files that flows run, and those that events put in the place of others.
    pub fn object_files(&self) -> impl Iterator<Item = &Spanned<String>> {
        let of_flows = self.flow.iter().filter_map(|flow| flow.cc.as_ref());
        let of_swaps = self.event.iter().filter_map(|event| event.swap.as_ref()).map(|swap| &swap.new);
        of_flows.chain(of_swaps).filter(|cc| algorithms::is_object_file(cc.get_ref()))
    }

    /// The sysctls that it sets, of every host and of single ones.
    pub(crate) fn sysctls(&self) -> impl Iterator<Item = (&String, &Spanned<toml::Value>)> {
        self.host.iter().flat_map(|host| &host.sysctl).chain(&self.sysctl)
    }

    /// How many hosts have that name.
    pub(crate) fn host_count(&self, name: &str) -> u32 {
        self.host.iter().find(|h| h.name.get_ref() == name).map_or(1, |h| *h.count.get_ref())
    }

    /// Its cells, and how many links share each.
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

    /// Trace files that it names, as it names them.
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

/// A host, or several of a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name; `NAME-1`, `NAME-2`, … if there are several.
    pub name: Spanned<String>,
    /// How many.
    #[serde(default = "one")]
    pub count: Spanned<u32>,
    /// How it holds back those that send to it.
    #[serde(default = "no_receiver")]
    pub rx: Spanned<Rx>,
    /// Whether algorithms learn of changes of its routes.
    #[serde(default = "no")]
    pub watch_paths: Spanned<bool>,
    /// sysctls of this host, over those of all.
    #[serde(default)]
    pub sysctl: BTreeMap<String, Spanned<toml::Value>>,
}

/// `hotcc rx load METHOD`, for the sockets of one host.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Rx {
    /// Not at all: the kernel tunes its buffer, and grants what is free in it.
    #[default]
    None,
    /// By hints.
    Arwa,
    /// By the window it grants.
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

/// A link. With a host that there are several of: one link for each.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name.
    pub name: Spanned<String>,
    /// The two hosts.
    pub between: Spanned<[String; 2]>,
    /// Largest IP packet, bytes.
    #[serde(default = "mtu")]
    pub mtu: Spanned<u32>,
    /// Packets that a host may hand over as one (segmentation offload); more than one makes fast links cheaper to
    /// simulate, and queue and pacing coarser.
    #[serde(default = "one")]
    pub offload_segments: Spanned<u32>,
    /// Both directions.
    #[serde(default)]
    pub both: Way,
    /// From the first host to the second: what differs from `both`.
    #[serde(default)]
    pub forward: Way,
    /// From the second host to the first: what differs from `both`.
    #[serde(default)]
    pub reverse: Way,
}

fn mtu() -> Spanned<u32> {
    Spanned::new(0..0, 1500)
}

/// One direction of a link. What is absent: no limit, no delay, no loss.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// Rate, counted in bytes of IP.
    pub rate: Option<Spanned<Rate>>,
    /// Radio that says the rate; of several links each has a realisation of its own.
    pub radio: Option<Spanned<String>>,
    /// Cell that has this rate, and that all links share which name it.
    pub cell: Option<Spanned<String>>,
    /// Token bucket that drops what exceeds it, before the queue.
    pub police: Option<Spanned<Police>>,
    /// Room in the queue; one BDP where a rate is given and this is not.
    pub queue: Option<Spanned<Queue>>,
    /// Propagation delay.
    pub delay_ms: Option<Spanned<f64>>,
    /// Up to this much more delay, evenly spread; order is kept.
    pub jitter_ms: Option<Spanned<f64>>,
    /// Packets lost after the queue.
    pub loss: Option<Spanned<Probability>>,
    /// Bits that go wrong; a packet with one is lost.
    pub bit_error: Option<Spanned<Probability>>,
    /// Packets that come later than the ones behind them.
    pub reorder: Option<Spanned<Probability>>,
    /// How much later.
    pub reorder_ms: Option<Spanned<f64>>,
    /// Queue from which ECN-capable packets are marked.
    pub mark_above: Option<Spanned<Queue>>,
}

/// A policer, as operators have for a tariff: it queues nothing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    /// Rate at which the bucket fills.
    pub rate: Spanned<Rate>,
    /// What it holds.
    pub burst: Spanned<Queue>,
}

impl Way {
    /// This, with `over` on top.
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

/// Who publishes a radio's readings, and to which link of the radio map.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feeder {
    /// The radio.
    pub radio: Spanned<String>,
    /// The host whose address the readings are about.
    pub towards: Spanned<String>,
    /// How it reads.
    pub readings: Spanned<FeederSpec>,
    /// Which of the read values it publishes.
    #[serde(default)]
    pub publish: Publish,
    /// Age at which readers stop to believe a reading; from the period where it is absent.
    pub max_age_ms: Option<u32>,
    /// Times without readings: from, until.
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
    /// Whether SINR is published.
    #[must_use]
    pub fn has_sinr(self) -> bool {
        matches!(self, Self::Sinr | Self::Both)
    }

    /// Whether capacity is published.
    #[must_use]
    pub fn has_capacity(self) -> bool {
        matches!(self, Self::Capacity | Self::Both)
    }
}

/// What a flow is made of.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A TCP connection.
    #[default]
    Tcp,
    /// Datagrams at a constant rate.
    Udp,
}

/// One of ours, or an object file, with a profile and tunables, under a name that flows can use as `cc`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: Spanned<String>,
    /// Which of ours, or an object file.
    pub cc: Spanned<String>,
    /// Profile.
    pub profile: Option<Spanned<String>>,
    /// Tunables.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
}

/// A flow, or several of a kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name; `NAME-1`, `NAME-2`, … if there are several.
    pub name: Spanned<String>,
    /// TCP or UDP.
    #[serde(default)]
    pub kind: Kind,
    /// Sender.
    pub from: Spanned<String>,
    /// Receiver; with several hosts of that name, a flow to each.
    pub to: Spanned<String>,
    /// How many, to each receiver.
    #[serde(default = "one")]
    pub count: Spanned<u32>,
    /// Congestion control: one of ours, of the kernel, a variant, or an object file.
    pub cc: Option<Spanned<String>>,
    /// Profile of one that the lab loads.
    pub profile: Option<Spanned<String>>,
    /// Tunables of one that the lab loads.
    #[serde(default)]
    pub set: BTreeMap<String, toml::Value>,
    /// Field of the algorithm's per-flow state to write into the series.
    pub watch: Option<Spanned<String>>,
    /// When the first one starts.
    #[serde(default)]
    pub start_s: f64,
    /// How much later each further one starts.
    #[serde(default)]
    pub stagger_s: f64,
    /// When it stops; at the end of the run where it is absent.
    pub stop_s: Option<Spanned<f64>>,
    /// How much it sends; as much as it can where this is absent.
    pub bytes: Option<Spanned<u64>>,
    /// Whether TCP spaces its packets itself, whatever the congestion control.
    pub paced: Option<Spanned<bool>>,
    /// Rate of the application: of UDP's packets, or of what is written to TCP.
    pub rate: Option<Spanned<Rate>>,
    /// Size of UDP's packets or of TCP's writes at `rate`, bytes.
    pub write_bytes: Option<Spanned<u32>>,
}

/// Something that happens; exactly one key beside `at_s`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub at_s: Spanned<f64>,
    /// Another implementation for a name, open connections included.
    pub swap: Option<Swap>,
    /// Another rate, delay or loss of a link, as a new route has.
    pub change: Option<Change>,
    /// A break, then another cell.
    pub handover: Option<Handover>,
    /// Another next hop for a destination.
    pub route: Option<Route>,
    /// Tunables while it runs.
    pub tune: Option<Tune>,
}

impl Event {
    /// The congestion control that is swapped or tuned.
    pub(crate) fn cc(&self) -> Option<&Spanned<String>> {
        self.swap.as_ref().map(|swap| &swap.cc).or(self.tune.as_ref().map(|tune| &tune.cc))
    }
}

/// `hotcc swap CC NEW --live`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Swap {
    /// What is replaced.
    pub cc: Spanned<String>,
    /// By which of ours, or an object file.
    pub new: Spanned<String>,
}

/// `hotcc set CC k=v`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// Which.
    pub cc: Spanned<String>,
    /// To what.
    pub set: BTreeMap<String, toml::Value>,
}

/// New properties of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The link.
    pub link: Spanned<String>,
    /// In both directions.
    #[serde(default)]
    pub both: Way,
    /// From its first host to its second.
    #[serde(default)]
    pub forward: Way,
    /// From its second host to its first.
    #[serde(default)]
    pub reverse: Way,
}

/// A radio link goes over to another cell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The link.
    pub link: Spanned<String>,
    /// How long nothing is served; packets wait.
    pub gap_ms: f64,
    /// Radio from then on, in the direction that a radio drives.
    pub radio: Spanned<String>,
    /// Propagation delay from then on.
    pub delay_ms: Option<Spanned<f64>>,
}

/// Another way through the network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Host whose routing table changes.
    pub host: Spanned<String>,
    /// Destination.
    pub to: Spanned<String>,
    /// Neighbour that packets go to from then on.
    pub via: Spanned<String>,
}
