//! How the window grows by the PEP's clock, and what domain 2 may hold, by hand.

use super::{DUPLICATE, Start, TEN, apply, client, clocked, connection, reports, sack, window};
use hotcc_cc_tests::kernel::{Event, Kernel};
use hotcc_cc_tests::models::mdcubic::{Mdcubic, Tunables};
use hotcc_cc_tests::reports::At::Una;
use hotcc_cc_tests::reports::Report;
use hotcc_host_algo::{HostAlgo, INFINITE_SSTHRESH, View};

examples! {
    slow_start_happens_between_sender_and_pep
    bytes_beyond_whole_segments_are_carried
    nothing_grows_for_what_was_there_before
    growth_goes_on_through_a_loss_in_domain_2
    a_long_queue_in_domain_2_that_dropped_something_bounds_d2
    what_domain_2_may_hold_is_bounded
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
    // if the RTT to the PEP is not known, both domains may take all of the RTT: 4/3 * 1000 in domain 1
    let mut kernel = with_rate(megabyte, 100, 0);
    let mut tell_alone = |in_order| {
        reports(&mut kernel, Una(in_order), &[]);
        (kernel.sock.snd_cwnd, kernel.model.d2_segments)
    };
    assert_eq!(tell_alone(0), (600, 0));
    assert_eq!(tell_alone(590_000), (600 + 590, 590));
    assert_eq!(tell_alone(1_000_000), (601 + 1000, 1000));
    assert_eq!(tell_alone(1_001_000), (601 + 1000, 1000));
    // the paper has no bound
    let mut kernel = with_rate(Tunables::PAPER, INFINITE_SSTHRESH, 0);
    assert_eq!(tell(&mut kernel, 0), (600, 0));
    assert_eq!(tell(&mut kernel, 600_000), (600 + 2 * 600, 600));
    assert_eq!(tell(&mut kernel, 1_800_000), (2400 + 1800, 1800));
}
