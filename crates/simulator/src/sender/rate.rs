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
            }
        }
        made
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
