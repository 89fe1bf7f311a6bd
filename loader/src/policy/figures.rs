//! Figures of the connections of each rule, which the program counts when a connection ends. Layout:
//! bpf/progs/policy_figures.h.

use super::kernel::{Current, current};
use super::layout::{RuleEntry, TextEntry};
use crate::registry::need_bpffs;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::histogram::{Histogram, Unit};
use hotcc_abi::pins;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried, need_root};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use std::collections::HashSet;

/// Units of the figures that have a distribution, in the order of [`FiguresEntry::figures`]. Millionths have the buckets of
/// microseconds.
pub(crate) const UNITS: [Unit; 6] = [Unit::Us, Unit::Us, Unit::Kbps, Unit::Kbps, Unit::Ms, Unit::Us];

/// `struct policy_figures`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[allow(missing_docs, reason = "described in policy_figures.h")]
pub struct FiguresEntry {
    pub connections: u64,
    pub acked_bytes: u64,
    pub segments: u64,
    pub retransmits: u64,
    pub timeouts: u64,
    pub figures: [Histogram; UNITS.len()],
}

/// Percentiles of a distribution over connections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Number of connections that have a value.
    pub connections: u64,
    /// Mean of the values.
    pub mean: f64,
    /// Value that 5 % of the connections do not exceed.
    pub p5: f64,
    /// Value that 50 % do not exceed.
    pub p50: f64,
    /// Value that 95 % do not exceed.
    pub p95: f64,
}

impl Percentiles {
    fn of(histogram: &Histogram, unit: Unit) -> Option<Self> {
        let at = |share| histogram.quantile(unit, share);
        let connections = histogram.count();
        let mean = histogram.sum as f64 / connections as f64;
        Some(Self { connections, mean, p5: at(0.05)?, p50: at(0.5)?, p95: at(0.95)? })
    }
}

/// What the connections of a rule did that have ended or left the rule. Schema of `hotcc policy stats --json`; a
/// distribution is `null` if no connection has a value.
#[derive(Clone, Debug, Serialize)]
pub struct RuleStats {
    /// Place of the rule in the order, from 1.
    pub rule: usize,
    /// What identifies the rule in every place, as in [`ShownRule`](super::ShownRule).
    pub id: String,
    /// The keys of its table in the file.
    pub keys: toml::Table,
    /// The congestion control that it chooses.
    pub congestion_control: String,
    /// Number of connections.
    pub connections: u64,
    /// Bytes that the peers acknowledged.
    pub acked_bytes: u64,
    /// Data segments sent, retransmissions included.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts; 0 before Linux 6.7, which does not count them.
    pub timeouts: u64,
    /// Smoothed RTT at the end, microseconds.
    pub rtt_us: Option<Percentiles>,
    /// Least RTT, microseconds.
    pub min_rtt_us: Option<Percentiles>,
    /// Acknowledged bytes over the time in which there was something to send, kbit/s; not of connections that took less
    /// than one tick of the kernel.
    pub goodput_kbps: Option<Percentiles>,
    /// The last delivery rate, kbit/s.
    pub delivery_kbps: Option<Percentiles>,
    /// Duration, milliseconds.
    pub duration_ms: Option<Percentiles>,
    /// Share of the segments that were retransmissions, millionths.
    pub retransmits_ppm: Option<Percentiles>,
    /// The distributions, in the order above.
    #[serde(skip)]
    pub(crate) histograms: Vec<Histogram>,
}

/// The figures of the rules that apply, in their order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Stats {
    /// Rules.
    pub rules: Vec<RuleStats>,
}

/// Reads the figures of the rules that apply.
pub fn stats() -> Result<Stats> {
    need_root("hotcc policy stats")?;
    need_bpffs()?;
    current()?.as_ref().map_or_else(|| Ok(Stats::default()), figures)
}

/// Reads the figures of a policy.
pub(super) fn figures(current: &Current) -> Result<Stats> {
    let path = pins::shared(pins::POLICY_FIGURES).ok_or_else(|| Error::failed("no pin of the policy's figures"))?;
    let map = MapHandle::from_pinned_path(&path).tried(|| format!("cannot open {}", path.display()))?;
    let rules = current.entries.iter().enumerate();
    Ok(Stats { rules: rules.map(|(n, (rule, text))| of_rule(&map, n + 1, rule, text)).collect::<Result<_>>()? })
}

fn of_rule(map: &MapHandle, place: usize, rule: &RuleEntry, text_of: &TextEntry) -> Result<RuleStats> {
    let bytes = map.lookup(&rule.id.to_ne_bytes(), MapFlags::empty()).tried(cannot_read)?;
    let entry = bytes.as_deref().map_or_else(|| Ok(FiguresEntry::zeroed()), bytemuck::try_pod_read_unaligned);
    let other_version = |_| Error::failed("the policy's figures are of another version of hotcc; run: hotcc apply");
    let (id, congestion_control) = (rule.id_text(), text(&rule.cc_name));
    Ok(RuleStats::new(place, id, text_of.keys()?, congestion_control, &entry.map_err(other_version)?))
}

impl RuleStats {
    /// Returns the figures of the rule at this place in the order.
    pub(crate) fn new(
        rule: usize,
        id: String,
        keys: toml::Table,
        congestion_control: String,
        entry: &FiguresEntry,
    ) -> Self {
        let [rtt_us, min_rtt_us, goodput_kbps, delivery_kbps, duration_ms, retransmits_ppm] =
            std::array::from_fn(|kind| Percentiles::of(&entry.figures[kind], UNITS[kind]));
        let FiguresEntry { connections, acked_bytes, segments, retransmits, timeouts, .. } = *entry;
        Self {
            rule,
            id,
            keys,
            congestion_control,
            connections,
            acked_bytes,
            segments,
            retransmits,
            timeouts,
            rtt_us,
            min_rtt_us,
            goodput_kbps,
            delivery_kbps,
            duration_ms,
            retransmits_ppm,
            histograms: entry.figures.to_vec(),
        }
    }
}

fn cannot_read() -> String {
    "cannot read the policy's figures".to_owned()
}

/// Sets the figures of rules that are new in the policy to 0; the others keep theirs. Removes the entries of rules that
/// are neither in it nor in the previous policy, which may be restored.
pub(super) fn keep(
    map: &impl MapCore,
    new: &[(RuleEntry, TextEntry)],
    before: &[(RuleEntry, TextEntry)],
) -> Result<()> {
    let tried = || "cannot write the policy's figures".to_owned();
    let ids = |entries: &[(RuleEntry, TextEntry)]| entries.iter().map(|(rule, _)| rule.id).collect::<HashSet<u64>>();
    let (new, before) = (ids(new), ids(before));
    for key in map.keys() {
        let id = bytemuck::try_pod_read_unaligned::<u64>(&key);
        if id.is_ok_and(|id| !new.contains(&id) && !before.contains(&id)) {
            map.delete(&key).tried(tried)?;
        }
    }
    let nothing = FiguresEntry::zeroed();
    for id in new.difference(&before) {
        map.update(&id.to_ne_bytes(), bytemuck::bytes_of(&nothing), MapFlags::ANY).tried(tried)?;
    }
    Ok(())
}
