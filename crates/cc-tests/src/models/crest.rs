//! crest's window in f64, from its page (docs/algorithms/crest.md): one slice at a time, from the flow's state before it.

/// What a slice showed, and the flow's state before it.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Rate over the flight of the segment just acknowledged, segments/s.
    pub flight_rate: f64,
    /// Rate over this slice, segments/s.
    pub own_rate: f64,
    /// Rate over this slice and the one before, segments/s.
    pub recent_rate: f64,
    /// Length of the slice, s.
    pub elapsed_s: f64,
    /// Least RTT of the slice, s.
    pub rtt_s: f64,
    /// Least RTT of the path, this slice included, s.
    pub base_s: f64,
    /// W, segments.
    pub window: f64,
    /// Share of the least RTT that bursts add to the queue.
    pub burst: f64,
    /// Share of the queue that losses leave.
    pub room: f64,
    /// Time without a queue, in least RTTs.
    pub empty_rtts: f64,
    /// Segments that W does not exceed, where losses without a queue set a limit.
    pub limit: f64,
    /// Whether more segments were lost than are ignored.
    pub lossy: bool,
}

const TARGET_S: f64 = 0.005;

impl Slice {
    fn least_target_s(&self) -> f64 {
        TARGET_S.max(self.base_s / 8.0)
    }

    fn target_s(&self) -> f64 {
        self.least_target_s() + self.base_s * self.burst
    }

    /// The rate of the model: that of the last flight, in a deep queue that of the last two slices.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let (queue, deep) = (self.rtt_s - self.base_s, 2.0 * self.target_s());
        let recent = self.recent_rate.min(self.flight_rate);
        let share = ((queue - deep) / deep).clamp(0.0, 1.0);
        self.flight_rate * (1.0 - share) + recent * share
    }

    /// W after the slice, of a flow that is past its start and neither probes nor competes, segments.
    #[must_use]
    pub fn window_after(&self) -> f64 {
        let rate = self.rate();
        let least = rate * self.base_s;
        let queue = (rate * self.target_s() + (1.25 * self.window.sqrt()).max(3.0)) * self.room;
        let model = (least + queue).max(1.1 * least + 1.0);
        let low = (self.least_target_s() / 4.0 + 1.0 / self.own_rate).min(self.target_s());
        let mut window = model;
        if self.rtt_s - self.base_s <= low && self.empty_rtts > 0.5 && !self.lossy {
            let growth = (0.25 + self.empty_rtts * 0.25).min(0.5) * self.room;
            let grown = self.window * (1.0 + growth * (self.elapsed_s / self.base_s).min(1.0));
            window = window.max(grown.min(2.0 * model));
        }
        window.min(self.limit).max(4.0)
    }
}
