//! The series: one row per period, for each flow and each link.

use super::Measured;
use super::rates::{Capacity, Progress};
use crate::lab::planner::Planned;
use crate::lab::records::{AckRecord, LOST, PacketRecord, QUEUE_DROP, SENT};
use crate::lab::results::{FLOW_COLUMNS, LINK_COLUMNS};
use std::fmt::Write as _;

const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// Text of a value, or nothing.
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
                "{},{},{},{},{},{},{},{},{:.0},{},{},{}",
                until as f64 / 1e9,
                flow.name,
                last.cwnd,
                cell(Some(last.ssthresh).filter(|s| *s < INFINITE_SSTHRESH)),
                cell(Some(last.srtt_us).filter(|us| *us > 0)),
                cell(Some(last.rtt_us).filter(|us| *us > 0)),
                cell(Some(last.min_rtt_us).filter(|us| *us != u32::MAX)),
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
}

impl Row {
    fn add(&mut self, r: &PacketRecord) {
        let segments = u64::from(r.segments);
        self.queue_bytes = self.queue_bytes.max(r.queue_bytes);
        match r.fate() {
            SENT => self.sent_bytes += u64::from(r.bytes),
            QUEUE_DROP => self.queue_drops += segments,
            LOST => self.losses += segments,
            _ => {}
        }
        self.ce_marks += if r.marked() { segments } else { 0 };
    }
}

pub(super) fn links(planned: &Planned, measured: &Measured, capacities: &[Capacity], period_ns: u64) -> String {
    let plan = &planned.plan;
    let mut csv = LINK_COLUMNS.join(",") + "\n";
    let mut next = 0;
    for period in 0..plan.duration_ns / period_ns {
        let (from, until) = (period * period_ns, (period + 1) * period_ns);
        let mut rows = vec![Row::default(); plan.links.len()];
        while let Some(record) = measured.packets.get(next).filter(|r| r.time_ns < until) {
            if let Some(row) = rows.get_mut(usize::from(record.link)) {
                row.add(record);
            }
            next += 1;
        }
        for (link, row) in rows.iter().enumerate().filter(|(link, _)| plan.links[*link].keeps_records()) {
            let _ = writeln!(
                csv,
                "{},{},{},{},{},{},{},{},{}",
                until as f64 / 1e9,
                plan.links[link].name,
                cell(capacities[link].mean_bps(from, until).map(|bps| format!("{bps:.0}"))),
                cell(sinr_at(planned, link, from)),
                row.queue_bytes,
                row.sent_bytes,
                row.queue_drops,
                row.losses,
                row.ce_marks,
            );
        }
    }
    csv
}
