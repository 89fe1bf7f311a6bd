//! The metrics page: a snapshot of what was gathered, encoded by `prometheus-client`.
//!
//! The number of values of every label is bounded. A part that could not be read is omitted and counted, never shown as
//! zeros.

use crate::canary::Status;
use crate::policy::Shown;
use crate::policy::figures::Stats;
use crate::sockets::count::{Group, version_label};
use crate::sockets::exported::StateCounts;
use hotcc_abi::histogram::{LOG2_BUCKETS, Log2Histogram};
use hotcc_abi::radio::IndexKey;
use hotcc_abi::rx::RxCounters;
use hotcc_abi::stats::AlgoStats;
use hotcc_abi::version::Counters;
use hotcc_host::error::{Error, Result};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, MetricEncoder, NoLabelSet, prometheus_protobuf, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Maximum number of congestion controls not loaded by hotcc that have a `cc` label of their own; the rest share
/// [`OTHER`].
pub const MAX_OTHER_NAMES: usize = 32;
/// The `cc` label of congestion controls beyond [`MAX_OTHER_NAMES`].
pub const OTHER: &str = "other";
/// Values of `part` in `hotcc_scrape_errors_total`.
pub const PARTS: [&str; 8] = ["algorithms", "stats", "flows", "radio", "commands", "rx", "policy", "canary"];

/// An algorithm of hotcc's that serves.
#[derive(Clone, Debug)]
pub struct Algorithm {
    /// Name of the congestion control.
    pub name: String,
    /// Id of the serving version's struct_ops map.
    pub map_id: u32,
    /// Origin of the object that serves.
    pub object: String,
    /// Profile it started from.
    pub profile: String,
    /// Time at which it began to serve, nanoseconds since 1970; `None` while the switch to it is not finished.
    pub since_unix_ns: Option<u64>,
    /// Swaps and rollbacks of the name so far; `None` likewise.
    pub swaps: Option<u64>,
}

/// Open sockets with one `cc` label.
#[derive(Clone, Debug)]
pub struct Sockets {
    /// Connections and listeners by `version` label.
    pub by_version: BTreeMap<&'static str, (u64, u64)>,
    /// Congestion windows, segments.
    pub cwnd_segments: Log2Histogram,
    /// Smoothed RTTs, microseconds.
    pub srtt_us: Log2Histogram,
    /// Latest delivery rates, kbit/s.
    pub delivery_kbps: Log2Histogram,
    /// Exported fields of the algorithm's state.
    pub state: StateCounts,
}

/// One radio link, as an algorithm would read it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Peers that are reached over it.
    pub key: IndexKey,
    /// Latest SINR, dB; `None` before the first reading.
    pub sinr_db: Option<f64>,
    /// Running average of the SINR, dB.
    pub average_db: Option<f64>,
    /// Age of the SINR or of the capacity, whichever is newer; `u32::MAX` if its timestamp is in the future.
    pub age_ms: Option<u32>,
    /// Whether algorithms use the SINR or a measured capacity: whether there is one that is not stale. `None` if there
    /// is no such value and the feeder has shut down cleanly, because then missing readings are no reason for an alert.
    pub fresh: Option<bool>,
    /// Readings written so far.
    pub updates: u64,
    /// Capacity, bit/s, if the source knows it.
    pub capacity_bps: Option<u64>,
    /// Age of the capacity.
    pub capacity_age_ms: Option<u32>,
    /// Generation of the serving cell.
    pub cell: u32,
}

/// Radio links; only the first are shown.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// Links that are shown.
    pub shown: Vec<Link>,
    /// Number of all links.
    pub total: usize,
}

/// Everything that one scrape found. A part is `None` if it could not be read.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Algorithms of hotcc's.
    pub algorithms: Option<Vec<Algorithm>>,
    /// Monotonic counters of the algorithms that keep them, by name.
    pub stats: Option<Vec<(String, AlgoStats)>>,
    /// Open sockets by `cc` label; also `None` if `algorithms` is `None`.
    pub sockets: Option<BTreeMap<String, Sockets>>,
    /// Radio links.
    pub radio: Option<Links>,
    /// Counts of what commands did.
    pub commands: Option<Counters>,
    /// Counts of what receivers, and senders that follow their hints, did; also `None` if no program that counts was
    /// ever loaded.
    pub rx: Option<RxCounters>,
    /// The policy rules that apply, and what their connections did.
    pub policy: Option<(Shown, Stats)>,
    /// The latest canary.
    pub canary: Option<Status>,
    /// Failures so far of each of [`PARTS`].
    pub errors: [u64; PARTS.len()],
    /// Time that gathering took.
    pub duration: Duration,
}

/// Sums groups by `cc` label. Algorithms of hotcc's always have a label, even without sockets. Of the other names, the
/// first `max_others` have one.
#[must_use]
pub fn by_label(groups: &[Group], ours: &[Algorithm], max_others: usize) -> BTreeMap<String, Sockets> {
    let zero = Log2Histogram { buckets: [0; LOG2_BUCKETS], sum: 0 };
    let empty = Sockets {
        by_version: BTreeMap::new(),
        cwnd_segments: zero,
        srtt_us: zero,
        delivery_kbps: zero,
        state: StateCounts::default(),
    };
    let current: BTreeMap<&str, u32> = ours.iter().map(|a| (a.name.as_str(), a.map_id)).collect();
    let mut others: Vec<&str> = groups.iter().map(|g| g.cc.as_str()).filter(|cc| !current.contains_key(cc)).collect();
    others.sort_unstable();
    others.dedup();
    others.truncate(max_others);
    let mut labels = BTreeMap::new();
    for name in current.keys() {
        let by_version = BTreeMap::from([("current", (0, 0)), ("older", (0, 0))]);
        labels.insert((*name).to_owned(), Sockets { by_version, ..empty.clone() });
    }
    for group in groups {
        let version = version_label(group.map_id, current.get(group.cc.as_str()).copied());
        let own = current.contains_key(group.cc.as_str()) || others.binary_search(&group.cc.as_str()).is_ok();
        let label = if own { group.cc.as_str() } else { OTHER };
        let sockets = labels.entry(label.to_owned()).or_insert_with(|| empty.clone());
        let (connections, listeners) = sockets.by_version.entry(version).or_default();
        *connections += group.counts.connections;
        *listeners += group.counts.listeners;
        add(&mut sockets.cwnd_segments, &group.counts.cwnd_segments);
        add(&mut sockets.srtt_us, &group.counts.srtt_us);
        add(&mut sockets.delivery_kbps, &group.counts.delivery_kbps);
        sockets.state.add(&group.state);
    }
    labels
}

fn add(to: &mut Log2Histogram, from: &Log2Histogram) {
    to.buckets.iter_mut().zip(from.buckets).for_each(|(a, b)| *a += b);
    to.sum += from.sum;
}

/// A fixed range of a histogram's powers of two, converted to base units.
struct Scale {
    first: usize,
    last: usize,
    base_units: fn(f64) -> f64,
}

const SEGMENTS: Scale = Scale { first: 0, last: 16, base_units: |n| n };
const RTT: Scale = Scale { first: 6, last: 24, base_units: |us| us / 1e6 };
const RATE: Scale = Scale { first: 6, last: 27, base_units: |kbps| kbps * 125.0 };
const DURATION: Scale = Scale { first: 0, last: 22, base_units: |ms| ms / 1e3 };

impl Scale {
    /// Returns the upper bound and the count of each bucket. The first bucket includes all lower values; the last, with
    /// bound infinity, all higher ones.
    fn buckets(&self, h: &Log2Histogram) -> Vec<(f64, u64)> {
        let bound = |i: usize| (self.base_units)((1u64 << i) as f64);
        let mut buckets = vec![(bound(self.first), h.buckets[..=self.first].iter().sum())];
        buckets.extend((self.first + 1..=self.last).map(|i| (bound(i), h.buckets[i])));
        buckets.push((f64::INFINITY, h.buckets[self.last + 1..].iter().sum()));
        buckets
    }

    fn sum(&self, h: &Log2Histogram) -> f64 {
        (self.base_units)(h.sum as f64)
    }
}

/// Encodes the whole page as text.
pub fn page(snapshot: Snapshot) -> Result<String> {
    let mut page = String::new();
    text::encode(&mut page, &registry(snapshot)).map_err(|_| Error::failed("cannot encode the metrics"))?;
    Ok(page)
}

/// Encodes the whole page as Prometheus' protobuf messages, which have native histograms beside the classic ones.
pub fn protobuf(snapshot: Snapshot) -> Result<Vec<u8>> {
    prometheus_protobuf::encode_to_vec(&registry(snapshot)).map_err(|_| Error::failed("cannot encode the metrics"))
}

fn registry(snapshot: Snapshot) -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    registry
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let page = &mut Page(encoder);
        page.info("hotcc_build", "Version of the exporter", [labels([("version", env!("CARGO_PKG_VERSION"))])])?;
        self.algorithms.as_deref().map_or(Ok(()), |a| page.algorithms(a))?;
        self.sockets.as_ref().map_or(Ok(()), |s| page.sockets(s))?;
        self.stats.as_deref().map_or(Ok(()), |s| page.stats(s))?;
        self.radio.as_ref().map_or(Ok(()), |r| page.radio(r))?;
        self.commands.as_ref().map_or(Ok(()), |c| page.commands(c))?;
        self.rx.as_ref().map_or(Ok(()), |c| page.rx(c))?;
        if let Some((shown, stats)) = &self.policy {
            page.policy(shown)?;
            page.rules(stats)?;
        }
        self.canary.as_ref().map_or(Ok(()), |status| page.canary(status))?;
        let errors = PARTS.iter().zip(self.errors).map(|(part, n)| (labels([("part", *part)]), n));
        page.counters("hotcc_scrape_errors", "Scrapes without this part, which could not be read", errors)?;
        let seconds = self.duration.as_secs_f64();
        page.gauges("hotcc_scrape_duration_seconds", "Time to gather this page", [(Vec::new(), seconds)])
    }
}

type Labels<'a> = Vec<(&'static str, Cow<'a, str>)>;

fn labels<'a, const N: usize>(pairs: [(&'static str, &'a str); N]) -> Labels<'a> {
    pairs.into_iter().map(|(key, value)| (key, Cow::Borrowed(value))).collect()
}

struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// Encodes one metric family, or nothing if it has no samples.
    fn family<'l, V>(
        &mut self,
        (name, help, kind): (&str, &str, MetricType),
        samples: impl IntoIterator<Item = (Labels<'l>, V)>,
        put: impl Fn(MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in samples {
            // an empty label set would be encoded as `{}`
            if labels.is_empty() {
                return put(family, value);
            }
            put(family.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    fn gauges<'l, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) -> fmt::Result {
        self.family((name, help, MetricType::Gauge), samples, |mut e, v| e.encode_gauge(&v))
    }

    fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, u64)>,
    ) -> fmt::Result {
        let put = |mut e: MetricEncoder<'_>, v| e.encode_counter::<NoLabelSet, _, f64>(&v, None);
        self.family((name, help, MetricType::Counter), samples, put)
    }

    fn info<'l>(&mut self, name: &str, help: &str, sets: impl IntoIterator<Item = Labels<'l>>) -> fmt::Result {
        let mut sets = sets.into_iter().peekable();
        if sets.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        sets.try_for_each(|labels| family.encode_info(&labels))
    }

    fn algorithms(&mut self, all: &[Algorithm]) -> fmt::Result {
        let by_cc = || all.iter().map(|a| (labels([("cc", &a.name)]), a));
        self.gauges(
            "hotcc_algorithm_loaded",
            "1 for each algorithm that hotcc registered",
            by_cc().map(|(l, _)| (l, 1u64)),
        )?;
        let details = all.iter().map(|a| labels([("cc", &a.name), ("object", &a.object), ("profile", &a.profile)]));
        self.info("hotcc_algorithm", "Object that serves under a name, and its profile", details)?;
        self.gauges(
            "hotcc_algorithm_serving_since_seconds",
            "Start time of the serving version, Unix time",
            by_cc().filter_map(|(l, a)| Some((l, a.since_unix_ns? as f64 / 1e9))),
        )?;
        self.gauges(
            "hotcc_algorithm_swaps",
            "Swaps and rollbacks of the name since it was loaded",
            by_cc().filter_map(|(l, a)| Some((l, a.swaps?))),
        )
    }

    fn sockets(&mut self, all: &BTreeMap<String, Sockets>) -> fmt::Result {
        let counts: Vec<(&str, &str, (u64, u64))> = all
            .iter()
            .flat_map(|(cc, s)| s.by_version.iter().map(move |(version, n)| (cc.as_str(), *version, *n)))
            .collect();
        let by_version = || counts.iter().map(|(cc, version, n)| (labels([("cc", cc), ("version", version)]), *n));
        let connections = by_version().map(|(l, (connections, _))| (l, connections));
        self.gauges("hotcc_sockets", "Open TCP connections", connections)?;
        self.gauges(
            "hotcc_listeners",
            "Listening TCP sockets",
            by_version().map(|(l, (_, listeners))| (l, listeners)),
        )?;
        type Pick = fn(&Sockets) -> &Log2Histogram;
        let distributions: [(&str, &str, &str, Scale, Pick); 3] = [
            ("hotcc_open_sockets_by_cwnd_segments", "hotcc_cwnd_sum_segments", "congestion window", SEGMENTS, |s| {
                &s.cwnd_segments
            }),
            ("hotcc_open_sockets_by_srtt_seconds", "hotcc_srtt_sum_seconds", "smoothed RTT", RTT, |s| &s.srtt_us),
            (
                "hotcc_open_sockets_by_delivery_bytes_per_second",
                "hotcc_delivery_sum_bytes_per_second",
                "latest delivery rate",
                RATE,
                |s| &s.delivery_kbps,
            ),
        ];
        for (name, sum_name, what, scale, pick) in &distributions {
            let samples = all.iter().flat_map(|(cc, s)| at_most(cc, scale.buckets(pick(s))));
            self.gauges(name, &format!("Open connections whose {what} is at most `upper_bound`"), samples)?;
            let sums = all.iter().map(|(cc, s)| (labels([("cc", cc)]), scale.sum(pick(s))));
            self.gauges(sum_name, &format!("Sum of the {what} over open connections"), sums)?;
        }
        let counts = all.iter().flat_map(|(cc, s)| {
            let by_value = s.state.connections.iter();
            by_value.map(move |((field, value), n)| (labels([("cc", cc), ("field", field), ("value", value)]), *n))
        });
        let help = "Open connections by the value of a field of their algorithm's state";
        self.gauges("hotcc_open_sockets_by_state", help, counts)?;
        let sums = all.iter().flat_map(|(cc, s)| {
            s.state.sums.iter().map(move |(field, sum)| (labels([("cc", cc), ("field", field)]), *sum))
        });
        let help = "Sum of a field of their algorithm's state over open connections";
        self.gauges("hotcc_state_sum_ratio", help, sums)?;
        let rates = all.iter().filter_map(|(cc, s)| Some((labels([("cc", cc)]), s.state.forecast_bytes_per_s?)));
        self.gauges("hotcc_forecast_sum_bytes_per_second", "Sum of the rates that open connections forecast", rates)
    }

    fn radio(&mut self, links: &Links) -> fmt::Result {
        let one = |n: usize| [(Vec::new(), n as u64)];
        self.gauges("hotcc_radio_links", "Radio links in the index", one(links.total))?;
        let omitted = links.total.saturating_sub(links.shown.len());
        self.gauges("hotcc_radio_links_omitted", "Radio links omitted from this page", one(omitted))?;
        let keys: Vec<String> = links.shown.iter().map(|l| l.key.to_string()).collect();
        let by_link = || keys.iter().zip(&links.shown).map(|(key, link)| (labels([("link", key)]), link));
        type Reading = fn(&Link) -> Option<f64>;
        let readings: [(&str, &str, Reading); 6] = [
            ("hotcc_radio_sinr_db", "Latest SINR", |l| l.sinr_db),
            ("hotcc_radio_sinr_average_db", "Running average of the SINR", |l| l.average_db),
            ("hotcc_radio_age_seconds", "Age of the latest reading", |l| l.age_ms.map(|ms| f64::from(ms) / 1e3)),
            ("hotcc_radio_fresh", "1 while algorithms use the reading, 0 if it is stale or missing", |l| {
                l.fresh.map(|fresh| f64::from(u8::from(fresh)))
            }),
            ("hotcc_radio_capacity_bytes_per_second", "Capacity, if the source knows it", |l| {
                l.capacity_bps.map(|bps| bps as f64 / 8.0)
            }),
            ("hotcc_radio_capacity_age_seconds", "Age of the capacity", |l| {
                l.capacity_age_ms.map(|ms| f64::from(ms) / 1e3)
            }),
        ];
        for (name, help, reading) in readings {
            self.gauges(name, help, by_link().filter_map(|(label, link)| Some((label, reading(link)?))))?;
        }
        let updates = by_link().map(|(label, link)| (label, link.updates));
        self.counters("hotcc_radio_updates", "Readings written", updates)?;
        let cells = by_link().map(|(label, link)| (label, link.cell.into()));
        self.counters("hotcc_radio_cell_changes", "Changes of the serving cell", cells)
    }

    /// Encodes counters without labels.
    fn totals(&mut self, counts: &[(&str, &str, u64)]) -> fmt::Result {
        counts.iter().try_for_each(|(name, help, count)| self.counters(name, help, [(Vec::new(), *count)]))
    }

    fn commands(&mut self, c: &Counters) -> fmt::Result {
        self.totals(&[
            ("hotcc_loads", "Algorithms loaded", c.loads),
            ("hotcc_load_failures", "Failed loads", c.load_failures),
            ("hotcc_swaps", "Algorithms swapped", c.swaps),
            (
                "hotcc_swap_failures",
                "Failed swaps; the previous version continues to serve, except that before Linux 6.4 possibly none does",
                c.swap_failures,
            ),
            ("hotcc_rollbacks", "Swaps undone", c.rollbacks),
            ("hotcc_rollback_failures", "Failed rollbacks", c.rollback_failures),
            ("hotcc_unloads", "Algorithms unloaded", c.unloads),
        ])
    }

    fn rx(&mut self, c: &RxCounters) -> fmt::Result {
        self.totals(&[
            ("hotcc_rx_flows_agreed", "Connections whose ends both support hints", c.flows_agreed),
            ("hotcc_rx_hints_made", "Hints made from an estimate", c.hints_made),
            ("hotcc_rx_hints_sent", "ACKs that carried a hint", c.hints_sent),
            ("hotcc_rx_hints_without_room", "ACKs that had no room for a hint", c.hints_without_room),
            ("hotcc_rx_hints_received", "Hints accepted from ACKs", c.hints_received),
            ("hotcc_rx_hints_refused", "ACKs whose hint was invalid or too early", c.hints_refused),
            ("hotcc_rx_hints_applied", "Hints that a sender applied", c.hints_applied),
            ("hotcc_rx_flows_clamped", "Connections whose receive window DRWA controls", c.flows_clamped),
            ("hotcc_rx_clamps_set", "Window clamps set", c.clamps_set),
            ("hotcc_rx_clamps_refused", "Window clamps that the kernel refused", c.clamps_refused),
        ])
    }
}

/// Returns a distribution over the sockets that are open now. It is cumulative, like a histogram's, but its values may
/// fall; so it is a gauge, and its label is not a histogram's `le`.
fn at_most<'a>(cc: &'a str, buckets: Vec<(f64, u64)>) -> impl Iterator<Item = (Labels<'a>, u64)> {
    buckets.into_iter().scan(0, move |below, (bound, count)| {
        *below += count;
        let bound = if bound.is_infinite() { Cow::Borrowed("+Inf") } else { Cow::Owned(bound.to_string()) };
        Some((vec![("cc", Cow::Borrowed(cc)), ("upper_bound", bound)], *below))
    })
}

mod canary;
mod policy;
mod stats;
#[cfg(test)]
mod tests;
