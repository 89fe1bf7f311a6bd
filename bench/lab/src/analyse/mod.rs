//! Analysis of records: a run's summary and its series.

mod bounds;
mod delay;
mod flow;
mod rates;
mod series;

use crate::planner::Planned;
use crate::results::{Distribution, LinkSummary, RunId, RunSummary};
use anyhow::{Context, Result, ensure};
use delay::DelayOverTime;
use hotcc_lab_proto::plan::{Plan, PlannedLink};
use hotcc_lab_proto::records::{AckRecord, IDLE_BIN_NS, NO_FLOW, POLICED, PacketRecord, QUEUE_DROP};
use hotcc_lab_proto::run_record::RunRecord;
use rates::Capacity;
use std::collections::BTreeMap;

/// Maximum share of a window in which the processor may be busy. Above it, the run is invalid: the guest's processor,
/// not the path, may have limited the flows.
const BUSIEST: f64 = 0.8;
/// Maximum size of a packet without payload, as a sender sends it to set up a connection.
const MAX_EMPTY_PACKET_BYTES: u32 = 60;

/// The results of a run before analysis.
#[derive(Debug)]
pub struct Measured {
    /// Counts, and the final states of flows.
    pub record: RunRecord,
    /// Packet records, in order of time.
    pub packets: Vec<PacketRecord>,
    /// ACK records, in order of time.
    pub acks: Vec<AckRecord>,
}

impl Measured {
    /// Parses the guest's output: a line of JSON, packet records, ACK records.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let end = bytes.iter().position(|b| *b == b'\n').context("the guest sent no results")?;
        let record: RunRecord = serde_json::from_slice(&bytes[..end]).context("cannot parse the guest's results")?;
        let rest = &bytes[end + 1..];
        let packets = record.packet_records as usize * size_of::<PacketRecord>();
        let acks = record.ack_records as usize * size_of::<AckRecord>();
        ensure!(rest.len() == packets + acks, "the guest sent {} bytes of records, not {}", rest.len(), packets + acks);
        Ok(Self { record, packets: records(&rest[..packets]), acks: records(&rest[packets..]) })
    }
}

fn records<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// The results of a run after analysis.
#[derive(Debug)]
pub struct Analysed {
    /// The figures.
    pub summary: RunSummary,
    /// Content of `flows.csv`.
    pub flows_csv: String,
    /// Content of `links.csv`.
    pub links_csv: String,
}

/// Capacity and delay of each link over time, in the plan's order.
struct LinkHistories<'a> {
    capacities: &'a [Capacity],
    delays: &'a [DelayOverTime],
}

/// Analyses a run. `inputs` are the hashes that its summary will have, and `series_ms` is the period of the series.
#[must_use]
pub fn analyse(
    run: RunId,
    inputs: BTreeMap<String, String>,
    planned: &Planned,
    measured: &Measured,
    series_ms: u64,
) -> Analysed {
    let plan = &planned.plan;
    let capacities: Vec<Capacity> = plan.links.iter().map(Capacity::of).collect();
    let mut packets = vec![Vec::new(); plan.flows.len()];
    for record in measured.packets.iter().filter(|r| r.flow != NO_FLOW && carries_data(r, plan)) {
        if let Some(of_flow) = packets.get_mut(usize::from(record.flow)) {
            of_flow.push(*record);
        }
    }
    let mut acks = vec![Vec::new(); plan.flows.len()];
    for record in &measured.acks {
        if let Some(of_flow) = acks.get_mut(usize::from(record.flow)) {
            of_flow.push(*record);
        }
    }
    let mut delays = vec![DelayOverTime::default(); plan.links.len()];
    for record in &measured.packets {
        let link = usize::from(record.link);
        if let (Some(delay), Some(capacity)) = (delays.get_mut(link), capacities.get(link)) {
            delay.add(record, capacity);
        }
    }
    let histories = LinkHistories { capacities: &capacities, delays: &delays };
    let flows: Vec<_> = (0..plan.flows.len())
        .map(|place| flow::summary(place, planned, &measured.record, &packets[place], &acks[place], &histories))
        .collect();
    let busy = busy(&measured.record);
    let summary = RunSummary {
        run,
        inputs,
        duration_s: plan.duration_ns as f64 / 1e9,
        invalid: invalid(measured, &busy),
        busy_max: busy.iter().copied().fold(0.0, f64::max),
        busy_mean: if busy.is_empty() { 0.0 } else { busy.iter().sum::<f64>() / busy.len() as f64 },
        receiver_programs: measured.record.receiver_programs.clone(),
        jain: jain(flows.iter().filter(|f| f.cc != "udp").map(|f| f.throughput_bps)),
        flows,
        bounds: if planned.bounds { bounds::bounds(plan) } else { Vec::new() },
        links: links(plan, measured, &capacities),
        events: measured.record.events.clone(),
    };
    let period_ns = series_ms * 1_000_000;
    Analysed {
        flows_csv: series::flows(planned, &acks, period_ns),
        links_csv: series::links(planned, measured, &capacities, period_ns),
        summary,
    }
}

fn carries_data(record: &PacketRecord, plan: &Plan) -> bool {
    let is_udp = plan.flows.get(usize::from(record.flow)).is_some_and(|f| f.cc.is_none());
    record.towards_receiver() && (is_udp || record.bytes > MAX_EMPTY_PACKET_BYTES)
}

/// Returns the share of each bin in which the processor was busy; empty if idle time was not measured.
fn busy(record: &RunRecord) -> Vec<f64> {
    record.idle_ns.iter().map(|ns| 1.0 - (*ns as f64 / IDLE_BIN_NS as f64).min(1.0)).collect()
}

fn invalid(measured: &Measured, busy: &[f64]) -> Vec<String> {
    let mut why = Vec::new();
    let too_busy = busy.iter().filter(|b| **b > BUSIEST).count();
    if too_busy > 0 {
        let (first, percent) = (busy.iter().position(|b| *b > BUSIEST).unwrap_or_default(), BUSIEST * 100.0);
        let at_s = first as f64 / 10.0;
        why.push(format!("the processor was over {percent} % busy in {too_busy} windows of 100 ms, first at {at_s} s"));
    }
    if measured.record.missing_records > 0 {
        why.push(format!("{} records were lost: the record buffers were full", measured.record.missing_records));
    }
    why.extend(measured.record.faults.iter().cloned());
    for flow in measured.record.flows.iter().filter_map(|f| f.error.as_ref()) {
        why.push(format!("a flow failed: {flow}"));
    }
    why
}

fn links(plan: &Plan, measured: &Measured, capacities: &[Capacity]) -> Vec<LinkSummary> {
    let mut queues = vec![(Vec::new(), Vec::new(), 0); plan.links.len()];
    // a packet that the policer drops does not reach the queue
    for record in measured.packets.iter().filter(|record| record.fate() != POLICED) {
        if let Some((bytes, waits_ms, passed)) = queues.get_mut(usize::from(record.link)) {
            bytes.push(f64::from(record.queue_bytes));
            waits_ms.push(record.wait_ns as f64 / 1e6);
            // a lost packet took its time on the link; a packet that still waits at the end did not
            if record.fate() != QUEUE_DROP && record.time_ns + record.wait_ns < plan.duration_ns {
                *passed += u64::from(record.bytes);
            }
        }
    }
    let kept = |link: &&PlannedLink| link.keeps_records();
    let all = plan.links.iter().zip(&measured.record.links).zip(queues).zip(capacities);
    let kept = all.filter(|(((link, _), _), _)| kept(link));
    kept.map(|(((link, end), (bytes, waits_ms, passed)), capacity)| LinkSummary {
        name: link.name.clone(),
        packets: end.packets,
        bytes: end.bytes,
        police_drops: end.police_drops,
        queue_drops: end.queue_drops,
        losses: end.losses,
        ce_marks: end.ce_marks,
        utilisation: capacity.mean_bps(0, plan.duration_ns).map(|bps| {
            let could = bps / 8.0 * plan.duration_ns as f64 / 1e9;
            if could > 0.0 { passed as f64 / could } else { 0.0 }
        }),
        queue_bytes: Distribution::of(bytes),
        queue_delay_ms: Distribution::of(waits_ms),
    })
    .collect()
}

/// Returns the fairness index of Jain, Chiu and Hawe (1984): the square of the sum, divided by the number of rates
/// times the sum of the squares; 1 if all rates are 0 or there are none.
fn jain(rates: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for rate in rates {
        count += 1.0;
        sum += rate;
        squares += rate * rate;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_of_equals_is_one_and_of_a_monopoly_one_in_n() {
        assert_eq!(jain([5.0, 5.0, 5.0].into_iter()), 1.0);
        assert_eq!(jain([9.0, 0.0, 0.0].into_iter()), 1.0 / 3.0);
        assert_eq!(jain(std::iter::empty()), 1.0);
    }

    #[test]
    fn results_that_are_cut_off_are_refused() {
        let record = RunRecord { packet_records: 1, ..RunRecord::default() };
        let mut bytes = serde_json::to_vec(&record).unwrap();
        bytes.push(b'\n');
        bytes.extend([0; 31]);
        assert!(Measured::parse(&bytes).unwrap_err().to_string().contains("31 bytes of records, not 32"));
        bytes.push(0);
        assert_eq!(Measured::parse(&bytes).unwrap().packets.len(), 1);
        assert!(Measured::parse(b"").is_err());
    }
}
