//! Multi-domain CUBIC against examples worked by hand. The stand-in for the kernel's CUBIC is Reno that keeps 7/10.

#[path = "mdcubic/example.rs"]
mod example;

use example::{Example, seq};
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::{Cubic, EVENT_LOSS, EVENT_TX_START, HostAlgo, INFINITE_SSTHRESH};

const OPEN: u32 = 0;
const CWR: u32 = 2;
const RECOVERY: u32 = 3;
const LOSS: u32 = 4;

/// Bits of the field `flags`.
const USED: u64 = 1;
const CLOCKED: u64 = 2;
const DOMAIN_2: u64 = 4;
const FALLEN_BACK: u64 = 8;
const CLIENT_AHEAD: u64 = 1 << 8;
const REDUCING: u64 = 1 << 9;

#[test]
fn without_a_pep_it_is_the_delegate() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    e.ack(10_000);
    e.flow.cong_avoid(10);
    e.view = e.flow.get(&e.view);
    assert_eq!((e.window(), e.private("flags")), ((30, 0), 0));
    assert_eq!(e.reduce(), 21);
    e.enter(RECOVERY);
    e.complete();
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (21, 21));
    assert_eq!((e.private("losses_d1"), e.private("losses_d2")), (1, 0));
    e.event(EVENT_TX_START);
    let calls = [Cubic::Init, Cubic::RecalcSsthresh, Cubic::CongAvoid, Cubic::State, Cubic::Acked, Cubic::Event];
    assert_eq!(calls.map(|of| algo.cubic_calls(of)), [1, 1, 1, 2, 1, 1]);
    // a window of one segment, after a timeout, is left to the delegate, too
    e.view.snd_cwnd = 1;
    e.ack(11_000);
    assert_eq!(e.window(), (1, 0));
}

#[test]
fn w_is_cubics_window_plus_the_segments_beyond_the_pep() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    // the first record: 12 segments are beyond the PEP, and no growth
    e.pep(12_000, &[]);
    e.ack(0);
    assert_eq!((e.window(), e.private("flags")), ((32, 12), USED | CLOCKED));
    assert_eq!(e.private("covered_to"), u64::from(seq(12_000)));
    // three segments more arrive at it: W1 = 23 in slow start, D2 = 15
    e.pep(15_000, &[]);
    e.ack(0);
    assert_eq!(e.window(), (38, 15));
    // the client has 5 of these: W does not grow for them a second time
    e.ack(5000);
    assert_eq!(e.window(), (33, 10));
    e.flow.cong_avoid(5);
    assert_eq!(e.flow.get(&e.view), e.view);
    // 1.9 segments: one now, 0.9 are carried, which 0.1 more complete
    e.pep(16_900, &[]);
    e.ack(5000);
    assert_eq!((e.window(), e.private("remainder_bytes")), ((24 + 11, 11), 900));
    e.pep(17_000, &[]);
    e.ack(5000);
    assert_eq!((e.window(), e.private("remainder_bytes")), ((25 + 12, 12), 0));
    // a report of less than before does not grow W; nor does one while the application limits the sender
    e.pep(16_000, &[]);
    e.ack(5000);
    assert_eq!((e.window(), e.private("covered_to")), ((25 + 11, 11), u64::from(seq(17_000))));
    (e.view.is_cwnd_limited, e.view.snd_ssthresh) = (0, 20);
    e.pep(18_000, &[]);
    e.ack(5000);
    assert_eq!(e.window(), (25 + 13, 13));
    // HyStart does not get these samples; without the PEP it would
    e.flow.pkts_acked(1, Some(50_000));
    assert_eq!((algo.cubic_calls(Cubic::Acked), algo.cubic_calls(Cubic::CongAvoid)), (0, 3));
    // the record becomes stale: W1 alone
    e.view.now_us += 1_000_001;
    e.ack(6000);
    assert_eq!((e.window(), e.private("flags")), ((25, 0), 0));
}

#[test]
fn a_record_counts_only_segments_in_flight() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    // (in_order, ranges, segments that count), 10 of 20 acknowledged
    type Row = (u32, &'static [(u32, u32)], u64);
    let records: [Row; 9] = [
        (10_000, &[], 0),
        (12_500, &[], 2),
        (99_000, &[], 10),                                  // at most what was sent
        (9000, &[(12_000, 14_000)], 2),                     // behind, except for the range above
        (11_000, &[(9000, 12_000), (15_000, 30_000)], 7),   // cut below and above
        (11_000, &[(12_000, 15_000), (13_000, 16_000)], 5), // bytes in two ranges count once
        (11_000, &[(15_000, 16_000), (12_000, 13_000)], 3), // in any order
        (11_000, &[(14_000, 12_000), (16_000, 17_000)], 2), // an end before its start
        (0, &[(10_000, 11_000), (12_000, 13_000), (14_000, 15_000), (16_000, 17_000)], 4),
    ];
    for (in_order, ranges, segments) in records {
        e.pep(in_order, ranges);
        e.ack(10_000);
        assert_eq!(e.private("d2_segments"), segments, "{in_order} {ranges:?}");
    }
    // more ranges than the record has room for
    let mut record = e.record(0, &[(10_000, 11_000), (12_000, 13_000), (14_000, 15_000), (16_000, 17_000)]);
    (record.updates, record.range_count) = (1000, u32::MAX);
    algo.set_pep(Some(record));
    e.ack(10_000);
    assert_eq!(e.private("d2_segments"), 4);
    // never written, being written, too old, from the future
    let times: [(u32, i64, u64); 7] = [
        (0, 0, 0),
        (1001, 0, 0),
        (1002, 1_000_000, 4),
        (1004, 1_000_001, 0),
        (1006, -10_000, 4),
        (1008, -10_001, 0),
        (1010, i64::MAX / 2000, 0),
    ];
    for (updates, age_us, segments) in times {
        let time_ns = ((e.view.now_us as i64 - age_us) as u64).wrapping_mul(1000);
        algo.set_pep(Some(PepFlow { updates, time_ns, ..record }));
        e.ack(10_000);
        assert_eq!(e.private("d2_segments"), segments, "{updates} {age_us}");
        assert_eq!(e.private("flags"), if segments > 0 { USED | CLOCKED } else { 0 }, "{updates} {age_us}");
    }
}

#[test]
fn a_loss_that_the_pep_saw_leaves_the_window() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    e.pep(15_000, &[]);
    e.ack(0); // W1 = 20, D2 = 15
    e.sack(&[(3000, 8000), (10_000, 12_000)]); // holes 0..3000 and 8000..10,000
    assert_eq!(e.reduce(), 35);
    e.enter(RECOVERY);
    assert_eq!((e.private("flags") & DOMAIN_2, e.private("events")), (DOMAIN_2, 1));
    // PRR's window is kept
    e.view.snd_cwnd = 30;
    e.ack(3000);
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (30, 35));
    e.complete();
    // W1 = 20, and three segments that the PEP saw are after the last SACK block; slow start continues
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (23, INFINITE_SSTHRESH));
    assert_eq!((e.private("losses_d1"), e.private("losses_d2"), e.private("flags") & DOMAIN_2), (0, 1, 0));
    assert_eq!(algo.cubic_calls(Cubic::RecalcSsthresh), 0);
}

#[test]
fn without_a_pep_losses_belong_to_the_configured_domain() {
    let algo = HostAlgo::load("mdcubic");
    algo.set_tunable("without_pep", 1);
    algo.set_tunable("d2_segments_per_loss", 0);
    let mut e = Example::new(&algo);
    assert_eq!(e.reduce(), 20);
    e.enter(RECOVERY);
    e.view.lost += 8;
    e.ack(1000);
    assert_eq!((e.view.snd_ssthresh, e.private("events"), e.private("flags")), (20, 9, DOMAIN_2 | REDUCING));
    e.complete();
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (20, INFINITE_SSTHRESH));
    // the tenth loss in this round is passed to CUBIC, the first of the next round is not
    assert_eq!(e.reduce(), 14);
    e.enter(RECOVERY);
    e.complete();
    e.ack(20_000);
    assert_eq!(e.private("events"), 0);
    assert_eq!(e.reduce(), 14);
    assert_eq!((e.private("flags"), e.private("losses_d1"), e.private("losses_d2")), (DOMAIN_2 | REDUCING, 1, 1));
}

/// A flow that was plain CUBIC until this loss: its rounds ended unseen, and what is missing now counts.
#[test]
fn the_losses_that_begin_a_recovery_count() {
    let algo = HostAlgo::load("mdcubic");
    algo.set_tunable("without_pep", 1);
    let mut e = Example::new(&algo);
    e.view.snd_nxt = seq(40_000);
    e.ack(30_000); // the first round ended at 20,000
    (e.view.lost, e.view.lost_out) = (112, 12); // 100 of them long ago
    assert_eq!(e.reduce(), 20);
    e.enter(RECOVERY);
    e.ack(30_000);
    // by the tenth at the latest they are CUBIC's
    assert_eq!(e.view.snd_ssthresh, 14);
}

#[test]
fn rounds_begin_wherever_the_sequence_numbers_do() {
    let algo = HostAlgo::load("mdcubic");
    algo.set_tunable("without_pep", 1);
    algo.set_tunable("d2_segments_per_loss", 0);
    for first in [0, 1, 1 << 31, (1 << 31) + 1, 3 << 30, u32::MAX] {
        let mut e = Example::new(&algo);
        (e.view.snd_una, e.view.snd_nxt) = (first, first.wrapping_add(20_000));
        e.flow.set(&e.view);
        e.flow.init();
        for round in 0..15 {
            assert_eq!(e.reduce(), 20, "one loss in round {round} of a connection that begins at {first}");
            e.enter(RECOVERY);
            e.complete();
            e.enter(0);
            (e.view.snd_una, e.view.snd_nxt) = (e.view.snd_nxt, e.view.snd_nxt.wrapping_add(20_000));
            e.flow.set(&e.view);
            e.flow.pkts_acked(0, None);
            e.view = e.flow.get(&e.view);
        }
    }
}

/// No ACK moves the round's end while the flow is plain CUBIC, and sequence numbers wrap.
#[test]
fn a_round_of_gigabytes_ago_has_ended() {
    let algo = HostAlgo::load("mdcubic");
    algo.set_tunable("without_pep", 1);
    algo.set_tunable("d2_segments_per_loss", 0);
    let mut e = Example::new(&algo);
    (e.view.snd_una, e.view.snd_nxt) = (3 << 30, (3 << 30) + 20_000);
    for round in 0..15 {
        assert_eq!(e.reduce(), 20, "one loss in round {round}");
        e.enter(RECOVERY);
        e.complete();
        e.enter(0);
        (e.view.snd_una, e.view.snd_nxt) = (e.view.snd_nxt, e.view.snd_nxt + 20_000);
        e.flow.set(&e.view);
        e.flow.pkts_acked(0, None);
        e.view = e.flow.get(&e.view);
    }
}

#[test]
fn an_undone_recovery_leaves_ssthresh_as_it_was() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    e.view.snd_ssthresh = 20;
    e.pep(15_000, &[]);
    e.ack(0);
    assert_eq!(e.reduce(), 35);
    e.enter(RECOVERY);
    e.flow.set(&e.view);
    assert_eq!(e.flow.undo_cwnd(), 35);
    e.view = e.flow.get(&e.view);
    e.enter(0);
    e.ack(0); // W1 is 20: with 35 it would be in slow start
    assert_eq!((e.view.snd_ssthresh, e.private("flags")), (20, USED | CLOCKED));
}

#[test]
fn a_loss_that_the_pep_did_not_see_is_handled_by_cubic() {
    let algo = HostAlgo::load("mdcubic");
    type Ranges = &'static [(u32, u32)];
    // (in_order, ranges, SACK blocks, segments after those that the PEP saw): each is a loss in domain 1
    let cases: [(u32, Ranges, Ranges, u32); 4] = [
        (0, &[(1000, 15_000)], &[], 14),                                   // snd_una itself
        (8500, &[(14_000, 15_000)], &[(3000, 8000), (10_000, 12_000)], 1), // the second hole, partly
        (4000, &[(8000, 9000), (9500, 12_000)], &[(10_000, 12_000), (3000, 8000)], 0), // a byte of it; in any order
        (1000, &[], &[(3000, 8000)], 0),                                   // of the first hole only the first byte
    ];
    for (in_order, ranges, blocks, behind) in cases {
        let mut e = Example::new(&algo);
        e.pep(in_order, ranges);
        e.ack(0);
        let d2 = e.private("d2_segments") as u32;
        e.sack(blocks);
        assert_eq!(e.reduce(), 14 + d2, "{in_order}"); // 7/10 of W1 = 20
        e.enter(RECOVERY);
        e.complete();
        assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (14 + behind, 14), "{in_order}");
        assert_eq!((e.private("losses_d1"), e.private("losses_d2")), (1, 0));
    }
}

#[test]
fn a_recovery_becomes_domain_1s_once() {
    let algo = HostAlgo::load("mdcubic");
    algo.set_tunable("d2_segments_per_loss", 0);
    let domain_2 = || {
        let mut e = Example::new(&algo);
        e.pep(15_000, &[]);
        e.ack(0);
        assert_eq!(e.reduce(), 35);
        e.enter(RECOVERY);
        e
    };
    // a hole that the PEP did not see: 7/10 of 20, and 15
    let mut e = domain_2();
    e.sack(&[(17_000, 18_000)]);
    e.ack(0);
    assert_eq!((e.view.snd_ssthresh, e.private("flags") & DOMAIN_2), (29, 0));
    // the tenth loss
    let mut e = domain_2();
    e.view.lost += 8;
    e.ack(0);
    assert_eq!((e.view.snd_ssthresh, e.private("events")), (35, 9));
    e.view.lost += 1;
    e.ack(0);
    assert_eq!((e.view.snd_ssthresh, e.private("events")), (29, 10));
    let calls = algo.cubic_calls(Cubic::RecalcSsthresh);
    e.view.lost += 5;
    e.ack(0);
    assert_eq!(algo.cubic_calls(Cubic::RecalcSsthresh), calls);
    e.complete();
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (29, 14));
    // the PEP falls silent
    let mut e = domain_2();
    e.view.now_us += 1_000_001;
    e.ack(0);
    assert_eq!((e.view.snd_ssthresh, e.window()), (29, (35, 15)));
    // nothing is in flight, so nothing is missing
    let mut e = domain_2();
    e.ack(20_000);
    assert_eq!((e.view.snd_ssthresh, e.private("flags") & DOMAIN_2), (35, DOMAIN_2));
}

/// This also holds without a PEP: W = 20 grows by one for the 20 segments that the client acknowledges in the recovery.
#[test]
fn growth_continues_through_a_loss_of_unknown_domain() {
    let algo = HostAlgo::load("mdcubic");
    for (without_pep, grown) in [(1, 21), (0, 14)] {
        algo.set_tunable("without_pep", without_pep);
        let mut e = Example::new(&algo);
        e.view.snd_ssthresh = 10; // congestion avoidance
        e.reduce();
        e.enter(RECOVERY);
        e.ack(10_500);
        e.ack(19_900);
        assert_eq!(e.view.snd_ssthresh, if without_pep == 1 { 20 } else { 14 });
        e.ack(20_000);
        assert_eq!((e.view.snd_ssthresh, e.view.snd_cwnd), (grown, 20)); // PRR controls W
        e.complete();
        assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (grown, if without_pep == 1 { 10 } else { 14 }));
    }
}

#[test]
fn domain_2_has_a_limit_of_losses() {
    let algo = HostAlgo::load("mdcubic");
    // (type, d2_loss_events, d2_segments_per_loss, events of the round so far, ssthresh): ssthresh is all of W = 35 for
    // a loss attributed to domain 2, else 7/10 of W1 = 20, and D2
    for (kind, limit, per_loss, before, ssthresh) in [
        (0, 0, 0, 8, 35),
        (0, 0, 0, 9, 29),
        (0, 0, 16, 1, 35), // 35/16 = 2: three
        (0, 0, 16, 2, 29),
        (0, 0, 7, 3, 35), // five
        (0, 0, 7, 4, 29),
        (0, 0, 1, 8, 35), // ten
        (0, 0, 1, 9, 29),
        (1, 0, 16, 0, 29),
        (1, 3, 16, 1, 35),
        (1, 3, 16, 2, 29),
        (0, 1, 16, 0, 29),
        (0, 4, 16, 2, 35),
    ] {
        algo.set_tunable("d2_segments_per_loss", per_loss);
        algo.set_tunable("type", kind);
        algo.set_tunable("d2_loss_events", 100);
        let mut e = Example::new(&algo);
        e.pep(15_000, &[]);
        e.ack(0);
        for _ in 0..before {
            assert_eq!(e.reduce(), 35);
        }
        algo.set_tunable("d2_loss_events", limit);
        assert_eq!(e.reduce(), ssthresh, "{kind} {limit} {per_loss} {before}");
        // the next round starts from 0
        e.ack(20_000);
        assert_eq!(e.private("events"), 0);
    }
}

#[test]
fn marks_count_as_domain_1() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    e.pep(15_000, &[]);
    e.ack(0);
    assert_eq!(e.reduce(), 35);
    e.enter(CWR);
    assert_eq!((e.view.snd_ssthresh, e.private("flags") & DOMAIN_2), (29, 0));
    e.complete();
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (29, 14));
    assert_eq!((e.private("losses_d1"), e.private("losses_d2")), (0, 0));
}

#[test]
fn timeouts_are_handled_by_cubic() {
    let algo = HostAlgo::load("mdcubic");
    for seen in [true, false] {
        let mut e = Example::new(&algo);
        let (in_order, ranges) = if seen { (15_000, &[][..]) } else { (0, &[(1000, 16_000)][..]) };
        e.pep(in_order, ranges);
        e.ack(0); // W1 = 20, D2 = 15
        e.reduce();
        e.event(EVENT_LOSS);
        assert_eq!((e.view.snd_ssthresh, e.window()), (14, (35, 15)), "{seen}");
        e.view.snd_cwnd = 1;
        e.enter(LOSS);
        assert_eq!((e.window(), e.private("covered_to")), ((1, 0), u64::from(seq(0))), "{seen}");
        // slow start by the client's ACKs
        e.ack(1000);
        e.flow.cong_avoid(1);
        e.view = e.flow.get(&e.view);
        assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (2, 14), "{seen}");
        // spurious: CUBIC's window is restored, and what is beyond the PEP now is added to it
        e.flow.set(&e.view);
        e.view.snd_cwnd = e.flow.undo_cwnd();
        assert_eq!(e.view.snd_cwnd, 20, "{seen}");
        e.enter(OPEN);
        e.ack(2000);
        assert_eq!(e.window().1, if seen { 13 } else { 14 }, "{seen}");
        assert_eq!(u64::from(e.view.snd_cwnd), 20 + e.window().1, "{seen}");
    }
}

/// The kernel does not ask for an ssthresh then.
#[test]
fn a_timeout_within_a_recovery_leaves_the_same_ssthresh() {
    let algo = HostAlgo::load("mdcubic");
    for seen in [true, false] {
        let mut e = Example::new(&algo);
        let (in_order, ranges) = if seen { (15_000, &[][..]) } else { (0, &[(1000, 16_000)][..]) };
        e.pep(in_order, ranges);
        e.ack(0);
        e.reduce();
        e.enter(RECOVERY);
        e.view.snd_cwnd = 1;
        e.enter(LOSS);
        assert_eq!((e.view.snd_ssthresh, e.window()), (14, (1, 0)), "{seen}");
        assert_eq!(e.private("flags") & DOMAIN_2, 0);
    }
}

/// TCP sends again what is too large for a new path MTU, and calls this a loss, but reduces nothing.
#[test]
fn d2_counts_once_when_segments_are_too_large_for_the_path() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    e.pep(15_000, &[]);
    e.ack(0);
    assert_eq!(e.window(), (35, 15));
    e.view.packets_out = 35;
    e.enter(LOSS);
    e.ack(0);
    assert_eq!(e.window(), (20, 0));
    e.enter(OPEN);
    e.ack(0);
    assert_eq!(e.window(), (35, 15));
}

#[test]
fn an_undone_reduction() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    e.pep(15_000, &[]);
    e.ack(0);
    assert_eq!(e.reduce(), 35);
    e.enter(RECOVERY);
    e.view.snd_cwnd = 5;
    e.flow.set(&e.view);
    assert_eq!(e.flow.undo_cwnd(), 35);
    assert_eq!(e.private("flags") & DOMAIN_2, 0);
}

#[test]
fn a_client_ahead_of_its_pep_for_an_rtt_ends_it() {
    let algo = HostAlgo::load("mdcubic");
    let mut e = Example::new(&algo);
    let ahead = USED | CLOCKED | CLIENT_AHEAD;
    e.pep(5000, &[]);
    e.ack(0);
    e.ack(6000);
    assert_eq!((e.private("flags"), e.private("behind_since_us")), (ahead, 10_000_000));
    e.view.now_us += 49_999;
    e.ack(7000);
    assert_eq!(e.private("flags"), ahead);
    e.view.now_us += 1;
    e.ack(8000);
    assert_eq!(e.private("flags"), FALLEN_BACK | CLIENT_AHEAD);
    assert_eq!(e.reduce(), 7 * e.view.snd_cwnd / 10);
    // still behind, then level
    e.pep(7500, &[]);
    e.ack(8000);
    assert_eq!(e.private("flags"), FALLEN_BACK | CLIENT_AHEAD | REDUCING);
    e.pep(8000, &[]);
    e.ack(8000);
    assert_eq!(e.private("flags"), USED | CLOCKED | REDUCING);
    // a break in between restarts the RTT
    e.ack(9000);
    e.view.now_us += 40_000;
    e.pep(9000, &[]);
    e.ack(9000);
    e.ack(10_000);
    e.view.now_us += 49_999;
    e.ack(11_000);
    assert_eq!(e.private("flags"), ahead | REDUCING);
}

#[test]
fn without_its_clock_the_pep_still_tells_the_domains_apart() {
    let algo = HostAlgo::load("mdcubic");
    algo.set_tunable("pep_clock", 0);
    let mut e = Example::new(&algo);
    e.pep(15_000, &[]);
    e.ack(0);
    assert_eq!((e.window(), e.private("flags")), ((20, 0), USED));
    e.flow.cong_avoid(1);
    e.view = e.flow.get(&e.view);
    assert_eq!((e.view.snd_cwnd, algo.cubic_calls(Cubic::Acked)), (21, 1));
    assert_eq!(e.reduce(), 21);
    e.enter(RECOVERY);
    e.complete();
    assert_eq!((e.view.snd_cwnd, e.view.snd_ssthresh), (21, INFINITE_SSTHRESH));
}
