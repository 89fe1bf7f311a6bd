//! TCP Westwood+ (Hamamreh 2020, Algorithm 1, eqs 3 and 4; the bandwidth filter of Linux's module).

use super::reno::{self, Growth};
use super::{BANDWIDTH_TOLERANCE, FAST, Model, Q8, SAMPLE, close, elapsed_us, show};
use crate::{EVENT_COMPLETE_CWR, EVENT_LOSS, Flow, View};

/// The model of one connection.
#[derive(Clone, Debug, Default)]
pub struct Westwoodp {
    /// Tunable: shortest time a bandwidth sample spans, microseconds.
    pub min_sample_us: u32,
    /// BWE behind the first filter, bytes/s.
    pub first: f64,
    /// BWE behind the second filter, bytes/s: what eq 4 uses.
    pub second: f64,
    /// RTTmin of the connection, microseconds.
    pub base_us: Option<u32>,
    has_sample: bool,
    /// The hook just called took a sample.
    sampled: bool,
    sample_start_us: u64,
    sample_delivered: u32,
    pending_threshold: Option<Threshold>,
    /// What `cwnd_event` has just set.
    applied_threshold: Option<Threshold>,
    /// W when `ssthresh` was called.
    window: u32,
    /// How far rounding may have carried the algorithm's two filters from these, bytes/s: it never adds up, since
    /// each sample takes an eighth of what there was.
    resolution: [f64; 2],
    rounding: Rounding,
    coverage: Coverage,
}

/// A new ssthresh.
#[derive(Clone, Copy, Debug)]
struct Threshold {
    segments: u32,
    /// Eq 4 before it is rounded down, and how far the algorithm's may be from it, segments.
    exact: f64,
    resolution: f64,
}

impl Threshold {
    /// Whether eq 4 is so close to a whole number that rounding decides between the model's and `other`.
    fn ties_with(&self, other: u32) -> bool {
        let boundary = f64::from(self.segments.max(other));
        self.segments.abs_diff(other) == 1 && (self.exact - boundary).abs() <= self.resolution
    }
}

#[derive(Clone, Debug, Default)]
struct Rounding {
    threshold_ties: u64,
    coarse_bandwidths: u64,
}

#[derive(Clone, Debug, Default)]
struct Coverage {
    samples: u64,
    fast_samples: u64,
    first_samples: u64,
    samples_held_by_rtt: u64,
    reno_thresholds: u64,
    bandwidth_thresholds: u64,
    minimum_thresholds: u64,
    thresholds_above_window: u64,
    slow_start_acks: u64,
    avoidance_acks: u64,
    unlimited_acks: u64,
}

impl Westwoodp {
    /// A connection before `init`.
    #[must_use]
    pub fn new(min_sample_us: u32) -> Self {
        Self { min_sample_us, ..Self::default() }
    }

    /// Eq 3, one sample per RTT of at least 50 ms, then two low-pass filters of 7/8 in a row.
    fn add_sample(&mut self, sample: f64) {
        self.coverage.samples += 1;
        self.sampled = true;
        self.coverage.fast_samples += u64::from(sample > FAST);
        if !self.has_sample {
            self.coverage.first_samples += 1;
            self.has_sample = sample >= SAMPLE; // in whole bytes/s it would be none
            (self.first, self.second) = (sample, sample);
            self.resolution = [SAMPLE; 2];
            return;
        }
        self.first = 7.0 / 8.0 * self.first + 1.0 / 8.0 * sample;
        self.second = 7.0 / 8.0 * self.second + 1.0 / 8.0 * self.first;
        self.resolution[0] = 7.0 / 8.0 * self.resolution[0] + 1.0 / 8.0 * SAMPLE + Q8;
        self.resolution[1] = 7.0 / 8.0 * self.resolution[1] + 1.0 / 8.0 * self.resolution[0] + Q8;
    }

    /// Algorithm 1 lines 6 and 11, eq 4; NewReno's half before BWE and RTTmin are known.
    fn threshold(&mut self, sock: &View) -> Threshold {
        let (true, Some(base)) = (self.has_sample, self.base_us) else {
            self.coverage.reno_thresholds += 1;
            let segments = (sock.snd_cwnd / 2).max(2);
            return Threshold { segments, exact: f64::from(segments) + 0.5, resolution: 0.0 };
        };
        self.coverage.bandwidth_thresholds += 1;
        let segments_of = |rate: f64| rate * f64::from(base) / 1e6 / f64::from(sock.mss);
        let bdp = segments_of(self.second);
        self.coverage.minimum_thresholds += u64::from(bdp < 2.0);
        self.coverage.thresholds_above_window += u64::from(bdp > f64::from(sock.snd_cwnd));
        // it may be taken in whole bytes/s
        let resolution = segments_of(self.resolution[1] + SAMPLE) + 1e-12 * bdp;
        Threshold { segments: bdp.max(2.0) as u32, exact: bdp, resolution }
    }

    /// Takes `other` for a threshold's whole segments if rounding explains it.
    fn settle(threshold: &mut Threshold, other: u32, rounding: &mut Rounding) -> Result<(), String> {
        if !threshold.ties_with(other) {
            return Err(format!("threshold {other}, the model has {threshold:?}"));
        }
        threshold.segments = other;
        rounding.threshold_ties += 1;
        Ok(())
    }
}

/// A loss never raises W.
fn lowered(threshold: u32, window: u32) -> u32 {
    threshold.min(window).max(2)
}

impl Model for Westwoodp {
    fn tunables(&self) -> Vec<(&'static str, u32)> {
        vec![("min_sample_us", self.min_sample_us)]
    }

    fn retune(&mut self, choice: u64) {
        self.min_sample_us = [50_000, 1000, 1_000_000][(choice % 3) as usize];
    }

    fn init(&mut self, sock: &mut View) {
        let (coverage, rounding) = (std::mem::take(&mut self.coverage), std::mem::take(&mut self.rounding));
        *self = Self { coverage, rounding, ..Self::new(self.min_sample_us) };
        self.sample_start_us = sock.now_us;
        self.sample_delivered = sock.delivered;
    }

    /// Algorithm 1 line 2.
    fn pkts_acked(&mut self, sock: &mut View, rtt_us: Option<u32>) {
        // a sample of zero is none: the path has no length
        if let Some(rtt) = rtt_us.filter(|&r| r > 0) {
            self.base_us = Some(self.base_us.map_or(rtt, |b| b.min(rtt)));
        }
        let elapsed = elapsed_us(self.sample_start_us, sock.now_us);
        if elapsed < u64::from(self.min_sample_us) {
            return;
        }
        if elapsed < u64::from(rtt_us.unwrap_or(0)) {
            self.coverage.samples_held_by_rtt += 1;
            return;
        }
        let segments = sock.delivered.wrapping_sub(self.sample_delivered);
        self.add_sample(f64::from(segments) * f64::from(sock.mss) / (elapsed as f64 / 1e6));
        self.sample_start_us = sock.now_us;
        self.sample_delivered = sock.delivered;
    }

    /// Algorithm 1 line 3: NewReno, that is the kernel's `tcp_reno_cong_avoid`.
    fn cong_avoid(&mut self, sock: &mut View, acked: u32) {
        let growth = reno::cong_avoid(sock, acked);
        self.coverage.unlimited_acks += u64::from(growth == Growth::default());
        self.coverage.slow_start_acks += u64::from(growth.slow_start);
        self.coverage.avoidance_acks += u64::from(growth.avoidance);
    }

    /// Algorithm 1 lines 6 and 7, but a loss never raises W.
    fn ssthresh(&mut self, sock: &mut View) -> u32 {
        let threshold = self.threshold(sock);
        self.window = sock.snd_cwnd;
        self.pending_threshold = Some(threshold);
        lowered(threshold.segments, sock.snd_cwnd)
    }

    fn undo_cwnd(&mut self, sock: &mut View) -> u32 {
        self.pending_threshold = None;
        sock.snd_cwnd.max(sock.prior_cwnd)
    }

    fn set_state(&mut self, _: &mut View, _: u8) {}

    fn cwnd_event(&mut self, sock: &mut View, event: u32) {
        match event {
            // line 6: the loss is over, slow start may go up to eq 4
            EVENT_COMPLETE_CWR => {
                self.applied_threshold = self.pending_threshold.take();
            }
            // line 11; line 12, W = 1, is the kernel's own
            EVENT_LOSS => self.applied_threshold = Some(self.threshold(sock)),
            _ => {}
        }
        if let Some(threshold) = self.applied_threshold {
            sock.snd_ssthresh = threshold.segments;
        }
    }

    fn set_radio(&mut self, _: Option<(u64, u32)>) {}

    fn agree(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        let different = || format!("{}; the model has {}", show(got), show(want));
        if (want.snd_cwnd, want.snd_cwnd_cnt) != (got.snd_cwnd, got.snd_cwnd_cnt) {
            return Err(different()); // NewReno's growth, in whole numbers
        }
        let applied = self.applied_threshold.take();
        if want.snd_ssthresh != got.snd_ssthresh {
            let Some(mut threshold) = applied else { return Err(different()) };
            Self::settle(&mut threshold, got.snd_ssthresh, &mut self.rounding)?;
        }
        let mut coarse = false;
        let stages = [("first", self.first), ("second", self.second)];
        for ((name, want), resolution) in stages.into_iter().zip(self.resolution) {
            let got = flow.private(&format!("bandwidth.{name}_q8")) as f64 / 256.0;
            if !close(got, want, 1e-12, resolution) {
                return Err(format!("{name} filter {got} bytes/s, the model has {want} +- {resolution}"));
            }
            coarse |= !close(got, want, BANDWIDTH_TOLERANCE, 0.0);
        }
        self.rounding.coarse_bandwidths += u64::from(std::mem::take(&mut self.sampled) && coarse);
        Ok(())
    }

    fn agree_on_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        let (window, rounding) = (self.window, &mut self.rounding);
        match &mut self.pending_threshold {
            _ if want == got => Ok(()),
            Some(threshold) => {
                let other = if got < want { threshold.segments - 1 } else { threshold.segments + 1 };
                if lowered(other, window) != got {
                    return Err(format!("ssthresh() is {got}, the model's {want}"));
                }
                Self::settle(threshold, other, rounding)
            }
            None => Err(format!("ssthresh() is {got}, the model's {want}")),
        }
    }

    fn rounding(&self) -> Vec<(&'static str, u64)> {
        let r = &self.rounding;
        vec![
            ("thresholds rounded the other way", r.threshold_ties),
            ("samples that left a bandwidth beyond 0.1 %", r.coarse_bandwidths),
        ]
    }

    fn coverage(&self) -> Vec<(&'static str, u64)> {
        let c = &self.coverage;
        vec![
            ("samples", c.samples),
            ("samples over 100 Gbit/s", c.fast_samples),
            ("first samples", c.first_samples),
            ("samples held by a long RTT", c.samples_held_by_rtt),
            ("Reno thresholds", c.reno_thresholds),
            ("bandwidth thresholds", c.bandwidth_thresholds),
            ("thresholds at the minimum", c.minimum_thresholds),
            ("thresholds above the window", c.thresholds_above_window),
            ("slow start ACKs", c.slow_start_acks),
            ("congestion avoidance ACKs", c.avoidance_acks),
            ("ACKs while not limited by the window", c.unlimited_acks),
        ]
    }
}
