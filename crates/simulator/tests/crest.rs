//! crest on random paths: it uses the link, keeps the queue short, and recovers from changes of the path.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_lab_proto::plan::{
    Algorithm, End, Feed, Plan, PlannedCable, PlannedFlow, PlannedHost, PlannedLink, PlannedPhase, PlannedPolice,
    PlannedReading,
};
use hotcc_lab_proto::queue::{Kind, Parameters};
use hotcc_lab_proto::records::POLICED;
use hotcc_simulator::exec::{Outcome, simulate};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::net::Ipv4Addr;

const SECOND_NS: u64 = 1_000_000_000;
const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SECONDS: u64 = 40;

/// A path without events: its rate, and its delay each way.
#[derive(Clone, Copy, Debug)]
struct Path {
    rate_bps: u64,
    delay_ms: u64,
}

impl Path {
    fn phase(self, from_s: u64, loss: f64) -> PlannedPhase {
        let delay_ns = self.delay_ms * 1_000_000;
        PlannedPhase { from_ns: from_s * SECOND_NS, delay_ns, loss, ..PlannedPhase::default() }
    }

    /// Returns a plan with one flow of crest on the path, which has these phases and a queue of 2 MB.
    fn plan(self, phases: Vec<PlannedPhase>) -> Plan {
        let host = |name: &str, address: &str| PlannedHost {
            name: name.to_owned(),
            setup: vec![format!("address add {address}/24 dev e0")],
            sysctls: Vec::new(),
            rx: None,
        };
        let link = |name: &str, seed| PlannedLink {
            name: name.to_owned(),
            seed,
            step_ns: SECOND_NS,
            rates: vec![(1, self.rate_bps)],
            queue_bytes: 2_000_000,
            phases: vec![self.phase(0, 0.0)],
            ..PlannedLink::default()
        };
        let end = |host, receives| End { host, device: "e0".to_owned(), receives };
        let flow = PlannedFlow {
            name: "crest".to_owned(),
            from: 0,
            to: 1,
            address: TO,
            cc: Some("crest".to_owned()),
            watch: None,
            start_ns: 0,
            stop_ns: u64::MAX,
            bytes: None,
            pace: None,
            paced: false,
            way: vec![0],
        };
        let algorithm =
            Algorithm { object: "crest".into(), cc: "crest".into(), profile: "default".into(), set: Vec::new() };
        Plan {
            duration_ns: SECONDS * SECOND_NS,
            hosts: vec![host("a", "10.0.0.1"), host("b", "10.0.0.2")],
            cables: vec![PlannedCable { ends: [end(0, 1), end(1, 0)], mtu: 1500, offload_segments: 1 }],
            links: vec![
                PlannedLink { phases, ..link("l:a>b", 1) },
                PlannedLink { rates: Vec::new(), ..link("l:b>a", 2) },
            ],
            flows: vec![flow],
            algorithms: vec![algorithm],
            packet_records: 5_000_000,
            ack_records: 5_000_000,
            ..Plan::default()
        }
    }

    /// Returns a plan with this many flows under one congestion control, all from the start, with a queue of 2 MB.
    fn crowd(self, cc: &str, flows: usize) -> Plan {
        let mut plan = self.plan(vec![self.phase(0, 0.0)]);
        let one = PlannedFlow { cc: Some(cc.to_owned()), ..plan.flows[0].clone() };
        plan.flows = (0..flows).map(|i| PlannedFlow { name: format!("f{i}"), ..one.clone() }).collect();
        plan
    }

    /// Returns a plan with a flow of this congestion control, whose ACKs wait in a queue of 1 to 4 BDP: two uploads of
    /// CUBIC fill it.
    fn full_way_back(self, cc: &str, rate_bps: u64, bdps: u64) -> Plan {
        let mut plan = self.crowd(cc, 1);
        let queue_bytes = (bdps * rate_bps / 8 * 2 * self.delay_ms / 1000).max(6000);
        plan.links[0].queue_bytes = (self.rate_bps / 8 * 2 * self.delay_ms / 1000).max(30_000);
        plan.links[1] = PlannedLink { rates: vec![(1, rate_bps)], queue_bytes, ..plan.links[1].clone() };
        let upload = PlannedFlow {
            cc: Some("cubic".to_owned()),
            from: 1,
            to: 0,
            address: FROM,
            way: vec![1],
            ..plan.flows[0].clone()
        };
        plan.flows.extend(["u1", "u2"].map(|name| PlannedFlow { name: name.to_owned(), ..upload.clone() }));
        plan
    }

    /// Returns the share of the link's rate that the flow had from `from_s` to the end.
    fn share(self, outcome: &Outcome, from_s: u64) -> f64 {
        let at = |time_ns| {
            outcome.acks.iter().take_while(|ack| ack.time_ns <= time_ns).last().map_or(0, |ack| ack.bytes_acked)
        };
        let bytes = at(SECONDS * SECOND_NS) - at(from_s * SECOND_NS);
        bytes as f64 * 8.0 / (SECONDS - from_s) as f64 / self.rate_bps as f64
    }

    /// Returns a plan with a policer of the path's rate on a faster link, so that no queue forms. The policer's bucket
    /// holds what arrives in half a round trip.
    fn policed(self) -> Plan {
        let mut plan = self.plan(vec![self.phase(0, 0.0)]);
        let burst_bytes = (self.rate_bps / 8 * self.delay_ms / 1000).max(20_000);
        let police = Some(PlannedPolice { rate_bps: self.rate_bps, burst_bytes });
        plan.links[0] = PlannedLink { rates: vec![(1, 4 * self.rate_bps)], police, ..plan.links[0].clone() };
        plan
    }

    /// Returns the share of the packets that the link dropped from `from_s` on.
    fn lost(outcome: &Outcome, from_s: u64) -> f64 {
        let on_link = outcome.packets.iter().filter(|p| p.link == 0 && p.time_ns >= from_s * SECOND_NS);
        let (all, dropped) =
            on_link.fold((0, 0), |(all, dropped), p| (all + 1, dropped + u32::from(p.fate() == POLICED)));
        f64::from(dropped) / f64::from(all)
    }

    /// Returns the 95th percentile of the packets' queueing delay from `from_s` on.
    fn p95_ms(outcome: &Outcome, from_s: u64) -> f64 {
        let on_link = outcome.packets.iter().filter(|p| p.link == 0 && p.time_ns >= from_s * SECOND_NS);
        let mut waits: Vec<u64> = on_link.map(|p| p.wait_ns).collect();
        waits.sort_unstable();
        waits[waits.len() * 95 / 100] as f64 / 1e6
    }

    /// Returns Jain's index of the flows' bytes.
    fn jain(outcome: &Outcome) -> f64 {
        let bytes: Vec<f64> = outcome.record.flows.iter().map(|end| end.bytes as f64).collect();
        let sum: f64 = bytes.iter().sum();
        sum * sum / (bytes.len() as f64 * bytes.iter().map(|b| b * b).sum::<f64>())
    }

    /// Returns the allowed queueing delay: that of twice the queue that crest aims at, and four segments.
    fn allowed_ms(self) -> f64 {
        let (rtt_ms, segment_ms) = (2.0 * self.delay_ms as f64, 12e6 / self.rate_bps as f64);
        let target_ms = f64::max(5.0, rtt_ms / 8.0);
        let window = (rtt_ms + target_ms) / segment_ms;
        2.0 * (target_ms + f64::max(3.0, 1.25 * window.sqrt()) * segment_ms) + 4.0 * segment_ms
    }
}

fn run(plan: &Plan) -> Outcome {
    simulate(plan, &|_, _, _| Ok(Vec::new())).unwrap()
}

/// Returns a feed with a reading every 20 ms, 10 ms old, of the capacity and the cell.
fn every_20_ms(capacity_bps: impl Fn(u64) -> u64, cell: impl Fn(u64) -> u32) -> Feed {
    let reading = |i| {
        let (at_ns, made_ns) = (i * 20_000_000 + 10_000_000, i * 20_000_000);
        let (capacity_bps, cell) = (Some(capacity_bps(made_ns)), cell(made_ns));
        PlannedReading { at_ns, made_ns, sinr_db: None, average_db: None, capacity_bps, cell }
    };
    let readings = (0..SECONDS * 50).map(reading).collect();
    Feed { address: TO, max_age_ms: 500, period_ms: 20, readings }
}

/// At 20 s, a handover changes the RTT from 20 ms to 60 ms. The flow has the full rate within 1 s if the radio reports
/// the change of the cell, and otherwise within 6 s.
#[test]
fn a_handover_is_over_within_a_second_of_the_change_of_the_cell() {
    let path = Path { rate_bps: 20_000_000, delay_ms: 10 };
    let far = Path { delay_ms: 30, ..path };
    let plan = |cell: bool| {
        let mut plan = path.plan(vec![path.phase(0, 0.0), far.phase(20, 0.0)]);
        plan.links[1].phases = vec![path.phase(0, 0.0), far.phase(20, 0.0)];
        let cell = move |made_ns| u32::from(cell && made_ns >= 20 * SECOND_NS);
        plan.feeds = vec![every_20_ms(|_| path.rate_bps, cell)];
        plan
    };
    let rate = |outcome: &Outcome, from_s: f64| {
        let at = |s: f64| {
            let until = (s * 1e9) as u64;
            outcome.acks.iter().take_while(|ack| ack.time_ns <= until).last().map_or(0, |ack| ack.bytes_acked)
        };
        (at(from_s + 1.0) - at(from_s)) as f64 * 8.0 / path.rate_bps as f64
    };
    let [with, without] = [true, false].map(|cell| run(&plan(cell)));
    for s in 18..30 {
        let from_s = f64::from(s);
        println!("{s} s: {:.3} with, {:.3} without", rate(&with, from_s), rate(&without, from_s));
    }
    assert!(rate(&with, 21.0) > 0.9, "{} of the link in the second after the first one", rate(&with, 21.0));
    assert!(rate(&without, 26.0) > 0.9, "{} of the link in the seventh second", rate(&without, 26.0));
}

/// 2 to 100 Mbit/s, RTTs of 16 to 80 ms. Beyond 100 ms and 80 Mbit/s, the queue exceeds `allowed_ms` for over 5 % of
/// the time.
fn paths() -> impl Strategy<Value = Path> {
    (0.3f64..2.0, 8u64..40)
        .prop_map(|(log_mbps, delay_ms)| Path { rate_bps: (10f64.powf(log_mbps) * 1e6) as u64, delay_ms })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn alone_it_uses_the_link_and_keeps_the_queue_short(path in paths()) {
        let outcome = run(&path.plan(vec![path.phase(0, 0.0)]));
        let (share, p95_ms) = (path.share(&outcome, 3), Path::p95_ms(&outcome, 3));
        prop_assert!(share > 0.88, "{share} of the link");
        prop_assert!(p95_ms < path.allowed_ms(), "{p95_ms} ms of queue, {} allowed", path.allowed_ms());
    }

    /// crest finds a policer's rate, and most segments arrive. Below 5 Mbit/s, a round trip has so few segments that
    /// one loss is a large share of them.
    #[test]
    fn a_policer_loses_little(path in paths().prop_filter("rate", |path| path.rate_bps > 5_000_000)) {
        let outcome = run(&path.policed());
        let (share, lost) = (path.share(&outcome, 3), Path::lost(&outcome, 3));
        prop_assert!(lost < 0.03, "{lost} lost, {share} of the rate");
        prop_assert!(share > 0.8, "{share} of the rate");
    }

    #[test]
    fn it_recovers_from_an_outage(path in paths(), outage_s in 1u64..4) {
        let dead = path.phase(8, 1.0);
        let outcome = run(&path.plan(vec![path.phase(0, 0.0), dead, path.phase(8 + outage_s, 0.0)]));
        let share = path.share(&outcome, 20);
        prop_assert!(share > 0.88, "{share} of the link");
    }

    #[test]
    fn it_recovers_from_5_percent_loss(path in paths()) {
        let outcome = run(&path.plan(vec![path.phase(0, 0.0), path.phase(5, 0.05), path.phase(15, 0.0)]));
        let share = path.share(&outcome, 20);
        prop_assert!(share > 0.88, "{share} of the link");
    }

    /// This also holds if the minimum of four segments in flight per flow exceeds, in total, what the path holds.
    #[test]
    fn siblings_share_the_link_and_leave_less_queue_than_bbr(
        log_mbps in 1f64..2.0, delay_ms in 8u64..40, flows in 2usize..17
    ) {
        let path = Path { rate_bps: (10f64.powf(log_mbps) * 1e6) as u64, delay_ms };
        let [crest, bbr] = ["crest", "bbr"].map(|cc| run(&path.crowd(cc, flows)));
        let (jain, p95_ms, of_bbr_ms) = (Path::jain(&crest), Path::p95_ms(&crest, 3), Path::p95_ms(&bbr, 3));
        prop_assert!(jain > 0.95, "{jain}");
        prop_assert!(p95_ms < of_bbr_ms, "{p95_ms} ms of queue, BBR {of_bbr_ms}");
    }

    /// A CoDel that marks keeps the queue near its target of 5 ms, with few marks, although
    /// crest wants more of a queue on longer paths.
    #[test]
    fn marks_of_a_codel_keep_the_queue_short(log_mbps in 1f64..2.0, delay_ms in 8u64..100) {
        let path = Path { rate_bps: (10f64.powf(log_mbps) * 1e6) as u64, delay_ms };
        let mut plan = path.plan(vec![path.phase(0, 0.0)]);
        let (target_ns, interval_ns) = (5_000_000, 100_000_000);
        let codel = Parameters { kind: Kind::Codel, target_ns, interval_ns, ecn: true, mtu_bytes: 1500, seed: 1 };
        plan.links[0].discipline = Some(codel);
        for host in &mut plan.hosts {
            host.sysctls.push(("net.ipv4.tcp_ecn".to_owned(), "1".to_owned()));
        }
        let outcome = run(&plan);
        let on_link = || outcome.packets.iter().filter(|p| p.link == 0 && p.time_ns >= 3 * SECOND_NS);
        let (all, marked) = (on_link().count(), on_link().filter(|p| p.marked()).count());
        let mean_ms = on_link().map(|p| p.wait_ns as f64 / 1e6).sum::<f64>() / all as f64;
        let share = path.share(&outcome, 3);
        prop_assert!(marked > 0 && marked * 50 < all, "{marked} of {all} packets are marked");
        prop_assert!(mean_ms < 10.0, "{mean_ms} ms of queue");
        prop_assert!(share > 0.8, "{share} of the link");
    }

    /// While ACKs wait in a queue on their way back, crest keeps more data in flight instead of seeing a rival.
    #[test]
    fn acks_that_wait_cost_no_throughput(path in paths(), slower in 5u64..20, bdps in 1u64..5) {
        let back_bps = (path.rate_bps / slower).max(500_000);
        let bytes = |cc| run(&path.full_way_back(cc, back_bps, bdps)).record.flows[0].bytes as f64;
        let of_cubic = bytes("crest") / bytes("cubic");
        prop_assert!(of_cubic > 0.9, "{of_cubic} of CUBIC's");
    }

    /// The capacity is alternately ten times too high and ten times too low.
    #[test]
    fn a_wrong_capacity_costs_little(path in paths(), swing_s in 1u64..10) {
        let plan = path.plan(vec![path.phase(0, 0.0)]);
        let without = path.share(&run(&plan), 3);
        let factor = |at_ns: u64| if (at_ns / (swing_s * SECOND_NS)).is_multiple_of(2) { 10.0 } else { 0.1 };
        let capacity = |at_ns| (path.rate_bps as f64 * factor(at_ns)) as u64;
        let with = path.share(&run(&Plan { feeds: vec![every_20_ms(capacity, |_| 0)], ..plan }), 3);
        prop_assert!(with > 0.97 * without, "{with} with the wrong capacity, {without} without");
    }

    #[test]
    fn a_signal_that_foretells_nothing_costs_little(path in paths(), noise in prop::collection::vec(-10f32..30.0, 400)) {
        let plan = path.plan(vec![path.phase(0, 0.0)]);
        let without = path.share(&run(&plan), 3);
        let reading = |(i, sinr_db): (u64, f32)| PlannedReading {
            at_ns: i * SECOND_NS / 10,
            made_ns: i * SECOND_NS / 10,
            sinr_db: Some(sinr_db),
            average_db: Some(10.0),
            capacity_bps: None,
            cell: 0,
        };
        let readings = (0..).zip(noise).map(reading).collect();
        let feed = Feed { address: TO, max_age_ms: 500, period_ms: 100, readings };
        let with = path.share(&run(&Plan { feeds: vec![feed], ..plan }), 3);
        prop_assert!(with > 0.97 * without, "{with} with the signal, {without} without");
    }
}
