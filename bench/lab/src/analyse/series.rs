//! The series: one row per period, for each flow and each link.

use super::Measured;
use super::rates::{Capacity, Progress};
use crate::planner::Planned;
use crate::results::{FLOW_COLUMNS, LINK_COLUMNS};
use hotcc_lab_proto::records::{AckRecord, LOST, POLICED, QUEUE_DROP, SENT};
use std::fmt::Write as _;

const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Returns a value as text; empty if there is none.
fn cell(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(String::new, |v| v.to_string())
}

fn sinr_at(planned: &Planned, link: usize, at_ns: u64) -> Option<String> {
    let radio = planned.radios.get(&link)?;
    let step = at_ns / (radio.step.as_nanos() as u64).max(1);
    radio.sinr_db.as_ref()?.get(step as usize).filter(|db| db.is_finite()).map(|db| format!("{db:.2}"))
}

pub(super) fn flows(planned: &Planned, acks: &[Vec<AckRecord>], period_ns: u64) -> String {
    let plan = &planned.plan;
    let mut csv = FLOW_COLUMNS.join(",") + "\n";
    let mut next = vec![0; acks.len()];
    for period in 0..plan.duration_ns.div_ceil(period_ns) {
        // the last period ends with the run
        let (from, until) = (period * period_ns, ((period + 1) * period_ns).min(plan.duration_ns));
        for (place, flow) in plan.flows.iter().enumerate() {
            let of_flow = &acks[place];
            let first = next[place];
            next[place] += of_flow[first..].partition_point(|r| r.time_ns < until);
            let Some(last) = of_flow[first..next[place]].last() else { continue };
            let sinr = flow.way.iter().find_map(|link| sinr_at(planned, *link, from));
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{:.0},{},{},{}",
                until as f64 / 1e9,
                flow.name,
                last.cwnd,
                cell(Some(last.ssthresh).filter(|s| *s < INFINITE_SSTHRESH)),
                cell(Some(last.srtt_us).filter(|us| *us > 0)),
                cell(Some(last.rtt_us).filter(|us| *us > 0)),
                cell(Some(last.min_rtt_us).filter(|us| *us != u32::MAX)),
                last.rto_ms,
                last.in_flight,
                Progress(of_flow).bps(from, until),
                last.ca_state,
                cell(sinr),
                cell(flow.watch.map(|_| last.detail)),
            );
        }
    }
    csv
}

#[derive(Clone, Copy, Default)]
struct Row {
    queue_bytes: u32,
    sent_bytes: u64,
    queue_drops: u64,
    losses: u64,
    ce_marks: u64,
    police_drops: u64,
}

pub(super) fn links(planned: &Planned, measured: &Measured, capacities: &[Capacity], period_ns: u64) -> String {
    let plan = &planned.plan;
    let mut csv = LINK_COLUMNS.join(",") + "\n";
    let periods = plan.duration_ns.div_ceil(period_ns) as usize;
    let mut rows = vec![Row::default(); periods * plan.links.len()];
    let at = |ns: u64, link: u16| {
        let period = (ns / period_ns) as usize;
        (ns < plan.duration_ns && usize::from(link) < plan.links.len())
            .then(|| period * plan.links.len() + usize::from(link))
    };
    for r in &measured.packets {
        let segments = u64::from(r.segments);
        if let Some(row) = at(r.time_ns, r.link).map(|place| &mut rows[place]) {
            row.queue_bytes = row.queue_bytes.max(r.queue_bytes);
            row.queue_drops += if r.fate() == QUEUE_DROP { segments } else { 0 };
            row.losses += if r.fate() == LOST { segments } else { 0 };
            row.police_drops += if r.fate() == POLICED { segments } else { 0 };
            row.ce_marks += if r.marked() { segments } else { 0 };
        }
        // a packet is sent when its wait is over, not when it joins the queue
        if r.fate() == SENT
            && let Some(place) = at(r.time_ns + r.wait_ns, r.link)
        {
            rows[place].sent_bytes += u64::from(r.bytes);
        }
    }
    for (period, rows) in rows.chunks(plan.links.len()).enumerate() {
        let (from, until) = (period as u64 * period_ns, ((period as u64 + 1) * period_ns).min(plan.duration_ns));
        for (link, row) in rows.iter().enumerate().filter(|(link, _)| plan.links[*link].keeps_records()) {
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{},{}",
                until as f64 / 1e9,
                plan.links[link].name,
                cell(capacities[link].mean_bps(from, until).map(|bps| format!("{bps:.0}"))),
                cell(sinr_at(planned, link, from)),
                row.queue_bytes,
                row.sent_bytes,
                row.queue_drops,
                row.losses,
                row.ce_marks,
                row.police_drops,
            );
        }
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use hotcc_lab_proto::plan::{Plan, PlannedFlow, PlannedLink};
    use hotcc_lab_proto::records::PacketRecord;
    use hotcc_lab_proto::run_record::RunRecord;
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    const MS_NS: u64 = 1_000_000;

    /// Returns the first cells of each row.
    fn rows(csv: &str, cells: &[usize]) -> Vec<Vec<String>> {
        let row = |line: &str| {
            let all: Vec<&str> = line.split(',').collect();
            cells.iter().map(|cell| all[*cell].to_owned()).collect()
        };
        csv.lines().skip(1).map(row).collect()
    }

    #[test]
    fn the_last_period_ends_with_the_run() {
        let link = PlannedLink {
            name: "x".to_owned(),
            step_ns: 100 * MS_NS,
            rates: vec![(3, 8000)],
            ..PlannedLink::default()
        };
        let flow = PlannedFlow {
            name: "f".to_owned(),
            from: 0,
            to: 1,
            address: Ipv4Addr::LOCALHOST,
            cc: Some("cubic".to_owned()),
            watch: None,
            start_ns: 0,
            stop_ns: 250 * MS_NS,
            bytes: None,
            pace: None,
            paced: false,
            way: vec![0],
        };
        let plan = Plan { duration_ns: 250 * MS_NS, links: vec![link], flows: vec![flow], ..Plan::default() };
        let capacities = [Capacity::of(&plan.links[0])];
        let planned = Planned { plan, radios: BTreeMap::new(), bounds: false, objects: Vec::new() };
        let ack = |at_ms: u64, bytes_acked| AckRecord { time_ns: at_ms * MS_NS, bytes_acked, ..AckRecord::zeroed() };
        let acks = [vec![ack(50, 100), ack(240, 150), ack(260, 250)]];
        // 50 bytes in the last 50 ms; what comes after the end is not of the run
        assert_eq!(rows(&flows(&planned, &acks, 100 * MS_NS), &[0, 9]), [["0.1", "8000"], ["0.25", "8000"]]);
        let packet = |at_ms: u64| {
            let mut record = PacketRecord::with(SENT, false, true);
            (record.time_ns, record.bytes) = (at_ms * MS_NS, 70);
            record
        };
        let packets = vec![packet(10), packet(240), packet(260)];
        let measured = Measured { record: RunRecord::default(), packets, acks: Vec::new() };
        let csv = links(&planned, &measured, &capacities, 100 * MS_NS);
        assert_eq!(rows(&csv, &[0, 2, 5]), [["0.1", "8000", "70"], ["0.2", "8000", "0"], ["0.25", "8000", "70"]]);
    }
}
