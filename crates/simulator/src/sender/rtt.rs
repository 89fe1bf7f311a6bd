//! The RTT, the retransmission timeout (`tcp_rtt_estimator`, RFC 6298) and the windowed minimum RTT (lib/minmax.c).

use crate::clock::jiffies_from_us;

/// `TCP_RTO_MIN`: 200 ms.
pub(crate) const RTO_MIN_US: u32 = 200_000;
/// `TCP_RTO_MAX`: 120 s.
pub(super) const RTO_MAX_TICKS: u64 = 30_000;
/// `tcp_min_rtt_wlen`: 300 s.
const MIN_RTT_WINDOW_TICKS: u64 = 75_000;

/// The estimator's state, apart from `srtt_us`.
#[derive(Clone, Debug, Default)]
pub(super) struct Rtt {
    mdev_us: u32,
    mdev_max_us: u32,
    rttvar_us: u32,
    /// Sequence number at which the round for `mdev_max_us` ends.
    round_end: u64,
    /// Retransmission timeout, in ticks.
    pub rto_ticks: u64,
    least: [(u64, u32); 3],
}

impl Rtt {
    /// `tcp_rtt_estimator`: weights of 7/8 and 3/4. The deviation falls slowly. The timeout adds four times its maximum
    /// of a round.
    pub fn estimate(&mut self, srtt_us: &mut u32, sample_us: u32, una: u64, next: u64) {
        if *srtt_us == 0 {
            *srtt_us = sample_us << 3;
            self.mdev_us = sample_us << 1;
            self.rttvar_us = self.mdev_us.max(RTO_MIN_US);
            self.mdev_max_us = self.rttvar_us;
            self.round_end = next;
        } else {
            let error = i64::from(sample_us) - i64::from(*srtt_us >> 3);
            *srtt_us = (i64::from(*srtt_us) + error).max(1) as u32;
            let mut change = error.abs() - i64::from(self.mdev_us >> 2);
            if error < 0 && change > 0 {
                change >>= 3; // a falling RTT must not raise the deviation much
            }
            self.mdev_us = (i64::from(self.mdev_us) + change) as u32;
            if self.mdev_us > self.mdev_max_us {
                self.mdev_max_us = self.mdev_us;
                self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
            }
            if una > self.round_end {
                if self.mdev_max_us < self.rttvar_us {
                    self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
                }
                self.round_end = next;
                self.mdev_max_us = RTO_MIN_US;
            }
        }
        let timeout_us = u64::from(*srtt_us >> 3) + u64::from(self.rttvar_us);
        self.rto_ticks = jiffies_from_us(timeout_us).min(RTO_MAX_TICKS);
    }

    /// `minmax_running_min`: returns the minimum over the window, from its three best samples.
    pub fn least(&mut self, now: u64, rtt_us: u32) -> u32 {
        let sample = (now, rtt_us);
        let [best, second, third] = self.least;
        if rtt_us <= best.1 || now - third.0 > MIN_RTT_WINDOW_TICKS || best.1 == 0 {
            self.least = [sample; 3];
            return rtt_us;
        }
        if rtt_us <= second.1 {
            self.least = [best, sample, sample];
        } else if rtt_us <= third.1 {
            self.least[2] = sample;
        }
        let age = now - best.0;
        if age > MIN_RTT_WINDOW_TICKS {
            self.least = [self.least[1], self.least[2], sample];
            if now - self.least[0].0 > MIN_RTT_WINDOW_TICKS {
                self.least = [self.least[1], self.least[2], sample];
            }
        } else if self.least[1].0 == self.least[0].0 && age > MIN_RTT_WINDOW_TICKS / 4 {
            self.least = [self.least[0], sample, sample];
        } else if self.least[2].0 == self.least[1].0 && age > MIN_RTT_WINDOW_TICKS / 2 {
            self.least[2] = sample;
        }
        self.least[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_srtt_and_at_least_200_ms_more() {
        let (mut rtt, mut srtt_us) = (Rtt::default(), 0);
        rtt.estimate(&mut srtt_us, 40_000, 0, 1000);
        assert_eq!((srtt_us, rtt.rttvar_us, rtt.rto_ticks), (320_000, 200_000, 60));
        for round in 1..20 {
            rtt.estimate(&mut srtt_us, 48_000, round * 1000 + 1, (round + 1) * 1000);
        }
        assert!((46_000..48_000).contains(&(srtt_us >> 3)), "{srtt_us}");
        assert_eq!(rtt.rttvar_us, 200_000);
    }

    #[test]
    fn the_least_is_forgotten_after_the_window() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.least(0, 10), 10);
        assert_eq!(rtt.least(MIN_RTT_WINDOW_TICKS / 2, 20), 10);
        assert_eq!(rtt.least(MIN_RTT_WINDOW_TICKS + 1, 30), 20);
    }
}
