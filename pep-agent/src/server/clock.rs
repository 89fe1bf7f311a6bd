//! The offset between the clocks of a border and of this host.

/// How long a measurement of the clocks' offset is as good as a new one: the clocks drift apart by at most 50 us/s.
const CLOCK_SPAN_US: u64 = 10_000_000;

/// A measurement of the round trip to a border.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The round-trip time.
    pub rtt_us: u64,
    /// This host's clock minus the border's.
    pub offset_us: i64,
}

/// The relation of this host's clock to a border's, from the answer with the shortest round trip of the last 10 to 20
/// seconds, whose offset has the smallest possible error.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    current: Sample,
    previous: Sample,
    since_us: u64,
}

impl Clock {
    /// Starts with one measurement.
    #[must_use]
    pub fn new(sample: Sample, now_us: u64) -> Self {
        Self { current: sample, previous: sample, since_us: now_us }
    }

    /// Adds a measurement made at `now_us`.
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

    /// Returns the shortest round trip to the border, microseconds.
    #[must_use]
    pub fn rtt_us(&self) -> u32 {
        self.best().rtt_us.min(u32::MAX.into()) as u32
    }

    /// Converts a time of the border's clock to this host's clock, microseconds; never later than `now_us`.
    #[must_use]
    pub fn ours(&self, border_us: u64, now_us: u64) -> u64 {
        border_us.saturating_add_signed(self.best().offset_us).min(now_us)
    }
}
