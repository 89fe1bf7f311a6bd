//! BBR's model of the path: bandwidth, rounds and the RTT without a queue (section 4.1).

use super::{BW_UNIT, Bbr, MIN_CWND, Mode};
use crate::clock::{HZ, jiffies};
use crate::congestion::{RateSample, Sock};

/// Length of the window for the maximum bandwidth, in rounds: one cycle of gains and two rounds (section 4.1.1.4;
/// `bbr_bw_rtts`).
const BW_ROUNDS: u32 = 10;
/// Length of the window for the minimum RTT: 10 s (section 4.1.2.3; `bbr_min_rtt_win_sec`).
const MIN_RTT_JIFFIES: u64 = 10 * HZ;
/// Minimum length of PROBE_RTT: 200 ms (section 4.3.5; `bbr_probe_rtt_mode_ms`).
const PROBE_RTT_JIFFIES: u64 = HZ / 5;

impl Bbr {
    /// Counts rounds and samples the bandwidth (section 4.1.1; `bbr_update_bw`).
    pub(super) fn update_bw(&mut self, sock: &Sock, sample: &RateSample) {
        self.round_start = false;
        let (Ok(delivered), Ok(interval_us)) = (u64::try_from(sample.delivered), u64::try_from(sample.interval_us))
        else {
            return;
        };
        if interval_us == 0 {
            return;
        }
        if sample.prior_delivered.wrapping_sub(self.round_end).cast_signed() >= 0 {
            self.round_end = sock.delivered;
            self.rounds = self.rounds.wrapping_add(1);
            self.round_start = true;
            self.packet_conservation = false;
        }
        self.sample_long_term(sock, sample);
        let bw = delivered * BW_UNIT / interval_us;
        // If the application has too little to send, a sample is a lower bound.
        if !sample.is_app_limited || bw >= u64::from(self.bw.get()) {
            self.bw.update(BW_ROUNDS, self.rounds, bw as u32);
        }
    }

    /// Measures the RTT, and empties the path if its minimum is 10 s old (sections 4.1.2.3 and 4.3.5;
    /// `bbr_update_min_rtt`).
    pub(super) fn update_min_rtt(&mut self, sock: &mut Sock, sample: &RateSample) {
        let now = jiffies(sock.now_ns);
        let is_expired = now > self.min_rtt_jiffies + MIN_RTT_JIFFIES;
        if let Ok(rtt_us) = u32::try_from(sample.rtt_us)
            && (rtt_us <= self.min_rtt_us || is_expired && !sample.is_ack_delayed)
        {
            self.min_rtt_us = rtt_us;
            self.min_rtt_jiffies = now;
        }
        if is_expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            // As in the kernel, the mode is already PROBE_RTT when the window is saved, so an earlier saved window is
            // kept if it is larger.
            self.save_cwnd(sock);
            self.probe_rtt_end = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(sock, now);
        }
        if sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Processes an ACK in PROBE_RTT.
    fn probe_rtt(&mut self, sock: &mut Sock, now: u64) {
        // Rates measured now are not those of the path.
        sock.app_limited = sock.delivered.wrapping_add(sock.in_flight()).max(1);
        if self.probe_rtt_end.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.leave_probe_rtt_if_done(sock);
            }
        } else if sock.in_flight() <= MIN_CWND {
            self.probe_rtt_end = Some(now + PROBE_RTT_JIFFIES);
            self.probe_rtt_round_done = false;
            self.round_end = sock.delivered;
        }
    }

    /// `bbr_check_probe_rtt_done`.
    pub(super) fn leave_probe_rtt_if_done(&mut self, sock: &mut Sock) {
        let now = jiffies(sock.now_ns);
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return;
        }
        self.min_rtt_jiffies = now;
        sock.snd_cwnd = sock.snd_cwnd.max(self.prior_cwnd);
        if self.full_bw_reached {
            self.enter_probe_bw(sock);
        } else {
            self.mode = Mode::Startup;
        }
    }
}
