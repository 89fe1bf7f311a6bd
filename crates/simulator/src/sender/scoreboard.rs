//! What is sent and not yet acknowledged in order: the kernel's retransmission queue, in whole segments.

use crate::packet::Range;
use std::collections::VecDeque;

/// The connection when a segment was sent (`tcp_rate_skb_sent`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SentState {
    /// When the first segment of the flight was sent.
    pub first_sent_ns: u64,
    /// When `delivered` was last counted; `None` once the segment is delivered.
    pub delivered_ns: Option<u64>,
    /// Segments delivered.
    pub delivered: u32,
    /// Whether the application was the limit.
    pub is_app_limited: bool,
}

/// A segment in flight; names are those of `struct tcp_skb_cb`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    /// First byte.
    pub seq: u64,
    /// Bytes.
    pub len: u32,
    /// When it was last sent.
    pub sent_ns: u64,
    /// Times that it was sent.
    pub transmissions: u32,
    /// The connection when it was last sent.
    pub state: SentState,
    /// `TCPCB_SACKED_ACKED`.
    pub sacked: bool,
    /// `TCPCB_LOST`.
    pub lost: bool,
    /// `TCPCB_SACKED_RETRANS`: a retransmission is in flight.
    pub retransmitted: bool,
    /// `TCPCB_EVER_RETRANS`.
    pub ever_retransmitted: bool,
    /// The end of a write.
    pub push: bool,
}

impl Segment {
    /// The byte behind it.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// `TCPCB_RETRANS`.
    pub fn was_retransmitted(&self) -> bool {
        self.retransmitted || self.ever_retransmitted
    }
}

/// The segments by their numbers, which count from the start of the connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// Number of the first one.
    first: u64,
    /// Segments in the order of their last transmission (`tsorted_sent_queue`): number and which transmission. An entry is
    /// void once its segment is acknowledged, sent again or marked lost.
    by_time: VecDeque<(u64, u32)>,
    /// From where on to look for something to send again (`retransmit_skb_hint`).
    pub hint: Option<u64>,
    /// The byte behind the highest one that SACK covers.
    pub highest_sack: u64,
    /// SACK blocks of the last ACK that had any: what they cover needs no second look (`recv_sack_cache`).
    pub known: Vec<Range>,
}

impl Scoreboard {
    /// Number of the first segment, and that of the next one to be added.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.segments.len() as u64
    }

    /// The segment of that number.
    pub fn get(&self, number: u64) -> Option<&Segment> {
        self.segments.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The segment of that number, to change.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Segment> {
        self.segments.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The first segment.
    pub fn head(&self) -> Option<&Segment> {
        self.segments.front()
    }

    /// All of them, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.segments.iter_mut()
    }

    /// A new segment was sent.
    pub fn push(&mut self, segment: Segment) {
        self.by_time.push_back((self.numbers().end, segment.transmissions));
        self.segments.push_back(segment);
    }

    /// A segment was sent again.
    pub fn moved(&mut self, number: u64) {
        if let Some(segment) = self.get(number) {
            self.by_time.push_back((number, segment.transmissions));
        }
    }

    /// Takes the first segment out.
    pub fn pop(&mut self) -> Option<Segment> {
        let segment = self.segments.pop_front()?;
        if self.hint == Some(self.first) {
            self.hint = None;
        }
        self.first += 1;
        Some(segment)
    }

    /// Number of the first segment that ends behind `seq`.
    pub fn at(&self, seq: u64) -> u64 {
        self.first + self.segments.partition_point(|s| s.end() <= seq) as u64
    }

    /// In the order of the last transmission: the `place`th entry that is not void, with the place behind it. Void entries at
    /// the front are dropped.
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

    /// Marks were taken back: segments that were void in the order of transmission are in it again.
    pub fn rebuild_order(&mut self) {
        let mut order: Vec<(u64, u64, u32)> = (self.first..)
            .zip(&self.segments)
            .filter(|(_, s)| !s.sacked)
            .map(|(number, s)| (s.sent_ns, number, s.transmissions))
            .collect();
        order.sort_unstable();
        self.by_time = order.into_iter().map(|(_, number, transmissions)| (number, transmissions)).collect();
    }

    /// The parts of a block that the blocks of the last ACK did not cover.
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
