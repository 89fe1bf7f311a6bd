//! Plans of two hosts that are connected by a link in each direction.

use hotcc_lab_proto::plan::{End, Plan, PlannedCable, PlannedFlow, PlannedHost, PlannedLink, PlannedPhase};
use hotcc_simulator::exec::{Outcome, simulate};
use std::net::Ipv4Addr;

pub const SECOND_NS: u64 = 1_000_000_000;
/// Address of the second host.
pub const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn host(name: &str, address: &str) -> PlannedHost {
    let setup = vec![format!("address add {address}/24 dev e0")];
    PlannedHost { name: name.to_owned(), setup, sysctls: Vec::new(), rx: None }
}

/// Returns a flow to the second host, from the start on, of this many bytes or without an end.
pub fn flow(cc: &str, bytes: Option<u64>) -> PlannedFlow {
    PlannedFlow {
        name: cc.to_owned(),
        from: 0,
        to: 1,
        address: TO,
        cc: Some(cc.to_owned()),
        watch: None,
        start_ns: 0,
        stop_ns: u64::MAX,
        bytes,
        pace: None,
        paced: false,
        way: vec![0],
    }
}

/// Returns a plan with the same delay in both directions, and the rate and the queue in that of the flows' data.
pub fn plan(flows: Vec<PlannedFlow>, seconds: u64, rate_bps: u64, queue_bytes: u64, delay_ms: u64) -> Plan {
    let link = |name: &str, seed| PlannedLink {
        name: name.to_owned(),
        seed,
        step_ns: SECOND_NS,
        rates: vec![(seconds as u32, rate_bps)], // one step of an hour would overflow
        queue_bytes,
        phases: vec![PlannedPhase { delay_ns: delay_ms * 1_000_000, ..PlannedPhase::default() }],
        ..PlannedLink::default()
    };
    let end = |host, receives| End { host, device: "e0".to_owned(), receives };
    Plan {
        duration_ns: seconds * SECOND_NS,
        hosts: vec![host("a", "10.0.0.1"), host("b", "10.0.0.2")],
        cables: vec![PlannedCable { ends: [end(0, 1), end(1, 0)], mtu: 1500, offload_segments: 1 }],
        links: vec![link("l:a>b", 1), PlannedLink { rates: Vec::new(), ..link("l:b>a", 2) }],
        flows,
        packet_records: 5_000_000,
        ack_records: 5_000_000,
        ..Plan::default()
    }
}

pub fn run(plan: &Plan) -> Outcome {
    simulate(plan, &|_, _, _| Ok(Vec::new())).unwrap()
}
