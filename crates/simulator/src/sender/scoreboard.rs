//! Segments that were sent and are not yet acknowledged in order: the kernel's retransmission queue, in whole segments.

use crate::packet::Range;
use std::collections::VecDeque;

/// The state of the connection when a segment was sent (`tcp_rate_skb_sent`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentState {
    /// Time at which the first segment of the flight was sent.
    pub first_sent_ns: u64,
    /// Time at which `delivered` was last updated; `None` once the segment is delivered.
    pub delivered_ns: Option<u64>,
    /// Segments delivered.
    pub delivered: u32,
    /// Whether the application limited the sender.
    pub is_app_limited: bool,
}

/// A segment in flight. Names are those of `struct tcp_skb_cb`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    /// First byte.
    pub seq: u64,
    /// Number of bytes.
    pub len: u32,
    /// Time of its last transmission.
    pub sent_ns: u64,
    /// Number of transmissions.
    pub transmissions: u32,
    /// The state of the connection at its last transmission.
    pub state: SentState,
    /// `TCPCB_SACKED_ACKED`.
    pub sacked: bool,
    /// `TCPCB_LOST`.
    pub lost: bool,
    /// `TCPCB_SACKED_RETRANS`: a retransmission is in flight.
    pub retransmitted: bool,
    /// `TCPCB_EVER_RETRANS`.
    pub ever_retransmitted: bool,
    /// Whether this is the end of a write.
    pub push: bool,
}

impl Segment {
    /// Returns the byte after the segment.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// `TCPCB_RETRANS`.
    pub fn was_retransmitted(&self) -> bool {
        self.retransmitted || self.ever_retransmitted
    }
}

/// The segments, by their numbers. Numbers count from the start of the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// Number of the first segment.
    first: u64,
    /// Segments in the order of their last transmission (`tsorted_sent_queue`): the segment's number, and the number of
    /// the transmission. An entry becomes invalid when its segment is acknowledged, retransmitted or marked lost.
    by_time: VecDeque<(u64, u32)>,
    /// Number of the segment from which to look for segments to retransmit (`retransmit_skb_hint`).
    pub hint: Option<u64>,
    /// The byte after the highest one that SACK covers.
    pub highest_sack: u64,
    /// SACK blocks of the last ACK that had any. What they cover need not be processed again (`recv_sack_cache`).
    pub known: Vec<Range>,
}

impl Scoreboard {
    /// Returns the number of the first segment, and the number of the next segment to be added.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.segments.len() as u64
    }

    /// Returns the segment with this number.
    pub fn get(&self, number: u64) -> Option<&Segment> {
        self.segments.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Returns the segment with this number, for changes.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Segment> {
        self.segments.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Returns the first segment.
    pub fn head(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// Returns all segments, for changes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.segments.iter_mut()
    }

    /// Adds a segment that was sent.
    pub fn push(&mut self, segment: Segment) {
        self.by_time.push_back((self.numbers().end, segment.transmissions));
        self.segments.push_back(segment);
    }

    /// Moves a segment that was retransmitted to the end of the order of transmission.
    pub fn moved(&mut self, number: u64) {
        if let Some(segment) = self.get(number) {
            self.by_time.push_back((number, segment.transmissions));
        }
    }

    /// Removes the first segment, and returns it.
    pub fn pop(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        if self.hint == Some(self.first) {
            self.hint = None;
        }
        self.first += 1;
        Some(segment)
    }

    /// Returns the number of the first segment that ends after `seq`.
    pub fn at(&self, seq: u64) -> u64 {
        self.first + self.segments.partition_point(|s| s.end() <= seq) as u64
    }

    /// Returns the first valid entry from `place` on, in the order of the last transmission, and the place after it.
    /// Drops invalid entries at the front.
    pub fn next_by_time(&mut self, mut place: usize) -> Option<(u64, usize)> {
        loop {
            let &(number, transmission) = self.by_time.get(place)?;
            let valid = self
                .get(number)
                .is_some_and(|s| s.transmissions == transmission && !s.sacked && (!s.lost || s.retransmitted));
            if valid {
                return Some((number, place + 1));
            }
            if place == 0 {
                self.by_time.pop_front();
            } else {
                place += 1;
            }
        }
    }

    /// Rebuilds the order of transmission after loss marks were removed, which makes these segments' entries valid
    /// again.
    pub fn rebuild_order(&mut self) {
        let mut order: Vec<(u64, u64, u32)> = (self.first..)
            .zip(&self.segments)
            .filter(|(_, s)| !s.sacked)
            .map(|(number, s)| (s.sent_ns, number, s.transmissions))
            .collect();
        order.sort_unstable();
        self.by_time = order.into_iter().map(|(_, number, transmissions)| (number, transmissions)).collect();
    }

    /// Returns the parts of a block that the blocks of the last ACK did not cover.
    pub fn unknown(&self, block: Range) -> Vec<Range> {
        let mut parts = Vec::new();
        let mut from = block.0;
        while from < block.1 {
            if let Some(known) = self.known.iter().find(|k| k.0 <= from && from < k.1) {
                from = known.1;
                continue;
            }
            let next = self.known.iter().map(|k| k.0).filter(|start| *start > from).min();
            let until = next.map_or(block.1, |start| start.min(block.1));
            parts.push((from, until));
            from = until;
        }
        parts
    }
}
