//! crest's window in f64, from its page (docs/algorithms/crest.md): one slice at a time, from the flow's state before
//! it.

use super::crest_rounds::least_target_s;

/// A slice's measurements, and the flow's state before it.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Rate over the flight of the segment just acknowledged, segments/s.
    pub acked_rate: f64,
    /// RTT of that segment, s.
    pub acked_rtt_s: f64,
    /// Most segments in flight in the latest round trip.
    pub most_in_flight: f64,
    /// Rate over this slice, segments/s.
    pub own_rate: f64,
    /// Rate over this slice and the one before, segments/s.
    pub recent_rate: f64,
    /// Length of the slice, s.
    pub elapsed_s: f64,
    /// Least RTT of the slice, without the time that its last ACK waited, s.
    pub rtt_s: f64,
    /// Least RTT of the path, this slice included, s.
    pub base_s: f64,
    /// Time that ACKs wait on the way back, at its recent most, s.
    pub wait_s: f64,
    /// W, segments.
    pub window: f64,
    /// Queue that bursts add, as a share of the least RTT.
    pub burst: f64,
    /// Share of the queue that is left after losses and marks.
    pub room: f64,
    /// Time without a queue, in least RTTs.
    pub empty_rtts: f64,
    /// Upper limit of W if losses without a queue set one, segments.
    pub limit: f64,
    /// Share of segments lost, averaged over four rounds.
    pub lost: f64,
    /// Whether this is more than is ignored.
    pub lossy: bool,
    /// The signal's forecast of the rate, segments/s, and its weight.
    pub forecast: Option<(f64, f64)>,
    /// The longest queue of a flow that competes, s.
    pub trial_s: Option<f64>,
}

/// 2^30 in units of 1/256 segments.
pub(super) const MOST_SEGMENTS: f64 = 4_194_304.0;

impl Slice {
    /// Returns the queue that is wanted, s.
    #[must_use]
    pub fn target_s(&self) -> f64 {
        least_target_s(self.base_s) + self.base_s * self.burst
    }

    /// Returns a measured rate, corrected by the signal's forecast.
    fn expected(&self, rate: f64) -> f64 {
        let Some((forecast, weight)) = self.forecast else { return rate };
        let lowest = if self.empty_rtts < 1.0 { -4.0 } else { 0.0 };
        rate * (weight * (forecast / rate).log2().clamp(lowest, 1.0)).exp2()
    }

    /// Returns the rate over a flight. Where segments arrive in bunches, the segment just acknowledged may have left when
    /// few were in flight; so, unless the queue is longer than wanted, it is that of a full flight, but at most that of
    /// the last two slices.
    #[must_use]
    pub fn flight_rate(&self) -> f64 {
        let full =
            if self.rtt_s - self.base_s <= self.target_s() { self.most_in_flight / self.acked_rtt_s } else { 0.0 };
        self.acked_rate.max(full.min(self.recent_rate))
    }

    /// Returns the model's rate: that of the last flight, or, in a deep queue, that of the last two slices.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let (queue, deep) = (self.rtt_s - self.base_s, 2.0 * self.target_s());
        if self.trial_s.is_some() {
            return self.expected(self.flight_rate());
        }
        let recent = self.expected(self.recent_rate.min(self.acked_rate));
        let share = ((queue - deep) / deep).clamp(0.0, 1.0);
        self.expected(self.flight_rate()) * (1.0 - share) + recent * share
    }

    /// Returns W after the slice, for a flow that is past its start and neither probes nor competes, segments; of one that
    /// competes, the most that W may be.
    #[must_use]
    pub fn window_after(&self) -> f64 {
        let rate = self.rate();
        let path_s = self.base_s + self.wait_s;
        let least = rate * path_s;
        let queue = (rate * self.trial_s.unwrap_or(self.target_s()) + (1.25 * self.window.sqrt()).max(3.0)) * self.room;
        let model = match (self.room * 255.0).round() {
            left if left < 3.0 => least * (15.0 + left) / 16.0 + 1.0, // marks have taken more than losses can
            _ => (least + queue).max(1.1 * least + 1.0),
        };
        let low = (least_target_s(self.base_s) / 4.0 + 1.0 / self.own_rate).min(self.target_s());
        let mut window = model;
        let slice_rtts = (self.elapsed_s / path_s).min(1.0);
        if self.rtt_s - self.base_s <= low && self.trial_s.is_none() {
            if self.empty_rtts > 0.5 && !self.lossy && self.window < 2.0 * self.most_in_flight {
                let growth = (0.25 + self.empty_rtts * 0.25).min(0.5) * self.room;
                window = window.max((self.window * (1.0 + growth * slice_rtts)).min(2.0 * model));
            }
            if self.room * 255.0 > 2.5 && (0.0025..=0.09).contains(&self.lost) {
                window = window.max(self.window * (1.0 - slice_rtts / 4.0));
            }
        }
        window.min(self.limit).clamp(4.0, MOST_SEGMENTS)
    }
}

/// A flow's knowledge of the way back before a slice.
#[derive(Clone, Copy, Debug)]
pub struct WayBack {
    /// How much longer than the least time it took from the stamp of the slice's last ACK to its arrival, ms.
    pub late_ms: f64,
    /// Queue of that ACK's round trip, ms.
    pub queue_ms: f64,
    /// Length of the slice, ms.
    pub elapsed_ms: f64,
    /// Slices on end in which the least time hardly moved, at most 8.
    pub sure: u64,
}

impl WayBack {
    /// Returns how long that ACK waited on the way back, ms, and `sure` after the slice.
    #[must_use]
    pub fn wait_ms(&self) -> (f64, u64) {
        let inside_ms = self.late_ms.clamp(0.0, self.queue_ms + 2.0);
        match (self.late_ms - inside_ms).abs() <= self.elapsed_ms / 4.0 {
            false => (0.0, 0),
            true if self.sure < 8 => (0.0, self.sure + 1),
            true => ((inside_ms - 1.0).clamp(0.0, self.queue_ms), 8),
        }
    }
}

/// A flow's knowledge of its signal before a slice: all values are log2, and histories begin with the latest slice.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// Mean of rate over reading.
    pub level: Option<f64>,
    /// Mean square of the errors of the forecast.
    pub error_with: f64,
    /// Mean square of the errors of "no change".
    pub error_without: f64,
    /// Rates of the last four slices.
    pub rates: [Option<f64>; 4],
    /// Readings at their ends.
    pub readings: [Option<f64>; 4],
    /// Whether there was a queue in them.
    pub queued: [bool; 4],
}

const LEARNED_SLICES: f64 = 64.0;
const WORST_ERROR: f64 = 2000.0 / 1024.0;
const FIRST_ERROR: f64 = 1000.0 / 8192.0;

impl Signal {
    /// Returns the knowledge after a slice at `rate`, at whose end the reading is `now`.
    #[must_use]
    pub fn after(mut self, rate: f64, now: Option<f64>, queued: bool) -> Self {
        // the segments that were just acknowledged were served two slices ago, and sent four slices ago
        let (busy, past) = (queued && self.queued[3], (self.readings[1], self.readings[3], self.rates[3]));
        let (Some(_), (Some(served), Some(left), Some(before))) = (now, past) else { return self };
        let level = rate - served;
        let known = match self.level {
            None if !busy => return self,
            None => {
                self.error_with = FIRST_ERROR;
                self.error_without = if self.error_without > 0.0 { self.error_without } else { FIRST_ERROR };
                level
            }
            // without a queue, the rate can only show that the link can do more
            Some(known) if !busy && level <= known => return self,
            Some(known) => known,
        };
        let learn = |mean: &mut f64, error: f64| {
            *mean += (error.clamp(-WORST_ERROR, WORST_ERROR).powi(2) - *mean) / LEARNED_SLICES;
        };
        learn(&mut self.error_with, rate - known - left);
        if busy {
            learn(&mut self.error_without, rate - before);
        }
        self.level = Some(known + (level - known) / if busy { LEARNED_SLICES } else { 4.0 });
        self
    }

    /// Returns the weight of the forecast.
    #[must_use]
    pub fn weight(&self) -> f64 {
        let (with, without) = (self.error_with.powi(2), self.error_without.powi(2));
        without / (with + without)
    }
}
