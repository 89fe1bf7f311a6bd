//! Multi-domain CUBIC against its model, and both against examples worked by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "mdcubic/invariants.rs"]
mod invariants;

use hotcc_cc_tests::kernel::{Event, Kernel};
use hotcc_cc_tests::models::mdcubic::{Mdcubic, Tunables};
use hotcc_cc_tests::models::watched::Watched;
use hotcc_cc_tests::random::{self, Conditions, Random, Timeouts, Totals};
use hotcc_cc_tests::reports::At::{Nxt, Una};
use hotcc_cc_tests::reports::{At, Report, Stretch};
use hotcc_cc_tests::signals::Signals;
use hotcc_host_algo::{Cubic, HostAlgo, INFINITE_SSTHRESH, View};
use invariants::{Bounds, Plain};

const CONDITIONS: Conditions = Conditions { timeouts: Timeouts::Mixed, signals: Signals::Pep };

/// Ten losses are forgiven, however small W is.
const TEN: Tunables = Tunables { d2_segments_per_loss: 0, ..Tunables::DEFAULT };

/// Function that starts a connection: on the model by itself, or on algorithm and model together.
type Start<'a> = dyn Fn(Tunables, View) -> Kernel<'a, Mdcubic> + 'a;

/// Makes two tests of each example: on the model by itself, and on algorithm and model together.
macro_rules! examples {
    ($($name:ident)*) => {
        mod by_the_model {
            use super::*;
            $(#[test] fn $name() { super::$name(&|t, view| Kernel::alone(Mdcubic::new(t), view).unwrap()); })*
        }
        mod by_the_algorithm {
            use super::*;
            $(#[test] fn $name() {
                let algo = HostAlgo::load("mdcubic");
                super::$name(&|t, view| Kernel::start(&algo, Mdcubic::new(t), view).unwrap());
            })*
        }
    };
}

examples! {
    slow_start_happens_between_sender_and_pep
    bytes_beyond_whole_segments_are_carried
    nothing_grows_for_what_was_there_before
    a_loss_in_domain_2_changes_nothing
    growth_goes_on_through_a_loss_in_domain_2
    a_loss_in_domain_1_is_cubic_s
    a_hole_tells_the_domain_as_well
    the_tenth_loss_in_a_round_is_cubic_s
    clocked_by_the_pep_w_gives_up_what_was_lost
    a_loss_of_a_long_queue_in_domain_2_is_congestion
    a_long_queue_in_domain_2_that_dropped_something_bounds_d2
    what_domain_2_may_hold_is_bounded
    a_later_hole_in_domain_1_is_cubic_s
    the_last_ack_of_a_recovery_changes_no_domain
    a_congestion_mark_is_domain_1_s
    a_timeout_starts_again_without_d2
    a_timeout_within_a_recovery_leaves_ssthresh_to_cubic
    a_loss_never_raises_the_window
    a_silent_pep_is_forgotten
    a_client_ahead_of_the_pep_is_believed
    no_report_is_trusted
    without_its_clock_the_pep_still_tells_domains
}

/// Returns a connection at 1 s with segments of 1000 bytes, whose sequence numbers wrap within the first window.
fn connection(snd_cwnd: u32, snd_ssthresh: u32) -> View {
    View {
        now_us: 1_000_000,
        snd_cwnd,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh,
        mss: 1000,
        delivered: 5000,
        data_segs_out: 5000,
        max_packets_out: snd_cwnd,
        is_cwnd_limited: 1,
        snd_una: u32::MAX - 4999,
        snd_nxt: u32::MAX - 4999,
        ..View::default()
    }
}

fn apply(kernel: &mut Kernel<'_, Mdcubic>, events: &[Event]) {
    for event in events {
        kernel.apply(*event).unwrap();
    }
}

/// A duplicate ACK, 1 ms later, like the one that accompanies a PEP's report.
const DUPLICATE: Event = Event::Duplicate { after_us: 1000 };

/// Delivers a report that the PEP has all up to here, and these ranges.
fn reports(kernel: &mut Kernel<'_, Mdcubic>, in_order: At, ranges: &[Stretch]) {
    apply(kernel, &[Event::Pep(Report::up_to(in_order).with(ranges)), DUPLICATE]);
}

/// Delivers an ACK of the client for segments, 1 ms later, with an RTT of 100 ms.
fn client(kernel: &mut Kernel<'_, Mdcubic>, acked: u32) {
    apply(kernel, &[Event::Ack { after_us: 1000, acked, rtt_us: Some(100_000) }]);
}

fn sack(blocks: &[Stretch]) -> Event {
    let mut all = [(Una(0), Una(0)); 4];
    all[..blocks.len()].copy_from_slice(blocks);
    Event::Sack(all)
}

/// Returns W and ssthresh.
fn window(kernel: &Kernel<'_, Mdcubic>) -> (u32, u32) {
    (kernel.sock.snd_cwnd, kernel.sock.snd_ssthresh)
}

/// Returns a connection with W1 = 16 in congestion avoidance (ssthresh 8); 8 of the 16 segments in flight are past the
/// PEP: W = 24.
fn clocked<'a>(start: &Start<'a>, tunables: Tunables) -> Kernel<'a, Mdcubic> {
    let mut kernel = start(tunables, connection(16, 8));
    reports(&mut kernel, Una(8000), &[]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((24, 8), 8));
    kernel
}

fn slow_start_happens_between_sender_and_pep(start: &Start<'_>) {
    let mut kernel = start(Tunables::DEFAULT, connection(10, INFINITE_SSTHRESH));
    reports(&mut kernel, Una(0), &[]); // the clocking begins
    assert_eq!(kernel.sock.snd_cwnd, 10);
    // an RTT to the PEP later it has all 10: W1 = 10 + 10, D2 = 10
    reports(&mut kernel, Una(10_000), &[]);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (30, 10));
    // in flight in domain 1: 30 sent, 10 past the PEP
    assert_eq!(kernel.sock.snd_nxt.wrapping_sub(kernel.sock.snd_una), 30_000);
    // an RTT to the PEP later it has the next 20 as well: W1 = 40, D2 = 30
    reports(&mut kernel, Una(30_000), &[]);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (70, 30));
    // the client has the first 10: they leave D2, and W does not grow for them a second time
    client(&mut kernel, 10);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (60, 20));
    client(&mut kernel, 20);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (40, 0));
    // and the PEP has the next 40, after the client's ACK: W1 = 80, of which half is past the PEP already
    apply(&mut kernel, &[Event::Pep(Report::up_to(Una(40_000)))]);
    client(&mut kernel, 20);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (100, 20));
}

fn bytes_beyond_whole_segments_are_carried(start: &Start<'_>) {
    let mut kernel = start(Tunables::DEFAULT, connection(10, INFINITE_SSTHRESH));
    reports(&mut kernel, Una(0), &[]);
    for (in_order, d2, w1) in [
        (1500, 1, 11), // 1500 bytes: one segment, 500 carried
        (1999, 1, 11), // 999
        (2000, 2, 12), // 1000
        (2000, 2, 12), // nothing new
        (1000, 1, 12), // the PEP retracts its report: D2 follows
        (2000, 2, 12), // but this is nothing new
        (5500, 5, 15), // 3500
    ] {
        reports(&mut kernel, Una(in_order), &[]);
        assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (w1 + d2, d2), "{in_order}");
    }
    // in congestion avoidance, W1 grows by a segment per W1 segments: 16 here
    let mut kernel = clocked(start, Tunables::DEFAULT);
    reports(&mut kernel, Una(23_000), &[]); // 15 more
    assert_eq!((kernel.sock.snd_cwnd, kernel.sock.snd_cwnd_cnt), (16 + 23, 15));
    reports(&mut kernel, Una(24_000), &[]);
    assert_eq!((kernel.sock.snd_cwnd, kernel.sock.snd_cwnd_cnt), (17 + 24, 0));
}

fn nothing_grows_for_what_was_there_before(start: &Start<'_>) {
    let mut kernel = start(Tunables::DEFAULT, connection(10, INFINITE_SSTHRESH));
    // the first report covers 4 segments: they are past the PEP, at whatever time they passed it
    reports(&mut kernel, Una(4000), &[]);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (14, 4));
    // W1 does not grow if the window does not limit the sender; D2 changes all the same
    apply(&mut kernel, &[Event::CwndLimited(false)]);
    kernel.sock.max_packets_out = 3;
    reports(&mut kernel, Una(6000), &[]);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (16, 6));
    apply(&mut kernel, &[Event::CwndLimited(true)]);
    reports(&mut kernel, Una(6000), &[]); // W1 does not grow for those later, either
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (16, 6));
}

fn a_loss_in_domain_2_changes_nothing(start: &Start<'_>) {
    let mut kernel = clocked(start, TEN);
    // the client misses the first segment, which the PEP has: 1 + 24/8 segments count as lost
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000))]), Event::Recovery]);
    assert_eq!(window(&kernel), (24, 24));
    apply(&mut kernel, &[DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.events), ((24, 24), 1 + 4));
    kernel.sock.snd_cwnd = 18; // PRR sent less for each ACK
    apply(&mut kernel, &[Event::Complete]);
    // W1 and ssthresh are restored; all that the PEP has is below a SACK block of the client: no longer in domain 2
    assert_eq!((window(&kernel), kernel.model.losses), ((16, 8), [0, 1]));
    apply(&mut kernel, &[DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((16, 8), 0));
    // a domain 2 that hides its losses has none to forgive: CUBIC reacts from the first
    let mut kernel = clocked(start, Tunables { kind: 1, ..Tunables::DEFAULT });
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000))]), Event::Recovery]);
    assert_eq!((window(&kernel), kernel.model.losses), ((24, 11 + 8), [1, 0]));
}

fn growth_goes_on_through_a_loss_in_domain_2(start: &Start<'_>) {
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000))]), Event::Recovery]);
    reports(&mut kernel, Una(23_999), &[]); // 15 segments more, and W1 = 17 takes 16
    assert_eq!(window(&kernel), (24, 24));
    reports(&mut kernel, Una(24_000), &[]);
    assert_eq!(window(&kernel), (24, 25)); // the kernel controls W until the recovery ends
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!(window(&kernel), (17 + 16, 8)); // with the segments after the block that the PEP has then
    // losses that prove to be in domain 1 reduce the window of that time: 17 * 7/10, and D2
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000))]), Event::Recovery]);
    reports(&mut kernel, Una(24_000), &[]);
    apply(&mut kernel, &[Event::Lost(9), DUPLICATE]);
    assert_eq!(window(&kernel), (24, 11 + 8));
    // in slow start, growth would only show at the end, and all at once: it waits
    let mut kernel = start(TEN, connection(10, INFINITE_SSTHRESH));
    reports(&mut kernel, Una(0), &[]);
    reports(&mut kernel, Una(10_000), &[]);
    apply(&mut kernel, &[Event::Recovery]);
    reports(&mut kernel, Una(30_000), &[]);
    assert_eq!(window(&kernel), (30, 30));
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!(window(&kernel), (20 + 30, INFINITE_SSTHRESH));
}

fn a_loss_in_domain_1_is_cubic_s(start: &Start<'_>) {
    let mut kernel = clocked(start, Tunables::DEFAULT);
    // the PEP misses the first segment too: 16 * 7/10 = 11.2 in domain 1, and the 7 that passed the PEP
    reports(&mut kernel, Una(0), &[(Una(1000), Una(8000))]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((23, 8), 7));
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000))]), Event::Recovery]);
    assert_eq!((window(&kernel), kernel.model.losses), ((23, 11 + 7), [1, 0]));
    apply(&mut kernel, &[Event::Complete]); // the kernel takes W to ssthresh; ssthresh itself is W1's
    assert_eq!(window(&kernel), (11, 11));
    client(&mut kernel, 8); // all segments that were past the PEP: W = W1
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((11, 11), 0));
}

fn a_hole_tells_the_domain_as_well(start: &Start<'_>) {
    // 3 holes: 0..2000, 4000..5000 and 6000..7000
    let blocks = sack(&[(Una(2000), Una(4000)), (Una(5000), Una(6000)), (Una(7000), Una(8000))]);
    for (in_order, ranges, ssthresh) in [
        (Una(7000), &[][..], 23), // domain 2; D2 = 7
        (Una(6999), &[], 11 + 6),
        (Una(5000), &[(Una(6000), Una(7000))], 22), // D2 = 6
        (Una(5000), &[(Una(6001), Una(7000))], 11 + 5),
        (Una(1), &[(Una(1), Una(5000)), (Una(5500), Una(8000))], 23), // the parts of a hole; D2 = 7.5
        (Una(0), &[(Una(1), Una(8000))], 11 + 7),
    ] {
        let mut kernel = clocked(start, TEN);
        reports(&mut kernel, in_order, ranges);
        apply(&mut kernel, &[blocks, Event::Recovery]);
        assert_eq!(kernel.sock.snd_ssthresh, ssthresh, "{in_order:?} {ranges:?}");
    }
}

fn the_tenth_loss_in_a_round_is_cubic_s(start: &Start<'_>) {
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[Event::Recovery, DUPLICATE]); // one loss, and 4 more segments found lost with it
    apply(&mut kernel, &[Event::Lost(4), DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.events), ((24, 24), 9));
    kernel.sock.snd_cwnd = 18; // the kernel has reduced W: the window from before counts
    apply(&mut kernel, &[Event::Lost(1), DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.events), ((18, 11 + 8), 10)); // 16 * 7/10, D2 on top
    apply(&mut kernel, &[Event::Lost(1), DUPLICATE, Event::Complete]); // once
    assert_eq!(window(&kernel), (19, 11));
    // 9 in this round: the next loss would be the tenth
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[Event::Recovery, DUPLICATE, Event::Lost(4), DUPLICATE, Event::Complete, Event::Recovery]);
    assert_eq!(kernel.sock.snd_ssthresh, 11 + 8);
    // but it is the first of the next round, which begins when the client has all that was sent before this one: 16
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[Event::Recovery, DUPLICATE, Event::Lost(4), DUPLICATE, Event::Complete]);
    client(&mut kernel, 16);
    reports(&mut kernel, Una(5000), &[]);
    assert_eq!(kernel.model.events, 0);
    apply(&mut kernel, &[Event::Recovery]);
    assert_eq!(kernel.sock.snd_ssthresh, kernel.sock.snd_cwnd);
}

fn clocked_by_the_pep_w_gives_up_what_was_lost(start: &Start<'_>) {
    // W1 = 60 and D2 = 40: CUBIC's share would be 42 and 40. 40 of 100 ms are spent in domain 2, where 10 would do
    let at_rtt = |tunables, min_rtt_us| {
        let view = View { srtt_us: 8 * 100_000, min_rtt_us, ..connection(60, 50) };
        let mut kernel = start(tunables, view);
        let report = Report { rtt_us: 10_000, ..Report::up_to(Una(40_000)) };
        apply(&mut kernel, &[Event::Pep(report), DUPLICATE, Event::Recovery]); // one
        assert_eq!((window(&kernel), kernel.model.events), ((100, 100), 1));
        kernel
    };
    let large = |tunables| at_rtt(tunables, 20_000);
    let mut kernel = large(Tunables::DEFAULT);
    apply(&mut kernel, &[DUPLICATE]); // and 1 + 100/8
    assert_eq!((window(&kernel), kernel.model.events), ((100, 86), 14));
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((86, 46), 40));
    // in the paper, and if domain 2 hides its losses or the client is the clock, CUBIC's reduction applies
    let reliable = Tunables { kind: 1, d2_loss_events: 10, ..Tunables::DEFAULT };
    // likewise if domain 2 has no queue: here it is a microsecond short of three sixteenths of 100 ms
    for (tunables, min_rtt_us, ssthresh) in [
        (Tunables::PAPER, 20_000, 42 + 40),
        (reliable, 20_000, 42 + 40),
        (Tunables::DEFAULT, 31_250, 86),
        (Tunables::DEFAULT, 31_251, 42 + 40),
    ] {
        let mut kernel = at_rtt(tunables, min_rtt_us);
        apply(&mut kernel, &[DUPLICATE]);
        assert_eq!(window(&kernel), (100, ssthresh));
    }
    // of 55 segments that the PEP has, those after the last one that the client has wait now
    for (last, ssthresh) in [(14_000, 86), (15_000, 42 + 40)] {
        let mut kernel = at_rtt(Tunables::DEFAULT, 31_251);
        let report = Report { rtt_us: 10_000, ..Report::up_to(Una(55_000)) };
        let at_client = sack(&[(Una(2000), Una(4000)), (Una(last - 1000), Una(last))]);
        apply(&mut kernel, &[Event::Pep(report), at_client, DUPLICATE]);
        assert_eq!(window(&kernel), (100, ssthresh));
    }
    let mut kernel = start(Tunables { pep_clock: 0, ..Tunables::DEFAULT }, connection(100, 50));
    reports(&mut kernel, Una(8000), &[]);
    apply(&mut kernel, &[Event::Recovery, DUPLICATE]);
    assert_eq!(window(&kernel), (100, 70));
    // never more than CUBIC would: 40 were lost
    let mut kernel = large(Tunables::DEFAULT);
    apply(&mut kernel, &[Event::Lost(25), DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.events), ((100, 42 + 40), 39));
}

fn a_loss_of_a_long_queue_in_domain_2_is_congestion(start: &Start<'_>) {
    // W1 = 40 and D2 = 60: CUBIC's share would be 28 and 60. 60 of 100 ms are spent in domain 2, where 10 would do
    let at_rtt = |tunables, min_rtt_us| {
        let view = View { srtt_us: 8 * 100_000, min_rtt_us, ..connection(40, 30) };
        let mut kernel = start(tunables, view);
        let report = Report { rtt_us: 10_000, ..Report::up_to(Una(40_000)) };
        apply(&mut kernel, &[Event::Pep(report), DUPLICATE]);
        let report = Report { rtt_us: 10_000, ..Report::up_to(Una(60_000)) };
        apply(&mut kernel, &[Event::Pep(report), DUPLICATE, Event::Recovery]);
        kernel
    };
    // 50 of the 60 segments wait, and W would give up 25, but CUBIC's 12 are the limit. Nothing more in the same
    // recovery
    let mut kernel = at_rtt(Tunables::DEFAULT, 20_000);
    assert_eq!((window(&kernel), kernel.model.events, kernel.model.was_full), ((100, 88), 1, true));
    apply(&mut kernel, &[DUPLICATE, Event::Lost(25), DUPLICATE]);
    assert_eq!(window(&kernel), (100, 88));
    // in the paper, and if domain 2 hides its losses, a queue changes nothing; neither does a shorter one: here it is a
    // microsecond short of seven sixteenths of 100 ms
    let reliable = Tunables { kind: 1, d2_loss_events: 10, ..Tunables::DEFAULT };
    for (tunables, min_rtt_us, ssthresh) in [
        (Tunables::PAPER, 20_000, 100),
        (reliable, 20_000, 100),
        (Tunables::DEFAULT, 26_250, 88),
        (Tunables::DEFAULT, 26_251, 100),
    ] {
        let kernel = at_rtt(tunables, min_rtt_us);
        assert_eq!((window(&kernel), kernel.model.was_full), ((100, ssthresh), ssthresh == 88));
    }
}

/// Otherwise W1 is a rate: all that it is too high by would be lost.
fn a_long_queue_in_domain_2_that_dropped_something_bounds_d2(start: &Start<'_>) {
    // 20 ms least RTT, 10 of them to the PEP; 200 segments in 100 ms: an empty domain 2 holds 20 of them, and 30 count
    let view = View { srtt_us: 8 * 100_000, min_rtt_us: 20_000, ..connection(40, 30) };
    let view = View { rate_delivered: 200, rate_interval_us: 100_000, ..view };
    let report = |in_order| Event::Pep(Report { rtt_us: 10_000, ..Report::up_to(Una(in_order)) });
    let in_recovery = |view| {
        let mut kernel = start(Tunables::DEFAULT, view);
        apply(&mut kernel, &[report(40_000), DUPLICATE, report(60_000), DUPLICATE]);
        assert_eq!(kernel.model.d2_segments, 60);
        apply(&mut kernel, &[Event::Recovery]);
        kernel
    };
    let mut kernel = in_recovery(view);
    assert_eq!(window(&kernel), (100, 88));
    apply(&mut kernel, &[Event::Complete]); // all of the 88, and 30 in domain 2
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((58 + 30, 58), 30));
    // more segments that the PEP sees: they are in flight, and W stays
    apply(&mut kernel, &[report(80_000), DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((58 + 30, 58), 30));
    // slow start ends with what the rate fills: an empty domain 2 holds 4, 10 count, and domain 1 holds 33 at the rate
    // at which domain 2 has 10
    let view_before = View { snd_ssthresh: INFINITE_SSTHRESH, min_rtt_us: 12_000, ..view };
    let mut kernel = start(Tunables::DEFAULT, view_before);
    apply(&mut kernel, &[report(40_000), DUPLICATE, report(80_000), DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((160, INFINITE_SSTHRESH), 80));
    apply(&mut kernel, &[Event::Recovery]);
    assert_eq!(window(&kernel), (160, 10 + 66));
    apply(&mut kernel, &[Event::Complete]); // the 80 in domain 2 count as 10
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((66 + 10, 66), 10));
    // if the PEP falls silent, D2 and the mark of a full queue are dropped
    let mut kernel = in_recovery(view);
    apply(&mut kernel, &[Event::Complete]);
    apply(&mut kernel, &[Event::Pep(Report { age_ms: 1000, ..Report::up_to(Una(70_000)) }), DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.was_full), ((58, 58), false));
}

fn what_domain_2_may_hold_is_bounded(start: &Start<'_>) {
    // 10 of 100 ms to the PEP. Until a rate is known, the bound is 1 MB here: 1000 segments in domain 2, and 4/3 *
    // 10/90 of that in domain 1
    let megabyte = Tunables { d2_bound_kb: 1000, ..Tunables::DEFAULT };
    let with_rate = |tunables, ssthresh, rate_delivered| {
        let view = View { srtt_us: 8 * 100_000, min_rtt_us: 100_000, ..connection(600, ssthresh) };
        start(tunables, View { rate_delivered, rate_interval_us: 100_000 * rate_delivered.min(1), ..view })
    };
    let tell = |kernel: &mut Kernel<'_, Mdcubic>, in_order| {
        let report = Report { rtt_us: 10_000, ..Report::up_to(Una(in_order)) };
        apply(kernel, &[Event::Pep(report), DUPLICATE]);
        (kernel.sock.snd_cwnd, kernel.model.d2_segments)
    };
    let mut kernel = with_rate(megabyte, INFINITE_SSTHRESH, 0);
    assert_eq!(tell(&mut kernel, 0), (600, 0));
    assert_eq!(tell(&mut kernel, 200_000), (600 + 2 * 200, 200));
    // W1 is 1148 minus what is in domain 2, which limits slow start; all 1148 are sent
    assert_eq!(tell(&mut kernel, 300_000), (1148, 300));
    assert_eq!(tell(&mut kernel, 1_000_000), (1148, 1000));
    assert_eq!(tell(&mut kernel, 1_148_000), (1148, 1000));
    // with 1000 segments in 100 ms, it is one and a half times the 900 that domain 2 holds, and 200
    let mut kernel = with_rate(megabyte, INFINITE_SSTHRESH, 1000);
    for in_order in (0..1_550_000).step_by(50_000) {
        tell(&mut kernel, in_order);
    }
    assert_eq!(tell(&mut kernel, 1_550_000), (1350 + 200, 1350));
    // in congestion avoidance, domain 1 alone bounds W1, until domain 2 fills up
    let mut kernel = with_rate(megabyte, 100, 0);
    assert_eq!(tell(&mut kernel, 0), (600, 0));
    assert_eq!(tell(&mut kernel, 590_000), (600 + 590, 590));
    assert_eq!(tell(&mut kernel, 1_000_000), (601 + 1000, 1000));
    assert_eq!(tell(&mut kernel, 1_001_000), (148 + 1000, 1000));
    // the paper has no bound
    let mut kernel = with_rate(Tunables::PAPER, INFINITE_SSTHRESH, 0);
    assert_eq!(tell(&mut kernel, 0), (600, 0));
    assert_eq!(tell(&mut kernel, 600_000), (600 + 2 * 600, 600));
    assert_eq!(tell(&mut kernel, 1_800_000), (2400 + 1800, 1800));
}

fn a_later_hole_in_domain_1_is_cubic_s(start: &Start<'_>) {
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000))]), Event::Recovery, DUPLICATE]);
    assert_eq!(window(&kernel), (24, 24));
    // the client also has 12,000 to 16,000, and the PEP lacks the bytes before that
    apply(&mut kernel, &[sack(&[(Una(1000), Una(8000)), (Una(12_000), Una(16_000))]), DUPLICATE]);
    assert_eq!(window(&kernel), (24, 11 + 8));
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!((window(&kernel), kernel.model.losses), ((11, 11), [0, 1])); // counted for the domain in which it began
}

fn the_last_ack_of_a_recovery_changes_no_domain(start: &Start<'_>) {
    let mut kernel = clocked(start, Tunables::DEFAULT);
    apply(&mut kernel, &[sack(&[(Una(1000), Una(16_000))]), Event::Pep(Report::up_to(Una(16_000)))]);
    apply(&mut kernel, &[Event::Recovery]);
    // the retransmission arrived: all 16 are acknowledged; the next segments are on their way to the PEP, not lost
    client(&mut kernel, 16);
    assert!(kernel.model.in_domain_2);
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!(window(&kernel), (16, 8)); // and domain 2 is empty
}

fn a_congestion_mark_is_domain_1_s(start: &Start<'_>) {
    let mut kernel = clocked(start, TEN);
    apply(&mut kernel, &[Event::Cwr]); // whatever snd_una is
    assert_eq!(window(&kernel), (24, 11 + 8));
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!((window(&kernel), kernel.model.losses), ((19, 11), [0, 0]));
}

fn a_timeout_starts_again_without_d2(start: &Start<'_>) {
    // in whichever domain the first segment was lost: 16 * 7/10
    for in_order in [Una(8000), Una(0)] {
        let mut kernel = clocked(start, Tunables::DEFAULT);
        reports(&mut kernel, in_order, &[(Una(1000), Una(8000))]);
        apply(&mut kernel, &[Event::Timeout { ssthresh: true }]);
        assert_eq!((window(&kernel), kernel.model.d2_segments), ((1, 11), 0), "{in_order:?}");
        // in the loss state the client's ACKs are the clock: 1, 2, 4
        client(&mut kernel, 1);
        assert_eq!((window(&kernel), kernel.model.d2_segments), ((2, 11), 0), "{in_order:?}");
        client(&mut kernel, 2);
        assert_eq!((window(&kernel), kernel.model.d2_segments), ((4, 11), 0), "{in_order:?}");
    }
    // back in the open state D2 counts again: the client has 3 of 8, and 5 are between it and the PEP
    let mut kernel = clocked(start, Tunables::DEFAULT);
    apply(&mut kernel, &[Event::Timeout { ssthresh: true }]);
    client(&mut kernel, 3); // W = 1 + 3
    apply(&mut kernel, &[Event::Open, DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((4 + 5, 11), 5));
}

fn a_timeout_within_a_recovery_leaves_ssthresh_to_cubic(start: &Start<'_>) {
    // the kernel asks for no new ssthresh then; that of the recovery, 11 + 7 or 24, includes what is no longer in W
    for in_order in [Una(8000), Una(0)] {
        let mut kernel = clocked(start, Tunables::DEFAULT);
        reports(&mut kernel, in_order, &[(Una(1000), Una(8000))]);
        apply(&mut kernel, &[Event::Recovery, Event::Timeout { ssthresh: false }]);
        assert_eq!(window(&kernel), (1, 11), "{in_order:?}");
    }
}

fn a_loss_never_raises_the_window(start: &Start<'_>) {
    let mut kernel = start(Tunables::DEFAULT, connection(100, 50));
    client(&mut kernel, 1);
    reports(&mut kernel, Una(99_000), &[]);
    assert_eq!(window(&kernel), (100 + 99, 50));
    // 10 s without transmission: the kernel restarts with 10 segments; D2 is that of the last report
    apply(&mut kernel, &[Event::Idle { for_us: 10_000_000, restart: true }]);
    assert_eq!((kernel.sock.snd_cwnd, kernel.model.d2_segments), (10, 99));
    // W1 = 2, and 2 * 7/10 is 2 at least; with D2 added, a loss would turn 10 segments into 101
    apply(&mut kernel, &[Event::Recovery]);
    assert_eq!(kernel.sock.snd_ssthresh, 10);
}

fn a_silent_pep_is_forgotten(start: &Start<'_>) {
    let mut kernel = clocked(start, Tunables::DEFAULT); // the report is 1 ms old
    let after = |after_us| Event::Duplicate { after_us };
    apply(&mut kernel, &[after(999_000)]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((24, 8), 8));
    apply(&mut kernel, &[after(1)]); // older than 1000 ms
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((16, 8), 0));
    client(&mut kernel, 16); // as with CUBIC: one segment per window
    assert_eq!(window(&kernel), (17, 8));
    // likewise a record never written, one that is gone, one that is being written, one from another clock
    let torn = Report { writing: true, ..Report::up_to(Una(8000)) };
    let future = Report { age_ms: -12, ..Report::up_to(Una(8000)) };
    let fresh = Report { age_ms: -11, ..Report::up_to(Una(8000)) };
    for (event, w) in [
        (Event::NoPep { storage: true }, 16),
        (Event::NoPep { storage: false }, 16),
        (Event::Pep(torn), 16),
        (Event::Pep(future), 16), // 11 ms ahead when the ACK comes
        (Event::Pep(fresh), 24),  // 10 ms
    ] {
        let mut kernel = clocked(start, Tunables::DEFAULT);
        apply(&mut kernel, &[event, DUPLICATE]);
        assert_eq!(window(&kernel), (w, 8), "{event:?}");
    }
    // in a recovery, the reduction controls W: D2 is removed after it
    let mut kernel = clocked(start, Tunables::DEFAULT);
    apply(&mut kernel, &[Event::Recovery, Event::NoPep { storage: true }, DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((24, 11 + 8), 8)); // no PEP, no domain 2
    apply(&mut kernel, &[Event::Complete, DUPLICATE]);
    assert_eq!((window(&kernel), kernel.model.d2_segments), ((11, 11), 0));
}

fn a_client_ahead_of_the_pep_is_believed(start: &Start<'_>) {
    let mut kernel = clocked(start, Tunables::DEFAULT);
    client(&mut kernel, 1); // the first RTT sample
    assert_eq!(kernel.sock.snd_cwnd, 16 + 7);
    client(&mut kernel, 11); // 4 ahead of the PEP: its report may just be late; D2 = 0
    assert_eq!(kernel.sock.snd_cwnd, 16);
    assert!(kernel.model.clocked);
    let after = |after_us| Event::Duplicate { after_us };
    apply(&mut kernel, &[after(99_999)]);
    assert!(kernel.model.clocked);
    apply(&mut kernel, &[after(1)]); // ahead for a whole RTT
    assert!(kernel.model.fallen_back && !kernel.model.clocked);
    client(&mut kernel, 16); // CUBIC by the client's ACKs
    assert_eq!(window(&kernel), (17, 8));
    reports(&mut kernel, Una(-1), &[]); // a new report, but still behind
    assert!(kernel.model.fallen_back);
    reports(&mut kernel, Una(0), &[]); // level
    assert!(!kernel.model.fallen_back && kernel.model.clocked);
    // a break restarts the RTT: here after 60 ms, for one ACK
    for (in_order, after_us) in [(Una(-1), 60_000), (Una(0), 1000), (Una(-1), 60_000), (Una(-1), 60_000)] {
        apply(&mut kernel, &[Event::Pep(Report::up_to(in_order)), after(after_us)]);
        assert!(kernel.model.clocked, "{in_order:?}");
    }
    apply(&mut kernel, &[after(40_000)]);
    assert!(!kernel.model.clocked);
}

fn no_report_is_trusted(start: &Start<'_>) {
    let after = |in_order, ranges: &[Stretch]| {
        let mut kernel = start(Tunables::DEFAULT, connection(16, 8));
        reports(&mut kernel, in_order, ranges);
        (kernel.sock.snd_cwnd, kernel.model.d2_segments)
    };
    assert_eq!(after(Nxt(1 << 28), &[]), (32, 16)); // more than was sent: all that is in flight, 16
    assert_eq!(after(Una(-(1 << 28)), &[]), (16, 0));
    // 2000; 3000..6000 and 5000..7000 are 4000; the next ends before it starts; one beyond what was sent: 1000
    let ranges = [(Una(3000), Una(6000)), (Una(5000), Una(7000)), (Una(12_000), Una(9000)), (Nxt(-1000), Nxt(50_000))];
    assert_eq!(after(Una(2000), &ranges), (16 + 7, 7));
    // out of order, and below what came in order: 9000..12,000 and 4000..5000 of it
    assert_eq!(after(Una(4000), &[(Una(9000), Una(12_000)), (Una(1000), Una(5000))]), (16 + 8, 8));
    // more ranges than the record has room for
    let report = Report { range_count: u32::MAX, ..Report::up_to(Una(1000)).with(&ranges) };
    let mut kernel = start(Tunables::DEFAULT, connection(16, 8));
    apply(&mut kernel, &[Event::Pep(report), DUPLICATE]);
    assert_eq!(kernel.model.d2_segments, 6);
    // and no further than the clamp
    let mut kernel = start(Tunables::DEFAULT, View { snd_cwnd_clamp: 20, ..connection(16, 8) });
    reports(&mut kernel, Nxt(0), &[]);
    assert_eq!(kernel.sock.snd_cwnd, 20);
}

fn without_its_clock_the_pep_still_tells_domains(start: &Start<'_>) {
    let mut kernel = start(Tunables { pep_clock: 0, ..Tunables::DEFAULT }, connection(16, 8));
    reports(&mut kernel, Una(8000), &[]);
    client(&mut kernel, 2); // counted towards W = 17
    assert_eq!((window(&kernel), kernel.sock.snd_cwnd_cnt), ((16, 8), 2));
    apply(&mut kernel, &[Event::Recovery]);
    assert_eq!(window(&kernel), (16, 16));
    apply(&mut kernel, &[Event::Complete]);
    assert_eq!(window(&kernel), (16, 8));
    reports(&mut kernel, Una(0), &[(Una(1000), Una(8000))]);
    apply(&mut kernel, &[Event::Recovery, Event::Complete]);
    assert_eq!(window(&kernel), (11, 11));
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("mdcubic");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

fn any_tunables(random: &mut Random) -> Tunables {
    if random.once_in(3) {
        return Tunables::DEFAULT;
    }
    Tunables {
        kind: random.pick(&[0, 0, 0, 1]),
        d2_loss_events: random.pick(&[0, 0, 1, 2, 10, 100, 1000, 1000]),
        d2_segments_per_loss: random.pick(&[16, 16, 0, 1, 1000]),
        d2_reduction: random.pick(&[0, 0, 1]),
        d2_bound_kb: random.pick(&[1000, 1000, 0, 1, 100, 1_000_000]),
        without_pep: random.pick(&[0, 0, 0, 1]),
        pep_max_age_ms: random.pick(&[1000, 1000, 1, 100, 30_000]),
        pep_clock: random.pick(&[1, 1, 1, 0]),
    }
}

fn any_model(random: &mut Random) -> Mdcubic {
    let mut model = Mdcubic::new(any_tunables(random));
    if random.once_in(4) {
        model.others = (0..3).map(|_| any_tunables(random)).collect();
    }
    model
}

fn require_all_branches(totals: &Totals) {
    totals.require_variety();
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
}

#[test]
fn no_report_leads_the_model_out_of_bounds() {
    let totals = random::check_under(CONDITIONS, None, 1, 3000, 400, |random| Watched {
        model: any_model(random),
        invariants: Bounds::default(),
    });
    require_all_branches(&totals);
}

#[test]
fn the_model_without_a_pep_is_its_delegate() {
    let conditions = Conditions { signals: Signals::Radio, ..CONDITIONS };
    let totals = random::check_under(conditions, None, 1, 1000, 400, |random| {
        let mut model = any_model(random);
        for tunables in model.others.iter_mut().chain([&mut model.tunables]) {
            tunables.without_pep = 0;
        }
        Watched { model, invariants: Plain }
    });
    totals.require(1000, &["ACKs without a PEP", "growth by the client's ACKs", "reductions for domain 1"]);
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("mdcubic");
    let totals = random::check_under(CONDITIONS, Some(&algo), 1, 4000, 400, any_model);
    require_all_branches(&totals);
    totals.require_accounted(&algo);
    // the calls that the kernel's CUBIC gets
    let calls = [(Cubic::Init, "delegate init"), (Cubic::State, "delegate state"), (Cubic::Acked, "delegate acked")];
    for (function, branch) in calls {
        assert_eq!(u64::from(algo.cubic_calls(function)), totals.covered(branch), "{branch}");
    }
}
