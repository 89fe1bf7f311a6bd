//! HyStart (Ha and Rhee, "Taming the elephants: New TCP slow start", 2011): ends slow start before it overflows the
//! queue, in the same way as `hystart_update` of Linux 6.12.

use crate::clock::{after, micros};
use crate::congestion::Sock;

/// Slow start continues below this window, in segments (`hystart_low_window`).
const LOW_WINDOW: u32 = 16;
/// ACKs form a train if they are at most this far apart (`hystart_ack_delta_us`).
const ACK_GAP_US: u64 = 2000;
/// Number of RTT samples of a round before its delay counts (`HYSTART_MIN_SAMPLES`).
const MIN_SAMPLES: u32 = 8;
/// Bounds of the increase of the delay that ends slow start (`HYSTART_DELAY_MIN`, `HYSTART_DELAY_MAX`).
const DELAY_RISE_US: (u32, u32) = (4_000, 16_000);
/// Maximum allowance for the sender's own bursts (`hystart_ack_delay`).
const BURST_DELAY_MAX_US: u64 = 1000;
/// Four times the maximum burst, in bytes (`hystart_ack_delay`): 64 KiB less the headers (`sk_setup_caps`).
const FOUR_BURSTS: u64 = 4 * (65_536 - 321);

/// The state of slow start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hystart {
    /// Whether slow start should have ended.
    found: bool,
    round_start_us: u64,
    /// First sequence number after the round.
    round_end: u32,
    /// Time of the last ACK of the train.
    last_ack_us: u64,
    /// Minimum RTT of the round.
    round_rtt_us: u32,
    samples: u32,
}

impl Hystart {
    /// Returns whether slow start should have ended.
    pub fn found(&self) -> bool {
        self.found
    }

    /// `bictcp_hystart_reset`.
    pub fn start_round(&mut self, sock: &Sock) {
        self.round_start_us = micros(sock.now_ns);
        self.last_ack_us = self.round_start_us;
        self.round_end = sock.snd_nxt;
        self.round_rtt_us = u32::MAX;
        self.samples = 0;
    }

    /// Takes an RTT sample in slow start. To end slow start, sets ssthresh to the window.
    pub fn update(&mut self, sock: &mut Sock, delay_us: u32, delay_min_us: u32) {
        if self.found {
            return;
        }
        if after(sock.snd_una, self.round_end) {
            self.start_round(sock);
        }
        if sock.snd_cwnd < LOW_WINDOW {
            return;
        }
        // Both detectors see every sample.
        let train = self.is_train_long(sock, delay_min_us);
        let delay = self.has_delay_risen(delay_us, delay_min_us);
        if train || delay {
            self.found = true;
            sock.snd_ssthresh = sock.snd_cwnd;
        }
    }

    /// Returns whether a train of ACKs has lasted as long as the path's delay, which shows that the window fills the
    /// path. Without pacing, the whole window leaves at once, and half of the RTT is enough.
    fn is_train_long(&mut self, sock: &Sock, delay_min_us: u32) -> bool {
        let now = micros(sock.now_ns);
        if now - self.last_ack_us > ACK_GAP_US {
            return false;
        }
        self.last_ack_us = now;
        let path_us = u64::from(delay_min_us) + burst_delay_us(sock);
        now - self.round_start_us > if sock.needs_pacing { path_us } else { path_us / 2 }
    }

    /// Returns whether the minimum RTT of the round exceeds the overall minimum RTT by more than an eighth, within
    /// bounds.
    fn has_delay_risen(&mut self, delay_us: u32, delay_min_us: u32) -> bool {
        self.round_rtt_us = self.round_rtt_us.min(delay_us);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return false;
        }
        let rise_us = (delay_min_us / 8).clamp(DELAY_RISE_US.0, DELAY_RISE_US.1);
        self.round_rtt_us > delay_min_us.saturating_add(rise_us)
    }
}

/// Returns how long the sender's bursts may delay ACKs (`hystart_ack_delay`).
fn burst_delay_us(sock: &Sock) -> u64 {
    (FOUR_BURSTS * 1_000_000).checked_div(sock.pacing_rate).unwrap_or(0).min(BURST_DELAY_MAX_US)
}
