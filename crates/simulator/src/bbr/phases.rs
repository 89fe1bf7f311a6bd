//! The states of BBR: STARTUP, DRAIN, and the cycle of gains in PROBE_BW (section 4.3).

use super::{BW_UNIT, Bbr, CWND_GAIN, DRAIN_GAIN, GAIN_UNIT, HIGH_GAIN, Mode, bundle};
use crate::clock::micros;
use crate::congestion::{RateSample, Sock};
use hotcc_lab_proto::splitmix;

/// Gains of PROBE_BW's phases: probe for bandwidth, drain the queue of probing, cruise (section 4.3.4.2;
/// `bbr_pacing_gain`).
pub(super) const CYCLE: [u32; 8] =
    [GAIN_UNIT * 5 / 4, GAIN_UNIT * 3 / 4, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT, GAIN_UNIT];
/// Number of phases in which PROBE_BW may start: all except the draining one (section 4.3.4.3; `bbr_cycle_rand`).
const FIRST_PHASES: u64 = 7;
/// The path is full if the bandwidth has grown by less than a quarter over `FULL_BW_ROUNDS` rounds (section 4.3.2.2;
/// `bbr_full_bw_thresh`).
const FULL_BW_GAIN: u64 = GAIN_UNIT as u64 * 5 / 4;
/// Number of rounds over which the growth counts (`bbr_full_bw_cnt`).
const FULL_BW_ROUNDS: u32 = 3;

impl Bbr {
    /// Ends STARTUP after three rounds in which the bandwidth has grown by less than a quarter (section 4.3.2.2;
    /// `bbr_check_full_bw_reached`).
    pub(super) fn check_full_bw(&mut self, sample: &RateSample) {
        if self.full_bw_reached || !self.round_start || sample.is_app_limited {
            return;
        }
        if u64::from(self.bw.get()) >= u64::from(self.full_bw) * FULL_BW_GAIN / u64::from(GAIN_UNIT) {
            self.full_bw = self.bw.get();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full_bw_reached = self.full_bw_rounds >= FULL_BW_ROUNDS;
    }

    /// Starts and ends DRAIN (section 4.3.3; `bbr_check_drain`).
    pub(super) fn check_drain(&mut self, sock: &mut Sock) {
        let bdp = self.target_in_flight(sock, self.bw.get(), GAIN_UNIT);
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            sock.snd_ssthresh = bdp;
        }
        if self.mode == Mode::Drain && self.in_network(sock, sock.in_flight()) <= bdp {
            self.enter_probe_bw(sock);
        }
    }

    /// Enters PROBE_BW in a random phase (section 4.3.4.3; `bbr_reset_probe_bw_mode`).
    pub(super) fn enter_probe_bw(&mut self, sock: &Sock) {
        self.mode = Mode::ProbeBw;
        self.cycle_phase = CYCLE.len() - 1 - self.draw(FIRST_PHASES) as usize;
        self.advance_cycle(sock);
    }

    /// Returns a random number below `bound` (in the kernel, `get_random_u32_below`).
    fn draw(&mut self, bound: u64) -> u64 {
        ((splitmix::next(&mut self.random) >> 32) * bound) >> 32
    }

    fn advance_cycle(&mut self, sock: &Sock) {
        self.cycle_phase = (self.cycle_phase + 1) % CYCLE.len();
        self.cycle_us = micros(sock.delivered_ns);
    }

    /// `bbr_update_cycle_phase`.
    pub(super) fn update_cycle(&mut self, sock: &Sock, sample: &RateSample) {
        if self.mode == Mode::ProbeBw && self.is_phase_over(sock, sample) {
            self.advance_cycle(sock);
        }
    }

    /// Returns whether the phase is over. A phase lasts one RTT. Probing continues until it has also filled the path or
    /// caused a loss; draining ends earlier if the queue is empty (section 4.3.4.3; `bbr_is_next_cycle_phase`).
    fn is_phase_over(&self, sock: &Sock, sample: &RateSample) -> bool {
        let is_full_length = micros(sock.delivered_ns).saturating_sub(self.cycle_us) > u64::from(self.min_rtt_us);
        if self.pacing_gain == GAIN_UNIT {
            return is_full_length;
        }
        let in_network = self.in_network(sock, sample.prior_in_flight);
        let target = self.target_in_flight(sock, self.bw.get(), self.pacing_gain.max(GAIN_UNIT));
        if self.pacing_gain > GAIN_UNIT {
            is_full_length && (sample.losses > 0 || in_network >= target)
        } else {
            is_full_length || in_network <= target
        }
    }

    /// Returns what is in the network when pacing lets the next bundle leave: what is in flight now, less what is
    /// delivered until then (`bbr_packets_in_net_at_edt`). While probing, the next bundle counts too.
    pub(super) fn in_network(&self, sock: &Sock, in_flight: u32) -> u32 {
        let wait_us = micros(sock.wstamp_ns.saturating_sub(sock.now_ns));
        let delivered = (u64::from(self.estimate()).wrapping_mul(wait_us) / BW_UNIT) as u32;
        let next = if self.pacing_gain > GAIN_UNIT { bundle(sock) } else { 0 };
        (in_flight + next).saturating_sub(delivered)
    }

    /// `bbr_update_gains`.
    pub(super) fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            // A policer would drop what probing sends in addition.
            Mode::ProbeBw if self.long_term.bw().is_some() => (GAIN_UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle_phase], CWND_GAIN),
            Mode::ProbeRtt => (GAIN_UNIT, GAIN_UNIT),
        };
    }
}
