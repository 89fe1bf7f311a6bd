//! The share of lost segments, and the decrease.

use super::state::{Choices, State, World};
use crate::models::interval::{Interval, Q16};
use hotcc_host_algo::View;

/// Number of segments that the mean share is over.
const SEGMENTS: f64 = 2048.0;

impl State {
    /// Updates the mean: an epoch's segments replace as many of the earlier ones.
    pub(super) fn count_losses(&mut self, delivered: u32, lost: u16) {
        let sent = f64::from(delivered) + f64::from(lost);
        let replaced = (sent / SEGMENTS).min(1.0);
        let share = if sent > 0.0 { f64::from(lost) / sent } else { 0.0 };
        let mean = self.loss_share * (1.0 - replaced) + Interval::point(share * replaced);
        self.loss_share = mean.down(2.0 * Q16).max(Interval::ZERO);
    }

    pub(super) fn loses_much(&self, world: &World, choices: &mut Choices) -> bool {
        let limit = Interval::point(f64::from(world.tunables.loss_permille) / 1000.0);
        world.tunables.loss_permille != 0 && choices.decide(limit.is_below(self.loss_share))
    }

    /// Decreases W: W *= 1 - eta / (ceil((2 eta - 1) N) + 1), with N without room, and with half of that N if many
    /// segments are lost without a queue.
    pub(super) fn decrease(&mut self, world: &World, sock: &View, choices: &mut Choices) {
        self.coverage.decreases += 1;
        if std::mem::take(&mut self.room) {
            self.coverage.rooms_taken_back += 1;
            self.n = ((self.n - Interval::point(1.0)) * 0.5).down(Q16).max(Interval::point(1.0));
        }
        let queued = self.base.queue(Some(sock.srtt_us >> 3)).is_below(world.alpha());
        if self.loses_much(world, choices) && choices.decide(queued) {
            self.coverage.halved += 1;
            self.n = (self.n * 0.5).down(Q16).max(Interval::point(1.0));
        }
        let (window, eta) = (f64::from(sock.snd_cwnd), f64::from(world.tunables.eta));
        self.answer = self.n.map(|n| {
            let parts = ((2.0 * eta - 1.0) * n).ceil() + 1.0;
            (window * (parts - eta) / parts).floor().max(2.0)
        });
    }
}
