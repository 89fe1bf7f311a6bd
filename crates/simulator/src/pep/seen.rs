//! What a router on the path has seen of a flow (bpf/progs/seen.h).

use crate::packet::{REPORTED_RANGES, Range};

/// The bytes of a flow that were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// The byte after the last one in order.
    pub in_order: u64,
    /// Ranges above it, ascending, not touching.
    pub ranges: Vec<Range>,
}

impl Seen {
    /// Begins at a byte: all before it counts as seen.
    pub fn from(in_order: u64) -> Self {
        Self { in_order, ranges: Vec::new() }
    }

    /// `seen_segment`. Returns whether a gap appeared or closed.
    pub fn segment(&mut self, from: u64, to: u64) -> bool {
        to > self.in_order && self.remember((from.max(self.in_order), to))
    }

    /// `seen_acknowledged`: the client has all below `ack`. That closes gaps, up to the highest byte seen.
    pub fn acknowledged(&mut self, ack: u64) {
        let Some(&(_, highest)) = self.ranges.last() else { return };
        if ack > self.in_order {
            self.remember((self.in_order, ack.min(highest)));
        }
    }

    /// `remember`: a fifth range evicts the lowest one.
    fn remember(&mut self, mut added: Range) -> bool {
        let mut touched = usize::from(added.0 == self.in_order);
        self.ranges.retain(|range| {
            let touches = range.0 <= added.1 && added.0 <= range.1;
            if touches {
                added = (added.0.min(range.0), added.1.max(range.1));
                touched += 1;
            }
            !touches
        });
        if added.0 == self.in_order {
            self.in_order = added.1;
        } else {
            let place = self.ranges.partition_point(|range| range.0 < added.0);
            self.ranges.insert(place, added);
            if self.ranges.len() > REPORTED_RANGES {
                self.ranges.remove(0);
            }
        }
        touched != 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_appears_and_closes() {
        let mut seen = Seen::from(100);
        assert!(!seen.segment(100, 200));
        assert!(seen.segment(300, 400), "a gap appears");
        assert!(!seen.segment(400, 500), "the range grows");
        assert!(!seen.segment(250, 300), "and grows downwards");
        assert!(!seen.segment(50, 200), "seen before");
        assert_eq!(seen, Seen { in_order: 200, ranges: vec![(250, 500)] });
        assert!(seen.segment(150, 260), "the gap closes");
        assert_eq!(seen, Seen::from(500));
    }

    #[test]
    fn a_segment_joins_two_ranges() {
        let mut seen = Seen::from(0);
        assert!(seen.segment(10, 20) && seen.segment(30, 40) && seen.segment(20, 30));
        assert_eq!(seen.ranges, [(10, 40)]);
    }

    #[test]
    fn a_fifth_range_evicts_the_lowest() {
        let mut seen = Seen::from(0);
        for start in [50, 20, 40, 30] {
            assert!(seen.segment(start, start + 5));
        }
        assert!(seen.segment(10, 15), "evicted at once");
        assert_eq!(seen.ranges, [(20, 25), (30, 35), (40, 45), (50, 55)]);
        assert!(seen.segment(60, 65));
        assert_eq!(seen.ranges, [(30, 35), (40, 45), (50, 55), (60, 65)]);
    }

    #[test]
    fn the_clients_acks_close_gaps_but_not_beyond_what_was_seen() {
        let mut seen = Seen::from(0);
        seen.acknowledged(10);
        assert_eq!(seen, Seen::from(0), "without a gap, ACKs are not looked at");
        assert!(seen.segment(10, 20) && seen.segment(30, 40));
        seen.acknowledged(25);
        assert_eq!(seen, Seen { in_order: 25, ranges: vec![(30, 40)] });
        seen.acknowledged(1000);
        assert_eq!(seen, Seen::from(40));
    }
}
