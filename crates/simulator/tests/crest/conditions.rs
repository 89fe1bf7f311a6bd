//! Senders without enough data, small windows and segments, and links that serve in turns.

use crate::path::{Path, SECOND_NS, SECONDS, check, paths, run};
use hotcc_lab_proto::plan::{Pace, Plan};
use hotcc_lab_proto::records::AckRecord;
use hotcc_simulator::exec::Outcome;
use proptest::prelude::*;

const MSS: u64 = 1448;

fn under(cc: &str, plan: &Plan) -> Outcome {
    let mut plan = plan.clone();
    plan.flows[0].cc = Some(cc.to_owned());
    run(&plan)
}

/// Returns a plan whose application writes a share of the link's rate, in one write per `interval_ms`.
fn writes(path: Path, share: f64, interval_ms: u64) -> Plan {
    let bytes = path.rate_bps as f64 / 8e3 * interval_ms as f64 * share;
    let mut plan = path.plan(vec![path.phase(0, 0.0)]);
    plan.flows[0].pace = Some(Pace { interval_ns: interval_ms * 1_000_000, write_bytes: bytes.max(100.0) as u32 });
    plan
}

/// W may be several times what is in flight: it stays where the start or a burst of writes left it. It grows only while it
/// is less than twice what is in flight, as in the burst that a probe leaves.
#[test]
fn an_application_that_limits_the_flow_does_not_let_w_grow() {
    let inputs = (paths(), 0.02f64..0.7, 1u64..100);
    check("W stays while the application limits the flow", inputs, |(path, share, every_ms)| {
        let plan = writes(path, share, every_ms);
        let [crest, cubic] = ["crest", "cubic"].map(|cc| under(cc, &plan));
        let most = |from_s: u64, of: fn(&AckRecord) -> u32| {
            let within = from_s * SECOND_NS..(from_s + SECONDS / 2) * SECOND_NS;
            crest.acks.iter().filter(|ack| within.contains(&ack.time_ns)).map(of).max().unwrap_or(0)
        };
        let [early, late] = [0, SECONDS / 2].map(|from_s| most(from_s, |ack| ack.cwnd));
        let [used, used_late] = [0, SECONDS / 2].map(|from_s| most(from_s, |ack| ack.in_flight));
        prop_assert!(early <= 6 * used + 10, "W was {} segments, at most {} in flight", early, used);
        let most_late = early.max(2 * used_late);
        prop_assert!(late <= most_late, "W grew from {} to {} segments, {} in flight", early, late, used_late);
        let [bytes, of_cubic] = [&crest, &cubic].map(|outcome| outcome.record.flows[0].bytes as f64);
        prop_assert!(bytes > 0.99 * of_cubic, "{} bytes, CUBIC {}", bytes, of_cubic);
        Ok(())
    });
}

/// A video: a chunk every two seconds. The time is that of nine tenths of each chunk, because records of the rest
/// follow with the next one.
fn chunks_arrive_early(path: Path, share: f64) -> Result<(), TestCaseError> {
    let plan = writes(path, share, 2000);
    let chunk = u64::from(plan.flows[0].pace.unwrap().write_bytes);
    let outcomes = ["crest", "cubic", "bbr"].map(|cc| under(cc, &plan));
    let [crest_s, cubic_s, bbr_s] = outcomes.each_ref().map(|outcome| {
        let waits = (3..SECONDS / 2 - 1).map(|i| {
            let arrives = outcome.acks.partition_point(|ack| ack.bytes_acked < i * chunk + chunk * 9 / 10);
            outcome.acks.get(arrives).map_or(f64::MAX, |ack| ack.time_ns as f64 / 1e9 - 2.0 * i as f64)
        });
        waits.sum::<f64>()
    });
    let [crest_ms, cubic_ms, bbr_ms] = outcomes.each_ref().map(|outcome| Path::p95_ms(outcome, 3));
    prop_assert!(crest_s < 1.2 * cubic_s.min(bbr_s), "{} s, CUBIC {}, BBR {}", crest_s, cubic_s, bbr_s);
    let most_ms = 1.5 * cubic_ms.max(bbr_ms);
    prop_assert!(crest_ms < most_ms, "{} ms of queue, CUBIC {}, BBR {}", crest_ms, cubic_ms, bbr_ms);
    Ok(())
}

#[test]
fn chunks_of_a_video_arrive_as_early_as_with_others() {
    check("chunks arrive as early as with CUBIC and BBR", (paths(), 0.05f64..0.8), |(path, share)| {
        chunks_arrive_early(path, share)
    });
}

/// On a long path, a chunk's queue grows by 30 ms within a slice, as if the receiver had delayed the ACK.
#[test]
fn a_chunk_whose_queue_grows_fast_ends_the_start() {
    chunks_arrive_early(Path { rate_bps: 25_000_000, delay_ms: 85 }, 0.06).unwrap();
}

/// `tcp_notsent_lowat` wakes the application only once the socket has little to send, so that it may be late: here, up
/// to 20 ms with each write, at 1.2 times the link's rate.
#[test]
fn an_application_that_writes_late_has_the_rate() {
    check("has the rate of late writes", (paths(), 1u64..20), |(path, every_ms)| {
        let plan = writes(path, 1.2, every_ms);
        let [crest, cubic] = ["crest", "cubic"].map(|cc| path.share(&under(cc, &plan), 3));
        prop_assert!(crest > 0.9 * cubic, "{} of the link, CUBIC {}", crest, cubic);
        Ok(())
    });
}

/// A write that waited for room in the buffer happens when there is room, not at the time for which it was planned.
#[test]
fn time_does_not_go_back_for_a_late_write() {
    for cc in ["crest", "cubic"] {
        let outcome = under(cc, &writes(Path { rate_bps: 176_131_217, delay_ms: 6 }, 1.2, 3));
        assert!(outcome.acks.is_sorted_by_key(|ack| ack.time_ns), "{cc}");
        assert!(outcome.packets.is_sorted_by_key(|packet| packet.time_ns), "{cc}");
    }
}

/// The receive window is below the BDP: it sets the rate, and W stays near it.
#[test]
fn a_receive_window_is_used() {
    check("uses the receive window", (paths(), 0.1f64..0.95), |(path, share)| {
        let window_bytes = ((path.bdp_bytes() as f64 * share) as u64).max(16 * MSS);
        let mut plan = path.plan(vec![path.phase(0, 0.0)]);
        plan.hosts[1].sysctls.push(("net.ipv4.tcp_rmem".to_owned(), format!("4096 4096 {}", 2 * window_bytes)));
        let outcome = run(&plan);
        // an ACK acknowledges two segments of 1500 bytes
        let ack_s = path.rtt_s() + 2.0 * 12_000.0 / path.rate_bps as f64;
        let limit = window_bytes as f64 * 8.0 / ack_s / path.rate_bps as f64;
        let (used, most) = (path.share(&outcome, 3), outcome.acks.iter().map(|ack| ack.cwnd).max().unwrap());
        prop_assert!(used > 0.9 * limit.min(0.95), "{} of the link, the window allows {}", used, limit);
        let windows = f64::from(most) * MSS as f64 / window_bytes as f64;
        prop_assert!(windows < 5.0, "W grew to {} windows", windows);
        Ok(())
    });
}

/// Segments of 536 bytes, with 52 bytes of headers.
#[test]
fn small_segments_use_the_link_too() {
    let slower = |path: Path| Path { rate_bps: path.rate_bps / 3, ..path };
    check("uses the link with segments of 536 bytes", paths().prop_map(slower), |path| {
        let mut plan = path.plan(vec![path.phase(0, 0.0)]);
        plan.cables[0].mtu = 588;
        let [crest, bbr] = ["crest", "bbr"].map(|cc| under(cc, &plan));
        let (share, of_bbr, p95_ms) = (path.share(&crest, 3), path.share(&bbr, 3), Path::p95_ms(&crest, 3));
        prop_assert!(share > 0.97 * of_bbr, "{} of the link, BBR {}", share, of_bbr);
        prop_assert!(p95_ms < path.allowed_ms(), "{} ms of queue, {} allowed", p95_ms, path.allowed_ms());
        Ok(())
    });
}

/// Returns the rates of a link that serves in turns: `on_ms` at `rate_bps`, then next to nothing for `off_ms`.
fn turns(on_ms: u32, off_ms: u32, rate_bps: u64) -> Vec<(u32, u64)> {
    let turns = SECONDS as u32 * 1000 / (on_ms + off_ms) + 1;
    (0..turns).flat_map(|_| [(on_ms, rate_bps), (off_ms, 1)]).collect()
}

impl Path {
    /// Returns a plan in which both directions of a radio link with time division take turns: the data for `on_ms`, then
    /// the ACKs for `off_ms`.
    fn takes_turns(self, on_ms: u32, off_ms: u32) -> Plan {
        let mut plan = self.plan(vec![self.phase(0, 0.0)]);
        let [forth, back] = &mut plan.links[..] else { unreachable!("two directions") };
        for link in [&mut *forth, &mut *back] {
            link.step_ns = 1_000_000;
        }
        forth.rates = turns(on_ms, off_ms, self.rate_bps * u64::from(on_ms + off_ms) / u64::from(on_ms));
        back.rates = std::iter::once((on_ms, 1)).chain(turns(off_ms, on_ms, self.rate_bps)).collect();
        plan
    }

    /// Compares crest with BBR where links serve in turns of up to `period_ms`.
    fn judge_turns(self, plan: &Plan, period_ms: u32, least_of_bbr: f64) -> Result<(), TestCaseError> {
        let [crest, bbr] = ["crest", "bbr"].map(|cc| under(cc, plan));
        let (share, of_bbr, p95_ms) = (self.share(&crest, 3), self.share(&bbr, 3), Self::p95_ms(&crest, 3));
        let most_ms = 1.5 * (self.allowed_ms() + f64::from(period_ms));
        prop_assert!(share > least_of_bbr * of_bbr, "{} of the link, BBR {}", share, of_bbr);
        prop_assert!(p95_ms < most_ms, "{} ms of queue, {} allowed", p95_ms, most_ms);
        Ok(())
    }
}

/// If a turn is a large part of the RTT, the least RTT is too far below the usual one, and crest has less throughput
/// than BBR.
#[test]
fn time_division_costs_little() {
    check("uses a link with time division", (paths(), 1u32..9, 1u32..9), |(path, on_ms, off_ms)| {
        path.judge_turns(&path.takes_turns(on_ms, off_ms), on_ms + off_ms, 0.6)
    });
}

/// The whole window arrives at once. The first segment of the next one leaves when nothing is in flight. The share of a
/// single link is a matter of chance: 0.24 to 0.65.
#[test]
fn a_window_that_arrives_at_once_does_not_shrink() {
    let shares = (60..=200).step_by(10).map(|mbit_per_s| {
        let path = Path { rate_bps: mbit_per_s * 1_000_000, delay_ms: 10 };
        let plan = path.takes_turns(2, 8);
        ["crest", "bbr"].map(|cc| path.share(&under(cc, &plan), 3))
    });
    let (crest, bbr) = shares.fold((0.0, 0.0), |(crest, bbr), share| (crest + share[0], bbr + share[1]));
    assert!(crest > 0.35 * bbr, "{} of BBR's", crest / bbr);
}

/// ACKs arrive in bunches, at most a fifth of a round trip apart. If they are further apart, the least RTT is too far
/// below the usual one: on some paths, crest has little more than half of the link.
#[test]
fn acks_in_bunches_cost_little() {
    check("uses the link while ACKs arrive in bunches", (paths(), 0.02f64..0.2), |(path, rtts)| {
        let off_ms = ((path.rtt_s() * 1e3 * rtts) as u32).clamp(1, 60);
        let mut plan = path.plan(vec![path.phase(0, 0.0)]);
        plan.links[1].step_ns = 1_000_000;
        plan.links[1].rates = turns(1, off_ms, 1_000_000_000);
        path.judge_turns(&plan, off_ms, 0.9)
    });
}
