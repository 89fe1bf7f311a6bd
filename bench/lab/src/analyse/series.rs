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
    for period in 0..plan.duration_ns / period_ns {
        let (from, until) = (period * period_ns, (period + 1) * period_ns);
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
    let periods = (plan.duration_ns / period_ns) as usize;
    let mut rows = vec![Row::default(); periods * plan.links.len()];
    let at = |ns: u64, link: u16| {
        let period = (ns / period_ns) as usize;
        (period < periods && usize::from(link) < plan.links.len())
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
        let (from, until) = (period as u64 * period_ns, (period as u64 + 1) * period_ns);
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
