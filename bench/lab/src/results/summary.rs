//! The results of one run, and the figures that can be had of them.

use super::RunId;
use hotcc_lab_proto::run_record::ReceiverEnd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mean and order statistics of a sample; all are zero for an empty one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Minimum.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Distribution {
    /// Returns the distribution of these values (nearest rank).
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else { return Self::default() };
        let rank = |p: usize| values[(values.len() * p).div_ceil(100).max(1) - 1];
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Self { count: values.len() as u64, mean, min, p50: rank(50), p95: rank(95), p99: rank(99), max }
    }
}

/// The results of one run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// SHA-256 of everything that the run depends on, by name: its plan (the case, the seed, and what its radio does),
    /// the files that its case names, and the manifest's kernel image and objects.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Length of the measurement, in virtual seconds.
    pub duration_s: f64,
    /// Reasons why the run must not be used; empty if it is valid.
    pub invalid: Vec<String>,
    /// Maximum share of a 100 ms window in which the CPU was busy; 0 if this was not measured.
    pub busy_max: f64,
    /// Mean share of time in which the CPU was busy.
    pub busy_mean: f64,
    /// The flows.
    pub flows: Vec<FlowSummary>,
    /// `oracle` and `late-oracle`, if the scenario requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<FlowSummary>,
    /// Each direction of each link that keeps records: one with a rate, a policer or losses.
    pub links: Vec<LinkSummary>,
    /// Counters of the receiver programs that hosts have (`rx`), by name, summed over the hosts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub receiver_programs: BTreeMap<String, u64>,
    /// Jain's fairness index over the throughputs of all TCP flows; 1 for one flow.
    pub jain: f64,
    /// Log of events, with their times: `12.5 swap dtcp -> westwoodp: 3 connections moved`.
    pub events: Vec<String>,
}

/// The results of one flow.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct FlowSummary {
    /// Name of the flow in the scenario, with `-K` for the K-th of several.
    pub name: String,
    /// Congestion control at the end (`udp` for a datagram flow).
    pub cc: String,
    /// Time at which the flow started.
    pub start_s: f64,
    /// Time at which the flow ended: its bytes were received, or it was stopped.
    pub end_s: f64,
    /// Bytes that the receiving application got.
    pub bytes: u64,
    /// `bytes` over `end_s - start_s`.
    pub throughput_bps: f64,
    /// Throughput over the mean capacity of the narrowest link at that time; absent if no link has a rate.
    pub utilisation: Option<f64>,
    /// Whether all bytes of the flow arrived; absent for a flow without a number of bytes.
    pub complete: Option<bool>,
    /// RTT samples, ms.
    pub rtt_ms: Distribution,
    /// Retransmission timeout at each ACK and retransmission, ms; none in results of earlier versions.
    #[serde(default)]
    pub rto_ms: Distribution,
    /// Time that its data packets waited in the queue with the longest waits, one way, in ms.
    pub queue_delay_ms: Distribution,
    /// Delay of that queue, averaged over the flow's time rather than over packets; absent if no packet of the flow
    /// left a queue.
    pub queue_delay_time_mean_ms: Option<f64>,
    /// Delay of that queue that is not exceeded for 95 % of the flow's time, in ms; absent in the same case.
    #[serde(default)]
    pub queue_delay_time_p95_ms: Option<f64>,
    /// Mean congestion window in segments, weighted by time.
    pub mean_cwnd: f64,
    /// Data packets sent, including those lost at policers, in queues and on links.
    pub packets: u64,
    /// Data packets that policers dropped.
    #[serde(default)]
    pub police_drops: u64,
    /// Data packets that queues dropped.
    pub queue_drops: u64,
    /// Data packets that links lost.
    pub losses: u64,
    /// Data packets that links marked (CE); absent if no link of its path marks packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ce_marks: Option<u64>,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// What the receiver counted; absent for a datagram flow, or if the receiver accepted no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver: Option<ReceiverEnd>,
    /// Time from the flow's start until its rate over 1 s stays within 20 % of its mean for 3 s; absent if it never
    /// does.
    pub convergence_s: Option<f64>,
    /// For each NLOS -> LOS edge while the flow ran: time until its rate over 100 ms reached 80 % of the capacity;
    /// absent if it did not do so before the next edge or the end.
    pub recovery_s: Vec<Option<f64>>,
    /// For each change of the path while the flow ran: time until it reached 90 % of its previous rate. If it never
    /// did, the time until the next change or the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resume_s: Vec<f64>,
    /// The value of the watched field that is not exceeded for 99 % of the time between ACKs; absent if no field is
    /// watched, or if there is no such time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched_p99: Option<f64>,
}

/// The results of one direction of a link.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LinkSummary {
    /// `NAME:FROM>TO`.
    pub name: String,
    /// Packets that left the link.
    pub packets: u64,
    /// Bytes that left the link.
    pub bytes: u64,
    /// Packets that the policer dropped.
    #[serde(default)]
    pub police_drops: u64,
    /// Packets dropped at a full queue.
    pub queue_drops: u64,
    /// Packets lost.
    pub losses: u64,
    /// Packets marked (CE).
    pub ce_marks: u64,
    /// Bytes that left, as a share of the bytes that could have left; absent without a rate.
    pub utilisation: Option<f64>,
    /// Length of the queue found by each packet, in bytes.
    pub queue_bytes: Distribution,
    /// Wait of each packet, in ms.
    pub queue_delay_ms: Distribution,
}

/// The metrics of a run, with their descriptions and units.
pub const METRICS: [(&str, &str); 25] = [
    ("throughput_mbps", "mean throughput of the flows, Mbit/s"),
    ("throughput_mbps_total", "sum of the flows' throughputs, Mbit/s"),
    ("share", "share of the throughput of all TCP flows, 0..1"),
    ("utilisation", "share of the capacity that existed, 0..1"),
    ("rtt_mean_ms", "mean RTT, ms"),
    ("rtt_p50_ms", "median RTT, ms"),
    ("rtt_p95_ms", "95th percentile of the RTT, ms"),
    ("rtt_p99_ms", "99th percentile of the RTT, ms"),
    ("rto_mean_ms", "mean retransmission timeout, ms"),
    ("rto_max_ms", "longest retransmission timeout, ms"),
    ("queue_delay_mean_ms", "mean one-way queueing delay, ms"),
    ("queue_delay_p95_ms", "95th percentile of the one-way queueing delay, ms"),
    ("queue_delay_time_mean_ms", "one-way queueing delay averaged over time, ms"),
    ("queue_delay_time_p95_ms", "one-way queueing delay that is not exceeded for 95 % of the time, ms"),
    ("loss_ratio", "data packets lost, on links, in queues and at policers, over those sent, 0..1"),
    ("mark_ratio", "data packets marked by links, over those sent, 0..1"),
    ("retransmits", "retransmitted segments"),
    ("timeouts", "retransmission timeouts"),
    ("completion_s", "time until all bytes were received, s"),
    ("mean_cwnd", "mean congestion window, segments"),
    ("convergence_s", "time to a steady rate, s"),
    ("recovery_s", "mean time to 80 % of the capacity after the line of sight came back, s"),
    ("watched_p99", "value of the watched field that is not exceeded for 99 % of the time"),
    ("resume_s", "longest time after a change of the path to 90 % of the rate before it, s"),
    ("jain", "Jain's fairness index"),
];

impl FlowSummary {
    fn marked_share(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.ce_marks.unwrap_or_default() as f64 / self.packets as f64)
    }

    /// Returns one of [`METRICS`]; `None` if this flow does not have it.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<f64> {
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        let of = |d: &Distribution, v: f64| (d.count > 0).then_some(v);
        match name {
            "throughput_mbps" | "throughput_mbps_total" => Some(self.throughput_bps / 1e6),
            "utilisation" => self.utilisation,
            "rtt_mean_ms" => of(&self.rtt_ms, self.rtt_ms.mean),
            "rtt_p50_ms" => of(&self.rtt_ms, self.rtt_ms.p50),
            "rtt_p95_ms" => of(&self.rtt_ms, self.rtt_ms.p95),
            "rtt_p99_ms" => of(&self.rtt_ms, self.rtt_ms.p99),
            "rto_mean_ms" => of(&self.rto_ms, self.rto_ms.mean),
            "rto_max_ms" => of(&self.rto_ms, self.rto_ms.max),
            "queue_delay_mean_ms" => of(&self.queue_delay_ms, self.queue_delay_ms.mean),
            "queue_delay_p95_ms" => of(&self.queue_delay_ms, self.queue_delay_ms.p95),
            "queue_delay_time_mean_ms" => self.queue_delay_time_mean_ms,
            "queue_delay_time_p95_ms" => self.queue_delay_time_p95_ms,
            "watched_p99" => self.watched_p99,
            "resume_s" => self.resume_s.iter().copied().reduce(f64::max),
            "loss_ratio" => ratio(self.losses + self.queue_drops + self.police_drops, self.packets),
            "mark_ratio" => self.ce_marks.and(self.marked_share()),
            "retransmits" => Some(self.retransmits as f64),
            "timeouts" => (self.cc != "udp").then_some(self.timeouts as f64),
            "completion_s" => self.complete.filter(|c| *c).map(|_| self.end_s - self.start_s),
            "mean_cwnd" => Some(self.mean_cwnd),
            "convergence_s" => self.convergence_s,
            "recovery_s" => mean(self.recovery_s.iter().flatten().copied()),
            _ => None,
        }
    }
}

impl RunSummary {
    /// Returns one of [`METRICS`], for the flow with this name or prefix (`NAME` finds `NAME-1`, `NAME-2`), or for all
    /// TCP flows.
    #[must_use]
    pub fn metric(&self, name: &str, flow: Option<&str>) -> Option<f64> {
        if name == "jain" {
            return Some(self.jain);
        }
        if name == "share" {
            let total = |of| self.metric("throughput_mbps_total", of);
            let all_mbps = total(None).filter(|mbps| *mbps > 0.0)?;
            return Some(total(Some(flow?))? / all_mbps);
        }
        let is_exact = self.flows.iter().any(|f| Some(f.name.as_str()) == flow);
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let chosen = |f: &&FlowSummary| match flow {
            Some(wanted) if is_exact => f.name == wanted,
            Some(wanted) => f.name.strip_prefix(wanted).and_then(|rest| rest.strip_prefix('-')).is_some_and(is_number),
            None => f.cc != "udp",
        };
        if name == "mark_ratio" {
            // absent only if no flow has a link that marks: beside others, a flow without one counts as 0
            let shares = mean(self.flows.iter().filter(chosen).filter_map(FlowSummary::marked_share));
            return shares.filter(|_| self.flows.iter().filter(chosen).any(|flow| flow.ce_marks.is_some()));
        }
        let values = self.flows.iter().filter(chosen).filter_map(|f| f.metric(name));
        if name == "throughput_mbps_total" { Some(values.sum()) } else { mean(values) }
    }

    /// Returns the utilisation of the links with this name, averaged over those with a rate.
    pub(super) fn link_utilisation(&self, name: &str) -> Option<f64> {
        let is_chosen = |link: &&LinkSummary| link.name.split_once(':').is_some_and(|(of, _)| of == name);
        mean(self.links.iter().filter(is_chosen).filter_map(|link| link.utilisation))
    }
}

/// Returns the mean; `None` if there are no values.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u32, 0.0), |(n, s), v| (n + 1, s + v));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_of_one_flow_or_of_its_numbered_ones() {
        let flow = |name: &str, mbps: f64| FlowSummary {
            name: name.to_owned(),
            cc: "cubic".to_owned(),
            throughput_bps: mbps * 1e6,
            ..FlowSummary::default()
        };
        let mut run = RunSummary {
            run: RunId { seed: 1, ..RunId::default() },
            duration_s: 1.0,
            flows: vec![flow("dl", 1.0), flow("dl-2", 5.0), flow("ul-1", 2.0), flow("ul-2", 4.0), flow("ul-bg", 100.0)],
            jain: 1.0,
            ..RunSummary::default()
        };
        assert_eq!(run.metric("throughput_mbps", Some("dl")), Some(1.0));
        assert_eq!(run.metric("throughput_mbps", Some("ul")), Some(3.0));
        assert_eq!(run.metric("throughput_mbps_total", Some("ul")), Some(6.0));
        assert_eq!(run.metric("throughput_mbps", Some("x")), None);
        assert_eq!((run.metric("share", Some("ul")), run.metric("share", None)), (Some(6.0 / 112.0), None));
        for (flow, marks) in run.flows.iter_mut().zip([None, Some(0), Some(100), None, None]) {
            (flow.packets, flow.ce_marks) = (1000, marks);
        }
        assert_eq!(run.metric("mark_ratio", Some("ul")), Some(0.05));
        assert_eq!((run.metric("mark_ratio", Some("dl-2")), run.metric("mark_ratio", Some("dl"))), (Some(0.0), None));
        assert_eq!((run.flows[1].metric("mark_ratio"), run.flows[0].metric("mark_ratio")), (Some(0.0), None));
        run.flows[0].cc = "udp".to_owned();
        assert_eq!(run.metric("throughput_mbps_total", None), Some(111.0));
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let of = Distribution::of((1..=200).rev().map(f64::from).collect());
        assert_eq!((of.count, of.min, of.p50, of.p95, of.p99, of.max), (200, 1.0, 100.0, 190.0, 198.0, 200.0));
        assert_eq!(of.mean, 100.5);
        assert_eq!(Distribution::of(Vec::new()), Distribution::default());
    }
}
