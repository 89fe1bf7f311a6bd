//! CUBIC (RFC 9438) with HyStart, in the integer arithmetic of Linux 6.12's `tcp_cubic.c`. The windows are those of the
//! kernel except for the error of the kernel's cube root, 0.2 % of K.
//!
//! Where the kernel differs from the RFC, this follows the kernel. The Reno estimate grows by one segment per 15/8 x
//! cwnd acknowledged segments (section 4.3: by 9/17 per cwnd, which is nearly the same). Slow start ends by HyStart (Ha
//! and Rhee, "Taming the elephants", 2011), not HyStart++ (RFC 9406). A timeout resets all state.

mod hystart;
mod root;
#[cfg(test)]
mod tests;

use crate::clock::{HZ, jiffies, jiffies_from_us};
use crate::congestion::{CaEvent, CaState, CongestionControl, Sock};
use crate::growth::{additive_increase, slow_start};
use hystart::Hystart;
use root::cube_root;

/// Unit of `BETA`, 1/1024 (`BICTCP_BETA_SCALE`).
const BETA_UNIT: u32 = 1024;
/// The share of the window that a loss leaves: 0.7 (RFC 9438, section 4.6; `beta`).
const BETA: u32 = 717;
/// C, 0.4 segments/s³ (RFC 9438, section 5.1), in 1/1024: `bic_scale` of 41, times 10.
const C: u64 = 410;
/// `BICTCP_HZ`: the curve's unit of time is 2^-10 s.
const TIME_SHIFT: u32 = 10;
/// The cube of a time in the curve's unit, times C, is a number of segments shifted left by this many bits.
const CURVE_SHIFT: u32 = 10 + 3 * TIME_SHIFT;
/// 1/C in the curve's units (`cube_factor`).
const INVERSE_C: u64 = (1 << CURVE_SHIFT) / C;
/// Acknowledged segments per segment of the Reno estimate's growth, in eighths of the window (`beta_scale`). RFC 9438,
/// section 4.3: 1/alpha, where alpha = 3 (1 - beta) / (1 + beta).
const RENO_EIGHTHS: u32 = 8 * (BETA_UNIT + BETA) / 3 / (BETA_UNIT - BETA);
/// Time for which a step is kept while the window does not change, in jiffies (`bictcp_update`).
const KEEP_STEP: u64 = HZ / 32;
/// Maximum step before the first loss: the window grows by at least 5 % per round (`bictcp_update`).
const STEP_BEFORE_LOSS: u32 = 20;
/// Minimum step: a window grows by at most half per round (`bictcp_update`).
const MIN_STEP: u32 = 2;
/// Minimum ssthresh, in segments (`cubictcp_recalc_ssthresh`).
const MIN_SSTHRESH: u32 = 2;

/// The growth since the last reduction (RFC 9438, section 4.2).
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// Start of the epoch, in jiffies.
    start: u64,
    /// K: time from the start to the plateau, in 2^-10 s.
    plateau_after: u64,
    /// Window at the plateau, in segments.
    plateau: u32,
}

/// CUBIC for one connection (`struct bictcp`).
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    /// Acknowledged segments per segment by which the window grows.
    step: u32,
    /// W_max: the window before the last reduction, after fast convergence; 0 before the first loss.
    last_max: u32,
    /// The window at the last update, and the time of that update in jiffies.
    last_update: (u32, u64),
    /// Minimum RTT; 0 until it is known.
    delay_min_us: u32,
    epoch: Option<Epoch>,
    /// Acknowledged segments for which the Reno estimate has not grown yet.
    reno_acked: u32,
    /// W_est (RFC 9438, section 4.3), segments.
    reno_window: u32,
    hystart: Hystart,
}

impl Cubic {
    /// Creates the state of a connection before `init`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `bictcp_reset`, `bictcp_hystart_reset`.
    fn reset(&mut self, sock: &Sock) {
        *self = Self::default();
        self.hystart.start_round(sock);
    }

    /// `bictcp_update`: computes the step.
    fn update(&mut self, sock: &Sock, acked: u32) {
        let (window, now) = (sock.snd_cwnd, jiffies(sock.now_ns));
        self.reno_acked = self.reno_acked.wrapping_add(acked);
        let (last_window, last_time) = self.last_update;
        if window == last_window && now - last_time <= KEEP_STEP {
            return;
        }
        // The curve is a function of jiffies. A reduction ends the epoch and so forces an update.
        if self.epoch.is_none() || now != last_time {
            self.last_update = (window, now);
            let epoch = match self.epoch {
                Some(epoch) => epoch,
                None => self.start_epoch(window, now, acked),
            };
            self.step = self.curve_step(&epoch, window, now);
        }
        self.be_reno_friendly(window);
        self.step = self.step.max(MIN_STEP);
    }

    fn start_epoch(&mut self, window: u32, now: u64, acked: u32) -> Epoch {
        let below = self.last_max.saturating_sub(window);
        let plateau_after = u64::from(cube_root(INVERSE_C * u64::from(below)));
        let epoch = Epoch { start: now, plateau_after, plateau: window + below };
        self.epoch = Some(epoch);
        self.reno_acked = acked;
        self.reno_window = window;
        epoch
    }

    /// Returns the step that brings the window to W_cubic(t + RTT) in one round (RFC 9438, sections 4.2 and 4.4).
    fn curve_step(&self, epoch: &Epoch, window: u32, now: u64) -> u32 {
        // An idle time may have moved the start of the epoch up to now, but never beyond.
        let elapsed = now - epoch.start + jiffies_from_us(u64::from(self.delay_min_us));
        let target = window_at(epoch, (elapsed << TIME_SHIFT) / HZ);
        let step = if target > window { window / (target - window) } else { 100 * window };
        if self.last_max == 0 { step.min(STEP_BEFORE_LOSS) } else { step }
    }

    /// Follows the estimate of Reno's window if that is larger (RFC 9438, section 4.3).
    fn be_reno_friendly(&mut self, window: u32) {
        let reno_step = (window * RENO_EIGHTHS) >> 3;
        // The kernel subtracts steps while more than one step is left, so exactly one step waits for the next ACK.
        let steps = self.reno_acked.saturating_sub(1) / reno_step;
        self.reno_acked -= steps * reno_step;
        self.reno_window += steps;
        if self.reno_window > window {
            self.step = self.step.min(window / (self.reno_window - window));
        }
    }
}

/// Returns W_cubic (RFC 9438, section 4.2) at a time since the start of the epoch, in 2^-10 s.
fn window_at(epoch: &Epoch, time: u64) -> u32 {
    let from_plateau = time.abs_diff(epoch.plateau_after);
    let cube = C.wrapping_mul(from_plateau).wrapping_mul(from_plateau).wrapping_mul(from_plateau);
    let distance = (cube >> CURVE_SHIFT) as u32;
    if time < epoch.plateau_after { epoch.plateau.wrapping_sub(distance) } else { epoch.plateau.wrapping_add(distance) }
}

impl CongestionControl for Cubic {
    fn init(&mut self, sock: &mut Sock) {
        self.reset(sock);
    }

    /// RFC 9438, sections 4.6 and 4.7 (`cubictcp_recalc_ssthresh`).
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        let window = sock.snd_cwnd;
        self.epoch = None;
        self.last_max = if window < self.last_max {
            // Fast convergence: the previous plateau was higher, so other flows are growing.
            window * (BETA_UNIT + BETA) / (2 * BETA_UNIT)
        } else {
            window
        };
        (window * BETA / BETA_UNIT).max(MIN_SSTHRESH)
    }

    fn cong_avoid(&mut self, sock: &mut Sock, acked: u32) {
        if !sock.cwnd_limited() {
            return;
        }
        let left = if sock.in_slow_start() { slow_start(sock, acked) } else { acked };
        if left > 0 {
            self.update(sock, left);
            additive_increase(sock, self.step, left);
        }
    }

    /// `tcp_reno_undo_cwnd`.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        sock.snd_cwnd.max(sock.prior_cwnd)
    }

    fn set_state(&mut self, sock: &mut Sock, state: CaState) {
        if state == CaState::Loss {
            self.reset(sock);
        }
    }

    /// After silence, continues the curve where it stopped: the window does not grow in silence (RFC 9438, section 5.8;
    /// `cubictcp_cwnd_event`).
    fn cwnd_event(&mut self, sock: &mut Sock, event: CaEvent) {
        if let (CaEvent::TxStart, Some(epoch)) = (event, &mut self.epoch) {
            let now = jiffies(sock.now_ns);
            let silence = now.saturating_sub(jiffies(sock.lsnd_ns));
            epoch.start = (epoch.start + silence).min(now);
        }
    }

    /// `cubictcp_acked`.
    fn pkts_acked(&mut self, sock: &mut Sock, _acked: u32, rtt_us: Option<u32>) {
        let Some(rtt_us) = rtt_us else { return };
        // RTTs in the first second after a reduction include the queue that the reduction drains.
        if self.epoch.is_some_and(|epoch| jiffies(sock.now_ns) - epoch.start < HZ) {
            return;
        }
        let delay_us = rtt_us.max(1);
        if self.delay_min_us == 0 || self.delay_min_us > delay_us {
            self.delay_min_us = delay_us;
        }
        if sock.in_slow_start() {
            self.hystart.update(sock, delay_us, self.delay_min_us);
        }
    }

    fn detail(&self, name: &str) -> u32 {
        match name {
            "cnt" => self.step,
            "last_max_cwnd" => self.last_max,
            "delay_min" => self.delay_min_us,
            "bic_origin_point" => self.epoch.map_or(0, |epoch| epoch.plateau),
            "bic_K" => self.epoch.map_or(0, |epoch| epoch.plateau_after as u32),
            "tcp_cwnd" => self.reno_window,
            "found" => u32::from(self.hystart.found()),
            _ => 0,
        }
    }
}
