//! When the PEP's reports no longer count, by hand.

use super::{DUPLICATE, Start, apply, client, clocked, connection, reports, window};
use hotcc_cc_tests::kernel::{Event, Kernel};
use hotcc_cc_tests::models::mdcubic::{Mdcubic, Tunables};
use hotcc_cc_tests::reports::At::{Nxt, Una};
use hotcc_cc_tests::reports::{Report, Stretch};
use hotcc_host_algo::{HostAlgo, View};

examples! {
    a_timeout_starts_again_without_d2
    a_timeout_within_a_recovery_leaves_ssthresh_to_cubic
    a_silent_pep_is_forgotten
    a_client_ahead_of_the_pep_is_believed
    no_report_is_trusted
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
