//! Which domain a loss was in, and what it does to the window, by hand.

use super::{DUPLICATE, Start, TEN, apply, client, clocked, connection, reports, sack, window};
use hotcc_cc_tests::kernel::{Event, Kernel};
use hotcc_cc_tests::models::mdcubic::{Mdcubic, Tunables};
use hotcc_cc_tests::reports::At::Una;
use hotcc_cc_tests::reports::Report;
use hotcc_host_algo::{HostAlgo, View};

examples! {
    a_loss_in_domain_2_changes_nothing
    a_loss_in_domain_1_is_cubic_s
    a_hole_tells_the_domain_as_well
    the_tenth_loss_in_a_round_is_cubic_s
    clocked_by_the_pep_w_gives_up_what_was_lost
    a_loss_of_a_long_queue_in_domain_2_is_congestion
    a_later_hole_in_domain_1_is_cubic_s
    the_last_ack_of_a_recovery_changes_no_domain
    a_congestion_mark_is_domain_1_s
    a_loss_never_raises_the_window
    without_its_clock_the_pep_still_tells_domains
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
