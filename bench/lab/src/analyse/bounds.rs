//! What a flow could get that has its narrowest link to itself: two senders that exist nowhere, played over the link's model.
//!
//! The oracle knows the link's capacity at every moment and sends exactly that: no sender carries more with less delay. The
//! late oracle sends what the capacity was one base RTT ago, which is the latest that news of a link can reach its sender and
//! take effect. What lies between the two is what a rate that changes costs anyone who only hears of it.

use super::rates::Capacity;
use crate::results::{Distribution, FlowSummary};
use hotcc_lab_guest::link_model::{Fate, LinkModel};
use hotcc_lab_proto::plan::{Plan, PlannedFlow};

/// IPv4, and TCP with time stamps.
const HEADER_BYTES: u32 = 52;

/// `oracle` and `late-oracle` on the narrowest link that the first TCP flow crosses. Nothing without a rate of its own there.
#[must_use]
pub fn bounds(plan: &Plan) -> Vec<FlowSummary> {
    let Some(flow) = plan.flows.iter().find(|flow| flow.cc.is_some()) else { return Vec::new() };
    let rated =
        flow.way.iter().filter(|link| !plan.links[**link].rates.is_empty() && plan.links[**link].cell.is_none());
    let services = rated.map(|link| (*link, Capacity::of(&plan.links[*link])));
    let narrowest =
        services.min_by(|(_, a), (_, b)| a.bits_until(plan.duration_ns).total_cmp(&b.bits_until(plan.duration_ns)));
    let Some((link, service)) = narrowest else { return Vec::new() };
    let base_rtt_ns: u64 = flow.way.iter().map(|at| delay_ns(plan, *at) + delay_ns(plan, *at ^ 1)).sum();
    let play = |name, late_ns| sender(name, late_ns, plan, flow, link, &service, base_rtt_ns);
    vec![play("oracle", 0), play("late-oracle", base_rtt_ns)]
}

fn delay_ns(plan: &Plan, link: usize) -> u64 {
    plan.links[link].phases.first().map_or(0, |phase| phase.delay_ns)
}

fn sender(
    name: &str,
    late_ns: u64,
    plan: &Plan,
    flow: &PlannedFlow,
    link: usize,
    service: &Capacity,
    base_rtt_ns: u64,
) -> FlowSummary {
    let bytes = plan.wires.get(link / 2).map_or(1500, |wire| wire.mtu);
    let bits = f64::from(bytes) * 8.0;
    // until the first news, it sends at the rate of the start
    let first_bps = service.first_bps();
    let known_bits = first_bps * late_ns as f64 / 1e9;
    let comes_at_ns = |packet: u64| {
        let sent_bits = packet as f64 * bits;
        if sent_bits < known_bits {
            sent_bits / first_bps * 1e9
        } else {
            late_ns as f64 + service.ns_at(sent_bits - known_bits)
        }
    };
    let mut model = LinkModel::new(&plan.links[link]);
    let elsewhere_ns = base_rtt_ns - delay_ns(plan, link);
    let (mut waits_ms, mut rtts_ms, mut delivered) = (Vec::new(), Vec::new(), 0u64);
    // just after the packet before it has left, whichever way its time was rounded
    for now_ns in (0..).map(|packet| comes_at_ns(packet).ceil() + 1.0).take_while(|at| *at < plan.duration_ns as f64) {
        let now_ns = now_ns as u64;
        let offer = model.offer(now_ns, bytes, 1);
        if let Fate::Leaves { at_ns, .. } = offer.fate {
            waits_ms.push(offer.wait_ns as f64 / 1e6);
            rtts_ms.push((at_ns - now_ns + elsewhere_ns) as f64 / 1e6);
            delivered += u64::from(at_ns <= plan.duration_ns);
        }
    }
    let payload = delivered * u64::from(bytes.saturating_sub(HEADER_BYTES));
    let duration_s = plan.duration_ns as f64 / 1e9;
    let (throughput_bps, link) = (payload as f64 * 8.0 / duration_s, model.state());
    let could_bps = service.bits_until(plan.duration_ns) / duration_s;
    FlowSummary {
        name: name.to_owned(),
        cc: name.to_owned(),
        start_s: flow.start_ns as f64 / 1e9,
        end_s: duration_s,
        bytes: payload,
        throughput_bps,
        utilisation: (could_bps > 0.0).then_some(throughput_bps / could_bps),
        rtt_ms: Distribution::of(rtts_ms),
        queue_delay_ms: Distribution::of(waits_ms),
        packets: link.arrived,
        police_drops: link.police_drops,
        queue_drops: link.queue_drops,
        losses: link.losses,
        ..FlowSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab_proto::plan::{PlannedLink, PlannedPhase};
    use std::net::Ipv4Addr;

    /// One link of 20 ms there and 20 ms back, whose rate changes each 100 ms.
    fn plan(rates: Vec<(u32, u64)>, queue_bytes: u64) -> Plan {
        let phases = vec![PlannedPhase { delay_ns: 20_000_000, ..PlannedPhase::default() }];
        let forward =
            PlannedLink { step_ns: 100_000_000, rates, queue_bytes, phases: phases.clone(), ..PlannedLink::default() };
        let reverse = PlannedLink { phases, ..PlannedLink::default() };
        let flow = PlannedFlow {
            name: "main".to_owned(),
            from: 0,
            to: 1,
            address: Ipv4Addr::LOCALHOST,
            cc: Some("cubic".to_owned()),
            watch: None,
            start_ns: 0,
            stop_ns: 10_000_000_000,
            bytes: None,
            pace: None,
            paced: false,
            way: vec![0],
        };
        Plan { duration_ns: 10_000_000_000, links: vec![forward, reverse], flows: vec![flow], ..Plan::default() }
    }

    #[test]
    fn on_a_constant_link_both_fill_it_without_a_queue() {
        for bound in bounds(&plan(vec![(200, 12_000_000)], 60_000)) {
            let payload_share = 1448.0 / 1500.0;
            assert!((bound.utilisation.unwrap() / payload_share - 1.0).abs() < 0.01, "{bound:?}");
            assert!(bound.queue_delay_ms.max < 0.01, "{bound:?}");
            assert!((bound.rtt_ms.p50 - 41.0).abs() < 0.1, "40 ms and one of service: {bound:?}");
            assert_eq!(bound.queue_drops, 0);
        }
    }

    #[test]
    fn where_the_rate_falls_only_the_late_one_queues_and_drops() {
        // 24 and 6 Mbit/s in turn
        let rates: Vec<(u32, u64)> = (0..200).map(|k| (1, if k % 2 == 0 { 24_000_000 } else { 6_000_000 })).collect();
        let [oracle, late] = bounds(&plan(rates.clone(), 1_000_000)).try_into().unwrap();
        assert!(oracle.queue_delay_ms.max < 2.1, "no longer than a packet takes: {oracle:?}");
        // for an RTT it sends 18 Mbit/s too much: 90 kB, which take 120 ms at 6 Mbit/s, or less once the rate is back
        assert!((40.0..121.0).contains(&late.queue_delay_ms.max), "{late:?}");
        assert_eq!(late.queue_drops, 0);
        let [_, shallow] = bounds(&plan(rates, 30_000)).try_into().unwrap();
        assert!(shallow.queue_drops > 100 && shallow.throughput_bps < 0.95 * oracle.throughput_bps, "{shallow:?}");
    }

    #[test]
    fn a_pause_holds_the_oracle_and_no_rate_has_no_bound() {
        let [oracle, _] = bounds(&plan(vec![(10, 8_000_000), (10, 0), (180, 8_000_000)], 60_000)).try_into().unwrap();
        assert!(oracle.queue_drops == 0 && oracle.queue_delay_ms.p99 < 1.0, "{oracle:?}");
        assert!(bounds(&plan(Vec::new(), 0)).is_empty());
    }
}
