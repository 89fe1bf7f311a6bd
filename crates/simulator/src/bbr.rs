//! BBR version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), in the integer arithmetic of Linux 6.12's
//! `tcp_bbr.c`, so that windows and pacing rates are those of the kernel. Section numbers below are the draft's.
//!
//! There is one difference from the kernel: the kernel chooses the phase in which PROBE_BW starts at random. Here, a
//! generator with a seed chooses it, so that a simulation can be repeated; the seed is a parameter of [`Bbr::new`].

mod aggregation;
mod long_term;
mod max_filter;
mod model;
mod phases;
#[cfg(test)]
mod tests;

use crate::clock::micros;
use crate::congestion::{CaEvent, CaState, CongestionControl, INFINITE_SSTHRESH, RateSample, Sock};
use aggregation::Aggregation;
use long_term::{LongTerm, Outcome};
use max_filter::MaxFilter;

/// Unit of bandwidths, 1/2^24 segments/us (`BW_SCALE`).
const BW_UNIT: u64 = 1 << BW_SHIFT;
const BW_SHIFT: u32 = 24;
/// Unit of gains, 1/256 (`BBR_SCALE`).
const GAIN_UNIT: u32 = 1 << GAIN_SHIFT;
const GAIN_SHIFT: u32 = 8;
/// 2/ln 2, the lowest gain that doubles the rate in each round (section 4.3.2.1; `bbr_high_gain`).
const HIGH_GAIN: u32 = GAIN_UNIT * 2885 / 1000 + 1;
/// The inverse of `HIGH_GAIN`, which drains the queue of STARTUP in one round (section 4.3.3; `bbr_drain_gain`).
const DRAIN_GAIN: u32 = GAIN_UNIT * 1000 / 2885;
/// The window's gain in PROBE_BW: room for delayed ACKs (section 4.2.3.2; `bbr_cwnd_gain`).
const CWND_GAIN: u32 = 2 * GAIN_UNIT;
/// Pacing is this much slower than the estimate, for a short queue (`bbr_pacing_margin_percent`).
const PACING_MARGIN_PERCENT: u64 = 1;
/// Minimum window: delayed ACKs need four segments (section 4.2.3.2; `bbr_cwnd_min_target`).
const MIN_CWND: u32 = 4;
/// Window while there is no RTT sample (`TCP_INIT_CWND`).
const INITIAL_CWND: u32 = 10;
/// RTT for the first pacing rate while there is no sample (section 4.2.1; `bbr_init_pacing_rate_from_rtt`).
const NOMINAL_RTT_US: u32 = 1000;
/// Below this rate, in bytes/s, segments are sent one by one (`bbr_min_tso_rate`).
const MIN_BUNDLE_RATE: u64 = 1_200_000 / 8;
/// A bundle is what the pacing rate sends in 2^-10 s (`sk_pacing_shift`), within the limits below.
const BUNDLE_SHIFT: u32 = 10;
/// Maximum size of a bundle: 64 KiB, less the headers (`GSO_LEGACY_MAX_SIZE`, `MAX_TCP_HEADER`).
const BUNDLE_MAX_BYTES: u64 = 65_536 - 1 - 320;
/// Maximum number of segments of a bundle (`bbr_tso_segs_goal`).
const BUNDLE_MAX_SEGMENTS: u32 = 127;
/// Number of windows that the send buffer holds, because the window may double in recovery (`bbr_sndbuf_expand`).
const SEND_BUFFER_WINDOWS: u32 = 3;

/// The state of BBR's state machine (section 3.4; `enum bbr_mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Doubles the rate in each round until the bandwidth no longer grows.
    #[default]
    Startup,
    /// Drains the queue that STARTUP has built.
    Drain,
    /// Cycles gains to probe for bandwidth.
    ProbeBw,
    /// Empties the path to measure the RTT without a queue.
    ProbeRtt,
}

/// BBR for one connection (`struct bbr`).
#[derive(Clone, Debug, Default)]
pub struct Bbr {
    mode: Mode,
    /// State of the random generator that chooses PROBE_BW's first phase.
    random: u64,

    /// BtlBw: the maximum delivery rate of the last ten rounds.
    bw: MaxFilter,
    long_term: LongTerm,
    aggregation: Aggregation,
    /// RTprop; `u32::MAX` until it is known.
    min_rtt_us: u32,
    /// Time at which `min_rtt_us` was measured or confirmed, in jiffies.
    min_rtt_jiffies: u64,

    /// Rounds so far, whether this ACK starts one, and `delivered` at the end of the current one.
    rounds: u32,
    round_start: bool,
    round_end: u32,

    /// STARTUP: the bandwidth that the next rounds must exceed, and the number of rounds that have not exceeded it.
    full_bw: u32,
    full_bw_rounds: u32,
    full_bw_reached: bool,
    /// PROBE_BW: the current phase and its start.
    cycle_phase: usize,
    cycle_us: u64,
    /// PROBE_RTT: its end in jiffies, known once the path is empty, and whether a round has passed since.
    probe_rtt_end: Option<u64>,
    probe_rtt_round_done: bool,
    /// Whether the application was idle, and nothing has been delivered since.
    idle_restart: bool,

    /// Gains, in units of 1/256.
    pacing_gain: u32,
    cwnd_gain: u32,
    has_seen_rtt: bool,
    /// Window before recovery or PROBE_RTT.
    prior_cwnd: u32,
    prior_state: CaState,
    /// Whether this is the first round of a recovery, which sends one segment for each delivered one.
    packet_conservation: bool,
}

/// Converts a bandwidth with a gain to bytes/s, less the margin (`bbr_rate_bytes_per_sec`).
fn bytes_per_s(bw: u32, gain: u32, mss: u32) -> u64 {
    let bytes = (u64::from(bw) * u64::from(mss)).wrapping_mul(u64::from(gain)) >> GAIN_SHIFT;
    bytes.wrapping_mul(1_000_000 / 100 * (100 - PACING_MARGIN_PERCENT)) >> BW_SHIFT
}

/// `bbr_min_tso_segs`.
fn least_bundle(sock: &Sock) -> u32 {
    if sock.pacing_rate < MIN_BUNDLE_RATE { 1 } else { 2 }
}

/// `bbr_tso_segs_goal`.
fn bundle(sock: &Sock) -> u32 {
    let bytes = (sock.pacing_rate >> BUNDLE_SHIFT).min(BUNDLE_MAX_BYTES);
    ((bytes / u64::from(sock.mss)) as u32).max(least_bundle(sock)).min(BUNDLE_MAX_SEGMENTS)
}

impl Bbr {
    /// Creates the state of a connection before `init`. The seed determines in which phases PROBE_BW starts.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: seed, ..Self::default() }
    }

    /// Returns the estimate of the bandwidth (`bbr_bw`).
    fn estimate(&self) -> u32 {
        self.long_term.bw().unwrap_or(self.bw.get())
    }

    /// Sets the first pacing rate (section 4.2.1; `bbr_init_pacing_rate_from_rtt`).
    fn set_first_pacing_rate(&mut self, sock: &mut Sock) {
        self.has_seen_rtt |= sock.srtt_us > 0;
        let rtt_us = if sock.srtt_us > 0 { (sock.srtt_us >> 3).max(1) } else { NOMINAL_RTT_US };
        let bw = u64::from(sock.snd_cwnd) * BW_UNIT / u64::from(rtt_us);
        sock.pacing_rate = bytes_per_s(bw as u32, HIGH_GAIN, sock.mss);
    }

    /// Sets the pacing rate, which does not decrease before the path is full (section 4.2.1; `bbr_set_pacing_rate`).
    fn set_pacing_rate(&mut self, sock: &mut Sock, bw: u32, gain: u32) {
        let rate = bytes_per_s(bw, gain, sock.mss);
        if !self.has_seen_rtt && sock.srtt_us > 0 {
            self.set_first_pacing_rate(sock);
        }
        if self.full_bw_reached || rate > sock.pacing_rate {
            sock.pacing_rate = rate;
        }
    }

    /// Returns the BDP times a gain, rounded up (section 4.2.3.2; `bbr_bdp`).
    fn bdp(&self, bw: u32, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return INITIAL_CWND;
        }
        let segments = (u64::from(bw) * u64::from(self.min_rtt_us)).wrapping_mul(u64::from(gain)) >> GAIN_SHIFT;
        segments.div_ceil(BW_UNIT) as u32
    }

    /// Adds room for bundles in both hosts (section 4.2.3.2; `bbr_quantization_budget`).
    fn with_bundles(&self, sock: &Sock, segments: u32) -> u32 {
        // An even window lets the receiver delay fewer ACKs.
        let even = (segments + 3 * bundle(sock)).next_multiple_of(2);
        // With a small BDP, a quarter of it may be less than a segment.
        let probes = self.mode == Mode::ProbeBw && self.cycle_phase == 0;
        if probes { even + 2 } else { even }
    }

    /// Returns the target for the segments in flight at a gain (`bbr_inflight`).
    fn target_in_flight(&self, sock: &Sock, bw: u32, gain: u32) -> u32 {
        self.with_bundles(sock, self.bdp(bw, gain))
    }

    /// Saves the window before it is reduced (section 4.2.3.4; `bbr_save_cwnd`).
    fn save_cwnd(&mut self, sock: &Sock) {
        let is_reduced = self.prior_state >= CaState::Recovery || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if is_reduced { self.prior_cwnd.max(sock.snd_cwnd) } else { sock.snd_cwnd };
    }

    /// Modulates the window in recovery, and restores it afterwards (section 4.2.3.4;
    /// `bbr_set_cwnd_to_recover_or_restore`). Returns the window, and whether packet conservation decides it alone.
    fn recover_or_restore(&mut self, sock: &Sock, sample: &RateSample) -> (u32, bool) {
        let before = std::mem::replace(&mut self.prior_state, sock.ca_state);
        let conserved = sock.in_flight() + sample.acked_sacked;
        let mut cwnd = sock.snd_cwnd;
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
        }
        if sock.ca_state == CaState::Recovery && before != CaState::Recovery {
            self.packet_conservation = true;
            self.round_end = sock.delivered;
            cwnd = conserved;
        } else if before >= CaState::Recovery && sock.ca_state < CaState::Recovery {
            self.packet_conservation = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        (if self.packet_conservation { cwnd.max(conserved) } else { cwnd }, self.packet_conservation)
    }

    /// Moves the window towards its target. It grows by at most one segment per delivered one (section 4.2.3.6).
    fn approach_target(&self, sock: &Sock, acked: u32, bw: u32, cwnd: u32) -> u32 {
        let target = self.with_bundles(sock, self.bdp(bw, self.cwnd_gain) + self.aggregation_room());
        let grown = cwnd + acked;
        let cwnd = if self.full_bw_reached {
            grown.min(target)
        } else if cwnd < target || sock.delivered < INITIAL_CWND {
            grown
        } else {
            cwnd
        };
        cwnd.max(MIN_CWND)
    }

    /// Returns the room for aggregation in the window. It is 0 before the path is full, because the bandwidth estimate
    /// is then too low to recognise aggregation.
    fn aggregation_room(&self) -> u32 {
        if self.full_bw_reached { self.aggregation.room(self.estimate()) } else { 0 }
    }

    /// `bbr_set_cwnd`.
    fn set_cwnd(&mut self, sock: &mut Sock, sample: &RateSample, bw: u32) {
        let mut cwnd = sock.snd_cwnd;
        if sample.acked_sacked > 0 {
            let (recovered, is_final) = self.recover_or_restore(sock, sample);
            cwnd = if is_final { recovered } else { self.approach_target(sock, sample.acked_sacked, bw, recovered) };
        }
        cwnd = cwnd.min(sock.snd_cwnd_clamp);
        // Section 4.2.3.5
        sock.snd_cwnd = if self.mode == Mode::ProbeRtt { cwnd.min(MIN_CWND) } else { cwnd };
    }

    /// Takes a long-term sample, and applies its outcome.
    fn sample_long_term(&mut self, sock: &Sock, sample: &RateSample) {
        match self.long_term.update(sock, sample, self.round_start, self.mode == Mode::ProbeBw) {
            Outcome::Unchanged => {}
            Outcome::Policed => self.pacing_gain = GAIN_UNIT,
            Outcome::Expired => self.enter_probe_bw(sock),
        }
    }
}

impl CongestionControl for Bbr {
    fn init(&mut self, sock: &mut Sock) {
        *self = Self::new(self.random);
        sock.snd_ssthresh = INFINITE_SSTHRESH;
        sock.needs_pacing = true;
        self.round_end = sock.delivered;
        self.min_rtt_us = if sock.min_rtt_us > 0 { sock.min_rtt_us } else { u32::MAX };
        self.min_rtt_jiffies = crate::clock::jiffies(sock.now_ns);
        self.set_first_pacing_rate(sock);
        self.long_term.reset(sock);
        self.aggregation.start_epoch(micros(sock.now_ns));
    }

    /// BBR does not use ssthresh, but this hook is the start of a recovery.
    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        self.save_cwnd(sock);
        sock.snd_ssthresh
    }

    /// `bbr_undo_cwnd`.
    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        self.full_bw = 0;
        self.full_bw_rounds = 0;
        self.long_term.reset(sock);
        sock.snd_cwnd
    }

    /// `bbr_set_state`: a timeout ends a round.
    fn set_state(&mut self, sock: &mut Sock, state: CaState) {
        if state == CaState::Loss {
            self.prior_state = CaState::Loss;
            self.full_bw = 0;
            self.round_start = true;
            self.sample_long_term(sock, &RateSample { losses: 1, ..RateSample::default() });
        }
    }

    /// Restarts after idle time, at the estimated bandwidth (section 4.3.4.4; `bbr_cwnd_event`).
    fn cwnd_event(&mut self, sock: &mut Sock, event: CaEvent) {
        if event != CaEvent::TxStart || sock.app_limited == 0 {
            return;
        }
        self.idle_restart = true;
        self.aggregation.start_epoch(micros(sock.now_ns));
        match self.mode {
            Mode::ProbeBw => self.set_pacing_rate(sock, self.estimate(), GAIN_UNIT),
            Mode::ProbeRtt => self.leave_probe_rtt_if_done(sock),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// `bbr_main`.
    fn cong_control(&mut self, sock: &mut Sock, sample: &RateSample) -> bool {
        self.update_bw(sock, sample);
        self.aggregation.update(sock, sample, self.round_start, self.estimate());
        self.update_cycle(sock, sample);
        self.check_full_bw(sample);
        self.check_drain(sock);
        self.update_min_rtt(sock, sample);
        self.update_gains();

        let bw = self.estimate();
        self.set_pacing_rate(sock, bw, self.pacing_gain);
        self.set_cwnd(sock, sample, bw);
        true
    }

    fn has_cong_control(&self) -> bool {
        true
    }

    fn min_tso_segs(&self, sock: &Sock) -> Option<u32> {
        Some(least_bundle(sock))
    }

    fn sndbuf_expand(&self) -> u32 {
        SEND_BUFFER_WINDOWS
    }

    fn detail(&self, name: &str) -> u32 {
        match name {
            "mode" => self.mode as u32,
            "bw" => self.estimate(),
            "min_rtt_us" => self.min_rtt_us,
            "pacing_gain" => self.pacing_gain,
            "cwnd_gain" => self.cwnd_gain,
            "cycle_idx" => self.cycle_phase as u32,
            "rtt_cnt" => self.rounds,
            "full_bw_reached" => u32::from(self.full_bw_reached),
            "lt_use_bw" => u32::from(self.long_term.bw().is_some()),
            _ => 0,
        }
    }
}
