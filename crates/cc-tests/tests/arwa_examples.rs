//! ARWA's sender against its model, and both against examples worked by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_cc_tests::kernel::{Event, Kernel};
use hotcc_cc_tests::models::arwa::{Arwa, Tunables};
use hotcc_cc_tests::models::watched::{Hook, Invariants, Moment, Watched};
use hotcc_cc_tests::random::{self, Conditions, Random, Timeouts, Totals};
use hotcc_cc_tests::signals::Signals;
use hotcc_host_algo::{HostAlgo, View};

const CONDITIONS: Conditions = Conditions { timeouts: Timeouts::Mixed, signals: Signals::Hint };

/// Function that starts a connection: on the model by itself, or on algorithm and model together.
type Start<'a> = dyn Fn(Arwa, View) -> Kernel<'a, Arwa> + 'a;

/// Makes two tests of each example: on the model by itself, and on algorithm and model together.
macro_rules! examples {
    ($($name:ident)*) => {
        mod by_the_model {
            use super::*;
            $(#[test] fn $name() { super::$name(&|model, view| Kernel::alone(model, view).unwrap()); })*
        }
        mod by_the_algorithm {
            use super::*;
            $(#[test] fn $name() {
                let algo = HostAlgo::load("arwa");
                super::$name(&|model, view| Kernel::start(&algo, model, view).unwrap());
            })*
        }
    };
}

examples! {
    a_hint_below_100_cuts_the_window_by_so_many_percent
    one_hint_an_rtt_is_followed
    the_paper_follows_each_hint_and_slow_start_undoes_it
    the_floor_is_whole_segments_and_raises_nothing
    a_hint_above_100_raises_the_window_and_fractions_add_up
    a_flood_of_hints_ends_at_the_clamp_and_at_the_floor
    growth_is_for_those_whom_the_window_holds_back
    a_cut_and_a_loss_empty_the_account_of_growth
    what_is_no_hint_is_ignored_and_used_up
    age_is_limited_and_so_is_the_future
    hints_in_a_recovery_are_used_up
}

/// Returns a connection at 1 s in congestion avoidance.
fn connection(snd_cwnd: u32, mss: u32) -> View {
    View {
        now_us: 1_000_000,
        snd_cwnd,
        snd_cwnd_clamp: u32::MAX,
        snd_ssthresh: 2,
        mss,
        delivered: 5000,
        data_segs_out: 5000,
        max_packets_out: snd_cwnd,
        is_cwnd_limited: 1,
        ..View::default()
    }
}

/// Delivers a hint now, with an ACK for one segment after this many microseconds and an RTT of 100 ms.
fn hint_after(kernel: &mut Kernel<'_, Arwa>, hint: u8, after_us: u64) {
    kernel.apply(Event::Hint { hint, age_ms: 0, new: true }).unwrap();
    ack(kernel, after_us);
}

/// Delivers a hint, an RTT after the last one.
fn hint(kernel: &mut Kernel<'_, Arwa>, hint: u8) {
    hint_after(kernel, hint, 100_000);
}

fn ack(kernel: &mut Kernel<'_, Arwa>, after_us: u64) {
    kernel.apply(Event::Ack { after_us, acked: 1, rtt_us: Some(100_000) }).unwrap();
}

/// Returns W, the count of ACKs towards its next segment, and ssthresh.
fn window(kernel: &Kernel<'_, Arwa>) -> (u32, u32, u32) {
    (kernel.sock.snd_cwnd, kernel.sock.snd_cwnd_cnt, kernel.sock.snd_ssthresh)
}

fn a_hint_below_100_cuts_the_window_by_so_many_percent(start: &Start<'_>) {
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(105, 1000));
    // line 8: 105 - 105 * 30/100 = 105 - 31.5; whole segments are cut: 31; ssthresh follows; the ACK counts 1 of 74
    hint(&mut kernel, 30);
    assert_eq!(window(&kernel), (74, 1, 74));
    // no new hint: NewReno
    ack(&mut kernel, 100_000);
    assert_eq!(window(&kernel), (74, 2, 74));
    // the largest cut: 74 - 51.8
    hint(&mut kernel, 70);
    assert_eq!(window(&kernel), (23, 3, 23));
}

fn one_hint_an_rtt_is_followed(start: &Start<'_>) {
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(100, 1000));
    hint(&mut kernel, 30); // followed at 1.1 s
    assert_eq!(window(&kernel), (70, 1, 70));
    hint_after(&mut kernel, 30, 99_999); // 1 us too soon
    assert_eq!(window(&kernel), (70, 2, 70));
    ack(&mut kernel, 1); // and used up: it is not followed later
    assert_eq!(window(&kernel), (70, 3, 70));
    hint_after(&mut kernel, 10, 0); // 100,000 us after the first
    assert_eq!(window(&kernel), (63, 4, 63)); // 70 - 7
    // before the first RTT sample, the RTT is taken as 1 ms
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(100, 1000));
    for (after_us, want) in [(5, 90), (999, 90), (1, 81)] {
        kernel.apply(Event::Hint { hint: 10, age_ms: 0, new: true }).unwrap();
        kernel.apply(Event::Ack { after_us, acked: 1, rtt_us: None }).unwrap();
        assert_eq!(kernel.sock.snd_cwnd, want);
    }
}

fn the_paper_follows_each_hint_and_slow_start_undoes_it(start: &Start<'_>) {
    let mut view = connection(100, 1000);
    view.snd_ssthresh = 50;
    let mut kernel = start(Arwa::new(Tunables::PAPER), view);
    hint(&mut kernel, 30);
    assert_eq!(window(&kernel), (70, 1, 50)); // Algorithm 2 does not change ssthresh
    // 1 ms later: 70 - 21 = 49, below ssthresh: the same ACK takes it to 50
    hint_after(&mut kernel, 30, 1000);
    assert_eq!(window(&kernel), (50, 1, 50));
}

fn the_floor_is_whole_segments_and_raises_nothing(start: &Start<'_>) {
    // line 9, 3000 bytes: 3 segments of 1000, 2.07 and so 3 of 1448, 6 of 500, 1 and so 2 of 9000
    for (before, mss, after) in [
        (4, 1000, 3), // 4 - 2.8, whole: 4 - 2 = 2
        (5, 1448, 3), // 5 - 3.5, whole: 5 - 3 = 2
        (9, 500, 6),  // 9 - 6.3, whole: 9 - 6 = 3
        (5, 500, 5),  // below the floor already
        (4, 9000, 2), // 4 - 2 = 2, which is the floor
    ] {
        let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(before, mss));
        hint(&mut kernel, 70);
        assert_eq!(window(&kernel), (after, 1, after), "{before} of {mss}");
    }
    // W = 1 is kept, ssthresh is at least 2: the ACK takes W there
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(1, 9000));
    hint(&mut kernel, 70);
    assert_eq!(window(&kernel), (2, 0, 2));
}

fn a_hint_above_100_raises_the_window_and_fractions_add_up(start: &Start<'_>) {
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(8, 1000));
    for (percent, want) in [
        (5, 8),   // line 16: 8 * 5/100 = 0.4
        (5, 8),   // 0.8
        (5, 9),   // 1.2: one, 0.2 left
        (5, 9),   // 0.2 + 9 * 5/100 = 0.65
        (5, 10),  // 1.1: one, 0.1 left
        (5, 10),  // 10,000 bytes are not above 10,000: 0.1 + 0.5 = 0.6
        (5, 11),  // 1.1: one, 0.1 left
        (5, 11),  // line 14: half of it from 11,000 bytes on: 0.1 + 11 * 5/200 = 0.375
        (20, 12), // 0.375 + 11 * 20/200 = 1.475: one, 0.475 left
        (1, 12),  // 0.475 + 12 * 1/200 = 0.535
    ] {
        hint(&mut kernel, 100 + percent);
        assert_eq!(kernel.sock.snd_cwnd, want);
    }
    // many segments at once, but not beyond the clamp: 1000 * 20/200 = 100
    for (clamp, want) in [(u32::MAX, 1100), (1100, 1100), (1099, 1099), (1000, 1000)] {
        let view = View { snd_cwnd_clamp: clamp, ..connection(1000, 1000) };
        let mut kernel = start(Arwa::new(Tunables::DEFAULT), view);
        hint(&mut kernel, 120);
        assert_eq!(kernel.sock.snd_cwnd, want);
    }
}

/// Algorithm 2 has no upper limit, and this profile follows each hint.
fn a_flood_of_hints_ends_at_the_clamp_and_at_the_floor(start: &Start<'_>) {
    for clamp in [2, 11, 100_000, u32::MAX] {
        let view = View { snd_cwnd_clamp: clamp, ..connection(clamp.min(10), 9000) };
        let mut kernel = start(Arwa::new(Tunables::PAPER), view);
        for (percent, end) in [(120, clamp), (70, 2)] {
            for _ in 0..400 {
                hint_after(&mut kernel, percent, 10);
                assert!((2..=clamp).contains(&kernel.sock.snd_cwnd), "{:?} of {clamp}", window(&kernel));
            }
            assert!(kernel.sock.snd_cwnd.abs_diff(end) <= 1, "{:?}, not {end}", window(&kernel)); // the last ACK
        }
    }
}

fn growth_is_for_those_whom_the_window_holds_back(start: &Start<'_>) {
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(100, 100));
    kernel.apply(Event::CwndLimited(false)).unwrap();
    hint(&mut kernel, 120);
    assert_eq!(window(&kernel), (100, 0, 2));
    assert_eq!(kernel.model.last_hint, 120); // it counted as the RTT's one hint all the same
    kernel.apply(Event::CwndLimited(true)).unwrap();
    hint(&mut kernel, 120);
    assert_eq!(window(&kernel), (120, 1, 2)); // 10,000 bytes: in full
    // a cut applies in any case
    kernel.apply(Event::CwndLimited(false)).unwrap();
    hint(&mut kernel, 50);
    assert_eq!(window(&kernel), (60, 1, 60));
}

fn a_cut_and_a_loss_empty_the_account_of_growth(start: &Start<'_>) {
    let grown_by_08 = || {
        let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(8, 1000));
        hint(&mut kernel, 105);
        hint(&mut kernel, 105); // 0.8 earned
        kernel
    };
    let mut kernel = grown_by_08();
    hint(&mut kernel, 1); // 8 - 0.08: nothing cut
    assert_eq!(kernel.sock.snd_cwnd, 8);
    hint(&mut kernel, 105); // 0.4
    assert_eq!(kernel.sock.snd_cwnd, 8);
    let mut kernel = grown_by_08();
    kernel.apply(Event::Recovery).unwrap();
    assert_eq!(kernel.sock.snd_ssthresh, 4); // NewReno: 8/2
    kernel.apply(Event::Undo).unwrap(); // the earlier W
    assert_eq!(kernel.sock.snd_cwnd, 8);
    hint(&mut kernel, 105);
    assert_eq!(kernel.sock.snd_cwnd, 8);
}

fn what_is_no_hint_is_ignored_and_used_up(start: &Start<'_>) {
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(100, 1000));
    for (i, none) in [0, 71, 99, 100, 121, 255].into_iter().enumerate() {
        hint(&mut kernel, none);
        assert_eq!(window(&kernel), (100, i as u32 + 1, 2));
    }
    assert_eq!(kernel.model.last_hint, 0);
    // nor is one whose writer has not changed the sequence number yet
    kernel.apply(Event::Hint { hint: 50, age_ms: 0, new: false }).unwrap();
    ack(&mut kernel, 100_000);
    assert_eq!(window(&kernel), (100, 7, 2));
    hint(&mut kernel, 50);
    assert_eq!(window(&kernel), (50, 8, 50));
}

fn age_is_limited_and_so_is_the_future(start: &Start<'_>) {
    for (age_ms, after_us, followed) in [
        (1000, 0, true),
        (1000, 1, false),
        (0, 1_000_000, true),
        (0, 1_000_001, false),
        (-10, 0, true),
        (-11, 0, false),
        (-11, 1000, true),
        (4_295_467, 0, false), // 71 minutes and half a second: 2^32 us, and half a second
    ] {
        let view = View { now_us: 1 << 33, ..connection(100, 1000) };
        let mut kernel = start(Arwa::new(Tunables::DEFAULT), view);
        kernel.apply(Event::Hint { hint: 10, age_ms, new: true }).unwrap();
        ack(&mut kernel, after_us);
        assert_eq!(kernel.sock.snd_cwnd, if followed { 90 } else { 100 }, "{age_ms} ms, {after_us} us");
    }
}

fn hints_in_a_recovery_are_used_up(start: &Start<'_>) {
    let mut kernel = start(Arwa::new(Tunables::DEFAULT), connection(100, 1000));
    kernel.apply(Event::Recovery).unwrap();
    hint(&mut kernel, 50);
    assert_eq!(window(&kernel), (99, 0, 50)); // the kernel's own reduction, after one ACK
    kernel.apply(Event::Complete).unwrap();
    ack(&mut kernel, 100_000);
    assert_eq!(window(&kernel), (50, 1, 50));
    // the first duplicate ACK is no recovery yet
    kernel.apply(Event::Disorder).unwrap();
    hint(&mut kernel, 50);
    assert_eq!(window(&kernel), (25, 2, 25));
}

#[test]
fn the_default_profile_is_built_in() {
    let algo = HostAlgo::load("arwa");
    for (name, value) in Tunables::DEFAULT.named() {
        assert_eq!(algo.tunable(name), value, "{name}");
    }
}

/// Draws one of the profiles, or any other choices and limits.
fn any_tunables(random: &mut Random) -> Tunables {
    let mut t = random.pick(&[Tunables::DEFAULT, Tunables::PAPER]);
    if random.once_in(2) {
        return t;
    }
    t.floor_bytes = random.pick(&[3000, 3000, 500, 20_000, 1_000_000]);
    t.gentle_bytes = random.pick(&[10_000, 10_000, 0, 100_000, u32::MAX]);
    t.once_per_rtt = random.pick(&[0, 1]);
    t.cut_sets_ssthresh = random.pick(&[0, 1]);
    t.grow_beyond_loss = random.pick(&[0, 1]);
    t.max_age_ms = random.pick(&[1000, 1000, 1, 100, 30_000]);
    t
}

fn any_model(random: &mut Random) -> Arwa {
    let mut model = Arwa::new(any_tunables(random));
    if random.once_in(3) {
        model.others = (0..3).map(|_| any_tunables(random)).collect();
    }
    model
}

/// Checks that no hint, from any receiver, violates the bounds of W and ssthresh.
#[derive(Clone, Debug, Default)]
struct Bounds {
    /// Time at which a hint was last followed.
    followed_us: Option<u64>,
}

impl Invariants<Arwa> for Bounds {
    fn hold(&mut self, hook: Hook, (before, was): Moment<'_, Arwa>, (after, is): Moment<'_, Arwa>) {
        let context = || format!("{hook:?}: {was:?} -> {is:?}\n{before:?}\n{after:?}");
        assert!(is.snd_cwnd <= is.snd_cwnd_clamp && is.snd_ssthresh >= 2, "{}", context());
        match hook {
            Hook::Init => self.followed_us = None,
            Hook::PktsAcked if is != was => {
                assert!(before.handled != after.handled, "twice: {}", context());
                assert!(is.ca_state <= 1, "in a recovery: {}", context());
                let floor = before.tunables.floor_bytes.div_ceil(is.mss).max(2);
                assert!(is.snd_cwnd >= was.snd_cwnd.min(floor), "under the floor: {}", context());
                let (w, before_w) = (u64::from(is.snd_cwnd), u64::from(was.snd_cwnd));
                assert!(w * 100 >= before_w * 30, "more than 70 %: {}", context());
                assert!(w * 100 <= before_w * 120 + 100, "more than 20 % and a segment: {}", context());
                let left = before.loss_window.filter(|_| before.tunables.grow_beyond_loss == 0);
                let limit = left.map_or(u32::MAX, |left| left.max(was.snd_cwnd));
                assert!(is.snd_cwnd <= limit, "beyond where the last loss left it: {}", context());
                let threshold = if before.tunables.cut_sets_ssthresh == 1 && w <= before_w {
                    is.snd_cwnd.max(2)
                } else {
                    was.snd_ssthresh
                };
                assert_eq!(is.snd_ssthresh, threshold, "{}", context());
                let pause = u64::from(is.srtt_us >> 3);
                let soon = self.followed_us.is_some_and(|at| is.now_us - at < pause);
                assert!(before.tunables.once_per_rtt == 0 || !soon, "twice in an RTT: {}", context());
                self.followed_us = Some(is.now_us);
            }
            Hook::CongAvoid(_) => {}
            _ => assert_eq!(is, was, "{}", context()),
        }
    }
}

fn require_all_branches(totals: &Totals) {
    totals.require_variety();
    let branches: Vec<&str> = totals.coverage.keys().copied().collect();
    totals.require(100, &branches);
}

#[test]
fn no_hint_leads_the_model_out_of_bounds() {
    let totals = random::check_under(CONDITIONS, None, 1, 2000, 400, |random| Watched {
        model: any_model(random),
        invariants: Bounds::default(),
    });
    require_all_branches(&totals);
}

#[test]
fn follows_the_model_through_random_connections() {
    let algo = HostAlgo::load("arwa");
    let totals = random::check_under(CONDITIONS, Some(&algo), 1, 4000, 400, any_model);
    require_all_branches(&totals);
    totals.require_accounted(&algo);
    // hundredths of a segment are rounded to 65536ths: a sum that is exactly a whole number is reached one hint later
    totals.require_rare("segments paid out one hint later", 100, totals.covered("growth of whole segments"));
}
