//! crest's least RTT, and its rules per round, in f64, from its page (docs/algorithms/crest.md): losses, bursts,
//! policers, probes and competition, one slice or round at a time.

use super::crest::MOST_SEGMENTS;

/// Share of lost segments that is ignored.
const IGNORED: f64 = 0.03;
const BURST_MOST: f64 = 0.5;
/// Rounds for which a limit holds.
const LIMIT_ROUNDS: u32 = 50;
/// The number of limits on end after which losses are random.
const RANDOM: u32 = 4;

/// Returns the least RTT after a slice that is not the end of a probe, s.
#[must_use]
pub fn base_after(base_s: Option<f64>, rtt_s: f64) -> f64 {
    base_s.map_or(rtt_s, |base_s| base_s.min(rtt_s))
}

/// Returns the queue that is wanted at least, s.
#[must_use]
pub fn least_target_s(base_s: f64) -> f64 {
    f64::max(0.005, base_s / 8.0)
}

/// Returns the queue that bursts add after a round of CRUISE with this queue, as a share of the least RTT. `lossy` is
/// whether too much is lost.
#[must_use]
pub fn burst_after(burst: f64, base_s: f64, queue_s: f64, lossy: bool) -> f64 {
    let sees_none = queue_s <= least_target_s(base_s) / 4.0 && !lossy;
    if sees_none { (burst + 0.06).min(BURST_MOST) } else { (burst - 0.01).max(0.0) }
}

/// What losses and marks leave of the queue that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Losses {
    /// Share of lost segments, averaged over four rounds.
    pub share: f64,
    /// What is left of the queue.
    pub room: f64,
}

impl Losses {
    /// Returns the share of a round's segments that were lost; their number is rounded up, and the share at most 255
    /// permille.
    #[must_use]
    pub fn of_round(lost: f64, delivered: f64) -> f64 {
        (lost / (delivered + lost + 1.0)).min(0.255)
    }

    /// Returns them after a round that lost this share, of which this much is ignored.
    #[must_use]
    pub fn after_round(self, lost: f64, ignored: f64) -> Self {
        let share = (3.0 * self.share + lost) / 4.0;
        let room = match (self.room * 255.0).round() {
            _ if share > ignored => self.room * 0.75,
            left if left >= 3.0 => (self.room + 1.0 / 32.0).min(1.0),
            _ if lost > 0.0 => self.room,
            _ => self.room + 1.0 / 255.0,
        };
        Self { share, room }
    }

    /// Returns them after a mark.
    #[must_use]
    pub fn after_mark(self) -> Self {
        Self { room: (self.room * 0.75 - 1.0 / 16.0).max(0.0), ..self }
    }
}

/// The limit for losses without a queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// Limits on end; 0: none; `RANDOM`: the losses are random.
    pub tries: u32,
    /// Rounds since the latest limit, at most 50.
    pub rounds: u32,
    /// Upper limit of W, segments.
    pub limit: f64,
}

/// A round of CRUISE, for the policer's rule.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Segments that arrive in the time of the path: the least RTT, and what ACKs wait.
    pub arrives: f64,
    /// Share that was lost in this round.
    pub lost: f64,
    /// Share that was lost, averaged over four rounds, this one included.
    pub share: f64,
    /// Time without a queue, in least RTTs.
    pub empty_rtts: f64,
    /// Whether there was a queue.
    pub queue: bool,
    /// Least RTT, s.
    pub base_s: f64,
}

impl Policer {
    /// Returns the share of lost segments that is ignored.
    #[must_use]
    pub fn ignored(self) -> f64 {
        if self.tries == RANDOM { 3.0 * IGNORED } else { IGNORED }
    }

    /// Returns the share of lost segments above which the limit is too high, or losses stay random.
    #[must_use]
    pub fn too_many(self) -> f64 {
        if self.tries == 0 { IGNORED } else { IGNORED / 2.0 }
    }

    /// Returns the limit after a round.
    #[must_use]
    pub fn after_round(self, round: Round) -> Self {
        let rounds = (self.rounds + 1).min(LIMIT_ROUNDS);
        let none = Self { tries: 0, rounds: 0, ..self };
        if self.tries == RANDOM {
            let is_few = round.share <= self.too_many();
            return match round.share {
                share if share > self.ignored() => none,
                _ if is_few && rounds == LIMIT_ROUNDS => none,
                _ if is_few => Self { rounds, ..self },
                _ => self,
            };
        }
        if round.queue {
            return none;
        }
        let is_lossy = round.lost.min(round.share) > self.too_many();
        if is_lossy && round.empty_rtts >= 4.0 && (self.tries == 0 || rounds >= 8) {
            let arrives = round.arrives.max(4.0);
            return if self.tries == 0 || rounds == LIMIT_ROUNDS {
                Self { tries: 1, rounds: 0, limit: arrives }
            } else {
                Self {
                    tries: self.tries + 1,
                    rounds: 0,
                    limit: arrives.clamp(self.limit * 0.75, self.limit * 15.0 / 16.0),
                }
            };
        }
        if self.tries == 0 {
            return self;
        }
        let growth = match self.tries {
            _ if rounds < LIMIT_ROUNDS => 1.0,
            1 => 1.02,
            _ => 1.02 + (0.17 * round.base_s).min(0.04),
        };
        Self { rounds, limit: (self.limit * growth).min(MOST_SEGMENTS), ..self }
    }
}

/// Signs that the path is longer: a smaller W saw the same RTT.
#[derive(Clone, Copy, Debug)]
pub struct Longer {
    /// Number of signs on end.
    pub signs: u32,
    /// The RTT that they saw, s; 0: none.
    pub rtt_s: f64,
    /// W at the last sign, or when that RTT was first seen, segments.
    pub window: f64,
    /// Rounds since then.
    pub rounds: u32,
}

impl Longer {
    /// Signs on end after which the path is longer.
    pub const SIGNS: u32 = 3;

    /// Returns how near this RTT is to being the same as the earlier one, s; negative: it is another. `waits` is whether
    /// ACKs wait on the way back.
    #[must_use]
    pub fn sameness_s(earlier_s: f64, rtt_s: f64, waits: bool) -> f64 {
        rtt_s / 32.0 + if waits { 0.001 } else { 0.0 } - (rtt_s - earlier_s).abs()
    }

    /// Returns them after a round of CRUISE with this W. The RTT is `None` if the round saw no queue.
    #[must_use]
    pub fn after_round(self, rtt_s: Option<f64>, window: f64, waits: bool) -> Self {
        let Some(rtt_s) = rtt_s else { return Self { signs: 0, rtt_s: 0.0, window, rounds: 0 } };
        if Self::sameness_s(self.rtt_s, rtt_s, waits) < 0.0 {
            Self { signs: 0, rtt_s, window, rounds: 0 }
        } else if window >= self.window || self.rounds == 10 {
            Self { rtt_s, window, rounds: 0, ..self }
        } else if window <= 0.75 * self.window {
            Self { signs: self.signs + 1, window, rounds: 0, ..self }
        } else {
            Self { rounds: self.rounds + 1, ..self }
        }
    }

    /// Returns the number of signs after a probe that is no test, given the RTTs before it and in it.
    #[must_use]
    pub fn after_probe(self, before_s: f64, rtt_s: f64, waits: bool) -> u32 {
        let is_same = [before_s, self.rtt_s].iter().all(|earlier_s| Self::sameness_s(*earlier_s, rtt_s, waits) >= 0.0);
        if is_same { self.signs + 1 } else { 0 }
    }
}

/// What follows a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The flow restores W.
    Restore,
    /// The flow competes.
    Compete,
}

/// A probe, at its end.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// Least RTT of the path, s.
    pub base_s: f64,
    /// RTT before the probe, s.
    pub before_s: f64,
    /// Least RTT of its last round, s.
    pub rtt_s: f64,
    /// Whether it was a test: whose queue is it?
    pub is_test: bool,
    /// Whether the flow competed before.
    pub competed: bool,
    /// Tests on end that found a queue of others.
    pub rivals: u32,
    /// Whether a loss showed that the queue was full.
    pub filled: bool,
}

impl Probe {
    /// Returns W during a probe that began with this W, segments. `flight` is what the link delivers per least RTT.
    #[must_use]
    pub fn window(&self, window: f64, flight: f64) -> f64 {
        let queue_share = (self.before_s - self.base_s).max(0.0) / self.before_s;
        let probe =
            if self.is_test { window * (1.0 - queue_share / 2.0) } else { (window / 2.0).min(flight * 7.0 / 8.0) };
        probe.max(4.0)
    }

    /// Returns by how much the RTT fell more than it must if the queue is the flow's own, s.
    #[must_use]
    pub fn clear_s(&self) -> f64 {
        let near_base_s = self.base_s / 32.0 - (self.rtt_s - self.base_s);
        let queue_s = (self.before_s - self.base_s).max(0.0);
        let fell_s =
            if self.rtt_s < self.before_s { self.before_s - self.rtt_s - queue_s * 0.5 * 0.75 } else { f64::MIN };
        near_base_s.max(fell_s)
    }

    /// Returns what follows.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let rivals = (self.rivals + u32::from(self.is_test)).min(5);
        let never_full = self.competed && !self.filled && rivals == 5;
        if self.clear_s() >= 0.0 || never_full || (!self.competed && rivals < 2) {
            Outcome::Restore
        } else {
            Outcome::Compete
        }
    }
}

/// Returns the longest queue of a flow that competes, s. `before_s` is the RTT before the probe that led to it.
#[must_use]
pub fn trial_s(base_s: f64, target_s: f64, before_s: f64, filled: bool) -> f64 {
    let before_s = (before_s - base_s).max(0.0);
    if filled { 6.0 * base_s } else { before_s.max(base_s.min(1.5 * before_s)).max(target_s) }
}

/// A flow that competes.
#[derive(Clone, Copy, Debug)]
pub struct Competitor {
    /// W, segments.
    pub window: f64,
    /// W before the last loss that CUBIC's curve returns to, segments; `None` before the flow follows that curve.
    pub plateau: Option<f64>,
    /// Rounds since the last loss, at most 255.
    pub rounds: u32,
}

impl Competitor {
    /// Returns W after another round, segments: RFC 9438's curve, at least 1.15 segments and at most an eighth more.
    /// `rtt_s` is the smoothed RTT, at most eight times the least one.
    #[must_use]
    pub fn after_round(self, rtt_s: f64) -> f64 {
        let curve = self.plateau.map_or(f64::INFINITY, |plateau| {
            let k_s = (0.3 * plateau / 0.4).cbrt();
            let t_s = (f64::from((self.rounds + 1).min(255)) * rtt_s - k_s).clamp(-150.0, 150.0);
            plateau + 0.4 * t_s.powi(3)
        });
        curve.min(self.window * 1.125).max(self.window + 1.15)
    }

    /// Returns the flow after a loss. If it has not reached the last plateau again, it leaves room for a newcomer: the
    /// next plateau is a quarter of a power of two lower (RFC 9438, section 4.7, has 0.85).
    #[must_use]
    pub fn after_loss(self) -> Self {
        let Some(plateau) = self.plateau else {
            return Self { window: (self.window * 0.9).max(4.0), rounds: 0, ..self };
        };
        let lower = if self.rounds > 0 && self.window < plateau { (-0.25_f64).exp2() } else { 1.0 };
        Self { window: (self.window * 0.7).max(4.0), plateau: Some(self.window * lower), rounds: 0 }
    }
}
