//! Delivery rate samples (net/ipv4/tcp_rate.c; draft-cheng-iccrg-delivery-rate-estimation).

use super::scoreboard::{Segment, SentState};
use super::state::Sender;

/// Returns the time between two instants on the kernel's microsecond clock.
pub(super) fn us_between(from_ns: u64, to_ns: u64) -> u64 {
    (to_ns / 1000).saturating_sub(from_ns / 1000)
}

/// `tcp_skb_sent_after`.
pub(super) fn sent_after(a: (u64, u64), b: (u64, u64)) -> bool {
    (a.0 / 1000, a.1) > (b.0 / 1000, b.1)
}

impl Sender {
    /// Returns the state that a segment which is sent now has to remember.
    pub(super) fn state_to_remember(&mut self, sent_ns: u64) -> SentState {
        if self.sock.packets_out == 0 {
            self.first_sent_ns = sent_ns;
            self.sock.delivered_ns = sent_ns;
        }
        SentState {
            first_sent_ns: self.first_sent_ns,
            delivered_ns: Some(self.sock.delivered_ns),
            delivered: self.sock.delivered,
            is_app_limited: self.sock.app_limited != 0,
        }
    }

    /// `tcp_rate_skb_delivered`.
    pub(super) fn rate_delivered(&mut self, segment: &Segment) {
        let Some(delivered_ns) = segment.state.delivered_ns else { return };
        let sample = &mut self.sample;
        let newest = (self.first_sent_ns, sample.last_end);
        if sample.prior_delivered == 0 || sent_after((segment.sent_ns, segment.end()), newest) {
            sample.prior_delivered = segment.state.delivered;
            sample.prior_ns = Some(delivered_ns);
            sample.is_app_limited = segment.state.is_app_limited;
            sample.is_retrans = segment.was_retransmitted();
            sample.last_end = segment.end();
            self.first_sent_ns = segment.sent_ns;
            sample.sent_interval_us = us_between(segment.state.first_sent_ns, segment.sent_ns);
        }
    }

    /// `tcp_rate_gen`: returns the sample for the congestion control.
    pub(super) fn rate_sample(&mut self, delivered: u32, losses: u32) -> crate::congestion::RateSample {
        let now_ns = self.sock.now_ns;
        if self.sock.app_limited != 0 && self.sock.delivered.wrapping_sub(self.sock.app_limited).cast_signed() > 0 {
            self.sock.app_limited = 0;
        }
        if delivered > 0 {
            self.sock.delivered_ns = now_ns;
        }
        let sample = self.sample;
        let mut made = crate::congestion::RateSample {
            prior_ns: sample.prior_ns.unwrap_or_default(),
            prior_delivered: sample.prior_delivered,
            delivered: -1,
            interval_us: -1,
            rtt_us: sample.rtt_us.map_or(-1, i64::from),
            losses,
            acked_sacked: delivered,
            prior_in_flight: sample.prior_in_flight,
            is_app_limited: sample.is_app_limited,
            is_retrans: sample.is_retrans,
            is_ack_delayed: sample.is_ack_delayed,
        };
        if let Some(prior_ns) = sample.prior_ns {
            made.delivered = self.sock.delivered.wrapping_sub(sample.prior_delivered).cast_signed();
            let interval_us = us_between(prior_ns, now_ns).max(sample.sent_interval_us);
            // an interval shorter than the minimum RTT comes from segments whose ACKs arrived together
            if interval_us >= u64::from(self.sock.min_rtt_us) {
                made.interval_us = interval_us.cast_signed();
                self.keep_rate(made.delivered, interval_us as u32, made.is_app_limited);
            }
        }
        made
    }

    /// The end of `tcp_rate_gen`: of samples that the application limited, only a higher rate counts.
    fn keep_rate(&mut self, delivered: i32, interval_us: u32, is_app_limited: bool) {
        let sock = &mut self.sock;
        let delivered = delivered.unsigned_abs();
        let product = |segments: u32, us: u32| u64::from(segments) * u64::from(us);
        if !is_app_limited || product(delivered, sock.rate_interval_us) >= product(sock.rate_delivered, interval_us) {
            (sock.rate_delivered, sock.rate_interval_us) = (delivered, interval_us);
        }
    }

    /// `tcp_rate_check_app_limited`: called when the application writes; notes whether the write came late.
    pub(super) fn check_app_limited(&mut self) {
        let unsent = self.written.saturating_sub(self.next);
        let sock = &mut self.sock;
        if unsent < u64::from(sock.mss) && sock.in_flight() < sock.snd_cwnd && sock.lost_out <= sock.retrans_out {
            sock.app_limited = sock.delivered.wrapping_add(sock.in_flight()).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, MSS, START_MS, ack, sender};
    use super::*;
    use crate::congestion::{CongestionControl, RateSample, Sock};
    use crate::packet::Ack;
    use std::cell::Cell;
    use std::rc::Rc;

    /// A congestion control that keeps the window and shows the last sample.
    struct Shows(Rc<Cell<RateSample>>);

    impl CongestionControl for Shows {
        fn init(&mut self, _sock: &mut Sock) {}

        fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
            sock.snd_cwnd
        }

        fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
            sock.snd_cwnd
        }

        fn cong_control(&mut self, _sock: &mut Sock, sample: &RateSample) -> bool {
            self.0.set(*sample);
            true
        }
    }

    /// A sender with a window of ten segments, and its last sample. The ten were sent at 1000 ms, when the SYN was all
    /// that had been delivered.
    struct Sampled {
        sender: Sender,
        last: Rc<Cell<RateSample>>,
    }

    impl Sampled {
        fn new(segments: Option<u64>) -> Self {
            let (mut sender, last) = (sender(10, segments), Rc::default());
            sender.cc = Box::new(Shows(Rc::clone(&last)));
            Self { sender, last }
        }

        /// Returns the sample of an ACK that arrives `at_ms` after the start.
        fn after(&mut self, at_ms: u64, ack: &Ack) -> RateSample {
            self.sender.acknowledge((START_MS + at_ms) * MS, ack);
            self.last.get()
        }
    }

    /// Returns the segments, and the length of the interval in ms.
    fn rate(sample: &RateSample) -> (i32, i64) {
        assert_eq!(sample.interval_us % 1000, 0);
        (sample.delivered, sample.interval_us / 1000)
    }

    /// The first ten segments were sent at once: their send interval is 0, so the time of the ACKs counts. The next
    /// nine leave 150 ms after those whose ACK let them leave, and their own ACK comes 100 ms later.
    #[test]
    fn a_sample_spans_the_longer_of_the_send_and_the_ack_interval() {
        let mut flow = Sampled::new(None);
        assert_eq!(rate(&flow.after(120, &ack(2, 0..0, START_MS))), (2, 120));
        assert_eq!(rate(&flow.after(130, &ack(4, 0..0, START_MS))), (4, 130));

        let mut flow = Sampled::new(None);
        assert_eq!(rate(&flow.after(150, &ack(9, 0..0, START_MS))), (9, 150));
        assert_eq!(flow.sender.next, 19 * MSS);
        let compressed = flow.after(250, &ack(19, 0..0, START_MS + 150));
        assert_eq!(compressed.prior_ns, (START_MS + 150) * MS);
        assert_eq!(rate(&compressed), (10, 150), "not the 100 ms between the ACKs");
    }

    /// The SYN and two segments were delivered when segment 10 was sent; only the SYN when the eight before it were.
    #[test]
    fn the_sample_is_that_of_the_acknowledged_segment_that_was_sent_last() {
        let mut flow = Sampled::new(None);
        flow.after(100, &ack(2, 0..0, START_MS));
        let sample = flow.after(210, &ack(11, 0..0, START_MS + 100));
        assert_eq!((sample.prior_delivered, sample.prior_ns), (3, (START_MS + 100) * MS));
        assert_eq!(rate(&sample), (9, 110)); // 12 - 3
        assert!(!sample.is_retrans);
    }

    /// Segment 0 is sent again at 1100 ms, after the SYN and segments 1 to 3 were delivered. Segments 4 to 9 have
    /// higher numbers, but left at 1000 ms.
    #[test]
    fn a_retransmission_counts_as_sent_when_it_was_sent_again() {
        let mut flow = Sampled::new(None);
        flow.after(100, &ack(0, 1..4, START_MS));
        assert_eq!(flow.sender.sock.total_retrans, 1);
        let sample = flow.after(220, &ack(10, 0..0, START_MS + 100));
        assert_eq!((sample.prior_delivered, sample.is_retrans), (4, true));
        assert_eq!(rate(&sample), (7, 120)); // 11 - 4
    }

    /// A segment that SACK covered gave its sample then.
    #[test]
    fn a_segment_gives_one_sample() {
        let mut flow = Sampled::new(Some(10));
        let first = flow.after(100, &ack(0, 1..3, START_MS));
        assert_eq!((first.prior_delivered, first.acked_sacked, rate(&first)), (1, 2, (2, 100)));
        // nothing new: the kernel has no time from which to measure
        let none = flow.after(101, &ack(0, 1..3, START_MS));
        assert_eq!((none.acked_sacked, none.delivered, none.interval_us), (0, -1, -1));
        let second = flow.after(130, &ack(3, 0..0, START_MS));
        assert_eq!((second.acked_sacked, rate(&second)), (1, (3, 130)));
    }

    /// With nothing in flight, the network had nothing to deliver. The interval begins with the next segment.
    #[test]
    fn a_sample_leaves_out_the_time_without_segments_in_flight() {
        let mut flow = Sampled::new(Some(10));
        flow.after(100, &ack(10, 0..0, START_MS));
        flow.sender.sock.now_ns = (START_MS + 5000) * MS;
        flow.sender.written += 3 * MSS;
        flow.sender.push();
        assert_eq!(rate(&flow.after(5100, &ack(13, 0..0, START_MS + 5000))), (3, 100));
    }

    #[test]
    fn an_interval_below_the_least_rtt_gives_no_sample() {
        let mut sender = sender(10, None);
        let first = *sender.board.get(0).unwrap();
        sender.sock.now_ns = (START_MS + 100) * MS;
        sender.sock.delivered += 1;
        sender.rate_delivered(&first);
        for (min_rtt_us, interval_us) in [(99_999, 100_000), (100_000, 100_000), (100_001, -1)] {
            sender.sock.min_rtt_us = min_rtt_us;
            let sample = sender.rate_sample(1, 0);
            assert_eq!((sample.delivered, sample.interval_us), (1, interval_us), "{min_rtt_us}");
        }
    }

    /// The connection starts limited, because the application had written nothing before its first write. At 1310 ms,
    /// it has nothing unsent, 18 segments are delivered and five are in flight: the limit holds until more than 23 are
    /// delivered.
    #[test]
    fn a_sample_is_limited_by_the_application_if_its_segment_was_sent_while_limited() {
        let mut flow = Sampled::new(None);
        assert!(flow.after(100, &ack(2, 0..0, START_MS)).is_app_limited, "the first flight");
        assert_eq!(flow.sender.sock.app_limited, 0);
        assert!(!flow.after(200, &ack(12, 0..0, START_MS + 100)).is_app_limited);
        assert_eq!(flow.sender.next, 22 * MSS);

        flow.sender.written = flow.sender.next;
        flow.after(300, &ack(17, 0..0, START_MS + 200));
        flow.sender.sock.now_ns = (START_MS + 310) * MS;
        flow.sender.check_app_limited();
        flow.sender.written += 2 * MSS;
        flow.sender.push();
        assert_eq!((flow.sender.sock.delivered, flow.sender.sock.app_limited), (18, 23));

        let before = flow.after(350, &ack(22, 0..0, START_MS + 200));
        assert!(!before.is_app_limited, "segment 21 was sent before the pause");
        assert_eq!((flow.sender.sock.delivered, flow.sender.sock.app_limited), (23, 23));
        assert!(flow.after(410, &ack(23, 0..0, START_MS + 310)).is_app_limited, "segment 22 was the first after it");
        assert_eq!((flow.sender.sock.delivered, flow.sender.sock.app_limited), (24, 0));
    }

    /// The sender is limited if it has less than a segment to send, and if neither the window nor a lost segment that
    /// it has to send again keeps it busy. The SYN is delivered, and ten segments are out.
    #[test]
    fn a_write_comes_late_if_nothing_else_held_the_sender_back() {
        let limit = |unsent, cwnd, lost, retransmitted| {
            let mut sender = sender(10, Some(10));
            sender.written += unsent;
            sender.sock.snd_cwnd = cwnd;
            sender.sock.lost_out = lost;
            sender.sock.retrans_out = retransmitted;
            sender.sock.app_limited = 0;
            sender.check_app_limited();
            sender.sock.app_limited
        };
        assert_eq!(limit(0, 11, 0, 0), 1 + 10);
        assert_eq!(limit(MSS - 1, 11, 0, 0), 1 + 10);
        assert_eq!(limit(MSS, 11, 0, 0), 0);
        assert_eq!(limit(0, 10, 0, 0), 0);
        assert_eq!(limit(0, 11, 2, 1), 0);
        assert_eq!(limit(0, 11, 2, 2), 1 + 10);
    }

    /// Of the application's limited samples, only those count that do not lower the rate.
    #[test]
    fn the_connection_keeps_the_rate_of_the_last_sample_that_says_what_the_path_delivers() {
        let mut sender = sender(10, Some(10));
        let mut kept = |delivered, interval_us, is_limited| {
            sender.keep_rate(delivered, interval_us, is_limited);
            (sender.sock.rate_delivered, sender.sock.rate_interval_us)
        };
        assert_eq!(kept(10, 1000, true), (10, 1000), "the first one");
        assert_eq!(kept(9, 1000, true), (10, 1000));
        assert_eq!(kept(20, 2000, true), (20, 2000), "as high");
        assert_eq!(kept(4, 1000, false), (4, 1000));
    }

    #[test]
    fn times_are_those_of_a_microsecond_clock() {
        assert_eq!((us_between(1_999, 2_000), us_between(2_000, 2_999), us_between(3_000, 1_000)), (1, 0, 0));
        assert!(sent_after((2_000, 5), (1_999, 9)));
        assert!(!sent_after((2_999, 5), (2_000, 9)) && sent_after((2_000, 9), (2_999, 5)), "the same microsecond");
        assert!(!sent_after((2_000, 5), (2_000, 5)));
    }

    /// `tcp_ack`, `old_ack`: the congestion control does not see it.
    #[test]
    fn an_ack_that_was_overtaken_gives_no_sample() {
        let mut flow = Sampled::new(None);
        let newer = flow.after(100, &ack(5, 0..0, START_MS));
        let after = flow.after(101, &ack(3, 0..0, START_MS));
        assert_eq!((after.delivered, after.acked_sacked), (newer.delivered, 5));
    }
}
