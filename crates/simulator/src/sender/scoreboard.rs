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
    /// the transmission. An entry becomes invalid when its segment is acknowledged or retransmitted.
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

    /// Returns the first segment from `place` on, in the order of the last transmission, that is in flight, and the
    /// place after it. Drops invalid entries at the front.
    pub fn next_by_time(&mut self, mut place: usize) -> Option<(u64, usize)> {
        loop {
            let &(number, transmission) = self.by_time.get(place)?;
            let valid = self.get(number).filter(|s| s.transmissions == transmission && !s.sacked);
            match valid {
                Some(segment) if !segment.lost || segment.retransmitted => return Some((number, place + 1)),
                None if place == 0 => drop(self.by_time.pop_front()),
                _ => place += 1,
            }
        }
    }

    /// Removes the entry at this place of the order of transmission: until it is retransmitted, RACK does not examine
    /// its segment again, even if the loss is undone.
    pub fn leave_order(&mut self, place: usize) {
        self.by_time.remove(place);
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

#[cfg(test)]
mod tests {
    use super::super::state::Sender;
    use super::super::testing::{MS, MSS, START_MS, ack, sender};
    use super::*;
    use crate::congestion::CaState;
    use crate::packet::{Ack, Content};

    /// Returns the number of segments that are out, SACKed, lost and retransmitted.
    fn counts(sender: &Sender) -> [u32; 4] {
        let sock = &sender.sock;
        [sock.packets_out, sock.sacked_out, sock.lost_out, sock.retrans_out]
    }

    /// Returns the numbers of the segments that were sent since the last call.
    fn sent(sender: &mut Sender) -> Vec<u64> {
        let number = |content| if let Content::Data(data) = content { Some(data.seq / MSS) } else { None };
        sender.out.drain(..).filter_map(number).collect()
    }

    /// Segments 0, 4 and 5 of 20 are lost, and so is the first retransmission of 4. The window is cut from 20 to 10, so
    /// half of what is delivered may be sent: two after the first three SACKs, which is one more than is lost.
    #[test]
    fn the_counts_follow_each_segment_until_it_is_acknowledged() {
        let mut sender = sender(20, Some(20));
        sent(&mut sender);
        let mut step = |at_ms, ack: &Ack| {
            sender.acknowledge((START_MS + at_ms) * MS, ack);
            let in_flight = sender.sock.in_flight();
            (counts(&sender), in_flight, sent(&mut sender))
        };
        assert_eq!(step(100, &ack(0, 1..4, START_MS)), ([20, 3, 1, 1], 17, vec![0]));
        let two = [(6 * MSS, 20 * MSS), (MSS, 4 * MSS), (0, 0)];
        let beyond = Ack { sack: two, blocks: 2, ..ack(0, 0..0, START_MS) };
        assert_eq!(step(101, &beyond), ([20, 17, 3, 3], 3, vec![4, 5]));
        // the retransmission of 0 arrives: 0 to 3 are done, three of them were SACKed
        assert_eq!(step(200, &ack(4, 6..20, START_MS + 100)), ([16, 14, 2, 2], 2, vec![]));
        // that of 5 arrives, but not that of 4, which left before it
        assert_eq!(step(201, &ack(4, 5..20, START_MS + 101)), ([16, 15, 1, 1], 1, vec![4]));
        assert_eq!(step(301, &ack(20, 0..0, START_MS + 201)), ([0, 0, 0, 0], 0, vec![]));
        assert_eq!((sender.sock.delivered, sender.sock.ca_state), (1 + 20, CaState::Open));
        assert_eq!((sender.sock.total_retrans, sender.sock.lost), (4, 4));
    }

    /// A segment is not split: it is acknowledged when all of it is.
    #[test]
    fn a_segment_counts_only_if_all_of_it_is_covered() {
        let mut sender = sender(20, Some(20));
        let part = Ack { cumulative: 1500, sack: [(2500, 4500), (0, 0), (0, 0)], blocks: 1, ..ack(0, 0..0, START_MS) };
        sender.acknowledge((START_MS + 100) * MS, &part);
        assert_eq!(counts(&sender), [19, 1, 0, 0]);
        assert_eq!((sender.una, sender.board.numbers()), (1500, 1..20));
        assert_eq!(sender.board.head().map(|head| (head.seq, head.len)), Some((1000, 1000)));
        let sacked: Vec<u64> = (1..20).filter(|number| sender.board.get(*number).unwrap().sacked).collect();
        assert_eq!(sacked, [3]);
    }

    /// The lowest lost segment is the first to be sent again, whenever its loss was noticed.
    #[test]
    fn lost_segments_are_sent_again_in_their_order() {
        let mut sender = sender(10, Some(10));
        sent(&mut sender);
        for number in [2, 5, 1] {
            sender.mark_lost(number);
        }
        assert_eq!((counts(&sender), sender.sock.in_flight()), ([10, 0, 3, 0], 7));
        sender.sock.snd_cwnd = 9;
        sender.retransmit();
        assert_eq!((counts(&sender), sent(&mut sender)), ([10, 0, 3, 2], vec![1, 2]), "the window is full");
        sender.sock.snd_cwnd = 10;
        sender.retransmit();
        assert_eq!((counts(&sender), sent(&mut sender)), ([10, 0, 3, 3], vec![5]));
        sender.mark_lost(2); // lost again
        sender.mark_lost(0);
        assert_eq!((counts(&sender), sender.sock.in_flight()), ([10, 0, 4, 2], 8));
        sender.retransmit();
        assert_eq!((counts(&sender), sent(&mut sender)), ([10, 0, 4, 4], vec![0, 2]));
        assert_eq!(sender.sock.lost, 5, "a loss of a retransmission is another loss");
        sender.retransmit();
        assert_eq!(sent(&mut sender), [0; 0]);
    }

    /// Segments 0, 1, 2 and 7 are lost. 7 has to wait for the window, and is not forgotten when 9 to 13 are lost, too.
    #[test]
    fn a_later_loss_does_not_hide_an_earlier_one() {
        let mut sender = sender(20, Some(20));
        sent(&mut sender);
        let two = [(8 * MSS, 9 * MSS), (3 * MSS, 7 * MSS), (0, 0)];
        let beyond = Ack { sack: two, blocks: 2, ..ack(0, 0..0, START_MS) };
        sender.acknowledge((START_MS + 100) * MS, &beyond);
        assert_eq!(sent(&mut sender), [0, 1, 2]);
        sender.acknowledge((START_MS + 200) * MS, &ack(7, 8..9, START_MS + 100));
        assert_eq!(sent(&mut sender).first(), Some(&7));
    }

    #[test]
    fn a_segment_that_was_delivered_is_not_lost() {
        let mut sender = sender(10, Some(10));
        sender.acknowledge((START_MS + 100) * MS, &ack(0, 1..3, START_MS));
        sender.mark_lost(1);
        assert_eq!((counts(&sender), sender.sock.lost), ([10, 2, 0, 0], 0));
    }

    /// Returns a scoreboard of four segments, which were sent at 10, 20, 30 and 40 ns.
    fn board() -> Scoreboard {
        let mut board = Scoreboard::default();
        for number in 0..4 {
            let (seq, sent_ns) = (number * MSS, 10 * (number + 1));
            board.push(Segment { seq, len: MSS as u32, sent_ns, transmissions: 1, ..Segment::default() });
        }
        board
    }

    /// Returns the numbers of the segments in the order of transmission.
    fn order(board: &mut Scoreboard) -> Vec<u64> {
        let (mut numbers, mut place) = (Vec::new(), 0);
        while let Some((number, behind)) = board.next_by_time(place) {
            numbers.push(number);
            place = behind;
        }
        numbers
    }

    fn send_again(board: &mut Scoreboard, number: u64, sent_ns: u64) {
        let segment = board.get_mut(number).unwrap();
        segment.sent_ns = sent_ns;
        segment.transmissions += 1;
        segment.retransmitted = true;
        board.moved(number);
    }

    /// `tsorted_sent_queue` holds what may still arrive: a lost segment is not in it until it is sent again.
    #[test]
    fn the_order_of_transmission_has_only_segments_in_flight() {
        let mut board = board();
        assert_eq!(order(&mut board), [0, 1, 2, 3]);
        board.get_mut(1).unwrap().lost = true;
        assert_eq!(order(&mut board), [0, 2, 3]);
        send_again(&mut board, 1, 50);
        assert_eq!(order(&mut board), [0, 2, 3, 1]);
        board.get_mut(2).unwrap().sacked = true;
        assert_eq!(order(&mut board), [0, 3, 1]);
        board.pop();
        assert_eq!(order(&mut board), [3, 1]);
        board.get_mut(1).unwrap().retransmitted = false; // lost again
        assert_eq!(order(&mut board), [3]);
    }

    /// A timeout marks segments where they are; RACK takes those that it marks out of the order.
    #[test]
    fn segments_that_a_timeout_marked_return_to_the_order_when_their_loss_was_no_loss() {
        let mut board = board();
        for number in [0, 1] {
            board.get_mut(number).unwrap().lost = true;
        }
        send_again(&mut board, 0, 50);
        assert_eq!(order(&mut board), [2, 3, 0]);
        board.get_mut(3).unwrap().sacked = true;
        board.iter_mut().for_each(|segment| segment.lost = false);
        assert_eq!(order(&mut board), [1, 2, 0]);
        board.leave_order(0);
        assert_eq!(order(&mut board), [2, 0]);
    }

    #[test]
    fn segments_keep_their_numbers_when_those_before_them_are_removed() {
        let mut board = board();
        assert_eq!([0, 999, 1000, 3999, 4000].map(|seq| board.at(seq)), [0, 0, 1, 3, 4]);
        board.hint = Some(1);
        assert_eq!(board.pop().map(|segment| segment.seq), Some(0));
        assert_eq!((board.numbers(), board.hint), (1..4, Some(1)));
        assert!(board.get(0).is_none() && board.get(4).is_none());
        assert_eq!(board.get(1).map(Segment::end), Some(2000));
        assert_eq!([0, 1999, 2000].map(|seq| board.at(seq)), [1, 1, 2]);
        // `tcp_clean_rtx_queue`: the hint goes with its segment
        assert_eq!(board.pop().map(|segment| segment.seq), Some(1000));
        assert_eq!((board.numbers(), board.hint), (2..4, None));
    }

    #[test]
    fn only_what_the_last_blocks_did_not_cover_is_new() {
        let board = Scoreboard { known: vec![(2000, 4000), (6000, 8000)], ..Scoreboard::default() };
        assert_eq!(board.unknown((1000, 9000)), [(1000, 2000), (4000, 6000), (8000, 9000)]);
        assert_eq!(board.unknown((3000, 7000)), [(4000, 6000)]);
        assert_eq!(board.unknown((4000, 5000)), [(4000, 5000)]);
        assert_eq!(board.unknown((2000, 4000)), []);
    }
}
