//! Bounds of W in each domain, which are not from the paper.

use super::*;

/// Full domain 2, as a multiple of what it holds without a queue.
const FULL: f64 = 1.5;

/// Segments that D2 may count as after its queue was full, whatever the rate (RFC 6928).
const INITIAL_WINDOW: u32 = 10;

impl Mdcubic {
    /// Returns domain 2's part of the least RTT, microseconds.
    pub(super) fn beyond_us(&self, sock: &View) -> f64 {
        let to_the_pep_us = self.report().map_or(0, |report| report.rtt_us);
        f64::from(sock.min_rtt_us.saturating_sub(to_the_pep_us))
    }

    /// Returns the most segments that should be in domain 2.
    fn domain_2_holds(&self, sock: &View, least: f64) -> f64 {
        let empty = match sock.rate_interval_us {
            0 => 0.0,
            interval_us => (f64::from(sock.rate_delivered) * self.beyond_us(sock) / f64::from(interval_us)).floor(),
        };
        (empty * FULL).floor().max(least)
    }

    /// Returns twice what domain 1 holds at the rate at which this many segments fill domain 2.
    fn domain_1_holds(&self, sock: &View, in_domain_2: f64) -> f64 {
        let to_the_pep_us = match self.report().map_or(0, |report| report.rtt_us) {
            0 => f64::from(sock.min_rtt_us), // unknown: it may be all of it
            known => f64::from(known),
        };
        match self.beyond_us(sock) {
            0.0 => f64::INFINITY,
            beyond_us => (2.0 * in_domain_2 * to_the_pep_us / (FULL * beyond_us)).floor().max(2.0),
        }
    }

    /// Returns what both domains hold at the last rate, with a short queue in domain 2.
    pub(super) fn filled_by_the_rate(&self, sock: &View) -> f64 {
        let in_domain_2 = self.domain_2_holds(sock, f64::from(INITIAL_WINDOW));
        in_domain_2 + self.domain_1_holds(sock, in_domain_2)
    }

    /// Limits a D2 from before the queue was full to what the rate fills.
    pub(super) fn count_d2_as_held(&mut self, sock: &View) {
        let held = self.domain_2_holds(sock, f64::from(INITIAL_WINDOW));
        self.coverage.counted_as_held += u64::from(held < f64::from(self.d2_segments));
        self.d2_segments = f64::from(self.d2_segments).min(held) as u32;
    }

    /// Bounds W when domain 2 fills up: D2 counts as at most what domain 2 should hold, and W1 is at most twice what
    /// domain 1 holds at the rate that fills domain 2 so. In slow start W as a whole decides, since all that is in
    /// domain 1 is about to be in domain 2.
    pub(super) fn bound(&mut self, sock: &mut View) {
        let tunable = self.tunables.d2_bound_kb;
        if tunable == 0 {
            return;
        }
        let least = f64::from((tunable * 1000 / sock.mss).min(if self.was_full { INITIAL_WINDOW } else { u32::MAX }));
        let (w1, d2) = (f64::from(self.w1(sock.snd_cwnd)), f64::from(self.d2_segments));
        let starts = w1 < f64::from(sock.snd_ssthresh);
        let holds = self.domain_2_holds(sock, least);
        let in_domain_1 = self.domain_1_holds(sock, holds);
        let counts = d2.min(holds);
        let w1_may_be =
            if starts || d2 > holds && !self.was_full { holds + in_domain_1 - counts } else { f64::INFINITY };
        // without a sign that domain 2 is full, W is not bounded, whatever the rate
        if d2.max(if starts { f64::from(sock.snd_cwnd) } else { 0.0 }) <= least {
            return;
        }
        let c = &mut self.coverage;
        c.bounded_after_full += u64::from(self.was_full && counts < d2);
        c.d2_bounded += u64::from(counts < d2);
        c.w1_bounded += u64::from(w1_may_be < w1);
        c.starts_held += u64::from(w1_may_be < w1 && d2 <= holds);
        c.rates_bound += u64::from(holds > least && (counts < d2 || w1_may_be < w1));
        self.d2_segments = counts as u32;
        sock.snd_cwnd = sock.snd_cwnd.min((w1.min(w1_may_be) + counts) as u32);
    }
}
