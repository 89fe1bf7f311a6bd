//! Examples worked by hand of losses, timeouts and marks.

use super::examples::{BASE, Make, bound};
use hotcc_cc_tests::models::fbtcp::Tunables;
use hotcc_host_algo::ca_state::{CWR, LOSS, OPEN, RECOVERY};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, EVENT_LOSS, INFINITE_SSTHRESH};

pub fn a_loss_changes_no_window<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::DEFAULT, 1000);
    bound(&mut c, 400);
    c.round(BASE);
    assert_eq!(c.ssthresh(), 1000);
    c.view.snd_ssthresh = 1000;
    c.enter(RECOVERY);
    assert_eq!(c.field("step_left"), 0);
    c.view.snd_cwnd = 960; // what was in flight
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (1000, 750)); // ssthresh was 2; at least 3/4 of W
    // in slow start it ends slow start
    let mut c = make(Tunables::DEFAULT, 1000);
    c.view.snd_ssthresh = INFINITE_SSTHRESH;
    assert_eq!(c.ssthresh(), 1000);
    c.view.snd_ssthresh = 1000;
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (1000, 999));
    // a W of 1 is not restored, but 2
    c.view.snd_cwnd = 1;
    assert_eq!(c.ssthresh(), 2);
    // an undo after a spurious loss
    c.view.prior_cwnd = 1000;
    assert_eq!(c.undo_cwnd(), 1000);
    (c.view.snd_cwnd, c.view.snd_ssthresh) = (1000, 600);
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (1000, 600));
}

pub fn a_timeout_starts_slowly_up_to_three_quarters<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::DEFAULT, 1000);
    bound(&mut c, 4000);
    c.round(250_000);
    c.round(BASE);
    assert_eq!(c.ssthresh(), 1000);
    c.view.snd_ssthresh = 1000;
    c.event(EVENT_LOSS);
    assert_eq!(c.window(), (1000, 750));
    assert_eq!((c.field("rule"), c.field("repeat"), c.field("step_left")), (0, 0, 0));
    c.view.snd_cwnd = 1;
    c.enter(LOSS);
    assert_eq!(c.window(), (1, 750));
    assert_eq!(c.cong_avoid(1000), 750); // growth beyond ssthresh is dropped
    assert_eq!(c.cong_avoid(1000), 750);
    c.event(EVENT_COMPLETE_CWR); // nothing is left to restore
    assert_eq!(c.window(), (750, 750));
}

/// The kernel reports no loss event for it, and has set W already.
pub fn a_timeout_within_a_recovery_is_like_any<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::DEFAULT, 1000);
    assert_eq!(c.ssthresh(), 1000);
    c.view.snd_ssthresh = 1000;
    c.enter(RECOVERY);
    c.view.snd_cwnd = 1;
    c.enter(LOSS);
    assert_eq!(c.window(), (1, 750));
    assert_eq!(c.cong_avoid(1000), 750);
    c.event(EVENT_COMPLETE_CWR); // nothing is left to restore
    assert_eq!(c.window(), (750, 750));
}

pub fn a_mark_halves_the_window<'a>(make: impl Make<'a>) {
    for (permille, want) in [(500, 500), (850, 850), (0, 2)] {
        let mut c = make(Tunables { ecn_permille: permille, ..Tunables::DEFAULT }, 1000);
        assert_eq!(c.ssthresh(), 1000);
        c.view.snd_ssthresh = 1000;
        c.enter(CWR);
        assert_eq!(c.window(), (1000, want));
        c.view.snd_cwnd = want;
        c.event(EVENT_COMPLETE_CWR);
        assert_eq!(c.window(), (want, want));
    }
}

/// Clearly more than 2 % is no random loss: W falls by twice what was lost, maxCwnd falls to W, and W grows as in
/// Divergence for 31 rounds.
pub fn the_default_profile_gives_up_what_a_round_lost_over_2_percent<'a>(make: impl Make<'a>) {
    for (tunables, lost, rule, window, max) in [
        // 29 lost, 999 delivered: 29 are 8.4 more than 2 % of 1028, and two deviations 2 sqrt(20.56) = 9.07
        (Tunables::DEFAULT, 29, 1, (1000, 2), 2100),
        // 30 are 9.42 more, of which two deviations are 9.07; 1000 * (999 - 30) / 1029 = 941.7; 3/4 of it
        (Tunables::DEFAULT, 30, 0, (941, 705), 941),
        (Tunables::PAPER, 999, 1, (1000, 2), 2100),
    ] {
        let mut c = make(tunables, 1000);
        bound(&mut c, 4000); // 2100
        c.round(BASE); // the round of these 4000
        assert_eq!((c.lossy_round(lost, BASE), c.window(), c.field("max_cwnd")), (rule, window, max));
        if rule == 0 {
            for _ in 0..31 {
                assert_eq!((c.round(BASE), c.field("step_left")), (21, 1)); // D1, though W <= maxCwnd
            }
            assert_eq!(c.round(BASE), 1);
        }
    }
    // fewer than 100 segments decide nothing: 49 and 4 lost, then another 49
    let mut c = make(Tunables::DEFAULT, 50);
    bound(&mut c, 4000);
    c.round(BASE);
    c.lossy_round(4, BASE);
    assert_eq!(c.view.snd_cwnd, 50);
    c.round(BASE);
    assert_eq!(c.view.snd_cwnd, 50); // 4 of 102: 1.96 more than 2 %, two deviations are 2.86
    c.lossy_round(5, BASE);
    c.round(BASE); // 5 of 103: 2.94 more, two deviations are 2.87; 50 * (98 - 5) / 103 = 45.1
    assert_eq!(c.view.snd_cwnd, 45);
    // in a recovery, the W to restore falls
    let mut c = make(Tunables::DEFAULT, 1000);
    c.round(BASE);
    assert_eq!(c.ssthresh(), 1000);
    c.view.snd_ssthresh = 1000;
    c.enter(RECOVERY);
    c.lossy_round(999, BASE); // all of them: half of what arrived, 499, of 1998
    assert_eq!(c.window(), (1000, 249));
    c.view.snd_cwnd = 249;
    c.event(EVENT_COMPLETE_CWR);
    assert_eq!(c.window(), (249, 186)); // ssthresh was 2
}

/// A timeout marks all that is in flight as lost, whatever arrived of it.
pub fn what_a_spurious_timeout_marked_is_no_loss<'a>(make: impl Make<'a>) {
    let mut c = make(Tunables::DEFAULT, 1000);
    bound(&mut c, 4000);
    c.round(BASE);
    c.view.lost += 1000;
    assert_eq!(c.ssthresh(), 1000);
    c.view.prior_cwnd = 1000;
    c.event(EVENT_LOSS);
    c.view.snd_cwnd = 1;
    c.enter(LOSS);
    c.view.snd_cwnd = c.undo_cwnd();
    c.enter(OPEN);
    assert_eq!((c.round(BASE), c.view.snd_cwnd), (1, 1000));
}
