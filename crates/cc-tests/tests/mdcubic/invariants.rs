//! Invariants of multi-domain CUBIC, whatever a PEP reports, and without a PEP.

use hotcc_abi::pep::PepFlow;
use hotcc_cc_tests::models::mdcubic::Mdcubic;
use hotcc_cc_tests::models::reno;
use hotcc_cc_tests::models::watched::{Hook, Invariants, Moment};
use hotcc_host_algo::{EVENT_COMPLETE_CWR, View};

const LOSS: u8 = 4;

/// Returns the bytes in flight that a report covers. For each stretch between two of the report's ends, it checks
/// whether one of the ranges contains the stretch.
fn claimed(report: &PepFlow, sock: &View) -> u32 {
    let flight = sock.snd_nxt.wrapping_sub(sock.snd_una);
    let ranges = &report.ranges[..report.range_count.min(4) as usize];
    let mut ends = vec![0, flight, report.in_order.wrapping_sub(sock.snd_una)];
    ends.extend(ranges.iter().flat_map(|r| [r.start, r.end]).map(|end| end.wrapping_sub(sock.snd_una)));
    ends.retain(|&end| end <= flight);
    ends.sort_unstable();
    let is_claimed = |at: u32| {
        let byte = sock.snd_una.wrapping_add(at);
        i64::from(report.in_order.wrapping_sub(sock.snd_una) as i32) > i64::from(at)
            || ranges.iter().any(|r| {
                let length = r.end.wrapping_sub(r.start);
                (length as i32) > 0 && byte.wrapping_sub(r.start) < length
            })
    };
    ends.windows(2).filter(|pair| is_claimed(pair[0])).map(|pair| pair[1] - pair[0]).sum()
}

/// Checks that D2 counts as no more than the bound, or than domain 2 delivers in one and a half times the time it
/// needs, and that slow start does not exceed that by more than domain 1's share.
fn within_bound(model: &Mdcubic, sock: &View) {
    let (bytes, Some(report)) = (u128::from(model.tunables.d2_bound_kb) * 1000, model.pep) else { return };
    if bytes == 0 {
        return;
    }
    let [rate, interval_us, least_us, to_pep_us] =
        [sock.rate_delivered, sock.rate_interval_us, sock.min_rtt_us, report.rtt_us].map(u128::from);
    let beyond_us = least_us.saturating_sub(to_pep_us);
    let most = (bytes / u128::from(sock.mss)).max((3 * rate * beyond_us).checked_div(2 * interval_us).unwrap_or(0));
    assert!(u128::from(model.d2_segments) <= most, "more than {most} in domain 2: {sock:?}\n{model:?}");
    let to_pep_us = if to_pep_us == 0 { least_us } else { to_pep_us }; // unknown: it may be all of it
    let (w1, window) = (model.w1(sock.snd_cwnd), u128::from(sock.snd_cwnd));
    if let (true, Some(share)) = (w1 < sock.snd_ssthresh, (4 * most * to_pep_us).checked_div(3 * beyond_us)) {
        assert!(window <= most + share.max(2), "more than {most} and {share} in slow start: {sock:?}\n{model:?}");
    }
}

/// Checks that no report and no loss violates the bounds of W and ssthresh.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// Sequence number up to which segments have counted for growth.
    given_to: u32,
}

impl Bounds {
    fn on_ack(&mut self, (before, was): Moment<'_, Mdcubic>, (after, is): Moment<'_, Mdcubic>) {
        let context = || format!("{was:?} -> {is:?}\n{before:?}\n{after:?}");
        let covered = if after.clocked { after.pep.map_or(0, |report| claimed(&report, is)) } else { 0 };
        let covered_to = is.snd_una.wrapping_add(covered);
        let risen = covered_to.wrapping_sub(self.given_to) as i32;
        let mut news = 0;
        if !after.clocked && after.in_domain_2 {
            news = risen.max(0) as u32 + before.remainder;
        }
        if !after.clocked || !before.clocked {
            self.given_to = covered_to;
        } else {
            self.given_to = self.given_to.wrapping_add(risen.max(0) as u32);
            news = risen.max(0) as u32 + before.remainder;
        }
        if is.ca_state > 1 {
            assert_eq!(is.snd_cwnd, was.snd_cwnd, "a reduction has W: {}", context());
            // W after it
            let most = u64::from(was.snd_ssthresh) + u64::from(news / is.mss) + 1;
            assert!(!after.in_domain_2 || u64::from(is.snd_ssthresh) <= most, "grown twice: {}", context());
            return;
        }
        let w1 = before.w1(was.snd_cwnd);
        if !after.clocked {
            let back = if before.d2_segments > 0 { w1.min(is.snd_cwnd_clamp) } else { was.snd_cwnd };
            assert_eq!((is.snd_cwnd, after.d2_segments), (back, 0), "not W1 again: {}", context());
            return;
        }
        assert_eq!(after.covered_to, self.given_to, "{}", context());
        // in flight in domain 1: what W allows, minus what is past the PEP
        let allowed = u64::from(is.snd_cwnd) * u64::from(is.mss);
        let in_domain_1 = allowed.saturating_sub(u64::from(covered));
        assert!(in_domain_1 <= u64::from(after.w1(is.snd_cwnd)) * u64::from(is.mss), "{}", context());
        within_bound(after, is);
        // a count left over from a larger W may add a segment by itself
        let most = w1 + news / is.mss + u32::from(news >= is.mss && was.snd_cwnd_cnt >= w1);
        assert!(u64::from(is.snd_cwnd) <= u64::from(most) + u64::from(covered / is.mss), "grown twice: {}", context());
    }
}

impl Invariants<Mdcubic> for Bounds {
    fn hold(&mut self, hook: Hook, (before, was): Moment<'_, Mdcubic>, (after, is): Moment<'_, Mdcubic>) {
        let context = || format!("{hook:?}: {was:?} -> {is:?}\n{before:?}\n{after:?}");
        assert!((1..=is.snd_cwnd_clamp).contains(&is.snd_cwnd) && is.snd_ssthresh >= 2, "{}", context());
        assert!(is.snd_cwnd >= was.snd_cwnd.min(2), "under two segments: {}", context());
        match hook {
            Hook::PktsAcked => self.on_ack((before, was), (after, is)),
            Hook::CongAvoid(_) if after.clocked && is.ca_state <= 1 => assert_eq!(is, was, "twice: {}", context()),
            Hook::CongAvoid(acked) => {
                let grown = is.snd_cwnd.saturating_sub(was.snd_cwnd);
                assert!(after.d2_segments == 0 && grown <= acked.saturating_add(1), "{}", context());
            }
            Hook::Ssthresh(said) => {
                assert!(said <= was.snd_cwnd.max(2), "a loss raises W: {}", context());
                let reduced = (before.w1(was.snd_cwnd) * 7 / 10).max(2) + before.d2_segments;
                // W gives up half of a queue, which is in domain 2 and so part of what the PEP reports
                let claimed = after.pep.map_or(0, |report| claimed(&report, was)) / was.mss;
                let may_have_queue = before.clocked && after.tunables.d2_reduction == 0;
                let by_queue = if may_have_queue { was.snd_cwnd } else { 0 };
                assert!(after.in_domain_2 || said <= reduced.max(by_queue), "less than CUBIC does: {}", context());
                let least = reduced.min(was.snd_cwnd.max(2));
                // slow start by the ssthresh from before an undo; W may be far above it
                let starts = before.w1(was.snd_cwnd) < is.snd_ssthresh;
                let most = least.min(was.snd_cwnd.saturating_sub(claimed / 2));
                assert!(starts || said >= most, "more than CUBIC: {}", context());
                assert!(!after.in_domain_2 || said == was.snd_cwnd.max(2), "{}", context());
            }
            Hook::CwndEvent(EVENT_COMPLETE_CWR) => {
                // only D2 changes, to at most what the PEP has
                let claimed = after.pep.map_or(0, |report| claimed(&report, is)) / is.mss;
                let is_renewed = after.clocked && after.d2_segments <= claimed;
                assert!(is_renewed || after.d2_segments == before.d2_segments, "{}", context());
                let whole = before.w1(was.snd_cwnd).saturating_add(after.d2_segments).min(is.snd_cwnd_clamp);
                let is_bounded = after.tunables.d2_bound_kb > 0 && is.snd_cwnd < whole;
                let is_w1_kept = is.snd_cwnd == was.snd_cwnd || is_renewed && (is.snd_cwnd == whole || is_bounded);
                // D2's share of W is what the rate fills, once a queue of domain 2 was full
                let is_shared = before.was_full && is_renewed && is.snd_cwnd <= was.snd_cwnd.saturating_add(claimed);
                assert!(is_w1_kept || is_shared || before.in_domain_2, "{}", context());
                assert!(!after.in_domain_2, "{}", context());
            }
            Hook::SetState(LOSS) => {
                self.given_to = is.snd_una;
                let with_d2 = !was.timed_out() && before.d2_segments > 0;
                let window = if with_d2 { before.w1(was.snd_cwnd) } else { was.snd_cwnd };
                assert!(is.snd_cwnd == window && after.d2_segments == 0, "{}", context());
                assert!(is.snd_ssthresh <= was.snd_ssthresh, "{}", context());
            }
            Hook::Init => self.given_to = is.snd_una,
            _ => assert_eq!(is.snd_cwnd, was.snd_cwnd, "{}", context()),
        }
    }
}

/// Without a PEP, the delegate alone decides.
#[derive(Clone, Debug)]
pub struct Plain;

impl Invariants<Mdcubic> for Plain {
    fn hold(&mut self, hook: Hook, (before, was): Moment<'_, Mdcubic>, (_, is): Moment<'_, Mdcubic>) {
        let mut plain = *was;
        match hook {
            Hook::CongAvoid(acked) => {
                reno::cong_avoid(&mut plain, acked);
            }
            Hook::Ssthresh(said) => assert_eq!(said, (was.snd_cwnd * 7 / 10).max(2), "{was:?}\n{before:?}"),
            Hook::UndoCwnd(said) => assert_eq!(said, was.snd_cwnd.max(was.prior_cwnd), "{was:?}\n{before:?}"),
            _ => {}
        }
        assert_eq!(*is, plain, "{hook:?}: {was:?}\n{before:?}");
    }
}
