//! The bandwidth's filters: Westwood's own and the cascade of Westwood+, and when each takes a sample.

use super::super::{BANDWIDTH_TOLERANCE, FAST, Q8, SAMPLE, close, elapsed_us};
use crate::models::named::counters;
use hotcc_host_algo::ca_state::RECOVERY;
use hotcc_host_algo::{EVENT_TX_START, View};

/// Greatest sample, bytes/s (4.4 Tbit/s): a limit of the arithmetic, not of the papers.
const RATE_LIMIT: f64 = (1u64 << 39) as f64;
/// Resolution of a sample's weight in Westwood's filter.
const WEIGHT: f64 = 1.0 / (1u64 << 32) as f64;
/// Resolution of the mean of two samples, bytes/s: each is in whole bytes/s, and their mean may be, too.
const MEAN: f64 = 1.5 * SAMPLE;
/// Most virtual samples in a row.
const VIRTUAL_LIMIT: u32 = 32;

/// Returns a sample by eq 3. A sample below 1 byte/s is 0, as samples are whole bytes/s.
fn bandwidth(segments: u32, mss: u32, elapsed_us: f64) -> f64 {
    let exact = f64::from(segments) * f64::from(mss) * 1e6 / elapsed_us;
    if exact < SAMPLE { 0.0 } else { exact.min(RATE_LIMIT) }
}

/// Checks that the algorithm's `own` bandwidth is within `resolution` of `exact`; `Ok(true)`: it is, but more than 0.1
/// % from it.
fn compare(name: &str, own: f64, exact: f64, resolution: f64) -> Result<bool, String> {
    if !close(own, exact, 1e-12, resolution) {
        return Err(format!("{name} {own} bytes/s, the model has {exact} +- {resolution}"));
    }
    Ok(!close(own, exact, BANDWIDTH_TOLERANCE, 0.0))
}

counters! {
    /// Steps of Westwood's filter.
    TustinCounts {
        samples: "samples",
        first: "first samples",
        empty: "samples under a byte per second",
        fast: "samples over 100 Gbit/s",
        held: "ACKs at the time of the one before",
        short: "ACKs too soon for a first sample",
        virtual_samples: "virtual samples",
        abandoned: "filters started again after a long silence",
        resumed: "silences of the application",
    }
}

/// Westwood's filter (Casetti et al., Wireless Networks 8, 2002): of first order, in the bilinear form named after
/// Tustin, `alpha = (2 tau - D)/(2 tau + D)`; while no ACK arrives, it takes a virtual sample of zero every tau/2.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tustin {
    /// BWE, bytes/s.
    pub bandwidth: f64,
    has_sample: bool,
    previous: f64,
    last_us: u64,
    last_delivered: u32,
    /// Greatest distance of the algorithm's BWE from this one by rounding, bytes/s.
    resolution: f64,
    /// Whether the hook just called took a sample.
    sampled: bool,
    /// Samples after which BWE differed by more than 0.1 %.
    pub coarse: u64,
    pub counts: TustinCounts,
}

impl Tustin {
    /// Drops all samples; the first one starts now.
    pub fn restart(&mut self, sock: &View) {
        (self.bandwidth, self.previous, self.resolution, self.has_sample) = (0.0, 0.0, 0.0, false);
        (self.last_us, self.last_delivered) = (sock.now_us, sock.delivered);
    }

    /// Returns BWE, if there is one.
    pub fn known(&self) -> Option<f64> {
        self.has_sample.then_some(self.bandwidth)
    }

    /// Leaves out the time for which nothing was in flight, when the application has data again.
    pub fn cwnd_event(&mut self, event: u32, sock: &View) {
        if event == EVENT_TX_START && sock.ca_state < RECOVERY.into() {
            self.counts.resumed += 1;
            (self.last_us, self.last_delivered, self.previous) = (sock.now_us, sock.delivered, 0.0);
        }
    }

    /// Returns the time since the last sample, microseconds.
    pub fn elapsed_us(&self, sock: &View) -> u64 {
        elapsed_us(self.last_us, sock.now_us)
    }

    /// Processes an ACK: takes a sample over the time since the ACK before; the first one only if it `spans_rtt`.
    pub fn ack(&mut self, sock: &View, tau_ms: u32, spans_rtt: bool) {
        let elapsed = elapsed_us(self.last_us, sock.now_us);
        if elapsed == 0 {
            self.counts.held += 1; // its segments count with the next ACK
            return;
        }
        if !self.has_sample && !spans_rtt {
            self.counts.short += 1;
            return;
        }
        let segments = sock.delivered.wrapping_sub(self.last_delivered);
        (self.last_us, self.last_delivered) = (sock.now_us, sock.delivered);
        let (elapsed, tau) = (elapsed as f64, f64::from(tau_ms) * 1000.0);
        let silence = tau / 2.0;
        self.counts.samples += 1;
        self.sampled = true;
        let mut left = elapsed;
        if self.has_sample {
            let mut zeros = 0;
            while left > silence && zeros < VIRTUAL_LIMIT {
                self.counts.virtual_samples += 1;
                self.add(0.0, silence, tau);
                left -= silence;
                zeros += 1;
            }
            if left > silence {
                self.counts.abandoned += 1;
                self.has_sample = false;
            }
        }
        if self.has_sample {
            let sample = bandwidth(segments, sock.mss, left);
            self.count(sample);
            self.add(sample, left, tau);
        } else {
            let sample = bandwidth(segments, sock.mss, elapsed);
            self.count(sample);
            self.counts.first += 1;
            (self.bandwidth, self.previous, self.resolution) = (sample, sample, SAMPLE);
            self.has_sample = sample > 0.0;
        }
    }

    fn count(&mut self, sample: f64) {
        self.counts.fast += u64::from(sample > FAST);
        self.counts.empty += u64::from(sample == 0.0);
    }

    fn add(&mut self, sample: f64, interval: f64, tau: f64) {
        let alpha = (2.0 * tau - interval) / (2.0 * tau + interval);
        let mean = (sample + self.previous) / 2.0;
        self.resolution =
            alpha * self.resolution + (1.0 - alpha) * MEAN + WEIGHT * (mean - self.bandwidth).abs() + 2.0 * Q8;
        self.bandwidth = alpha * self.bandwidth + (1.0 - alpha) * mean;
        self.previous = sample;
    }

    /// Compares BWE, in 1/256 byte/s; 0: none.
    pub fn reconcile(&mut self, own_q8: u64) -> Result<(), String> {
        let coarse = compare("BWE", own_q8 as f64 / 256.0, self.bandwidth, self.resolution)?;
        self.coarse += u64::from(std::mem::take(&mut self.sampled) && coarse);
        if own_q8 == 0 && self.bandwidth <= self.resolution {
            self.has_sample = false; // rounded to 0 after a long silence
        }
        if (own_q8 > 0) != self.has_sample {
            return Err(format!("BWE {own_q8}/256, the model has {:?}", self.known()));
        }
        Ok(())
    }
}

counters! {
    /// Samples once per RTT.
    SamplerCounts {
        samples: "samples",
        fast: "samples over 100 Gbit/s",
        empty: "samples under a byte per second",
        held: "samples held by a long RTT",
    }
}

/// Times at which Westwood+ takes a sample: once an RTT and a least time have passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sampler {
    start_us: u64,
    delivered: u32,
    /// Whether the application held the connection back when this sample started.
    pub app_limited: bool,
    pub counts: SamplerCounts,
}

impl Sampler {
    /// Starts a sample.
    pub fn restart(&mut self, sock: &View) {
        (self.start_us, self.delivered, self.app_limited) = (sock.now_us, sock.delivered, sock.app_limited != 0);
    }

    /// Returns the sample that ends with this ACK, bytes/s. The caller then [`Self::restart`]s.
    pub fn sample(&mut self, sock: &View, rtt_us: Option<u32>, least_us: u32) -> Option<f64> {
        let elapsed = elapsed_us(self.start_us, sock.now_us);
        if elapsed < u64::from(least_us) {
            return None;
        }
        if elapsed < u64::from(rtt_us.unwrap_or(0)) {
            self.counts.held += 1;
            return None;
        }
        let sample = bandwidth(sock.delivered.wrapping_sub(self.delivered), sock.mss, elapsed as f64);
        self.counts.samples += 1;
        self.counts.fast += u64::from(sample > FAST);
        self.counts.empty += u64::from(sample == 0.0);
        Some(sample)
    }
}

counters! {
    /// Samples in which the application held the connection back.
    LimitedCounts {
        skipped: "application-limited samples skipped",
        filtered: "application-limited samples filtered",
    }
}

/// BWE after a sample; if rounding decides whether an application-limited sample is filtered, both results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub now: Cascade,
    pub first: bool,
    pub skipped: bool,
    /// BWE by the other decision.
    pub other: Option<Cascade>,
}

/// Takes a sample. A sample in which the application held the connection back may raise BWE, but never lower it.
pub(crate) fn take(before: Cascade, sample: f64, app_limited: bool, counts: &mut LimitedCounts) -> Taken {
    let mut with = before;
    let first = with.add(sample);
    let skipped = app_limited && before.known().is_some_and(|second| sample < second);
    counts.skipped += u64::from(skipped);
    counts.filtered += u64::from(app_limited && !skipped);
    let (now, other) = if skipped { (before, with) } else { (with, before) };
    let tie = app_limited && !first && before.ties_with(sample);
    Taken { now, first: first && !skipped, skipped, other: tie.then_some(other) }
}

/// The filter of Westwood+ in Linux's module: two low-pass filters of 7/8 in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cascade {
    /// BWE after the first filter, bytes/s.
    pub first: f64,
    /// BWE after the second filter, bytes/s: eq 4 uses it.
    pub second: f64,
    has_sample: bool,
    /// Greatest distances of the algorithm's two from these by rounding, bytes/s. They do not add up, since each sample
    /// replaces an eighth.
    resolution: [f64; 2],
}

impl Cascade {
    /// Returns BWE, if there is one.
    pub fn known(&self) -> Option<f64> {
        self.has_sample.then_some(self.second)
    }

    /// Filters a sample; returns whether it was the first one.
    pub fn add(&mut self, sample: f64) -> bool {
        if !self.has_sample {
            self.has_sample = sample > 0.0;
            (self.first, self.second) = (sample, sample);
            self.resolution = [SAMPLE; 2];
            return true;
        }
        self.first = 7.0 / 8.0 * self.first + 1.0 / 8.0 * sample;
        self.second = 7.0 / 8.0 * self.second + 1.0 / 8.0 * self.first;
        self.resolution[0] = 7.0 / 8.0 * self.resolution[0] + 1.0 / 8.0 * SAMPLE + Q8;
        self.resolution[1] = 7.0 / 8.0 * self.resolution[1] + 1.0 / 8.0 * self.resolution[0] + Q8;
        false
    }

    /// Returns whether rounding decides if a sample is above BWE.
    pub fn ties_with(&self, sample: f64) -> bool {
        (sample - self.second).abs() <= SAMPLE + self.resolution[1]
    }

    /// Compares both stages, in 1/256 byte/s; `Ok(true)`: they agree, but one is more than 0.1 % off.
    pub fn compare(&self, first_q8: u64, second_q8: u64) -> Result<bool, String> {
        let first = compare("first filter", first_q8 as f64 / 256.0, self.first, self.resolution[0])?;
        let second = compare("second filter", second_q8 as f64 / 256.0, self.second, self.resolution[1])?;
        Ok(first || second)
    }
}
