//! Complete connections: properties that hold on any path, and the repeatability of runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod random_paths;
mod two_hosts;

use hotcc_lab_proto::plan::{Action, Feed, Pace, Plan, PlannedEvent, PlannedFlow, PlannedPhase, PlannedReading};
use hotcc_simulator::exec::{Outcome, simulate};
use proptest::prelude::*;
use random_paths::{algorithm, check};
use two_hosts::{SECOND_NS, TO, flow, run};

const MSS: u64 = 1448;

/// Returns a plan with two hosts and a link of 20 Mbit/s, with a delay of 20 ms each way.
fn plan(flows: Vec<PlannedFlow>, seconds: u64) -> Plan {
    two_hosts::plan(flows, seconds, 20_000_000, 100_000, 20)
}

#[test]
fn every_congestion_control_uses_the_link_and_the_result_repeats() {
    for cc in ["reno", "cubic", "bbr"] {
        let plan = plan(vec![flow(cc, None)], 10);
        let (first, second) = (run(&plan), run(&plan));
        let mbps = first.record.flows[0].bytes as f64 * 8.0 / 10e6;
        assert!((18.0..19.4).contains(&mbps), "{cc}: {mbps} Mbit/s");
        assert_eq!(first.record, second.record);
        let bytes = |outcome: &Outcome| bytemuck::cast_slice::<_, u8>(&outcome.acks).to_vec();
        assert!(bytes(&first) == bytes(&second), "{cc}");
    }
}

#[test]
fn a_finite_flow_completes_when_its_last_byte_arrives() {
    let outcome = run(&plan(vec![flow("cubic", Some(10 * MSS + 7))], 5));
    let end = &outcome.record.flows[0];
    assert!(end.complete && end.bytes == 10 * MSS + 7, "{end:?}");
    // the handshake, ten segments, and another round trip for the last bytes, which exceed the first window
    assert!((100_000_000..=110_000_000).contains(&end.end_ns), "{end:?}");
}

#[test]
fn an_application_that_writes_slowly_is_not_held_back() {
    let pace = Some(Pace { interval_ns: 10_000_000, write_bytes: 1000 });
    let outcome = run(&plan(vec![PlannedFlow { pace, ..flow("cubic", None) }], 10));
    let bytes = outcome.record.flows[0].bytes;
    assert!((960_000..=1_000_000).contains(&bytes), "{bytes}");
    assert!(outcome.acks.iter().all(|ack| ack.cwnd <= 20), "a window that is not used does not grow");
}

#[test]
fn a_tail_that_is_lost_is_repaired_without_a_timeout() {
    let mut plan = plan(vec![flow("cubic", Some(10 * MSS))], 5);
    // the last two packets of the first window are lost, and no data follow: a probe repeats the last one, and its SACK
    // shows that the other one is also lost
    plan.links[0].queue_bytes = 1500 * 9;
    let end = run(&plan).record.flows[0].clone();
    assert!(end.complete, "{end:?}");
    assert_eq!((end.timeouts, end.retransmits), (0, 2));
}

#[test]
fn a_blackout_ends_with_a_timeout_and_the_flow_continues() {
    let mut plan = plan(vec![flow("cubic", None)], 10);
    let phase = |from_ns, loss| PlannedPhase { from_ns, delay_ns: 20_000_000, loss, ..PlannedPhase::default() };
    plan.links[0].phases = vec![phase(0, 0.0), phase(2 * SECOND_NS, 1.0), phase(3 * SECOND_NS, 0.0)];
    let outcome = run(&plan);
    let end = &outcome.record.flows[0];
    assert!(end.timeouts >= 1, "{end:?}");
    let late = outcome.acks.iter().filter(|ack| ack.time_ns > 5 * SECOND_NS).count();
    assert!(late > 1000, "{late} ACKs after the blackout");
}

#[test]
fn reordering_is_undone_and_widens_the_window_for_it() {
    let mut plan = plan(vec![flow("cubic", None)], 10);
    let phase = PlannedPhase { delay_ns: 20_000_000, reorder: 0.01, hold_ns: 4_000_000, ..PlannedPhase::default() };
    plan.links[0].phases = vec![phase];
    let end = run(&plan).record.flows[0].clone();
    let mbps = end.bytes as f64 * 8.0 / 10e6;
    assert!(mbps > 15.0, "{mbps} Mbit/s, {} retransmissions", end.retransmits);
}

#[test]
fn a_receiver_counts_what_arrives_and_what_arrives_out_of_order() {
    let received = |phase: PlannedPhase| {
        let mut plan = plan(vec![flow("cubic", Some(1000 * MSS))], 5);
        plan.links[0].queue_bytes = 10_000_000; // the queue drops nothing
        plan.links[0].phases = vec![PlannedPhase { delay_ns: 20_000_000, ..phase }];
        plan.hosts[1].sysctls.push(("net.ipv4.tcp_rmem".to_owned(), "4096 131072 2000000".to_owned()));
        run(&plan).record.flows[0].receiver.unwrap()
    };
    let in_order = received(PlannedPhase::default());
    assert_eq!((in_order.data_segments, in_order.out_of_order_segments), (1000, 0));
    assert_eq!((in_order.bytes, in_order.ece_segments), (1000 * MSS, Some(0)));
    assert_eq!(in_order.last_window_bytes, Some(1_000_000), "half of the buffer");
    let lossy = received(PlannedPhase { loss: 0.01, ..PlannedPhase::default() });
    assert!(lossy.out_of_order_segments > 0 && lossy.bytes == 1000 * MSS, "{lossy:?}");
    let reordered = received(PlannedPhase { reorder: 0.01, hold_ns: 4_000_000, ..PlannedPhase::default() });
    assert!(reordered.out_of_order_segments > 0 && reordered.data_segments >= 1000, "{reordered:?}");
}

/// The window is half of `tcp_rmem`'s last value. Data of a whole window arrive per RTT.
#[test]
fn the_receive_window_limits_what_is_in_flight() {
    let mut plan = plan(vec![flow("cubic", None)], 10);
    let window_bytes = 20 * MSS;
    plan.hosts[1].sysctls.push(("net.ipv4.tcp_rmem".to_owned(), format!("4096 4096 {}", 2 * window_bytes)));
    let outcome = run(&plan);
    let in_flight = outcome.acks.iter().map(|ack| ack.in_flight).max();
    assert_eq!(in_flight, Some(20));
    let windows = outcome.record.flows[0].bytes as f64 / window_bytes as f64;
    assert!((225.0..251.0).contains(&windows), "{windows} windows in 250 RTTs");
}

/// The window in a SYN-ACK has no scale: of ten segments of 8948 bytes, seven are sent at first.
#[test]
fn the_window_of_the_syn_ack_limits_the_first_flight() {
    let mut plan = plan(vec![flow("cubic", None)], 1);
    plan.cables[0].mtu = 9000;
    let first = run(&plan).acks[0];
    assert_eq!((first.cwnd, first.in_flight), (10, 7));
}

/// The window of a small first buffer limits the first flights, and its growth lets the connection use the link.
#[test]
fn the_receive_window_grows_with_the_data() {
    let received = |first_buffer: u64| {
        let mut plan = plan(vec![flow("cubic", None)], 10);
        plan.hosts[1].sysctls.push(("net.ipv4.tcp_rmem".to_owned(), format!("4096 {first_buffer} 67108864")));
        run(&plan)
    };
    let (small, large) = (received(16_384), received(1_048_576));
    assert_eq!((small.acks[0].in_flight, large.acks[0].in_flight), (4, 10), "half of the buffer less a segment");
    let mbps = |outcome: &Outcome| outcome.record.flows[0].bytes as f64 * 8.0 / 10e6;
    assert!(mbps(&small) > 0.9 * mbps(&large), "{} and {} Mbit/s", mbps(&small), mbps(&large));
}

#[test]
fn marks_replace_losses_unless_the_receiver_declines_ecn() {
    let windows_and_marks = |of_receiver: &str| {
        let mut plan = plan(vec![flow("reno", None)], 10);
        plan.links[0].queue_bytes = 100_000_000; // no packet is lost
        plan.links[0].mark_bytes = 15_000;
        for (host, value) in plan.hosts.iter_mut().zip(["1", of_receiver]) {
            host.sysctls.push(("net.ipv4.tcp_ecn".to_owned(), value.to_owned()));
        }
        let outcome = run(&plan);
        let late = outcome.acks.iter().filter(|ack| ack.time_ns > 5 * SECOND_NS);
        (late.map(|ack| ack.cwnd).max(), outcome.record.flows[0].receiver.unwrap().ece_segments)
    };
    let ((marked, ece), (unmarked, no_ece)) = (windows_and_marks("2"), windows_and_marks("0"));
    // The path holds 69 segments, and packets are marked from the eleventh in the queue on.
    assert!(marked < Some(150) && ece > Some(0), "{marked:?}, {ece:?}");
    assert!(unmarked > Some(1000) && no_ece == Some(0), "{unmarked:?}, {no_ece:?}");
}

#[test]
fn an_algorithm_of_ours_is_swapped_in_under_traffic() {
    let mut plan = plan(vec![flow("dtcp", None)], 6);
    plan.algorithms = vec![algorithm("dtcp")];
    let reading = |at_ns, sinr_db| PlannedReading {
        at_ns,
        made_ns: at_ns,
        sinr_db: Some(sinr_db),
        average_db: Some(10.0),
        capacity_bps: None,
        cell: 0,
    };
    let readings = (0..60).map(|n| reading(n * SECOND_NS / 10, 10.0)).collect();
    plan.feeds = vec![Feed { address: TO, max_age_ms: 500, period_ms: 100, readings }];
    let swap = Action::Swap { cc: "dtcp".to_owned(), new: "westwoodp".to_owned(), object: "westwoodp".to_owned() };
    plan.events = vec![PlannedEvent { at_ns: 3 * SECOND_NS, action: swap }];
    let outcome = run(&plan);
    assert_eq!(outcome.record.events, ["3 swap dtcp -> westwoodp: 1 connections moved"]);
    assert!(outcome.record.flows[0].bytes > 10_000_000);
}

/// A path that loses this share of its packets.
fn lossy(cc: &str, loss: f64) -> Plan {
    let mut plan = plan(vec![flow(cc, None)], 20);
    plan.links[0].phases[0].loss = loss;
    plan.algorithms = vec![algorithm("mdcubic")];
    plan
}

#[test]
fn mdcubic_without_a_pep_is_cubic() {
    let windows = |cc: &str| run(&lossy(cc, 0.001)).acks.iter().map(|ack| (ack.time_ns, ack.cwnd)).collect::<Vec<_>>();
    assert_eq!(windows("mdcubic"), windows("cubic"));
}

#[test]
fn mdcubic_takes_losses_for_those_of_the_access_network_if_it_is_tuned_so() {
    let bytes = |plan: &Plan| {
        let settings = |_: &str, _: &str, set: &[String]| {
            Ok(set.iter().map(|_| ("without_pep".to_owned(), 1)).collect::<Vec<_>>())
        };
        simulate(plan, &settings).unwrap().record.flows[0].bytes
    };
    let mut tuned = lossy("mdcubic", 0.005);
    let set = vec!["without_pep=domain2".to_owned()];
    tuned.events = vec![PlannedEvent { at_ns: SECOND_NS, action: Action::Tune { cc: "mdcubic".to_owned(), set } }];
    let (cubic, mdcubic) = (bytes(&lossy("cubic", 0.005)), bytes(&tuned));
    assert!(mdcubic > 2 * cubic, "{mdcubic}, CUBIC {cubic}");
}

#[test]
fn what_the_simulator_lacks_is_an_error() {
    let error = |plan: &Plan| format!("{:#}", simulate(plan, &|_, _, _| Ok(Vec::new())).unwrap_err());
    let text = error(&plan(vec![flow("vegas", None)], 1));
    assert!(text.contains("flow vegas: the simulator has no `vegas`"), "{text}");
    let mut held_back = plan(vec![flow("reno", None)], 1);
    held_back.hosts[1].rx = Some(hotcc_lab_proto::plan::RxMethod::Drwa);
    assert!(error(&held_back).contains("host b"));
}

/// On any path, all data are delivered in the end, and the counts of segments stay consistent: a subtraction below zero
/// panics in a build with debug assertions.
#[test]
fn all_is_delivered_over_any_path() {
    let ours = hotcc_bpf::ALGOS.iter().map(|object| object.name);
    let ccs: Vec<&str> = ["reno", "cubic", "bbr"].into_iter().chain(ours).collect();
    let link = (any::<u64>(), 0.0..0.2f64, 0.0..0.2f64, 0.0..0.2f64, 0..20u64, 3..60u64);
    let inputs = (link, prop::sample::select(ccs), 1..400u64, any::<bool>(), any::<bool>());
    check("all is delivered, with every algorithm,", 200, inputs, |(link, cc, kilobytes, paced, slow)| {
        let (seed, loss, back_loss, reorder, jitter_ms, queue_packets) = link;
        let pace = slow.then_some(Pace { interval_ns: 3_000_000, write_bytes: 1700 });
        let mut plan = plan(vec![PlannedFlow { paced, pace, ..flow(cc, Some(kilobytes * 1000)) }], 3600);
        plan.algorithms = hotcc_bpf::algo(cc).map(|_| algorithm(cc)).into_iter().collect();
        for (link, loss) in plan.links.iter_mut().zip([loss, back_loss]) {
            link.seed ^= seed;
            let phase = &mut link.phases[0];
            *phase = PlannedPhase { loss, reorder, hold_ns: 15_000_000, jitter_ns: jitter_ms * 1_000_000, ..*phase };
        }
        plan.links[0].queue_bytes = queue_packets * 1500;
        let outcome = run(&plan);
        let end = &outcome.record.flows[0];
        prop_assert!(end.complete, "{end:?}");
        prop_assert_eq!(end.bytes, kilobytes * 1000);
        prop_assert!(outcome.acks.iter().all(|ack| ack.in_flight < 100_000));
        Ok(())
    });
}

/// `tcp_syn_linear_timeouts`: the SYNs of the first two seconds are lost; the third one leaves after 2.05 s.
#[test]
fn a_syn_is_repeated_every_second_at_first() {
    let mut plan = plan(vec![flow("cubic", None)], 4);
    let phase = |from_ns, loss| PlannedPhase { from_ns, delay_ns: 20_000_000, loss, ..PlannedPhase::default() };
    plan.links[0].phases = vec![phase(0, 1.0), phase(3 * SECOND_NS / 2, 0.0)];
    let first_ns = run(&plan).acks[0].time_ns;
    assert!((2_100_000_000..2_200_000_000).contains(&first_ns), "{first_ns}");
}
