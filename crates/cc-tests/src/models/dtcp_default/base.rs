//! The least RTT of the path and of an epoch, and how long the path's is valid.

use crate::models::elapsed_us;
use crate::models::interval::{Interval, Q22};
use hotcc_host_algo::View;

/// Unit of the least RTT of an epoch, microseconds.
const STEP_US: u32 = 64;
/// Most such units: 16 bits.
const STEPS: u32 = 65_535;
/// Resolution of the time at which the base was last seen, microseconds: a 16-bit clock then lasts for 71 minutes.
const CLOCK_US: u64 = 65_536;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Base {
    /// Least RTT of the path.
    pub us: Option<u32>,
    /// Least RTT of the current epoch.
    least_us: Option<u32>,
    /// When an epoch last had an RTT near that of the path.
    seen_us: u64,
}

impl Base {
    pub fn new(now_us: u64) -> Self {
        Self { us: None, least_us: None, seen_us: now_us }
    }

    /// Takes over the kernel's own least RTT, if it has one.
    pub fn take_over(&mut self, sock: &View) {
        self.us = Some(sock.min_rtt_us).filter(|&least| least != 0 && least != u32::MAX);
    }

    /// Takes a sample. A sample of zero is ignored: no path has length 0.
    pub fn sample(&mut self, rtt_us: Option<u32>) {
        let Some(rtt) = rtt_us.filter(|&rtt| rtt > 0) else { return };
        self.us = Some(self.us.map_or(rtt, |base| base.min(rtt)));
        if rtt / STEP_US < STEPS {
            let kept = rtt / STEP_US * STEP_US;
            self.least_us = Some(self.least_us.map_or(kept, |least| least.min(kept)));
        }
    }

    /// Ends an epoch: an RTT within a sixteenth of the path's least confirms that least.
    pub fn end_epoch(&mut self, now_us: u64) {
        let least = self.least_us.take();
        if least.is_some_and(|least| f64::from(least) <= f64::from(self.us.unwrap_or(0)) * 17.0 / 16.0) {
            self.seen_us = now_us;
        }
    }

    /// Drops the epoch's least RTT, which is from before an idle period.
    pub fn end_idle(&mut self) {
        self.least_us = None;
    }

    pub fn least_us(&self) -> Option<u32> {
        self.least_us
    }

    /// Returns Q/W = (R - base) / R at an RTT R.
    pub fn queue(&self, rtt_us: Option<u32>) -> Interval {
        match (self.us, rtt_us) {
            (Some(base), Some(rtt)) if rtt > base => Interval::point(f64::from(rtt - base) / f64::from(rtt)).down(Q22),
            _ => Interval::ZERO,
        }
    }

    pub fn is_expired(&self, now_us: u64, window_s: u32) -> Option<bool> {
        if window_s == 0 || self.us.is_none() {
            return Some(false);
        }
        let (unseen, window) = (elapsed_us(self.seen_us, now_us), u64::from(window_s) * 1_000_000);
        if unseen.abs_diff(window) < CLOCK_US || unseen > (1 << 32) - CLOCK_US {
            return None;
        }
        Some(unseen > window)
    }
}
