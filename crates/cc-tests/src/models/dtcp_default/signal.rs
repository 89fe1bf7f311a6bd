//! The radio's forecast and its weight.

use super::link::Link;
use super::state::{Choices, State, World};
use super::weight::{CHANGE, FORECAST, averaged};
use crate::models::dtcp::sinr::{Signal, signal};
use crate::models::interval::Interval;
use hotcc_host_algo::View;

/// A smaller change counts as noise of the readings.
const NOISE: f64 = 6.0 * FORECAST;

impl State {
    /// Compares the last epoch's forecast with what this epoch delivered of `expected`. Without a queue, the rate may
    /// be limited by the sender: then it can only show that the link can do more than predicted.
    pub(super) fn judge(&mut self, expected: Interval, sample: Interval, busy: bool, choices: &mut Choices) {
        let forecast = self.weight.forecast;
        if forecast == Interval::ZERO || choices.decide(expected.is_below(Interval::point(1.0))) {
            return;
        }
        let change = ((sample.min(expected * 2.0) - expected) / expected).about(CHANGE);
        let beyond = (change - forecast).about(CHANGE);
        if !busy && !choices.decide(Interval::ZERO.is_below(beyond)) {
            self.coverage.not_judged += 1;
            return;
        }
        self.coverage.judged += 1;
        self.weight.error_with = averaged(self.weight.error_with, beyond);
        if busy {
            self.weight.error_without = averaged(self.weight.error_without, change);
        } else {
            self.coverage.judged_idle += 1;
        }
    }

    /// Returns S: the link's bandwidth at this SINR less B_I. `full`: the flow fills the link.
    pub(super) fn signal_term(&mut self, world: &World, sock: &View, full: bool) -> Interval {
        let t = &world.tunables;
        if t.sinr_term == 2 {
            return Interval::ZERO;
        }
        let (now, average) = match signal(world.radio, sock.now_us) {
            Signal::Fresh(now, average) => (now, average),
            other => {
                self.coverage.stale += u64::from(other == Signal::Stale);
                self.coverage.absent += u64::from(other == Signal::Absent);
                self.link = Link::default();
                return Interval::ZERO;
            }
        };
        self.coverage.fresh += 1;
        let filtered = self.filtered.down(1.0).max(Interval::ZERO);
        if t.sinr_term == 1 {
            let lowest = Interval { low: -filtered.high, high: -filtered.low };
            let term = Interval::point((now - average) * f64::from(t.sinr_gain_kbps) * 125.0).about(1.0);
            return term.max(lowest).min(filtered);
        }
        self.coverage.averages_started += u64::from(self.link.is_new());
        self.coverage.links_full += u64::from(full);
        self.link.bandwidth_at(now, filtered, f64::from(t.filter_permille) / 1000.0, full) - filtered
    }

    /// Returns the weighted g S in bytes/s, or 0 if it is noise relative to the `expected` BW_0. Stores it as the
    /// forecast.
    pub(super) fn believed(&mut self, term: Interval, expected: Interval, choices: &mut Choices) -> Interval {
        let share = term / expected;
        let (rise, fall) = (Interval::point(NOISE), Interval::point(-NOISE));
        if choices.decide(share.is_below(rise)) && choices.decide(fall.is_below(share)) {
            self.coverage.noise += u64::from(share != Interval::ZERO);
            return Interval::ZERO;
        }
        self.coverage.forecasts += 1;
        self.weight.forecast = share.about(FORECAST).map(|f| f.clamp(-1.0, 1.0));
        let weight = self.weight.share();
        self.coverage.believed += u64::from(weight.low > 0.0);
        (term * weight).towards_zero(1.0)
    }
}
