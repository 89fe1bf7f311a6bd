//! A PEP's reports of a flow, in sequence numbers relative to the flow's own.

use bytemuck::Zeroable as _;
use hotcc_abi::pep::PepFlow;
use hotcc_host_algo::View;

/// A place in the sequence space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum At {
    /// This many bytes above `snd_una`.
    Una(i32),
    /// This many bytes above `snd_nxt`.
    Nxt(i32),
    /// This many permille of the bytes in flight above `snd_una`.
    Share(u16),
}

impl At {
    /// Returns its sequence number.
    #[must_use]
    pub fn sequence(self, sock: &View) -> u32 {
        match self {
            Self::Una(bytes) => sock.snd_una.wrapping_add_signed(bytes),
            Self::Nxt(bytes) => sock.snd_nxt.wrapping_add_signed(bytes),
            Self::Share(permille) => {
                let flight = u64::from(sock.snd_nxt.wrapping_sub(sock.snd_una));
                sock.snd_una.wrapping_add((flight * u64::from(permille) / 1000) as u32)
            }
        }
    }
}

/// Start and end of a range.
pub type Stretch = (At, At);

/// A PEP's report of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Next sequence number that it expects.
    pub in_order: At,
    /// Ranges that it saw above that.
    pub ranges: [Stretch; 4],
    /// Number of ranges that it reports.
    pub range_count: u32,
    /// Least RTT between sender and PEP, microseconds; 0: not known.
    pub rtt_us: u32,
    /// Age now, ms; negative: from the future.
    pub age_ms: i32,
    /// Whether the writer has not finished.
    pub writing: bool,
}

impl Report {
    /// Returns a report that all bytes up to here arrived in order.
    #[must_use]
    pub fn up_to(in_order: At) -> Self {
        Self { in_order, ranges: [(At::Una(0), At::Una(0)); 4], range_count: 0, rtt_us: 0, age_ms: 0, writing: false }
    }

    /// Returns the report with these ranges.
    #[must_use]
    pub fn with(mut self, ranges: &[Stretch]) -> Self {
        for (place, range) in self.ranges.iter_mut().zip(ranges) {
            *place = *range;
        }
        self.range_count = ranges.len() as u32;
        self
    }

    /// Returns the report as the storage holds it after this many updates.
    #[must_use]
    pub fn flow(&self, sock: &View, updates: u32) -> PepFlow {
        let mut flow = PepFlow::zeroed();
        flow.updates = updates + u32::from(self.writing);
        flow.in_order = self.in_order.sequence(sock);
        for (place, (start, end)) in flow.ranges.iter_mut().zip(self.ranges) {
            (place.start, place.end) = (start.sequence(sock), end.sequence(sock));
        }
        flow.range_count = self.range_count;
        flow.rtt_us = self.rtt_us;
        flow.time_ns = aged_ns(sock.now_us, self.age_ms);
        flow
    }
}

/// Returns the time this long ago, but not before the clock's start.
#[must_use]
pub fn aged_ns(now_us: u64, age_ms: i32) -> u64 {
    (now_us * 1000).saturating_add_signed(-i64::from(age_ms) * 1_000_000)
}
