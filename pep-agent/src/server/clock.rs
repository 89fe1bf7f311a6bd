//! How far the clocks of a border and of this host are apart.

/// How long a measurement of the clocks' distance is as good as a new one: they drift apart by 50 us/s at the most.
const CLOCK_SPAN_US: u64 = 10_000_000;

/// A measurement of the way to a border and back.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// There and back.
    pub rtt_us: u64,
    /// Our clock less the border's.
    pub offset_us: i64,
}

/// Our clock and a border's: by the quickest answer of the last ten to twenty seconds, in which the two can have
/// misjudged each other least.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    current: Sample,
    previous: Sample,
    since_us: u64,
}

impl Clock {
    /// By that measurement alone.
    #[must_use]
    pub fn new(sample: Sample, now_us: u64) -> Self {
        Self { current: sample, previous: sample, since_us: now_us }
    }

    /// Another measurement, of now.
    pub fn add(&mut self, sample: Sample, now_us: u64) {
        if now_us - self.since_us >= CLOCK_SPAN_US {
            *self = Self { current: sample, previous: self.current, since_us: now_us };
        } else if sample.rtt_us <= self.current.rtt_us {
            self.current = sample;
        }
    }

    fn best(&self) -> Sample {
        if self.previous.rtt_us < self.current.rtt_us { self.previous } else { self.current }
    }

    /// Least time to the border and back, microseconds.
    #[must_use]
    pub fn rtt_us(&self) -> u32 {
        self.best().rtt_us.min(u32::MAX.into()) as u32
    }

    /// A moment of the border's clock by ours, microseconds; never later than now.
    #[must_use]
    pub fn ours(&self, border_us: u64, now_us: u64) -> u64 {
        border_us.saturating_add_signed(self.best().offset_us).min(now_us)
    }
}
