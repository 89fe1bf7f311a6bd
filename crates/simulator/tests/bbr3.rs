//! BBRv3 (bench/peers) alone on a path: its states over time, as shown in docs/reference/bbr3.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod two_hosts;

use hotcc_lab_proto::plan::{Algorithm, Plan, PlannedFlow};
use hotcc_simulator::exec::Outcome;
use std::fmt::Write as _;
use two_hosts::{flow, run};

const SECONDS: u64 = 12;
const NAMES: [&str; 7] = ["Startup", "Drain", "DOWN", "CRUISE", "REFILL", "UP", "ProbeRTT"];
/// Offset and size of the field `state` in the algorithm's per-flow state.
const STATE: (u32, u32) = (86, 1);

/// Returns a plan of one flow at 20 Mbit/s, with an RTT of 40 ms and a queue of two BDP.
fn plan() -> Plan {
    let flow = PlannedFlow { watch: Some(STATE), ..flow("bbr3", None) };
    let algorithm = Algorithm { object: "bbr3".into(), cc: "bbr3".into(), profile: "default".into(), set: Vec::new() };
    Plan { algorithms: vec![algorithm], ..two_hosts::plan(vec![flow], SECONDS, 20_000_000, 200_000, 20) }
}

/// A period in one state.
struct Stay {
    state: usize,
    from_ns: u64,
    until_ns: u64,
    most_in_flight: u32,
    bytes: u64,
    longest_rtt_us: u32,
}

fn stays(outcome: &Outcome) -> Vec<Stay> {
    let mut stays: Vec<Stay> = Vec::new();
    let mut acked = 0;
    for ack in &outcome.acks {
        let state = ack.detail as usize;
        if stays.last().is_none_or(|stay| stay.state != state) {
            let (from_ns, until_ns) = (ack.time_ns, ack.time_ns);
            stays.push(Stay { state, from_ns, until_ns, most_in_flight: 0, bytes: 0, longest_rtt_us: 0 });
        }
        let stay = stays.last_mut().unwrap();
        stay.until_ns = ack.time_ns;
        stay.most_in_flight = stay.most_in_flight.max(ack.in_flight);
        stay.longest_rtt_us = stay.longest_rtt_us.max(ack.rtt_us);
        stay.bytes += ack.bytes_acked - acked;
        acked = ack.bytes_acked;
    }
    stays
}

fn table(stays: &[Stay]) -> String {
    let mut text = "| from, s | state | for, ms | Mbit/s | most in flight, segments | longest RTT, ms |\n\
        | ---: | --- | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (i, stay) in stays.iter().enumerate() {
        let until_ns = stays.get(i + 1).map_or(stay.until_ns, |next| next.from_ns);
        let took_ns = until_ns - stay.from_ns;
        let rate = stay.bytes as f64 * 8e3 / took_ns.max(1) as f64;
        writeln!(
            text,
            "| {:.2} | {} | {} | {rate:.1} | {} | {:.0} |",
            stay.from_ns as f64 / 1e9,
            NAMES[stay.state],
            took_ns / 1_000_000,
            stay.most_in_flight,
            f64::from(stay.longest_rtt_us) / 1e3,
        )
        .unwrap();
    }
    text
}

#[test]
fn it_runs_through_its_cycle() {
    let outcome = run(&plan());
    let stays = stays(&outcome);
    let names: Vec<&str> = stays.iter().map(|stay| NAMES[stay.state]).collect();
    let shown = table(&stays);
    // DOWN is missing here: it ends in the same ACK as Drain
    assert_eq!(names[..3], ["Startup", "Drain", "CRUISE"], "\n{shown}");
    let cycle = ["CRUISE", "REFILL", "UP", "DOWN", "CRUISE"];
    assert!(names.windows(5).filter(|states| *states == cycle).count() >= 2, "\n{shown}");
    let probe_rtt = stays.iter().find(|stay| NAMES[stay.state] == "ProbeRTT").expect("no ProbeRTT");
    assert!((5.0..6.5).contains(&(probe_rtt.from_ns as f64 / 1e9)), "\n{shown}");
    let bytes = outcome.acks.last().unwrap().bytes_acked;
    let share = bytes as f64 * 8.0 / (20e6 * SECONDS as f64);
    assert!(share > 0.85, "{share} of the rate");
    let page = include_str!("../../../docs/reference/bbr3.md");
    assert!(page.contains(&shown), "docs/reference/bbr3.md lacks\n{shown}");
}
