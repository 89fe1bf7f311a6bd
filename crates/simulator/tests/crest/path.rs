//! A path, the plans of crest on it, and what the tests measure.

pub use crate::two_hosts::{SECOND_NS, TO, run};

use crate::random_paths;
use crate::two_hosts::{self, flow};
use hotcc_lab_proto::plan::{Feed, Plan, PlannedFlow, PlannedLink, PlannedPhase, PlannedPolice, PlannedReading};
use hotcc_lab_proto::records::POLICED;
use hotcc_simulator::exec::Outcome;
use proptest::prelude::*;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::ops::Range;

const FROM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// Length of each run.
pub const SECONDS: u64 = 40;
/// The largest product of rate and RTT with which the queue stays within `allowed_ms` for 95 % of the time.
const SHORT_QUEUE_BITS: u64 = 5_000_000;

/// A path without events: its rate, and its delay each way.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    pub rate_bps: u64,
    pub delay_ms: u64,
}

impl Path {
    pub fn phase(self, from_s: u64, loss: f64) -> PlannedPhase {
        let delay_ns = self.delay_ms * 1_000_000;
        PlannedPhase { from_ns: from_s * SECOND_NS, delay_ns, loss, ..PlannedPhase::default() }
    }

    /// Returns a plan with one flow of crest on the path, which has these phases. The queue holds 2 MB, or 2 BDP if
    /// that is more.
    pub fn plan(self, phases: Vec<PlannedPhase>) -> Plan {
        let queue_bytes = 2_000_000.max(2 * self.bdp_bytes());
        let mut plan = two_hosts::plan(vec![flow("crest", None)], SECONDS, self.rate_bps, queue_bytes, self.delay_ms);
        plan.links[0].phases = phases;
        plan.algorithms = vec![random_paths::algorithm("crest")];
        plan
    }

    /// Returns a plan with this many flows under one congestion control, all from the start.
    pub fn crowd(self, cc: &str, flows: usize) -> Plan {
        let mut plan = self.plan(vec![self.phase(0, 0.0)]);
        let one = PlannedFlow { cc: Some(cc.to_owned()), ..plan.flows[0].clone() };
        plan.flows = (0..flows).map(|i| PlannedFlow { name: format!("f{i}"), ..one.clone() }).collect();
        plan
    }

    /// Returns a plan with a flow of this congestion control, whose ACKs wait in a queue of 1 to 4 BDP: two uploads of
    /// CUBIC fill it.
    pub fn full_way_back(self, cc: &str, rate_bps: u64, bdps: u64) -> Plan {
        let mut plan = self.crowd(cc, 1);
        let queue_bytes = (bdps * Self { rate_bps, ..self }.bdp_bytes()).max(6000);
        plan.links[0].queue_bytes = self.bdp_bytes().max(30_000);
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

    pub fn rtt_s(self) -> f64 {
        2.0 * self.delay_ms as f64 / 1e3
    }

    pub fn bdp_bytes(self) -> u64 {
        self.rate_bps / 8 * 2 * self.delay_ms / 1000
    }

    /// Returns the share of the link's rate that the flow had from `from_s` to `to_s`.
    pub fn share_within(self, outcome: &Outcome, from_s: u64, to_s: u64) -> f64 {
        let at = |s: u64| {
            let acked = outcome.acks.partition_point(|ack| ack.time_ns <= s * SECOND_NS);
            outcome.acks[..acked].last().map_or(0, |ack| ack.bytes_acked)
        };
        (at(to_s) - at(from_s)) as f64 * 8.0 / (to_s - from_s) as f64 / self.rate_bps as f64
    }

    /// Returns the share of the link's rate that the flow had from `from_s` to the end.
    pub fn share(self, outcome: &Outcome, from_s: u64) -> f64 {
        self.share_within(outcome, from_s, SECONDS)
    }

    /// Returns the least share of the link's rate that the flow had in two seconds, from `from_s` on.
    pub fn least_share(self, outcome: &Outcome, from_s: u64) -> f64 {
        (from_s..SECONDS - 1).map(|s| self.share_within(outcome, s, s + 2)).fold(f64::MAX, f64::min)
    }

    /// Returns a plan with a policer of the path's rate on a faster link, so that no queue forms. The policer's bucket
    /// holds what arrives in half a round trip.
    pub fn policed(self) -> Plan {
        let mut plan = self.plan(vec![self.phase(0, 0.0)]);
        let burst_bytes = (self.rate_bps / 8 * self.delay_ms / 1000).max(20_000);
        let police = Some(PlannedPolice { rate_bps: self.rate_bps, burst_bytes });
        plan.links[0] = PlannedLink { rates: vec![(1, 4 * self.rate_bps)], police, ..plan.links[0].clone() };
        plan
    }

    /// Returns the share of the packets that the link dropped from `from_s` on.
    pub fn lost(outcome: &Outcome, from_s: u64) -> f64 {
        let on_link = outcome.packets.iter().filter(|p| p.link == 0 && p.time_ns >= from_s * SECOND_NS);
        let (all, dropped) =
            on_link.fold((0, 0), |(all, dropped), p| (all + 1, dropped + u32::from(p.fate() == POLICED)));
        f64::from(dropped) / f64::from(all)
    }

    /// Returns the 95th percentile of the packets' queueing delay from `from_s` on.
    pub fn p95_ms(outcome: &Outcome, from_s: u64) -> f64 {
        let on_link = outcome.packets.iter().filter(|p| p.link == 0 && p.time_ns >= from_s * SECOND_NS);
        let mut waits: Vec<u64> = on_link.map(|p| p.wait_ns).collect();
        waits.sort_unstable();
        waits[waits.len() * 95 / 100] as f64 / 1e6
    }

    /// Returns Jain's index of the flows' bytes.
    pub fn jain(outcome: &Outcome) -> f64 {
        let bytes: Vec<f64> = outcome.record.flows.iter().map(|end| end.bytes as f64).collect();
        let sum: f64 = bytes.iter().sum();
        sum * sum / (bytes.len() as f64 * bytes.iter().map(|b| b * b).sum::<f64>())
    }

    /// Returns the queue that crest aims at, ms, and the time of a segment on the link, ms.
    fn target_ms(self) -> (f64, f64) {
        let (rtt_ms, segment_ms) = (self.rtt_s() * 1e3, 12e6 / self.rate_bps as f64);
        let target_ms = f64::max(5.0, rtt_ms / 8.0);
        let window = (rtt_ms + target_ms) / segment_ms;
        (target_ms + f64::max(3.0, 1.25 * window.sqrt()) * segment_ms, segment_ms)
    }

    /// Returns the allowed 95th percentile of the queueing delay on a usual path: that of twice the queue that crest aims
    /// at, and four segments.
    pub fn usual_ms(self) -> f64 {
        let (target_ms, segment_ms) = self.target_ms();
        2.0 * target_ms + 4.0 * segment_ms
    }

    /// Returns the allowed 95th percentile on any path. Half as much again is allowed where rate times RTT exceeds 5
    /// Mbit, for example from 50 Mbit/s and 100 ms on.
    pub fn allowed_ms(self) -> f64 {
        let factor = if 8 * self.bdp_bytes() > SHORT_QUEUE_BITS { 1.5 } else { 1.0 };
        factor * self.usual_ms()
    }

    /// Returns the longest time for which more than 2 BDP, the queue that crest aims at, and the least window of four
    /// segments were in flight; in units of the time that this queue takes to drain, which is a round trip through it.
    pub fn longest_above_in_drains(self, outcome: &Outcome) -> f64 {
        let (target_ms, segment_ms) = self.target_ms();
        let most_ms = self.rtt_s() * 1e3 + target_ms + 4.0 * segment_ms;
        let (mut longest_ns, mut since_ns) = (0, None);
        for packet in outcome.packets.iter().filter(|p| p.link == 0) {
            if packet.wait_ns as f64 / 1e6 > most_ms {
                longest_ns = longest_ns.max(packet.time_ns - *since_ns.get_or_insert(packet.time_ns));
            } else {
                since_ns = None;
            }
        }
        longest_ns as f64 / 1e6 / (self.rtt_s() * 1e3 + most_ms)
    }
}

/// Paths with these logarithms of the rate in Mbit/s, and these delays each way.
pub fn paths_within(log_mbps: Range<f64>, delay_ms: Range<u64>) -> impl Strategy<Value = Path> {
    (log_mbps, delay_ms)
        .prop_map(|(log_mbps, delay_ms)| Path { rate_bps: (10f64.powf(log_mbps) * 1e6) as u64, delay_ms })
}

/// 2 to 100 Mbit/s, RTTs of 16 to 80 ms. The bounds are closer there.
pub fn usual_paths() -> impl Strategy<Value = Path> {
    paths_within(0.3..2.0, 8..40)
}

/// 0.5 to 200 Mbit/s, RTTs of 6 to 200 ms; each order of magnitude is equally likely.
pub fn paths() -> impl Strategy<Value = Path> {
    (-0.3f64..2.3, 0.48f64..2.0).prop_map(|(log_mbps, log_ms)| Path {
        rate_bps: (10f64.powf(log_mbps) * 1e6) as u64,
        delay_ms: 10f64.powf(log_ms) as u64,
    })
}

/// Checks a property with inputs drawn from `inputs`, with more of them and from other seeds in a soak.
pub fn check<S: Strategy>(name: &str, inputs: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    random_paths::check(&format!("crest: {name}"), 12, inputs, property);
}

/// Checks that this share is above `least` on each path, and below `usual` on fewer than one path in twelve.
pub fn check_share<S: Strategy>(name: &str, inputs: S, (least, usual): (f64, f64), share: impl Fn(S::Value) -> f64) {
    let all = RefCell::new(Vec::new());
    check(name, inputs, |input| {
        let share = share(input);
        all.borrow_mut().push(share);
        prop_assert!(share > least, "{}", share);
        Ok(())
    });
    let all = all.into_inner();
    let below = all.iter().filter(|share| **share < usual).count();
    assert!(below * 12 < all.len(), "{name}: below {usual} on {below} of {} paths", all.len());
}

/// Returns a feed with a reading every 20 ms, 10 ms old, of the capacity and the cell.
pub fn every_20_ms(capacity_bps: impl Fn(u64) -> Option<u64>, cell: impl Fn(u64) -> u32) -> Feed {
    let reading = |i| {
        let (at_ns, made_ns) = (i * 20_000_000 + 10_000_000, i * 20_000_000);
        let (capacity_bps, cell) = (capacity_bps(made_ns), cell(made_ns));
        PlannedReading { at_ns, made_ns, sinr_db: None, average_db: None, capacity_bps, cell }
    };
    let readings = (0..SECONDS * 50).map(reading).collect();
    Feed { address: TO, max_age_ms: 500, period_ms: 20, readings }
}
