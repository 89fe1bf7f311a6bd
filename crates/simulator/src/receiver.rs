//! The receiving half of Linux's TCP (net/ipv4/tcp_input.c, tcp_output.c, 6.12): when it sends ACKs, and their content.

use crate::clock::{JIFFY_NS, jiffies, jiffies_from_us, timer_fires_ns};
use crate::congestion::SACK_BLOCKS;
use crate::packet::{Ack, Data, Range};
use crate::receive_window::ReceiveWindow;
use crate::sender::RTO_MIN_US;
use hotcc_lab_proto::run_record::ReceiverEnd;

/// `TCP_MAX_QUICKACKS`: number of ACKs that are sent immediately at the start, and after duplicates.
const QUICK_ACKS: u32 = 16;
/// Number of quick ACKs after a change of the ECN field.
const QUICK_ACKS_ECN: u32 = 2;
/// `TCP_ATO_MIN` and `TCP_DELACK_MIN`: 40 ms.
const MIN_DELAY_TICKS: u64 = 10;
/// `TCP_DELACK_MAX`: 200 ms.
const MAX_DELAY_TICKS: u64 = 50;
/// `TCP_SACK_BLOCKS_EXPECTED`: a change of any other block ends the compression of ACKs.
const EXPECTED_BLOCKS: usize = 2;
/// `TCP_FASTRETRANS_THRESH`: number of duplicate ACKs before compression starts.
const DUPLICATES_AT_ONCE: u32 = 3;
/// `tcp_comp_sack_nr`.
const MAX_COMPRESSED_ACKS: u32 = 44;
/// `tcp_comp_sack_delay_ns`.
const COMPRESSION_NS: u64 = 1_000_000;
/// The receiver's estimate of the segment size before the first segment.
const FIRST_MSS: u32 = 536;

/// The receivers' clock at the start of the simulation: neither the sender's, nor a whole number of milliseconds.
const CLOCK_START_NS: u64 = 4_000_000_300_000_000;

/// Returns the timestamp that a receiver writes into a packet (`tcp_time_stamp_ms`).
pub(crate) fn clock_ms(now_ns: u64) -> u32 {
    ((CLOCK_START_NS + now_ns) / 1_000_000) as u32
}

/// A receiver. It keeps data that arrived out of order as ranges.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Next byte expected (`rcv_nxt`).
    next: u64,
    /// `rcv_nxt` of the last ACK (`rcv_wup`).
    acknowledged: u64,
    /// Ranges that arrived out of order, by sequence number.
    out_of_order: Vec<Range>,
    /// Ranges to report, the newest first (`selective_acks`).
    reported: Vec<Range>,
    duplicate: Option<Range>,
    /// Timestamp to echo: that of the segment that advanced the window (RFC 7323, section 4.3).
    recent_ms: u32,
    quick: u32,
    /// `lrcvtime`, in jiffies: when data last arrived in order.
    last_data: Option<u64>,
    /// `ato`: how long an ACK may be delayed, in jiffies. It follows the time between segments.
    delay_ticks: u64,
    largest_bytes: u32,
    delayed_ns: Option<u64>,
    compressed: u32,
    compressed_next: u64,
    duplicates: u32,
    compression_ns: Option<u64>,
    window: ReceiveWindow,
    rtt_ns: u64,
    ece: bool,
    /// Whether a segment was ECN-capable.
    has_ecn: bool,
    /// An ACK that has to leave before that of the latest segment.
    flushed: Option<Ack>,
    data_segments: u64,
    out_of_order_segments: u64,
}

impl Receiver {
    /// Creates a receiver that offers this window, over a path with this RTT.
    pub fn new(window: ReceiveWindow, rtt_ns: u64) -> Self {
        Self {
            next: 0,
            acknowledged: 0,
            out_of_order: Vec::new(),
            reported: Vec::new(),
            duplicate: None,
            recent_ms: 0,
            quick: 0,
            last_data: None,
            delay_ticks: MIN_DELAY_TICKS,
            largest_bytes: FIRST_MSS,
            delayed_ns: None,
            compressed: 0,
            compressed_next: 0,
            duplicates: 0,
            compression_ns: None,
            window,
            rtt_ns,
            ece: false,
            has_ecn: false,
            flushed: None,
            data_segments: 0,
            out_of_order_segments: 0,
        }
    }

    /// Returns the bytes received in order.
    pub fn received(&self) -> u64 {
        self.next
    }

    /// Returns the receiver's counters, with what the sender knows.
    pub fn counters(&self, ece_segments: u64) -> ReceiverEnd {
        ReceiverEnd {
            data_segments: self.data_segments,
            out_of_order_segments: self.out_of_order_segments,
            bytes: self.next,
            last_window_bytes: Some(self.window.bytes()),
            ece_segments: Some(ece_segments),
            ..ReceiverEnd::default()
        }
    }

    /// Returns when the next timer fires.
    pub fn next_timer_ns(&self) -> Option<u64> {
        self.delayed_ns.into_iter().chain(self.compression_ns).min()
    }

    /// Takes data that arrive, as ECN-capable segments (`ect`) and marked (`ce`). Returns an ACK if one must be sent
    /// immediately, after that of [`Self::take_flushed`].
    pub fn data(&mut self, now_ns: u64, data: &Data, ect: bool, ce: bool) -> Option<Ack> {
        let (start, end) = (data.seq, data.seq + u64::from(data.len));
        if data.cwr {
            self.ece = false; // `tcp_ecn_accept_cwr`
        }
        self.data_segments += u64::from(data.segments);
        self.window.measure_rtt(clock_ms(now_ns), data.echo_ms);
        if start <= self.acknowledged && self.acknowledged <= end {
            self.recent_ms = data.stamp_ms; // `tcp_replace_ts_recent`
        }
        if end <= self.next {
            // `tcp_data_queue`: an unnecessary retransmission
            self.duplicate = Some((start, end));
            self.enter_quick_mode(QUICK_ACKS);
            return Some(self.ack());
        }
        let had_gap = !self.out_of_order.is_empty();
        let mut ack_now = data.cwr;
        self.check_ecn(ect, ce);
        if start <= self.next {
            self.next = end;
            self.note_in_order(now_ns, data);
            if had_gap {
                self.close_gap();
                ack_now |= self.out_of_order.is_empty(); // RFC 5681, section 4.2: the gap is filled
            }
            self.window.tune(now_ns, self.next);
        } else {
            self.out_of_order_segments += u64::from(data.segments);
            self.add(start, end);
            self.grow_window(data.len);
        }
        // the receiver acknowledges a segment with PSH as soon as the application has read it (`tcp_cleanup_rbuf`)
        let read = data.push && self.out_of_order.is_empty();
        self.check(now_ns, ack_now || read)
    }

    /// Handles timers that have fired. Returns an ACK if one is due.
    pub fn timer(&mut self, now_ns: u64) -> Option<Ack> {
        let due = |at: Option<u64>| at.is_some_and(|at| at <= now_ns);
        if due(self.delayed_ns) {
            // `tcp_delack_timer_handler`: the next segment took longer than expected
            self.delay_ticks = (2 * self.delay_ticks).min(self.rto_ticks());
        }
        (due(self.delayed_ns) || due(self.compression_ns)).then(|| self.ack())
    }

    /// Takes the ACK that has to leave before that of the latest segment, if there is one.
    pub fn take_flushed(&mut self) -> Option<Ack> {
        self.flushed.take()
    }

    /// Returns an ACK of the current state.
    pub fn ack(&mut self) -> Ack {
        if self.quick == 1 {
            self.delay_ticks = MIN_DELAY_TICKS; // `tcp_dec_quickack_mode`
        }
        self.quick = self.quick.saturating_sub(1);
        self.acknowledged = self.next;
        self.delayed_ns = None;
        self.compression_ns = None;
        self.compressed = 0;
        let mut ack = Ack {
            cumulative: self.next,
            echo_ms: self.recent_ms,
            window_end: self.next + self.window.bytes(),
            ece: self.ece,
            ..Ack::default()
        };
        let duplicate = self.duplicate.take();
        ack.is_dsack = duplicate.is_some();
        for range in duplicate.into_iter().chain(self.reported.iter().copied()).take(SACK_BLOCKS) {
            ack.sack[usize::from(ack.blocks)] = range;
            ack.blocks += 1;
        }
        ack
    }

    /// `tcp_event_data_recv`, which the kernel calls for data in order only: while a gap is repaired, the time since the
    /// last such data may exceed the retransmission timeout.
    fn note_in_order(&mut self, now_ns: u64, data: &Data) {
        let full = data.len / data.segments;
        if full > self.largest_bytes {
            self.largest_bytes = full;
            self.window.measure_ratio(data.len);
        }
        let now = jiffies(now_ns);
        match self.last_data.map(|last| now - last) {
            None => self.quick = QUICK_ACKS,
            Some(since) if since <= MIN_DELAY_TICKS / 2 => {
                self.delay_ticks = self.delay_ticks / 2 + MIN_DELAY_TICKS / 2;
            }
            Some(since) if since < self.delay_ticks => {
                self.delay_ticks = (self.delay_ticks / 2 + since).min(self.rto_ticks());
            }
            // the sender should have restarted its window
            Some(since) if since > self.rto_ticks() => self.quick = QUICK_ACKS,
            Some(_) => {}
        }
        self.last_data = Some(now);
        self.grow_window(data.len);
    }

    /// Returns the receiver's own retransmission timeout. Its only sample of the RTT is that of its SYN-ACK.
    fn rto_ticks(&self) -> u64 {
        let rtt_us = self.rtt_ns / 1000;
        jiffies_from_us(rtt_us + (2 * rtt_us).max(RTO_MIN_US.into()))
    }

    /// `tcp_enter_quickack_mode`.
    fn enter_quick_mode(&mut self, acks: u32) {
        self.quick = self.quick.max(acks);
        self.delay_ticks = MIN_DELAY_TICKS;
    }

    /// `__tcp_ecn_check_ce`. A segment that is not ECN-capable is a retransmission if others were.
    fn check_ecn(&mut self, ect: bool, ce: bool) {
        if ce && !self.ece || !ect && self.has_ecn {
            self.enter_quick_mode(QUICK_ACKS_ECN);
        }
        self.ece |= ce;
        self.has_ecn |= ect;
    }

    /// Lets the window grow for a bundle. While the window grows, the receiver stays in quick-ACK mode.
    fn grow_window(&mut self, bundle: u32) {
        let out_of_order = &self.out_of_order;
        if self.window.grow(bundle, || out_of_order.iter().map(|(start, end)| end - start).sum()) {
            self.quick |= 1;
        }
    }

    /// `__tcp_ack_snd_check`.
    fn check(&mut self, now_ns: u64, at_once: bool) -> Option<Ack> {
        let unacknowledged = self.next - self.acknowledged;
        if unacknowledged > u64::from(self.largest_bytes) || self.quick > 0 || at_once {
            return Some(self.ack());
        }
        if self.out_of_order.is_empty() {
            return self.delay(now_ns);
        }
        if self.compressed >= MAX_COMPRESSED_ACKS {
            return Some(self.ack());
        }
        if self.compressed_next != self.next {
            self.compressed_next = self.next;
            self.duplicates = 0;
        }
        if self.duplicates < DUPLICATES_AT_ONCE {
            self.duplicates += 1;
            return Some(self.ack());
        }
        self.compressed += 1;
        if self.compression_ns.is_none() {
            self.compression_ns = Some(now_ns + COMPRESSION_NS.min(self.rtt_ns / 20));
        }
        None
    }

    /// `tcp_send_delayed_ack`.
    fn delay(&mut self, now_ns: u64) -> Option<Ack> {
        let most = jiffies_from_us(self.rtt_ns / 1000).clamp(MIN_DELAY_TICKS, MAX_DELAY_TICKS);
        let ticks = self.delay_ticks.min(most);
        if self.delayed_ns.is_some_and(|at| at <= (jiffies(now_ns) + (ticks >> 2) + 1) * JIFFY_NS) {
            return Some(self.ack()); // the timer is about to expire
        }
        let at = timer_fires_ns(now_ns, ticks);
        self.delayed_ns = Some(self.delayed_ns.map_or(at, |before| before.min(at)));
        None
    }

    /// Adds a range that arrived out of order: merges it with its neighbours, and makes it the first to report
    /// (`tcp_sack_new_ofo_skb`).
    fn add(&mut self, mut start: u64, mut end: u64) {
        if let Some(&known) = self.out_of_order.iter().find(|r| r.0 <= start && end <= r.1) {
            self.duplicate = Some((start, end));
            self.report(known);
            return;
        }
        self.out_of_order.retain(|&(from, to)| {
            let touches = from <= end && start <= to;
            if touches {
                start = start.min(from);
                end = end.max(to);
            }
            !touches
        });
        let at = self.out_of_order.partition_point(|r| r.0 < start);
        self.out_of_order.insert(at, (start, end));
        self.report((start, end));
    }

    /// Makes a range the first to report, and removes ranges within it. A sender takes the first blocks of the latest
    /// ACK for the newest, so compressed ACKs leave before another block comes first.
    fn report(&mut self, range: Range) {
        let place = self.reported.iter().position(|r| r.0 <= range.1 && range.0 <= r.1);
        if self.compressed > 0 && place.unwrap_or(self.reported.len()) >= EXPECTED_BLOCKS {
            self.flushed = Some(self.ack());
        }
        self.reported.retain(|r| r.1 <= range.0 || range.1 <= r.0);
        self.reported.insert(0, range);
        self.reported.truncate(SACK_BLOCKS + 1);
    }

    /// Advances over ranges that are now in order (`tcp_ofo_queue`, `tcp_sack_remove`).
    fn close_gap(&mut self) {
        while let Some(&(start, end)) = self.out_of_order.first() {
            if start > self.next {
                break;
            }
            self.next = self.next.max(end);
            self.out_of_order.remove(0);
        }
        let next = self.next;
        self.reported.retain(|r| r.1 > next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1448;
    const RTT_NS: u64 = 40_000_000;

    fn segment(number: u64) -> Data {
        Data {
            seq: number * u64::from(MSS),
            len: MSS,
            segments: 1,
            stamp_ms: number as u32,
            echo_ms: 0,
            push: false,
            cwr: false,
            is_retransmission: false,
        }
    }

    /// Returns a receiver that has sent its initial quick ACKs.
    fn steady() -> Receiver {
        let mut receiver = Receiver::new(ReceiveWindow::fixed(1 << 30), RTT_NS);
        for number in 0..16 {
            assert!(receiver.data(0, &segment(number), false, false).is_some(), "quick at the start");
        }
        receiver
    }

    #[test]
    fn every_second_segment_is_acknowledged_or_forty_milliseconds_later() {
        let mut receiver = steady();
        assert_eq!(receiver.data(0, &segment(16), false, false), None);
        let ack = receiver.data(1000, &segment(17), false, false).unwrap();
        assert_eq!((ack.cumulative, ack.blocks), (18 * 1448, 0));
        assert_eq!(receiver.data(1_000_000, &segment(18), false, false), None);
        let at = receiver.next_timer_ns().unwrap();
        assert!((41_000_000..=45_000_000).contains(&at), "{at}");
        assert_eq!(receiver.timer(at).unwrap().cumulative, 19 * 1448);
    }

    #[test]
    fn out_of_order_is_acknowledged_at_once_then_compressed() {
        let mut receiver = steady();
        for number in 17..20 {
            assert!(receiver.data(0, &segment(number), false, false).is_some());
        }
        assert_eq!(receiver.data(0, &segment(20), false, false), None);
        let at = receiver.next_timer_ns().unwrap();
        assert_eq!(at, 1_000_000, "at most a millisecond");
        let ack = receiver.timer(at).unwrap();
        assert_eq!(ack.sack[0], (17 * 1448, 21 * 1448));
        let filled = receiver.data(at, &segment(16), false, false).unwrap();
        assert_eq!((filled.cumulative, filled.blocks, filled.echo_ms), (21 * 1448, 0, 16));
    }

    /// `tcp_sack_new_ofo_skb`: the sender must not take an older block for the newest.
    #[test]
    fn compressed_acks_leave_before_a_third_block() {
        let mut receiver = steady();
        for number in [17, 19, 19, 20] {
            receiver.data(0, &segment(number), false, false);
        }
        assert_eq!((receiver.compressed, receiver.take_flushed()), (1, None));
        receiver.data(0, &segment(22), false, false);
        let flushed = receiver.take_flushed().unwrap();
        assert_eq!((flushed.blocks, flushed.sack[0]), (2, (19 * 1448, 21 * 1448)));
    }

    /// `tcp_event_data_recv`, `tcp_delack_timer_handler`: the time of a delayed ACK follows that between segments, up to
    /// the RTT.
    #[test]
    fn an_ack_is_delayed_for_longer_if_segments_are_rare() {
        let mut receiver = Receiver { rtt_ns: 60_000_000, ..steady() };
        let mut delay_ms = |at_ms: u64, number| {
            assert_eq!(receiver.data(at_ms * 1_000_000, &segment(number), false, false), None);
            let at = receiver.next_timer_ns().unwrap();
            receiver.timer(at).unwrap();
            at / 1_000_000 - at_ms
        };
        assert_eq!(delay_ms(0, 16), 44);
        assert_eq!(delay_ms(100, 17), 64, "the timer doubled it, the RTT is less");
    }

    /// `__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr`.
    #[test]
    fn a_change_of_the_ecn_field_is_acknowledged_at_once() {
        let mut receiver = steady();
        assert_eq!(receiver.data(0, &segment(16), true, false), None);
        assert!(receiver.data(0, &segment(17), true, true).unwrap().ece);
        assert!(receiver.data(0, &segment(18), true, true).unwrap().ece, "the second quick ACK");
        assert_eq!(receiver.data(0, &segment(19), true, true), None, "marks as before");
        let reduced = Data { cwr: true, ..segment(20) };
        assert!(!receiver.data(0, &reduced, true, false).unwrap().ece);
        assert!(receiver.data(0, &segment(21), false, false).is_some(), "a retransmission");
    }

    #[test]
    fn the_newest_block_comes_first_and_duplicates_are_reported() {
        let mut receiver = steady();
        receiver.data(0, &segment(18), false, false);
        receiver.data(0, &segment(22), false, false);
        let ack = receiver.data(0, &segment(20), false, false).unwrap();
        assert_eq!(ack.sack, [20, 22, 18].map(|n: u64| (n * 1448, (n + 1) * 1448)));
        let ack = receiver.data(0, &segment(3), false, false).unwrap();
        assert!(ack.is_dsack);
        assert_eq!(ack.sack[0], (3 * 1448, 4 * 1448));
    }

    /// The window of the lab's hosts grows by 124,000 bytes, which takes 43 segments. Then 16 quick ACKs are left: an ACK
    /// consumes one, and the growth replaces it.
    #[test]
    fn quick_acks_last_while_the_window_grows() {
        let mut receiver = Receiver::new(ReceiveWindow::tuned(1_048_576, 67_108_864, MSS, RTT_NS), RTT_NS);
        let mut quick = 0;
        while receiver.data(0, &segment(quick), false, false).is_some() {
            quick += 1;
        }
        let last = receiver.window.bytes();
        assert_eq!(quick, 43 + 16);
        assert!(receiver.data(0, &segment(quick + 1), false, false).is_some(), "every second segment");
        assert_eq!(receiver.data(0, &segment(quick + 2), false, false), None);
        assert_eq!(receiver.window.bytes(), last);
    }

    /// The buffer is tuned after a round trip with more data than in the ones before: the window grows again.
    #[test]
    fn a_faster_sender_gets_quick_acks_again() {
        let mut receiver = Receiver::new(ReceiveWindow::tuned(1_048_576, 67_108_864, MSS, RTT_NS), RTT_NS);
        let at_once = |receiver: &mut Receiver, now_ns: u64, numbers: std::ops::Range<u64>| {
            numbers.filter(|number| receiver.data(now_ns, &segment(*number), false, false).is_some()).count()
        };
        assert_eq!(at_once(&mut receiver, 0, 0..200), 59 + 141 / 2);
        assert_eq!(at_once(&mut receiver, RTT_NS, 200..300), 100, "the first of them ends the round trip");
    }

    #[test]
    fn a_gap_that_was_repaired_late_is_followed_by_quick_acks() {
        let mut receiver = steady();
        receiver.data(0, &segment(17), false, false);
        let rto_ns = receiver.rto_ticks() * JIFFY_NS;
        receiver.data(rto_ns, &segment(18), false, false);
        assert_eq!(receiver.quick, 0);
        receiver.data(rto_ns + JIFFY_NS, &segment(16), false, false);
        assert_eq!(receiver.quick, 15);
    }
}
