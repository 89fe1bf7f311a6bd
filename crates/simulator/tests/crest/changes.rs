//! Changes of the path: outages, losses, and other routes.

use crate::path::{Path, SECOND_NS, SECONDS, check, check_share, every_20_ms, paths, run, usual_paths};
use hotcc_lab_proto::plan::Plan;
use hotcc_simulator::exec::Outcome;
use proptest::prelude::*;

impl Path {
    /// Returns a plan in which this share of the packets is lost from `from_s` to `to_s`.
    fn lossy_within(self, from_s: u64, to_s: u64, loss: f64) -> Plan {
        self.plan(vec![self.phase(0, 0.0), self.phase(from_s, loss), self.phase(to_s, 0.0)])
    }

    /// Returns a plan with a flow of crest whose route changes to `other`, which differs in the delay, at `at_s`.
    fn then(self, other: Self, at_s: u64) -> Plan {
        let longer = if other.delay_ms > self.delay_ms { other } else { self };
        let phases = vec![self.phase(0, 0.0), other.phase(at_s, 0.0)];
        let mut plan = longer.plan(phases.clone());
        plan.links[1].phases = phases;
        plan
    }
}

/// Whole windows are lost in an outage. The greater the BDP, the longer it takes to send them again.
#[test]
fn it_recovers_from_an_outage() {
    check("recovers from an outage", (paths(), 1u64..4), |(path, outage_s)| {
        let outcome = run(&path.lossy_within(8, 8 + outage_s, 1.0));
        let from_s = 20 + path.bdp_bytes() / 500_000;
        let least = path.least_share(&outcome, from_s);
        prop_assert!(least > 0.8, "{} of the link in two seconds from {} s on", least, from_s);
        Ok(())
    });
    check("recovers from an outage of a usual link", (usual_paths(), 1u64..4), |(path, outage_s)| {
        let share = path.share(&run(&path.lossy_within(8, 8 + outage_s, 1.0)), 20);
        prop_assert!(share > 0.88, "{} of the link", share);
        Ok(())
    });
}

/// After losses, the limit for policers holds for 50 rounds, and then grows by 2 to 6 % per round.
#[test]
fn it_recovers_from_5_percent_loss() {
    check("recovers from 5 % loss", paths(), |path| {
        let outcome = run(&path.lossy_within(5, 12, 0.05));
        let from_s = 12 + 10.max((80.0 * path.rtt_s()).ceil() as u64);
        let (share, during) = (path.share(&outcome, from_s), path.share_within(&outcome, 6, 12));
        prop_assert!(share > 0.88, "{} of the link from {} s on", share, from_s);
        prop_assert!(during > 0.02, "{} of the link while segments are lost", during);
        Ok(())
    });
    check("recovers from 5 % loss on a usual link", usual_paths(), |path| {
        let share = path.share(&run(&path.lossy_within(5, 15, 0.05)), 20);
        prop_assert!(share > 0.88, "{} of the link", share);
        Ok(())
    });
}

/// Within an RTT, what is in flight varies after losses. W does not follow its lowest down to few segments.
#[test]
fn w_stays_large_while_5_percent_are_lost() {
    let path = Path { rate_bps: 85_000_000, delay_ms: 84 };
    let during = path.share_within(&run(&path.lossy_within(5, 12, 0.05)), 8, 12);
    assert!(during > 0.5, "{during} of the link while segments are lost");
}

/// At a long RTT, losses may end when the limit has fallen to a fraction of the link, and 50 rounds take nine seconds.
#[test]
fn a_limit_that_losses_left_low_grows_soon() {
    let path = Path { rate_bps: 119_438_523, delay_ms: 94 };
    let share = path.share(&run(&path.lossy_within(5, 12, 0.05)), 28);
    assert!(share > 0.88, "{share} of the link from 28 s on");
}

/// With few segments in flight, a round may lose so many that they do not look random.
#[test]
fn it_uses_a_usual_link_that_loses_5_percent() {
    check("uses a usual link that loses 5 %", usual_paths(), |path| {
        let share = path.share(&run(&path.lossy_within(0, SECONDS, 0.05)), 10);
        prop_assert!(share > 0.35, "{} of the link", share);
        Ok(())
    });
}

#[test]
fn a_shorter_route_costs_no_throughput() {
    check("stays at the full rate on a shorter route", (paths(), 0.1f64..0.95), |(path, factor)| {
        let near = Path { delay_ms: ((path.delay_ms as f64 * factor) as u64).max(1), ..path };
        let outcome = run(&path.then(near, 10));
        let least = path.least_share(&outcome, 10);
        prop_assert!(least > 0.8, "{} of the link in two seconds", least);
        Ok(())
    });
}

/// A route that is up to a fifth longer needs no report: the queue that crest aims at is as long.
#[test]
fn a_slightly_longer_route_costs_little() {
    check("keeps the rate on a slightly longer route", (paths(), 1.02f64..1.2), |(path, factor)| {
        let far = Path { delay_ms: (path.delay_ms as f64 * factor) as u64, ..path };
        let share = path.share(&run(&path.then(far, 10)), 20);
        prop_assert!(share > 0.8, "{} of the link", share);
        Ok(())
    });
}

/// The radio reports a new cell.
#[test]
fn a_longer_route_that_is_reported_costs_little() {
    check("has the full rate on a longer route that is reported", (paths(), 1.2f64..4.0), |(path, factor)| {
        let far = Path { delay_ms: ((path.delay_ms as f64 * factor) as u64).min(100), ..path };
        let cell = every_20_ms(|_| None, |made_ns| u32::from(made_ns >= 10 * SECOND_NS));
        let outcome = run(&Plan { feeds: vec![cell], ..path.then(far, 10) });
        let (least, share) = (path.least_share(&outcome, 12), path.share(&outcome, 12));
        prop_assert!(least > 0.6, "{} of the link in two seconds", least);
        prop_assert!(share > 0.85, "{} of the link", share);
        Ok(())
    });
}

/// The path stays the same. If a flow's own queue became part of the least RTT at each report, the queue would grow with
/// each.
#[test]
fn reports_of_a_new_cell_do_not_add_up() {
    check("keeps a short queue while cells alternate", (usual_paths(), 300u64..3000), |(path, apart_ms)| {
        let cell = |made_ns: u64| (made_ns / 1_000_000 / apart_ms) as u32 % 2;
        let outcome = run(&Plan { feeds: vec![every_20_ms(|_| None, cell)], ..path.plan(vec![path.phase(0, 0.0)]) });
        let (p95_ms, share) = (Path::p95_ms(&outcome, 10), path.share(&outcome, 10));
        prop_assert!(p95_ms < 1.25 * path.allowed_ms(), "{} ms, allowed {}", p95_ms, path.allowed_ms());
        prop_assert!(share > 0.85, "{} of the link", share);
        Ok(())
    });
}

/// From ten seconds after the change on, each of a short run's twelve paths has 0.8 of its rate. In a soak, one path in
/// thirty has less: neither falls of W nor probes showed it soon enough. A flow that never noticed would keep a few
/// segments in flight, which on a fast path is far below the tenth that each must have.
#[test]
fn a_longer_route_that_nobody_reports_costs_ten_seconds() {
    let inputs = (paths(), 1.2f64..4.0);
    check_share("share of the link on a longer route without a report", inputs, (0.1, 0.8), |(path, factor)| {
        let far = Path { delay_ms: ((path.delay_ms as f64 * factor) as u64).clamp(path.delay_ms + 1, 250), ..path };
        path.share(&run(&path.then(far, 10)), 20)
    });
}

/// At 20 s, a handover changes the RTT from 20 ms to 60 ms. The flow has the full rate within 1 s if the radio reports
/// the change of the cell, and otherwise within 6 s.
#[test]
fn a_handover_is_over_within_a_second_of_the_change_of_the_cell() {
    let path = Path { rate_bps: 20_000_000, delay_ms: 10 };
    let far = Path { delay_ms: 30, ..path };
    let plan = |reports: bool| Plan {
        feeds: vec![every_20_ms(|_| Some(path.rate_bps), |made_ns| u32::from(reports && made_ns >= 20 * SECOND_NS))],
        ..path.then(far, 20)
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
