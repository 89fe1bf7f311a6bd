//! The figures of one flow.

use super::LinkHistories;
use super::rates::{Capacity, Progress};
use crate::planner::Planned;
use crate::results::{Distribution, FlowSummary};
use hotcc_lab_proto::plan::{Action, Plan, PlannedCable, PlannedEvent};
use hotcc_lab_proto::records::{AckRecord, LOST, POLICED, PacketRecord, QUEUE_DROP, SENT};
use hotcc_lab_proto::run_record::RunRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;
const TICK_NS: u64 = 100_000_000;
/// A flow is steady if its rate stays within this share of the mean for `STEADY_FOR_NS`, over windows of one second.
const STEADY_WITHIN: f64 = 0.2;
const STEADY_FOR_NS: u64 = 3 * SECOND_NS;
/// A flow has recovered when its rate reaches this share of the capacity.
const RECOVERED_AT: f64 = 0.8;
/// A flow has resumed when its rate reaches this share of the rate of the last seconds before the change, over windows
/// of half a second.
const RESUMED_AT: f64 = 0.9;
const BEFORE_NS: u64 = 5 * SECOND_NS;
const RESUMED_FOR_NS: u64 = SECOND_NS / 2;

pub(super) fn summary(
    place: usize,
    planned: &Planned,
    record: &RunRecord,
    packets: &[PacketRecord],
    acks: &[AckRecord],
    links: &LinkHistories<'_>,
) -> FlowSummary {
    let capacities = links.capacities;
    let flow = &planned.plan.flows[place];
    let end = record.flows.get(place).cloned().unwrap_or_default();
    let end_ns = end.end_ns.max(flow.start_ns + 1);
    let throughput_bps = end.bytes as f64 * 8e9 / (end_ns - flow.start_ns) as f64;
    let mean = |link: &usize| capacities[*link].mean_bps(flow.start_ns, end_ns);
    // after a route change, the plan's path no longer applies
    let rerouted = |e: &PlannedEvent| matches!(e.action, Action::Route { .. }) && e.at_ns < end_ns;
    let is_rerouted = planned.plan.events.iter().any(rerouted);
    let way: &[usize] = if is_rerouted { &[] } else { &flow.way };
    let narrowest = way.iter().filter_map(|l| mean(l).map(|bps| (*l, bps))).min_by(|a, b| a.1.total_cmp(&b.1));
    let taken = if is_rerouted { links_of(packets) } else { flow.way.clone() };
    let entered = if is_rerouted {
        entries(&planned.plan, flow.from, &taken)
    } else {
        taken.iter().copied().find(|l| planned.plan.links[*l].keeps_records()).into_iter().collect()
    };
    let count = |wanted: &dyn Fn(&PacketRecord) -> bool| -> u64 {
        packets.iter().filter(|r| wanted(r)).map(|r| u64::from(r.segments)).sum()
    };
    let progress = Progress(acks);
    let (slowest, queue_delay_ms) = longest_wait(&taken, packets).unzip();
    FlowSummary {
        name: flow.name.clone(),
        cc: end.cc.clone(),
        start_s: flow.start_ns as f64 / 1e9,
        end_s: end_ns as f64 / 1e9,
        bytes: end.bytes,
        throughput_bps,
        utilisation: narrowest.filter(|(_, bps)| *bps > 0.0).map(|(_, bps)| throughput_bps / bps),
        complete: flow.bytes.map(|_| end.complete),
        rtt_ms: Distribution::of(
            acks.iter()
                .filter(|a| a.rtt_us > 0 && a.is_retransmission == 0)
                .map(|a| f64::from(a.rtt_us) / 1e3)
                .collect(),
        ),
        rto_ms: Distribution::of(acks.iter().map(|a| f64::from(a.rto_ms)).collect()),
        queue_delay_ms: queue_delay_ms.unwrap_or_default(),
        queue_delay_time_mean_ms: slowest.map(|link| links.delays[link].mean_ms(flow.start_ns, end_ns)),
        queue_delay_time_p95_ms: slowest.map(|link| links.delays[link].p95_ms(flow.start_ns, end_ns)),
        mean_cwnd: mean_cwnd(acks),
        packets: count(&|r| entered.contains(&r.link.into())),
        police_drops: count(&|r| r.fate() == POLICED),
        queue_drops: count(&|r| r.fate() == QUEUE_DROP),
        losses: count(&|r| r.fate() == LOST),
        ce_marks: taken.iter().any(|link| planned.plan.links[*link].marks()).then(|| count(&PacketRecord::marked)),
        retransmits: end.retransmits,
        timeouts: end.timeouts,
        receiver: end.receiver,
        convergence_s: convergence_s(&progress, flow.start_ns, end_ns, throughput_bps),
        recovery_s: narrowest
            .map(|(link, _)| recoveries(planned, link, &progress, flow.start_ns, end_ns, &capacities[link]))
            .unwrap_or_default(),
        watched_p99: flow.watch.and_then(|_| watched_p99(acks)),
        resume_s: resumes(&planned.plan.events, &progress, flow.start_ns, end_ns),
    }
}

/// Returns the links at which packets arrived.
fn links_of(packets: &[PacketRecord]) -> Vec<usize> {
    let links: BTreeSet<usize> = packets.iter().map(|r| r.link.into()).collect();
    links.into_iter().collect()
}

/// Returns the links of a flow at which its packets arrived first: the links that can be reached from the sender
/// without crossing another link that keeps records.
fn entries(plan: &Plan, from: usize, taken: &[usize]) -> Vec<usize> {
    let ways_out = |host| {
        let both = |PlannedCable { ends: [a, b], .. }: &PlannedCable| {
            [(a.host, b.host, b.receives), (b.host, a.host, a.receives)]
        };
        let from_here = plan.cables.iter().flat_map(both).filter(move |(from, ..)| *from == host);
        from_here.map(|(_, to, link)| (to, link))
    };
    let (mut entered, mut hosts, mut visited) = (Vec::new(), vec![from], 0);
    while let Some(&host) = hosts.get(visited) {
        visited += 1;
        for (to, link) in ways_out(host) {
            if taken.contains(&link) {
                entered.push(link);
            } else if !plan.links[link].keeps_records() && !hosts.contains(&to) {
                hosts.push(to);
            }
        }
    }
    entered
}

/// Returns the link on which the flow's packets waited longest on average, and the waits there; `None` if no packet
/// left a link.
fn longest_wait(way: &[usize], packets: &[PacketRecord]) -> Option<(usize, Distribution)> {
    let at = |link: &usize| {
        let waits = packets.iter().filter(|r| usize::from(r.link) == *link && r.fate() == SENT);
        (*link, Distribution::of(waits.map(|r| r.wait_ns as f64 / 1e6).collect()))
    };
    way.iter().map(at).filter(|(_, waits)| waits.count > 0).max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
}

fn mean_cwnd(acks: &[AckRecord]) -> f64 {
    let (mut area, mut time) = (0.0, 0.0);
    for pair in acks.windows(2) {
        let length = (pair[1].time_ns - pair[0].time_ns) as f64;
        area += f64::from(pair[0].cwnd) * length;
        time += length;
    }
    if time > 0.0 { area / time } else { acks.first().map_or(0.0, |a| f64::from(a.cwnd)) }
}

/// Returns the value of the watched field that is not exceeded for 99 % of the time; `None` if there is no time between
/// ACKs.
fn watched_p99(acks: &[AckRecord]) -> Option<f64> {
    let mut lengths_ns: BTreeMap<u32, u64> = BTreeMap::new();
    for pair in acks.windows(2) {
        *lengths_ns.entry(pair[0].detail).or_default() += pair[1].time_ns - pair[0].time_ns;
    }
    let mut left_ns = lengths_ns.values().sum::<u64>() / 100;
    let mut values = lengths_ns.iter().rev();
    let found = values.find(|(_, length_ns)| match left_ns.checked_sub(**length_ns) {
        Some(less_ns) => {
            left_ns = less_ns;
            false
        }
        None => true,
    });
    found.map(|(value, _)| f64::from(*value))
}

fn convergence_s(progress: &Progress<'_>, start_ns: u64, end_ns: u64, mean_bps: f64) -> Option<f64> {
    if mean_bps <= 0.0 {
        return None;
    }
    let steady = |at_ns: u64| {
        let windows = (0..=(STEADY_FOR_NS - SECOND_NS) / TICK_NS).map(|k| at_ns + k * TICK_NS);
        windows
            .into_iter()
            .all(|from| (progress.bps(from, from + SECOND_NS) - mean_bps).abs() <= STEADY_WITHIN * mean_bps)
    };
    let ticks = (0..).map(|k| start_ns + k * TICK_NS).take_while(|at| at + STEADY_FOR_NS <= end_ns);
    ticks.into_iter().find(|at| steady(*at)).map(|at| (at - start_ns) as f64 / 1e9)
}

fn recoveries(
    planned: &Planned,
    link: usize,
    progress: &Progress<'_>,
    start_ns: u64,
    end_ns: u64,
    capacity: &Capacity,
) -> Vec<Option<f64>> {
    let Some(radio) = planned.radios.get(&link) else { return Vec::new() };
    let edges = radio.edges();
    let ns = |at: Duration| at.as_nanos() as u64;
    let mut times = Vec::new();
    for (place, edge) in edges.iter().enumerate().filter(|(_, e)| e.line_of_sight) {
        let from = ns(edge.at);
        let until = edges.get(place + 1).map_or(end_ns, |next| ns(next.at).min(end_ns));
        if from < start_ns || from + TICK_NS > until {
            continue;
        }
        let ticks = (0..).map(|k| from + k * TICK_NS / 10).take_while(|at| at + TICK_NS <= until);
        let recovered = |at: &u64| {
            let could = capacity.mean_bps(*at, at + TICK_NS).unwrap_or_default();
            could > 0.0 && progress.bps(*at, at + TICK_NS) >= RECOVERED_AT * could
        };
        times.push(ticks.into_iter().find(recovered).map(|at| (at + TICK_NS - from) as f64 / 1e9));
    }
    times
}

/// Returns the time after each change of the path until the flow has reached its previous rate again.
fn resumes(events: &[PlannedEvent], progress: &Progress<'_>, start_ns: u64, end_ns: u64) -> Vec<f64> {
    if progress.0.is_empty() {
        return Vec::new(); // without ACKs, as of datagrams, the rate is not known
    }
    let is_change = |e: &&PlannedEvent| matches!(e.action, Action::Route { .. } | Action::Note(_));
    let mut changes: Vec<u64> = events.iter().filter(is_change).map(|e| e.at_ns).collect();
    changes.retain(|at_ns| *at_ns > start_ns && *at_ns < end_ns);
    changes.dedup();
    let next = changes.iter().copied().skip(1).chain([end_ns]);
    let time = |(at_ns, until_ns): (u64, u64)| {
        let before_bps = progress.bps(start_ns.max(at_ns.saturating_sub(BEFORE_NS)), at_ns);
        let ticks = (0..).map(|k| at_ns + k * TICK_NS / 10).take_while(|at| at + RESUMED_FOR_NS <= until_ns);
        let resumed = |at: &u64| progress.bps(*at, at + RESUMED_FOR_NS) >= RESUMED_AT * before_bps;
        let resumed_ns = ticks.into_iter().find(resumed).map_or(until_ns, |at| at + RESUMED_FOR_NS);
        (resumed_ns - at_ns) as f64 / 1e9
    };
    changes.iter().copied().zip(next).map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;

    #[test]
    fn packets_that_never_wait_have_a_delay_of_0() {
        let mut packet = PacketRecord::with(SENT, false, true);
        packet.link = 0;
        let (link, waits) = longest_wait(&[0, 2], &[packet]).unwrap();
        assert_eq!((link, waits.count, waits.mean), (0, 1, 0.0));
        assert!(longest_wait(&[2], &[packet]).is_none());
    }

    #[test]
    fn a_watched_field_has_a_value_only_if_there_is_time_between_acks() {
        let ack = |time_ns: u64, detail: u32| AckRecord { time_ns, detail, ..AckRecord::zeroed() };
        assert_eq!(watched_p99(&[]), None);
        assert_eq!(watched_p99(&[ack(1, 7)]), None);
        assert_eq!(watched_p99(&[ack(1, 7), ack(1, 8)]), None);
        assert_eq!(watched_p99(&[ack(1, 7), ack(2, 8)]), Some(7.0));
    }

    #[test]
    fn a_flow_without_acks_has_no_time_to_resume() {
        let second_ns = 1_000_000_000;
        let change = PlannedEvent { at_ns: 5 * second_ns, action: Action::Note("link air changes".to_owned()) };
        assert!(resumes(&[change], &Progress(&[]), 0, 10 * second_ns).is_empty());
    }
}
