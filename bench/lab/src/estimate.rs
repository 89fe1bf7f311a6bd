//! Estimates how long a scenario's runs take in real time, from what their links could carry.

use crate::planner::{mean_rate_bps, plan};
use crate::scenario::Source;
use crate::selection::Selection;
use anyhow::Result;
use hotcc_lab_proto::plan::{Plan, PlannedCable, PlannedFlow};
use std::collections::BTreeSet;
use std::time::Duration;

/// Seconds until a guest is resumed and has loaded what it needs; and seconds per data packet on a link, including its
/// ACK. Measured on one core of a server processor of 2023, on which a flow of 40 Mbit/s over one link took 21 s for 60
/// s.
const START_S: f64 = 1.5;
const PACKET_S: f64 = 0.0001;
/// Number of single packets that take as long as a bundle of 4 to 16 packets.
const BUNDLE: f64 = 1.45;
/// Bytes of the headers of IP and TCP, with timestamps.
const HEADER_BYTES: u32 = 52;

/// Returns the seconds of real time for the selected runs, of which at most `jobs` run in parallel.
pub fn wall_s(source: &Source, selection: &Selection, jobs: usize) -> Result<f64> {
    let cases = source.cases()?;
    let traces = source.traces();
    let runs = selection.runs(source, &cases)?;
    let at_once = jobs.clamp(1, runs.len().max(1));
    let mut all_s = 0.0;
    for one in runs {
        let planned = plan(&one.case.scenario, one.id.seed, &traces)?;
        all_s += START_S + packets(&planned.plan) * PACKET_S;
    }
    Ok(all_s / at_once as f64)
}

/// Returns the number of data packets over all links, as limited by the links and the applications; a bundle counts as
/// [`BUNDLE`] packets.
fn packets(plan: &Plan) -> f64 {
    let duration_s = plan.duration_ns as f64 / 1e9;
    let crossed: BTreeSet<usize> = plan.flows.iter().flat_map(|flow| flow.way.iter().copied()).collect();
    let bytes_over = |link: usize| {
        let carried = &plan.links[link];
        let sharing = carried.cell.map_or(1, |_| plan.links.iter().filter(|other| other.cell == carried.cell).count());
        let rate_bps = mean_rate_bps(carried, Duration::from_nanos(plan.duration_ns));
        let could_bps = carried.police.map_or(rate_bps, |police| rate_bps.min(police.rate_bps as f64));
        let wanted: f64 =
            plan.flows.iter().filter(|flow| flow.way.contains(&link)).map(|flow| wanted_bytes(plan, flow)).sum();
        let bytes =
            if carried.rates.is_empty() { wanted } else { wanted.min(could_bps / 8.0 * duration_s / sharing as f64) };
        if bytes.is_finite() { bytes } else { 0.0 }
    };
    let ends = plan.cables.iter().flat_map(|cable| cable.ends.iter().map(move |end| (end.receives, cable)));
    let packets = |(link, cable): (usize, &PlannedCable)| {
        let single = bytes_over(link) / f64::from(cable.mtu.saturating_sub(HEADER_BYTES).max(1));
        if cable.offload_segments > 1 { single / f64::from(cable.offload_segments) * BUNDLE } else { single }
    };
    ends.filter(|(link, _)| crossed.contains(link)).map(packets).sum()
}

/// Returns the bytes that the application has to send.
fn wanted_bytes(plan: &Plan, flow: &PlannedFlow) -> f64 {
    let for_ns = flow.stop_ns.min(plan.duration_ns).saturating_sub(flow.start_ns) as f64;
    let paced = flow.pace.map_or(f64::INFINITY, |p| f64::from(p.write_bytes) * for_ns / p.interval_ns.max(1) as f64);
    flow.bytes.map_or(f64::INFINITY, |bytes| bytes as f64).min(paced)
}

/// Returns the time in words: `about 40 s`, `about 12 min`, `about 3 h`.
#[must_use]
pub fn words(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("about {s:.0} s"),
        s if s < 5400.0 => format!("about {:.0} min", s / 60.0),
        s => format!("about {:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab_proto::plan::{End, Pace, PlannedLink};

    #[test]
    fn links_and_applications_bound_what_is_to_be_carried() {
        let flow = |bytes, pace| PlannedFlow { way: vec![0], bytes, pace, stop_ns: 10_000_000_000, ..unlimited() };
        let end = |receives| End { host: 0, device: String::new(), receives };
        let plan_of = |mtu, offload_segments, rates: Vec<(u32, u64)>, flows| Plan {
            duration_ns: 10_000_000_000,
            links: vec![PlannedLink { step_ns: 1_000_000_000, rates, ..PlannedLink::default() }],
            cables: vec![PlannedCable { ends: [end(0), end(1)], mtu, offload_segments }],
            flows,
            ..Plan::default()
        };
        let plan = |rates, flows| plan_of(1500, 1, rates, flows);
        let megabits = |mbps: f64| mbps * 10.0 * 1e6 / 8.0 / 1448.0;
        // five seconds at each rate; rates after the end do not count
        let rates = vec![(5, 8_000_000), (5, 4_000_000), (50, 90_000_000)];
        assert_eq!(packets(&plan(rates.clone(), vec![flow(None, None)])), megabits(6.0));
        assert_eq!(packets(&plan(rates.clone(), vec![flow(Some(144_800), None)])), 100.0);
        assert_eq!(packets(&plan_of(9000, 1, rates.clone(), vec![flow(Some(894_800), None)])), 100.0);
        assert_eq!(packets(&plan_of(1500, 4, rates.clone(), vec![flow(Some(144_800), None)])), 25.0 * BUNDLE);
        let pace = Some(Pace { interval_ns: 1_000_000, write_bytes: 125 });
        assert_eq!(packets(&plan(rates, vec![flow(None, pace), flow(None, pace)])), megabits(2.0));
        assert_eq!(packets(&plan(Vec::new(), vec![flow(None, pace)])), megabits(1.0));
        assert_eq!(packets(&plan(Vec::new(), vec![flow(None, None)])), 0.0, "nothing says how much");
    }

    fn unlimited() -> PlannedFlow {
        PlannedFlow {
            name: String::new(),
            from: 0,
            to: 1,
            address: std::net::Ipv4Addr::LOCALHOST,
            cc: None,
            watch: None,
            start_ns: 0,
            stop_ns: 0,
            bytes: None,
            pace: None,
            paced: false,
            way: Vec::new(),
        }
    }

    #[test]
    fn durations_are_formatted_for_people() {
        assert_eq!([words(42.4), words(600.0), words(9000.0)], ["about 42 s", "about 10 min", "about 2.5 h"]);
    }
}
