//! Changes of W other than by losses.

use super::base::Base;
use super::state::{Choices, State, World};
use crate::models::interval::Interval;
use hotcc_host_algo::View;

/// Growth per segment acknowledged in slow start once the RTT has grown.
const QUARTER: f64 = 0.25;

impl State {
    /// Returns W without the queue that this RTT shows.
    pub(super) fn window_without_queue(&self, rtt_us: u32) -> Interval {
        match self.base.us {
            Some(base) if rtt_us > base => self.window.map(|w| (w * f64::from(base) / f64::from(rtt_us)).floor()),
            _ => self.window,
        }
    }

    /// If no RTT near the base was seen for long, lowers W to what the path holds without a queue, so that the base
    /// shows again.
    pub(super) fn look_for_base(&mut self, world: &World, sock: &View, choices: &mut Choices) {
        if !choices.decide(self.base.is_expired(sock.now_us, world.tunables.base_window_s)) {
            return;
        }
        self.coverage.base_probes += 1;
        let lower = self.window_without_queue(sock.srtt_us >> 3).map(|w| (w * 7.0 / 8.0).floor());
        self.ssthresh = self.window.max(Interval::point(2.0)); // slow start restores W
        self.lower_window(lower);
        self.base = Base::new(sock.now_us);
    }

    /// Lowers W, to 2 at least; never raises it.
    pub(super) fn lower_window(&mut self, window: Interval) {
        self.window = window.max(Interval::point(2.0)).min(self.window);
    }

    /// Raises W, by no more than slow start would.
    pub(super) fn raise_window(&mut self, window: Interval, sock: &View) {
        let most = self.window * 2.0;
        self.window = window.min(most).max(self.window).min(Interval::point(f64::from(sock.snd_cwnd_clamp)));
    }

    /// Grows W: slow start, then N per W acknowledged.
    pub(super) fn grow(&mut self, sock: &View, acked: u32) {
        if !sock.cwnd_limited() {
            self.coverage.unlimited_acks += 1;
            return;
        }
        let (clamp, mut acked) = (Interval::point(f64::from(sock.snd_cwnd_clamp)), f64::from(acked));
        if sock.in_slow_start() {
            self.coverage.slow_start_acks += 1;
            if self.css_rounds > 0 {
                self.coverage.css_acks += 1;
                let earned = self.growth.low.fract() + QUARTER * acked; // the fraction of a segment
                acked = earned.floor();
                self.growth = Interval::point(earned.fract());
            }
            let grown = acked.min(f64::from(sock.snd_ssthresh - sock.snd_cwnd));
            self.window = (self.window + Interval::point(grown)).min(clamp);
            acked -= grown;
            if acked == 0.0 {
                return;
            }
        }
        if self.hold {
            self.coverage.held_acks += 1;
            return;
        }
        self.coverage.avoidance_acks += 1;
        let window = self.window.low;
        let earned = self.growth.low + self.n.low * acked;
        let whole = (earned / window).floor();
        self.coverage.jumps += u64::from(whole > 1.0);
        self.growth = Interval::point(earned - whole * window).about(2.0 * f64::EPSILON * earned); // f64 rounding
        self.window = (self.window + Interval::point(whole)).min(if whole > 0.0 { clamp } else { self.window });
    }
}
