//! Figures of the connections of each rule, which the program counts when a connection ends. Layout:
//! bpf/progs/policy_figures.h.

use super::kernel::{Current, current};
use super::layout::{RuleEntry, TextEntry};
use crate::registry::need_bpffs;
use bytemuck::{Pod, Zeroable};
use hotcc_abi::histogram::{LOG2_BUCKETS, Log2Histogram};
use hotcc_abi::pins;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result, Tried, need_root};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use std::collections::HashSet;

/// Number of figures that have a distribution.
const KINDS: usize = 6;
/// Number of buckets of a distribution, 16 for each power of two.
const BUCKETS: usize = 512;

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
    pub sums: [u64; KINDS],
    pub buckets: [[u32; BUCKETS]; KINDS],
}

/// The distribution of a figure over connections, in the kernel's buckets.
#[derive(Clone, Debug)]
pub struct Distribution {
    pub(crate) sum: u64,
    buckets: Vec<u32>,
}

impl Distribution {
    /// Returns the number of values.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|n| u64::from(*n)).sum()
    }

    /// Returns the distribution by powers of two: bucket `i` has the values from 2^(i-1) to 2^i.
    pub(crate) fn log2(&self) -> Log2Histogram {
        let mut histogram = Log2Histogram { buckets: [0; LOG2_BUCKETS], sum: self.sum };
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bits = (u64::BITS - low(bucket).leading_zeros()) as usize;
            histogram.buckets[bits.min(LOG2_BUCKETS - 1)] += u64::from(*count);
        }
        histogram
    }

    /// Returns the value that this share of the connections does not exceed, or `None` if there are no values. It is
    /// interpolated within its bucket, whose width is at most a 16th of the value.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        let mut below = 0.0;
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(*count);
            if below + count >= wanted {
                let (from, to) = (low(bucket) as f64, low(bucket + 1) as f64);
                return Some(if bucket < 16 { from } else { from + (to - from) * (wanted - below) / count });
            }
            below += count;
        }
        None
    }
}

/// Returns the least value in a bucket.
fn low(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 16 { bucket } else { (16 + bucket % 16) << (bucket / 16 - 1) }
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
    fn of(distribution: &Distribution) -> Option<Self> {
        let at = |share| distribution.quantile(share);
        let connections = distribution.count();
        let mean = distribution.sum as f64 / connections as f64;
        Some(Self { connections, mean, p5: at(0.05)?, p50: at(0.5)?, p95: at(0.95)? })
    }
}

/// What the connections of a rule did that have ended or left the rule. Schema of `hotcc policy stats --json`; a
/// distribution is `null` if no connection has a value.
#[derive(Clone, Debug, Serialize)]
pub struct RuleStats {
    /// Place of the rule in the order, from 1.
    pub rule: usize,
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
    pub(crate) distributions: [Distribution; KINDS],
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
    Ok(RuleStats::new(place, text_of.keys()?, text(&rule.cc_name), &entry.map_err(other_version)?))
}

impl RuleStats {
    /// Returns the figures of the rule at this place in the order.
    pub(crate) fn new(rule: usize, keys: toml::Table, congestion_control: String, entry: &FiguresEntry) -> Self {
        let distributions: [_; KINDS] =
            std::array::from_fn(|kind| Distribution { sum: entry.sums[kind], buckets: entry.buckets[kind].to_vec() });
        let [rtt_us, min_rtt_us, goodput_kbps, delivery_kbps, duration_ms, retransmits_ppm] =
            distributions.each_ref().map(Percentiles::of);
        let FiguresEntry { connections, acked_bytes, segments, retransmits, timeouts, .. } = *entry;
        Self {
            rule,
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
            distributions,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(usize, u32)]) -> Distribution {
        let mut buckets = vec![0; BUCKETS];
        values.iter().for_each(|(bucket, count)| buckets[*bucket] = *count);
        Distribution { sum: 0, buckets }
    }

    #[test]
    fn buckets_are_a_sixteenth_of_their_power_of_two() {
        assert_eq!([0, 15, 16, 31, 32, 33, 463].map(low), [0, 15, 16, 31, 32, 34, 31 << 27]);
        assert_eq!(low(464), 1 << 32);
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert_eq!(with(&[]).quantile(0.5), None);
        assert_eq!(with(&[(3, 10)]).quantile(0.5), Some(3.0));
        assert_eq!(with(&[(3, 1), (33, 4)]).quantile(0.6), Some(35.0), "the second of four from 34 to 36");
        assert_eq!(with(&[(3, 1), (33, 4)]).quantile(0.2), Some(3.0));
    }

    #[test]
    fn powers_of_two_hold_the_same_values() {
        let log2 = with(&[(0, 1), (1, 2), (15, 3), (16, 4), (31, 5), (32, 6), (463, 7)]).log2();
        assert_eq!([0, 1, 4, 5, 6, 31].map(|i| log2.buckets[i]), [1, 2, 3, 9, 6, 7]);
    }
}
