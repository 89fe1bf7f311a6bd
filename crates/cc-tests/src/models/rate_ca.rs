//! rate_CA (Hamamreh 2020, eqs 2 and 5): the ratio of two successive smoothed RTTs, one per round.

use super::named::counters;
use hotcc_host_algo::View;

/// Resolution of 16 fraction bits.
pub(super) const Q16: f64 = 1.0 / 65_536.0;
/// Maximum ratio, regardless of the limits. The minimum is its inverse.
const MAX_RATIO: f64 = (1 << 20) as f64;

counters! {
    /// Outcomes of rounds.
    RateCounts {
        rounds: "rounds",
        unknown: "rounds without two RTTs",
        raised: "rates over one",
        lowered: "rates under one",
        at_min: "rates held at the least",
        at_max: "rates held at the greatest",
    }
}

/// Limits of rate_CA, permille.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub min_permille: u32,
    pub max_permille: u32,
}

impl Limits {
    /// Clamps the ratio of two times to the limits.
    pub fn clamp(self, ratio: f64) -> f64 {
        let (min, max) = (f64::from(self.min_permille) / 1000.0, f64::from(self.max_permille) / 1000.0);
        ratio.clamp(min, max).clamp(1.0 / MAX_RATIO, MAX_RATIO)
    }
}

/// The rounds of one connection and its rate_CA.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// Sequence number at which the round ends.
    end: u32,
    /// Smoothed RTTs at the ends of the last two rounds, 1/8 us; 0: none.
    previous_srtt: u32,
    srtt: u32,
    /// rate_CA.
    pub rate: f64,
    /// The algorithm's own rate_CA, and its approximation of 1/rate_CA.
    pub algo_rate: f64,
    pub algo_inverse: f64,
    /// Whether the hook just called computed rate_CA.
    updated: bool,
    /// Number of rates whose inverse is more than 0.1 % off.
    pub coarse: u64,
    pub counts: RateCounts,
}

impl Rates {
    /// Starts the first round, at `init`.
    pub fn restart(&mut self, sock: &View) {
        let counts = std::mem::take(&mut self.counts);
        *self = Self { end: sock.snd_nxt, coarse: self.coarse, counts, ..Self::default() };
        (self.rate, self.algo_rate, self.algo_inverse) = (1.0, 1.0, 1.0);
    }

    /// Returns whether this ACK ends the round; if so, starts the next one.
    pub fn round_over(&mut self, sock: &View) -> bool {
        let over = sock.snd_una.wrapping_sub(self.end) < 1 << 31;
        if over {
            self.counts.rounds += 1;
            self.end = sock.snd_nxt;
        }
        over
    }

    /// Returns the smoothed RTT at the end of the last round, 1/8 us; 0: none.
    pub fn latest_srtt(&self) -> u32 {
        self.srtt
    }

    /// Applies eq 5 at the end of a round; the rate is 1 before there are two RTTs.
    pub fn update(&mut self, srtt_us: u32, limits: Limits) {
        (self.previous_srtt, self.srtt) = (self.srtt, srtt_us);
        self.updated = true;
        if self.previous_srtt == 0 || self.srtt == 0 {
            self.counts.unknown += 1;
            self.rate = 1.0;
            return;
        }
        let ratio = f64::from(self.previous_srtt) / f64::from(self.srtt);
        self.rate = limits.clamp(ratio);
        self.counts.raised += u64::from(self.rate > 1.0);
        self.counts.lowered += u64::from(self.rate < 1.0);
        self.counts.at_min += u64::from(self.rate > ratio);
        self.counts.at_max += u64::from(self.rate < ratio);
    }

    /// Forgets both RTTs: the rate is 1 until there are two more.
    pub fn forget(&mut self) {
        (self.previous_srtt, self.srtt, self.rate) = (0, 0, 1.0);
        self.updated = true;
    }

    /// Uses the exact rate and inverse, as there is no algorithm to compare with.
    pub fn go_on(&mut self) {
        self.updated = false;
        (self.algo_rate, self.algo_inverse) = (self.rate, 1.0 / self.rate);
    }

    /// Compares the algorithm's rate_CA and its inverse, both with 16 fraction bits, with the exact ones, and stores
    /// them. The inverse may be that of the rounded rate.
    pub fn reconcile(&mut self, rate_q16: u64, inverse_q16: u64) -> Result<(), String> {
        let (rate, inverse) = (rate_q16 as f64 * Q16, inverse_q16 as f64 * Q16);
        if !std::mem::take(&mut self.updated) {
            return if (rate, inverse) == (self.algo_rate, self.algo_inverse) {
                Ok(())
            } else {
                Err(format!("rate {rate}, inverse {inverse} without a round's end; before {self:?}"))
            };
        }
        if rate_q16 == 0 || inverse_q16 == 0 || (rate - self.rate).abs() > Q16 {
            return Err(format!("rate {rate}, the model has {}", self.rate));
        }
        let (least, most) = ((self.rate - Q16).max(1.0 / MAX_RATIO), self.rate + Q16);
        if inverse < 1.0 / most - Q16 || inverse > 1.0 / least + Q16 {
            return Err(format!("1/rate {inverse}, the model has {}", 1.0 / self.rate));
        }
        self.coarse += u64::from((inverse * self.rate - 1.0).abs() > 1e-3);
        (self.algo_rate, self.algo_inverse) = (rate, inverse);
        Ok(())
    }
}
