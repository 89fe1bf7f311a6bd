//! crest on random paths: it uses the link, keeps the queue short, and recovers from changes of the path.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "crest/changes.rs"]
mod changes;
#[path = "crest/conditions.rs"]
mod conditions;
#[path = "crest/path.rs"]
mod path;
mod random_paths;
#[path = "crest/signal.rs"]
mod signal;
mod two_hosts;

use hotcc_lab_proto::queue::{Kind, Parameters};
use path::{Path, SECOND_NS, check, check_share, paths, paths_within, run, usual_paths};
use proptest::prelude::*;

fn uses_the_link(path: Path, most_ms: f64) -> Result<(), TestCaseError> {
    let outcome = run(&path.plan(vec![path.phase(0, 0.0)]));
    let (share, least) = (path.share(&outcome, 3), path.least_share(&outcome, 3));
    let (p95_ms, above) = (Path::p95_ms(&outcome, 3), path.longest_above_in_drains(&outcome));
    prop_assert!(share > 0.88, "{} of the link", share);
    prop_assert!(least > 0.7, "stuck: {} of the link in two seconds", least);
    prop_assert!(p95_ms < most_ms, "{} ms of queue, {} allowed", p95_ms, most_ms);
    prop_assert!(above < 1.0, "above 2 BDP and the target for {} drains", above);
    Ok(())
}

#[test]
fn alone_it_uses_the_link_and_keeps_the_queue_short() {
    check("uses the link alone, with a short queue", paths(), |path| uses_the_link(path, path.allowed_ms()));
    check("uses a usual link alone, with a short queue", usual_paths(), |path| uses_the_link(path, path.usual_ms()));
}

/// crest finds a policer's rate, and most segments arrive. Below 5 Mbit/s, a round trip has so few segments that
/// one loss is a large share of them.
#[test]
fn a_policer_loses_little() {
    check("loses little at a policer", paths_within(0.7..2.0, 8..40), |path| {
        let outcome = run(&path.policed());
        let (share, lost) = (path.share(&outcome, 3), Path::lost(&outcome, 3));
        prop_assert!(lost < 0.03, "{} lost, {} of the rate", lost, share);
        prop_assert!(share > 0.8, "{} of the rate", share);
        Ok(())
    });
}

/// This also holds if the minimum of four segments in flight per flow exceeds, in total, what the path holds.
#[test]
fn siblings_share_the_link_and_leave_less_queue_than_bbr() {
    check("siblings share the link", (paths_within(1.0..2.0, 8..40), 2usize..17), |(path, flows)| {
        let [crest, bbr] = ["crest", "bbr"].map(|cc| run(&path.crowd(cc, flows)));
        let (jain, p95_ms, of_bbr_ms) = (Path::jain(&crest), Path::p95_ms(&crest, 3), Path::p95_ms(&bbr, 3));
        prop_assert!(jain > 0.95, "{}", jain);
        prop_assert!(p95_ms < of_bbr_ms, "{} ms of queue, BBR {}", p95_ms, of_bbr_ms);
        Ok(())
    });
}

/// A CoDel that marks keeps the queue near its target of 5 ms, with few marks, although
/// crest wants more of a queue on longer paths.
#[test]
fn marks_of_a_codel_keep_the_queue_short() {
    check("marks keep the queue short", paths_within(1.0..2.0, 8..100), |path| {
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
        prop_assert!(marked > 0 && marked * 50 < all, "{} of {} packets are marked", marked, all);
        prop_assert!(mean_ms < 10.0, "{} ms of queue", mean_ms);
        prop_assert!(share > 0.8, "{} of the link", share);
        Ok(())
    });
}

/// While ACKs wait in a queue on their way back, crest keeps more data in flight instead of seeing a rival. It has
/// at least 0.9 of CUBIC's throughput on each of the twelve paths of a short run. In a soak, single paths have little more
/// than half.
#[test]
fn acks_that_wait_cost_no_throughput() {
    let inputs = (usual_paths(), 5u64..20, 1u64..5);
    check_share("share of CUBIC's throughput while ACKs wait", inputs, (0.5, 0.9), |(path, slower, bdps)| {
        let back_bps = (path.rate_bps / slower).max(500_000);
        let bytes = |cc| run(&path.full_way_back(cc, back_bps, bdps)).record.flows[0].bytes as f64;
        bytes("crest") / bytes("cubic")
    });
}
