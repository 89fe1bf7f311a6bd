//! What a single flow could get from its narrowest link if it had the link for itself: two imaginary senders, run over
//! the link's model.
//!
//! The oracle knows the capacity at every moment and sends exactly that. The late oracle sends at the capacity of one
//! base RTT earlier, because information about a link cannot take effect sooner.

use super::rates::Capacity;
use crate::results::{Distribution, FlowSummary};
use hotcc_lab_proto::link_model::{Fate, LinkModel};
use hotcc_lab_proto::plan::{Plan, PlannedFlow};

/// Headers of IPv4, and of TCP with timestamps.
const HEADER_BYTES: u32 = 52;

/// Returns `oracle` and `late-oracle` on the narrowest link that the first TCP flow crosses, while that flow runs. The
/// list is empty if no such link has its own rate.
#[must_use]
pub fn bounds(plan: &Plan) -> Vec<FlowSummary> {
    let Some(flow) = plan.flows.iter().find(|flow| flow.cc.is_some()) else { return Vec::new() };
    let until_ns = flow.stop_ns.min(plan.duration_ns);
    let own = flow.way.iter().filter(|link| plan.links[**link].cell.is_none());
    let rated = own.filter_map(|link| {
        let capacity = Capacity::of(&plan.links[*link]);
        capacity.mean_bps(flow.start_ns, until_ns).map(|mean_bps| (*link, capacity, mean_bps))
    });
    let Some((link, capacity, mean_bps)) = rated.min_by(|a, b| a.2.total_cmp(&b.2)) else { return Vec::new() };
    let bound = |name, is_late| {
        let sender = Sender { plan, flow, link, capacity: &capacity, is_late, until_ns };
        sender.summary(name, mean_bps)
    };
    vec![bound("oracle", false), bound("late-oracle", true)]
}

struct Sender<'a> {
    plan: &'a Plan,
    flow: &'a PlannedFlow,
    link: usize,
    capacity: &'a Capacity,
    is_late: bool,
    until_ns: u64,
}

/// A policer's bucket, in bits.
struct Bucket {
    rate_bps: f64,
    burst_bits: f64,
    bits: f64,
    at_ns: f64,
}

impl Bucket {
    /// Returns the first time, from `now_ns` on, at which the bucket holds enough for a packet, and takes the bits.
    fn conforms_at_ns(&mut self, now_ns: f64, packet_bits: f64) -> f64 {
        self.bits = (self.bits + (now_ns - self.at_ns) / 1e9 * self.rate_bps).min(self.burst_bits);
        let lacks_ns = ((packet_bits - self.bits) / self.rate_bps * 1e9).max(0.0);
        self.bits = (self.bits - packet_bits).max(0.0);
        self.at_ns = now_ns + lacks_ns;
        self.at_ns
    }
}

fn delay_ns(plan: &Plan, link: usize, at_ns: u64) -> u64 {
    plan.links[link].phases.iter().rfind(|phase| phase.from_ns <= at_ns).map_or(0, |phase| phase.delay_ns)
}

impl Sender<'_> {
    fn base_rtt_ns(&self, at_ns: u64) -> u64 {
        self.flow.way.iter().map(|at| delay_ns(self.plan, *at, at_ns) + delay_ns(self.plan, *at ^ 1, at_ns)).sum()
    }

    /// Returns when the next packet arrives at the link, after one that arrives at `now_ns`; `None` if never.
    fn next_ns(&self, now_ns: f64, bits: f64) -> Option<f64> {
        let now = now_ns as u64;
        let late_ns = if self.is_late { self.base_rtt_ns(now) } else { 0 };
        let first_news_ns = self.flow.start_ns + late_ns;
        if now >= first_news_ns {
            return Some(late_ns as f64 + self.capacity.ns_at(self.capacity.bits_until(now - late_ns)? + bits)?);
        }
        // until the first information arrives, it sends at the rate of its start
        let first_bps = self.capacity.bps_at(self.flow.start_ns)?;
        let until_news_bits = (first_news_ns - now) as f64 / 1e9 * first_bps;
        if until_news_bits >= bits {
            return Some(now_ns + bits / first_bps * 1e9);
        }
        let later_bits = self.capacity.bits_until(self.flow.start_ns)? + bits - until_news_bits;
        Some(late_ns as f64 + self.capacity.ns_at(later_bits)?)
    }

    fn summary(&self, name: &str, mean_bps: f64) -> FlowSummary {
        let planned = &self.plan.links[self.link];
        let bytes = self.plan.cables.get(self.link / 2).map_or(1500, |cable| cable.mtu);
        let bits = f64::from(bytes) * 8.0;
        let mut bucket = planned.police.map(|police| {
            let burst_bits = police.burst_bytes as f64 * 8.0;
            Bucket { rate_bps: police.rate_bps as f64, burst_bits, bits: burst_bits, at_ns: 0.0 }
        });
        let mut model = LinkModel::new(planned);
        let (mut waits_ms, mut rtts_ms, mut delivered) = (Vec::new(), Vec::new(), 0u64);
        let mut comes_ns = self.flow.start_ns as f64;
        loop {
            if let Some(bucket) = &mut bucket {
                comes_ns = bucket.conforms_at_ns(comes_ns, bits);
            }
            // just after the previous packet has left, however its time was rounded
            let now_ns = comes_ns.ceil() as u64 + 1;
            if now_ns >= self.until_ns {
                break;
            }
            let offer = model.offer(now_ns, bytes, 1);
            if let Fate::Leaves { at_ns, .. } = offer.fate {
                waits_ms.push(offer.wait_ns as f64 / 1e6);
                let elsewhere_ns = self.base_rtt_ns(now_ns) - delay_ns(self.plan, self.link, now_ns);
                rtts_ms.push((at_ns - now_ns + elsewhere_ns) as f64 / 1e6);
                delivered += u64::from(at_ns <= self.until_ns);
            }
            let Some(next_ns) = self.next_ns(comes_ns, bits) else { break };
            comes_ns = next_ns;
        }
        let payload = delivered * u64::from(bytes.saturating_sub(HEADER_BYTES));
        let throughput_bps = payload as f64 * 8e9 / (self.until_ns - self.flow.start_ns).max(1) as f64;
        let link = model.state();
        FlowSummary {
            name: name.to_owned(),
            cc: name.to_owned(),
            start_s: self.flow.start_ns as f64 / 1e9,
            end_s: self.until_ns as f64 / 1e9,
            bytes: payload,
            throughput_bps,
            utilisation: (mean_bps > 0.0).then_some(throughput_bps / mean_bps),
            rtt_ms: Distribution::of(rtts_ms),
            queue_delay_ms: Distribution::of(waits_ms),
            packets: link.arrived,
            police_drops: link.police_drops,
            queue_drops: link.queue_drops,
            losses: link.losses,
            ..FlowSummary::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcc_lab_proto::plan::{PlannedLink, PlannedPhase, PlannedPolice};
    use std::net::Ipv4Addr;

    /// Returns a plan with a link of 20 ms in each direction, whose rate changes every 100 ms.
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
        // alternately 24 and 6 Mbit/s
        let rates: Vec<(u32, u64)> = (0..200).map(|k| (1, if k % 2 == 0 { 24_000_000 } else { 6_000_000 })).collect();
        let [oracle, late] = bounds(&plan(rates.clone(), 1_000_000)).try_into().unwrap();
        assert!(oracle.queue_delay_ms.max < 2.1, "no longer than a packet takes: {oracle:?}");
        // for one RTT it sends 18 Mbit/s too much: 90 kB, which take 120 ms at 6 Mbit/s, or less once the rate has
        // recovered
        assert!((40.0..121.0).contains(&late.queue_delay_ms.max), "{late:?}");
        assert_eq!(late.queue_drops, 0);
        let [_, shallow] = bounds(&plan(rates, 30_000)).try_into().unwrap();
        assert!(shallow.queue_drops > 100 && shallow.throughput_bps < 0.95 * oracle.throughput_bps, "{shallow:?}");
    }

    #[test]
    fn a_policer_holds_the_oracle_to_its_rate_and_drops_nothing_of_it() {
        let mut policed = plan(vec![(100, 20_000_000)], 1_000_000);
        policed.links[0].police = Some(PlannedPolice { rate_bps: 5_000_000, burst_bytes: 64_000 });
        let [oracle, _] = bounds(&policed).try_into().unwrap();
        assert_eq!((oracle.police_drops, oracle.queue_drops), (0, 0));
        // the rate over 10 s, plus the initial content of the bucket
        let expected_bps = (5e6 + 64_000.0 * 8.0 / 10.0) * 1448.0 / 1500.0;
        assert!((oracle.throughput_bps / expected_bps - 1.0).abs() < 0.005, "{oracle:?}");
    }

    #[test]
    fn bounds_are_over_the_flows_own_time_and_delays() {
        // a flow in the second half, in which the rate is a fifth and the delay is twice as long
        let mut later = plan(vec![(50, 10_000_000), (100, 2_000_000)], 1_000_000);
        later.flows[0].start_ns = 5_000_000_000;
        for link in &mut later.links {
            let slower = PlannedPhase { from_ns: 5_000_000_000, delay_ns: 40_000_000, ..PlannedPhase::default() };
            link.phases.push(slower);
        }
        for bound in bounds(&later) {
            assert!((bound.throughput_bps / (2e6 * 1448.0 / 1500.0) - 1.0).abs() < 0.03, "{bound:?}");
            assert!((bound.rtt_ms.p50 - 86.0).abs() < 0.1, "80 ms and six of service: {bound:?}");
        }
    }

    #[test]
    fn a_pause_holds_the_oracle_and_no_rate_has_no_bound() {
        let [oracle, _] = bounds(&plan(vec![(10, 8_000_000), (10, 0), (180, 8_000_000)], 60_000)).try_into().unwrap();
        assert!(oracle.queue_drops == 0 && oracle.queue_delay_ms.p99 < 1.0, "{oracle:?}");
        assert!(bounds(&plan(Vec::new(), 0)).is_empty());
    }
}
