//! Long-term bandwidth sampling. It recognises a token-bucket policer by two successive intervals with many losses and
//! the same throughput, and then makes BBR send at that throughput. Described in `tcp_bbr.c` (`bbr_lt_bw_sampling`);
//! not in the draft.

use super::{BW_UNIT, GAIN_UNIT, bytes_per_s};
use crate::clock::micros;
use crate::congestion::{RateSample, Sock};

/// Minimum length of an interval in rounds (`bbr_lt_intvl_min_rtts`). An interval of more than four times as many is
/// discarded.
const INTERVAL_ROUNDS: u32 = 4;
/// Minimum ratio of lost to delivered segments of an interval, in 1/256: about 20 % (`bbr_lt_loss_thresh`).
const LOSS_RATIO: u64 = 50;
/// Two bandwidths are the same if they differ by at most an eighth of the first, in 1/256 (`bbr_lt_bw_ratio`).
const SAME_RATIO: u64 = GAIN_UNIT as u64 / 8;
/// Two bandwidths are also the same if they differ by at most 4 kbit/s, in bytes/s (`bbr_lt_bw_diff`).
const SAME_DIFFERENCE: u64 = 4000 / 8;
/// Number of rounds for which the policer's bandwidth is used (`bbr_lt_bw_max_rtts`).
const USE_ROUNDS: u32 = 48;

/// The outcome of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing changes.
    Unchanged,
    /// A policer was recognised: its bandwidth is used from now on.
    Policed,
    /// The policer's bandwidth is no longer used: BBR probes again.
    Expired,
}

/// The state of the estimator.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongTerm {
    /// The bandwidth of the last interval or, while in use, of the policer; 0 if there is none.
    bw: u32,
    in_use: bool,
    sampling: bool,
    /// Rounds of the current interval, or rounds for which the policer's bandwidth has been used.
    rounds: u32,
    /// At the start of the interval: time, delivered and lost segments.
    start_ms: u64,
    start_delivered: u32,
    start_lost: u32,
}

impl LongTerm {
    /// Returns the policer's bandwidth if it is in use.
    pub fn bw(&self) -> Option<u32> {
        self.in_use.then_some(self.bw)
    }

    /// `bbr_reset_lt_bw_sampling`.
    pub fn reset(&mut self, sock: &Sock) {
        *self = Self::default();
        self.start_interval(sock);
    }

    /// `bbr_reset_lt_bw_sampling_interval`.
    fn start_interval(&mut self, sock: &Sock) {
        self.start_ms = delivered_ms(sock);
        self.start_delivered = sock.delivered;
        self.start_lost = sock.lost;
        self.rounds = 0;
    }

    /// Takes a rate sample. `round_start` and `probes_bw` are BBR's state.
    pub fn update(&mut self, sock: &Sock, sample: &RateSample, round_start: bool, probes_bw: bool) -> Outcome {
        if self.in_use {
            if probes_bw && round_start {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.reset(sock);
                    return Outcome::Expired;
                }
            }
            return Outcome::Unchanged;
        }
        // The first interval starts at a loss: before a loss, the policer's tokens allow a higher rate.
        if !self.sampling {
            if sample.losses == 0 {
                return Outcome::Unchanged;
            }
            self.start_interval(sock);
            self.sampling = true;
        }
        if sample.is_app_limited {
            self.reset(sock);
            return Outcome::Unchanged;
        }
        self.rounds += u32::from(round_start);
        if self.rounds > 4 * INTERVAL_ROUNDS {
            self.reset(sock);
            return Outcome::Unchanged;
        }
        // An interval also ends at a loss, when the tokens are used up again.
        if self.rounds < INTERVAL_ROUNDS || sample.losses == 0 {
            return Outcome::Unchanged;
        }
        self.interval_bw(sock).map_or(Outcome::Unchanged, |bw| self.end_interval(sock, bw))
    }

    /// Returns the bandwidth of the interval if its losses are those of a policer.
    fn interval_bw(&self, sock: &Sock) -> Option<u32> {
        let lost = u64::from(sock.lost.wrapping_sub(self.start_lost));
        let delivered = u64::from(sock.delivered.wrapping_sub(self.start_delivered));
        if delivered == 0 || lost * u64::from(GAIN_UNIT) < LOSS_RATIO * delivered {
            return None;
        }
        (delivered * BW_UNIT).checked_div((delivered_ms(sock) - self.start_ms) * 1000).map(|bw| bw as u32)
    }

    /// `bbr_lt_bw_interval_done`.
    fn end_interval(&mut self, sock: &Sock, bw: u32) -> Outcome {
        let difference = bw.abs_diff(self.bw);
        let is_same = u64::from(difference) * u64::from(GAIN_UNIT) <= SAME_RATIO * u64::from(self.bw)
            || bytes_per_s(difference, GAIN_UNIT, sock.mss) <= SAME_DIFFERENCE;
        if self.bw > 0 && is_same {
            self.bw = ((u64::from(bw) + u64::from(self.bw)) / 2) as u32;
            self.in_use = true;
            self.rounds = 0;
            return Outcome::Policed;
        }
        self.bw = bw;
        self.start_interval(sock);
        Outcome::Unchanged
    }
}

fn delivered_ms(sock: &Sock) -> u64 {
    micros(sock.delivered_ns) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a connection that has delivered and lost this many segments at this time.
    fn sock(ms: u64, delivered: u32, lost: u32) -> Sock {
        Sock { delivered_ns: ms * 1_000_000, delivered, lost, mss: 1448, ..Sock::default() }
    }

    fn loss() -> RateSample {
        RateSample { losses: 1, ..RateSample::default() }
    }

    /// Passes rounds that do not end the interval.
    fn pass_rounds(estimator: &mut LongTerm, at: &Sock, rounds: u32) {
        for _ in 0..rounds {
            assert_eq!(estimator.update(at, &RateSample::default(), true, true), Outcome::Unchanged);
        }
    }

    /// Runs two intervals of 100 ms. Each delivers this many segments and loses a quarter as many. They start at
    /// `sock(100, 0, 0)`.
    fn intervals(delivered: [u32; 2]) -> (LongTerm, Outcome) {
        let mut estimator = LongTerm::default();
        estimator.update(&sock(100, 0, 0), &loss(), false, false);
        let mut outcome = Outcome::Unchanged;
        let mut so_far = 0;
        for (ms, delivered) in [200, 300].into_iter().zip(delivered) {
            pass_rounds(&mut estimator, &sock(ms, so_far, 0), 4);
            so_far += delivered;
            outcome = estimator.update(&sock(ms, so_far, so_far / 4), &loss(), false, true);
        }
        (estimator, outcome)
    }

    #[test]
    fn two_intervals_of_the_same_bandwidth_show_a_policer() {
        let (estimator, outcome) = intervals([400, 440]);
        assert_eq!(outcome, Outcome::Policed);
        // 400 and 440 segments in 100 ms, times 2^24, each rounded down: 67108 and 73819
        assert_eq!(estimator.bw(), Some((67_108 + 73_819) / 2));
    }

    #[test]
    fn intervals_that_differ_by_more_than_an_eighth_do_not() {
        assert_eq!(intervals([400, 448]).1, Outcome::Policed);
        let (estimator, outcome) = intervals([400, 456]);
        assert_eq!((estimator.bw(), outcome), (None, Outcome::Unchanged));
    }

    #[test]
    fn a_difference_of_four_kilobits_is_none() {
        let mut estimator = LongTerm { bw: 3000, ..LongTerm::default() };
        // 500 bytes/s of 1448 bytes with a margin of 1 %: 0.349 segments/s, in 2^-24 segments/us: 5.85
        let interval = sock(0, 0, 0);
        assert_eq!(LongTerm { bw: 20, ..estimator }.end_interval(&interval, 25), Outcome::Policed);
        assert_eq!(LongTerm { bw: 20, ..estimator }.end_interval(&interval, 26), Outcome::Unchanged);
        assert_eq!(estimator.end_interval(&interval, 4000), Outcome::Unchanged);
        assert_eq!(estimator.bw, 4000);
    }

    #[test]
    fn too_few_losses_do_not_end_an_interval() {
        let mut estimator = LongTerm::default();
        estimator.update(&sock(100, 0, 0), &loss(), false, false);
        pass_rounds(&mut estimator, &sock(150, 50, 0), 4);
        // 50/256 of 256 is 50
        estimator.update(&sock(200, 256, 49), &loss(), false, true);
        assert_eq!(estimator.bw, 0);
        estimator.update(&sock(200, 256, 50), &loss(), false, true);
        assert_eq!(u64::from(estimator.bw), 256 * BW_UNIT / 100_000);
    }

    #[test]
    fn an_interval_has_at_least_four_rounds_and_a_loss_at_its_end() {
        let mut estimator = LongTerm::default();
        estimator.update(&sock(100, 0, 0), &loss(), false, false);
        pass_rounds(&mut estimator, &sock(200, 100, 50), 3);
        estimator.update(&sock(200, 100, 50), &loss(), false, true);
        assert_eq!(estimator.bw, 0);
        pass_rounds(&mut estimator, &sock(200, 100, 50), 13);
        assert!(estimator.sampling && estimator.bw == 0);
        pass_rounds(&mut estimator, &sock(200, 100, 50), 1);
        assert!(!estimator.sampling, "more than 16 rounds are too long");
    }

    #[test]
    fn an_application_limit_ends_sampling() {
        let (mut estimator, _) = intervals([400, 800]);
        assert!(estimator.sampling && estimator.bw > 0);
        let limited = RateSample { is_app_limited: true, ..loss() };
        estimator.update(&sock(400, 2000, 500), &limited, false, true);
        assert!(!estimator.sampling && estimator.bw == 0);
    }

    #[test]
    fn the_bandwidth_of_the_policer_is_used_for_48_rounds_of_probing() {
        let (mut estimator, _) = intervals([400, 400]);
        let at = sock(400, 2000, 500);
        for _ in 0..100 {
            assert_eq!(estimator.update(&at, &loss(), true, false), Outcome::Unchanged);
        }
        pass_rounds(&mut estimator, &at, 47);
        assert!(estimator.bw().is_some());
        assert_eq!(estimator.update(&at, &RateSample::default(), true, true), Outcome::Expired);
        assert_eq!(estimator.bw(), None);
    }
}
