//! Generated traces. They are the same on every machine (hence libm), so a bench or a test can identify one by its
//! parameters.

use super::{Sample, Trace};
use crate::ranges::SINR_DB;
use libm::{exp, log2, pow};
use std::time::Duration;

/// Shape of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Random walk around 15 dB, reverting with a time constant of 10 s; standard deviation about 5 dB.
    Walk,
    /// 2 s of line of sight (25 dB) and 2 s without (5 dB) in turn, with sharp edges and no noise.
    Square,
    /// Line of sight with 1 dB of noise, blocked (20 dB lower) on average every 5 s for 0.5 s.
    Blockage,
}

/// Parameters of a generated trace.
#[derive(Debug, Clone, Copy)]
pub struct Generator {
    /// Shape of the trace.
    pub kind: Kind,
    /// Length of the trace.
    pub length: Duration,
    /// Time between samples; not zero.
    pub period: Duration,
    /// Seed of the randomness; `Square` has none.
    pub seed: u64,
    /// Bandwidth of the carrier, to which the capacity is proportional.
    pub bandwidth_hz: f64,
}

const MEAN_DB: f64 = 15.0;
const WALK_DEVIATION_DB: f64 = 5.0;
const WALK_RETURN_S: f64 = 10.0;
const LINE_OF_SIGHT_DB: f64 = 25.0;
const BLOCKED_DB: f64 = 5.0;
const SQUARE_HALF: Duration = Duration::from_secs(2);
const NOISE_DB: f64 = 1.0;
const CLEAR_S: f64 = 5.0;
const BLOCKED_S: f64 = 0.5;

impl Generator {
    /// Generates the trace, which has at least one sample.
    #[must_use]
    pub fn trace(&self) -> Trace {
        let period = self.period.max(Duration::from_millis(1));
        let count = self.length.as_nanos().div_ceil(period.as_nanos()).clamp(1, 100_000_000) as u32;
        let mut random = Random(self.seed);
        let mut walk_db = 0.0;
        let mut blocked = false;
        let dt = period.as_secs_f64();
        let samples = (0..count).map(|i| {
            let at = period * i;
            let sinr_db = match self.kind {
                Kind::Walk => {
                    let kept = exp(-dt / WALK_RETURN_S);
                    let step = WALK_DEVIATION_DB * (1.0 - kept * kept).sqrt();
                    walk_db = kept * walk_db + step * random.normal();
                    MEAN_DB + walk_db
                }
                Kind::Square => {
                    let half = at.as_nanos() / SQUARE_HALF.as_nanos();
                    if half.is_multiple_of(2) { LINE_OF_SIGHT_DB } else { BLOCKED_DB }
                }
                Kind::Blockage => {
                    // a Markov chain in continuous time, of which each sample is a look
                    let share = if blocked { CLEAR_S } else { BLOCKED_S } / (CLEAR_S + BLOCKED_S);
                    let forgotten = 1.0 - exp(-dt * (1.0 / CLEAR_S + 1.0 / BLOCKED_S));
                    blocked ^= random.uniform() < share * forgotten;
                    let level = if blocked { BLOCKED_DB } else { LINE_OF_SIGHT_DB };
                    level + NOISE_DB * random.normal()
                }
            };
            let sinr_db = sinr_db.clamp(*SINR_DB.start(), *SINR_DB.end());
            let capacity_bps = Some(capacity_bps(sinr_db, self.bandwidth_hz));
            Sample { at, sinr_db: Some(sinr_db), capacity_bps, ..Sample::default() }
        });
        Trace { samples: samples.collect() }
    }
}

/// Returns Shannon's bound, reduced to what LTE link adaptation reaches, up to its highest modulation and code rate
/// (3GPP TR 36.942, annex A.1, downlink: factor 0.6, at most 4.4 bit/s/Hz).
fn capacity_bps(sinr_db: f64, bandwidth_hz: f64) -> f64 {
    let snr = pow(10.0, sinr_db / 10.0);
    bandwidth_hz * (0.6 * log2(1.0 + snr)).min(4.4)
}

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniform number from 0 to below 1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns an approximately normal number with mean 0 and deviation 1. It is a sum of twelve uniform numbers, so
    /// that it needs no library function that may round differently between machines.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}
