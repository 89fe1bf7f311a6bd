//! The radio's reading: the SINR term of eq 6.

use super::*;
use hotcc_abi::radio::{DEFAULT_MAX_AGE_MS, MAX_AGE_LIMIT_MS, PackedSinr, SINR_RANGE_DB};

/// How far in the future a reading may be, ms: the ACK's timestamp is a little older than the reader's clock.
const FUTURE_MS: u32 = 10;
/// Step of the table of logarithms, dB; values in between are interpolated. The tests of `bpf/algos/shannon.h` show the
/// error.
const LOG_STEP: f64 = 0.25;
/// Resolution of the table and of the interpolation, bit/s/Hz.
pub(in crate::models) const LOG_ERROR: f64 = 1.5 / (1 << 20) as f64;

/// Outcome of a lookup of the reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::models) enum Signal {
    /// SINR and average, dB.
    Fresh(f64, f64),
    Stale,
    Absent,
}

/// Returns the spectral efficiency of a signal-to-noise ratio in dB (Shannon), bit/s/Hz, interpolated.
pub(in crate::models) fn efficiency(db: f64) -> f64 {
    let at = |step: f64| (1.0 + 10f64.powf(step * LOG_STEP / 10.0)).log2();
    let (below, within) = ((db / LOG_STEP).floor(), (db / LOG_STEP).fract().rem_euclid(1.0));
    at(below) + (at(below + 1.0) - at(below)) * within
}

/// Returns the signal at a time, from the radio map's packed SINR word and its maximum age in ms.
pub(in crate::models) fn signal(radio: Option<(u64, u32)>, now_us: u64) -> Signal {
    let Some((word, max_age_ms)) = radio else { return Signal::Absent };
    let Some(reading) = PackedSinr::unpack(word) else { return Signal::Absent };
    let limit = if max_age_ms == 0 { DEFAULT_MAX_AGE_MS } else { max_age_ms }.min(MAX_AGE_LIMIT_MS);
    let now_ms = (now_us / 1000) as u32; // the clock of PackedSinr::time_ms
    let age = now_ms.wrapping_sub(reading.time_ms);
    let ahead = reading.time_ms.wrapping_sub(now_ms);
    if age > limit && ahead > FUTURE_MS {
        return Signal::Stale;
    }
    let db = |q8: i16| (f64::from(q8) / 256.0).clamp(*SINR_RANGE_DB.start(), *SINR_RANGE_DB.end());
    Signal::Fresh(db(reading.sinr_q8_db), db(reading.average_q8_db))
}

impl Dtcp {
    /// Returns the SINR term of eq 6 in bytes/s, and the greatest error of integer arithmetic.
    pub(super) fn sinr_term(&mut self, sock: &View) -> (f64, f64) {
        if self.tunables.sinr_term == 2 {
            return (0.0, 0.0);
        }
        let (now, average) = match signal(self.radio, sock.now_us) {
            Signal::Fresh(now, average) => (now, average),
            Signal::Stale => {
                self.coverage.stale += 1;
                return (0.0, 0.0);
            }
            Signal::Absent => {
                self.coverage.absent += 1;
                return (0.0, 0.0);
            }
        };
        self.coverage.fresh += 1;
        let time_ms = self.radio.map_or(0, |(word, _)| (word >> 32) as u32);
        self.coverage.future +=
            u64::from(time_ms.wrapping_sub((sock.now_us / 1000) as u32).wrapping_sub(1) < FUTURE_MS);
        let (term, error) = if self.tunables.sinr_term == 0 {
            // the capacity that the SINR's change implies: B_I scaled by the change of log2(1+s)
            let (now, average) = (efficiency(now), efficiency(average));
            let ratio = now / average;
            let error = ratio * (LOG_ERROR / now + LOG_ERROR / average) + Q16;
            (self.filtered * (ratio - 1.0), self.filtered * error + (ratio - 1.0).abs() * (self.resolution + 1.0))
        } else {
            // eq 6 as printed: dB, taken as kbit/s
            ((now - average) * f64::from(self.tunables.sinr_gain_kbps) * 125.0, 0.0)
        };
        self.coverage.clamped_terms += u64::from(term.abs() > self.filtered);
        (term.clamp(-self.filtered, self.filtered), error + 1.0)
    }
}
