//! ACK aggregation: by how many segments ACKs exceed what the bandwidth explains. The window has room for this excess,
//! so that sending does not pause until the next bundle of ACKs (`bbr_update_ack_aggregation`; not in the draft).

use super::BW_UNIT;
use crate::clock::micros;
use crate::congestion::{RateSample, Sock};

/// Length in rounds of each half of the window over which the maximum is taken (`bbr_extra_acked_win_rtts`).
const HALF_ROUNDS: u32 = 5;
/// Number of acknowledged segments at which an epoch restarts (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_MAX: u32 = 1 << 20;
/// The excess is limited to what the bandwidth delivers in this time (`bbr_extra_acked_max_us`).
const MAX_US: u64 = 100_000;

/// The maximum excess of the last five to ten rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aggregation {
    epoch_us: u64,
    epoch_acked: u32,
    /// The maximum of each half, in 16 bits as in the kernel.
    excess: [u16; 2],
    half: usize,
    half_rounds: u32,
}

impl Aggregation {
    /// Starts an epoch.
    pub fn start_epoch(&mut self, now_us: u64) {
        self.epoch_us = now_us;
        self.epoch_acked = 0;
    }

    /// Takes an ACK, with the current estimate of the bandwidth.
    pub fn update(&mut self, sock: &Sock, sample: &RateSample, round_start: bool, bw: u32) {
        if sample.acked_sacked == 0 || sample.delivered < 0 || sample.interval_us <= 0 {
            return;
        }
        if round_start {
            self.half_rounds += 1;
            if self.half_rounds >= HALF_ROUNDS {
                self.half_rounds = 0;
                self.half = 1 - self.half;
                self.excess[self.half] = 0;
            }
        }
        let now_us = micros(sock.delivered_ns);
        let mut expected = segments_in(bw, now_us.saturating_sub(self.epoch_us));
        // ACKs are no faster than the bandwidth: any aggregation has ended.
        if self.epoch_acked <= expected || self.epoch_acked + sample.acked_sacked >= EPOCH_MAX {
            self.start_epoch(now_us);
            expected = 0;
        }
        self.epoch_acked = (self.epoch_acked + sample.acked_sacked).min(EPOCH_MAX - 1);
        let excess = (self.epoch_acked - expected).min(sock.snd_cwnd);
        let largest = &mut self.excess[self.half];
        if excess > u32::from(*largest) {
            *largest = excess as u16;
        }
    }

    /// Returns the room in the window for the excess, in segments (`bbr_ack_aggregation_cwnd`).
    pub fn room(&self, bw: u32) -> u32 {
        u32::from(self.excess[0].max(self.excess[1])).min(segments_in(bw, MAX_US))
    }
}

fn segments_in(bw: u32, us: u64) -> u32 {
    (u64::from(bw).wrapping_mul(us) / BW_UNIT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment per ms.
    const BW: u32 = (BW_UNIT / 1000) as u32 + 1;

    fn ack(aggregation: &mut Aggregation, ms: u64, acked: u32, round_start: bool) {
        let sock = Sock { delivered_ns: ms * 1_000_000, snd_cwnd: 100, ..Sock::default() };
        let sample = RateSample { acked_sacked: acked, interval_us: 1, ..RateSample::default() };
        aggregation.update(&sock, &sample, round_start, BW);
    }

    #[test]
    fn acks_beyond_the_bandwidth_are_excess() {
        let mut aggregation = Aggregation::default();
        ack(&mut aggregation, 10, 5, false);
        assert_eq!(aggregation.room(BW), 5);
        // 5 segments 2 ms later: 10 segments so far, of which 2 were expected
        ack(&mut aggregation, 12, 5, false);
        assert_eq!(aggregation.room(BW), 8);
        // at 25 ms, 10 segments are fewer than the 15 expected: a new epoch starts
        ack(&mut aggregation, 25, 3, false);
        assert_eq!((aggregation.room(BW), aggregation.epoch_acked, aggregation.epoch_us), (8, 3, 25_000));
    }

    #[test]
    fn excess_expires_after_five_to_ten_rounds() {
        let mut aggregation = Aggregation::default();
        ack(&mut aggregation, 10, 20, false);
        for round in 1..=9 {
            ack(&mut aggregation, 10 + 40 * round, 1, true);
            assert_eq!(aggregation.room(BW), 20, "round {round}");
        }
        ack(&mut aggregation, 500, 1, true);
        assert_eq!(aggregation.room(BW), 1);
    }

    #[test]
    fn excess_is_at_most_a_window_and_a_tenth_of_a_second() {
        let mut aggregation = Aggregation::default();
        ack(&mut aggregation, 10, 5000, false);
        assert_eq!((aggregation.room(BW), aggregation.room(BW / 2)), (100, 50));
    }

    #[test]
    fn an_epoch_does_not_grow_for_ever() {
        let mut aggregation = Aggregation::default();
        ack(&mut aggregation, 10, EPOCH_MAX - 1, false);
        ack(&mut aggregation, 11, 2, false);
        assert_eq!(aggregation.epoch_acked, 2);
    }
}
