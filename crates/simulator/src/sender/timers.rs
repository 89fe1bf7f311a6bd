//! Timers: retransmission, loss probe (TLP, RFC 8985 section 7), reordering (net/ipv4/tcp_timer.c, tcp_output.c).

use super::rate::us_between;
use super::rtt::{RTO_MAX_TICKS, RTO_MIN_US};
use super::state::{Pending, Sender, Timers};
use crate::clock::{JIFFY_NS, jiffies_from_us, timer_fires_ns};
use crate::congestion::CaState;

/// `TCP_TIMEOUT_MIN_US`: 2 ms. Before 6.7, it was two ticks.
pub(super) const TIMEOUT_MIN_US: u64 = 2_000;

impl Timers {
    pub fn pending(&self) -> Option<Pending> {
        self.pending.map(|(what, _)| what)
    }

    /// Returns when the next timer fires.
    pub fn next_ns(&self) -> Option<u64> {
        self.pending.map(|(_, at_ns)| at_ns).into_iter().chain(self.pacing_ns).min()
    }
}

impl Sender {
    /// `tcp_reset_xmit_timer`, without the time that pacing adds.
    pub(super) fn set_timer(&mut self, what: Pending, ticks: u64) {
        self.timers.pending = Some((what, timer_fires_ns(self.sock.now_ns, ticks.min(RTO_MAX_TICKS))));
    }

    /// `tcp_pacing_delay`: timers start when the next segment may be sent. `nsecs_to_jiffies` rounds down.
    pub(super) fn pacing_ticks(&self) -> u64 {
        self.sock.wstamp_ns.saturating_sub(self.sock.now_ns) / JIFFY_NS
    }

    /// `tcp_rto_delta_us`: returns the remaining time until the first segment's timeout; 0 or negative if it has
    /// expired.
    fn rto_left_us(&self) -> i64 {
        let rto_us = (self.rtt.rto_ticks * JIFFY_NS / 1000).cast_signed();
        let waited = self.board.head().map_or(0, |head| us_between(head.sent_ns, self.sock.now_ns));
        rto_us - waited.cast_signed()
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm_rto(&mut self) {
        if self.sock.packets_out == 0 {
            self.timers.pending = None;
            return;
        }
        let ticks = match self.timers.pending() {
            Some(Pending::Reordering | Pending::Probe) => jiffies_from_us(self.rto_left_us().max(1).unsigned_abs()),
            _ => self.rtt.rto_ticks,
        };
        self.set_timer(Pending::Retransmission, ticks + self.pacing_ticks());
    }

    /// `tcp_schedule_loss_probe`.
    pub(super) fn schedule_probe(&mut self, advancing: bool) -> bool {
        let sock = &self.sock;
        if sock.packets_out == 0 || !matches!(sock.ca_state, CaState::Open | CaState::Cwr) {
            return false;
        }
        let allowance_us = if sock.packets_out == 1 { RTO_MIN_US.into() } else { TIMEOUT_MIN_US };
        let mut ticks = jiffies_from_us(u64::from(sock.srtt_us >> 2) + allowance_us);
        let rto_us = if advancing { (self.rtt.rto_ticks * JIFFY_NS / 1000).cast_signed() } else { self.rto_left_us() };
        if rto_us > 0 {
            ticks = ticks.min(jiffies_from_us(rto_us.unsigned_abs()));
        }
        self.set_timer(Pending::Probe, ticks + self.pacing_ticks());
        true
    }

    /// `tcp_set_xmit_timer`.
    pub(super) fn set_transmission_timer(&mut self) {
        if !self.schedule_probe(true) {
            self.rearm_rto();
        }
    }

    /// Handles timers that have fired.
    pub fn timer(&mut self, now_ns: u64) {
        self.sock.now_ns = now_ns;
        if self.timers.pacing_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.timers.pacing_ns = None;
            if self.sock.lost_out > self.sock.retrans_out && self.sock.snd_cwnd > self.sock.in_flight() {
                self.retransmit();
            }
            self.push();
        }
        if let Some((what, at_ns)) = self.timers.pending
            && at_ns <= now_ns
        {
            match what {
                Pending::Reordering => self.reordering_timeout(),
                Pending::Probe => self.send_probe(),
                Pending::Retransmission => {
                    self.timers.pending = None;
                    self.retransmission_timeout();
                }
            }
        }
        self.share_sequence();
    }

    /// `tcp_retransmit_timer`.
    fn retransmission_timeout(&mut self) {
        if self.sock.packets_out == 0 {
            return;
        }
        self.enter_loss();
        self.timers.retransmits += 1;
        self.timers.timeouts += 1;
        let first = self.board.numbers().start;
        self.retransmit_segment(first);
        self.rtt.rto_ticks = (self.rtt.rto_ticks * 2).min(RTO_MAX_TICKS);
        self.set_timer(Pending::Retransmission, self.rtt.rto_ticks);
    }

    /// `tcp_send_loss_probe`: sends new data if there are any, otherwise the last segment again.
    fn send_probe(&mut self) {
        if self.timers.probe_end.is_none() {
            self.timers.probe_was_retransmission = false;
            let sent = self.sock.packets_out;
            let end = self.written.min(self.next + u64::from(self.sock.mss)); // of the next segment
            let has_new = self.next < end && end <= self.window_end;
            if has_new {
                self.write(true);
            } else if let Some(last) = self.board.numbers().last() {
                self.transmit_again(last);
                self.timers.probe_was_retransmission = true;
            }
            if !has_new || self.sock.packets_out > sent {
                self.timers.probe_end = Some(self.next);
                self.timers.pending = None; // so that the timeout starts now
            }
        }
        self.rearm_rto();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, sender};
    use super::*;

    /// Tick at the start of the connection; a tick is 4 ms.
    const START: u64 = 250;

    /// RFC 8985, section 7.2: twice the smoothed RTT, to which Linux adds 2 ms: 202 ms, which begins the 51st tick.
    #[test]
    fn a_probe_is_due_after_two_round_trips() {
        let sender = sender(20, None);
        assert_eq!(sender.timers.pending(), Some(Pending::Probe));
        assert_eq!(sender.timers.next_ns(), Some((START + 51 + 1) * 4 * MS));
    }

    /// With one segment in flight, the receiver may delay its ACK, so the probe waits 200 ms longer. That exceeds the
    /// retransmission timeout of 100 + 200 ms, 75 ticks, which limits it. Timers this far ahead fire at multiples of
    /// eight ticks.
    #[test]
    fn a_probe_of_a_single_segment_waits_for_a_delayed_ack() {
        let mut sender = sender(1, Some(1));
        assert_eq!(sender.timers.pending(), Some(Pending::Probe));
        assert_eq!(sender.timers.next_ns(), Some(328 * 4 * MS)); // 250 + 75 = 325
        sender.rtt.rto_ticks = 250;
        assert!(sender.schedule_probe(true));
        assert_eq!(sender.timers.next_ns(), Some(352 * 4 * MS)); // 250 + 100 = 350
    }

    /// RFC 8985, section 7.3: a probe is new data, even if the window is full.
    #[test]
    fn a_probe_is_a_new_segment_if_there_is_one() {
        let mut sender = sender(20, None);
        sender.timer((START + 52) * 4 * MS);
        assert_eq!((sender.sock.packets_out, sender.sock.snd_cwnd, sender.sock.total_retrans), (21, 20, 0));
        assert_eq!((sender.timers.probe_end, sender.timers.probe_was_retransmission), (Some(21_000), false));
    }

    /// RFC 8985, section 7.3: without new data, a probe is the last segment. Then the timeout of 75 ticks starts, at
    /// tick 302.
    #[test]
    fn without_new_data_a_probe_repeats_the_last_segment() {
        let mut sender = sender(10, Some(10));
        sender.timer((START + 52) * 4 * MS);
        assert_eq!((sender.sock.packets_out, sender.sock.total_retrans), (10, 1));
        assert!(sender.board.get(9).is_some_and(|last| last.transmissions == 2));
        assert_eq!((sender.timers.probe_end, sender.timers.probe_was_retransmission), (Some(10_000), true));
        assert_eq!(sender.timers.pending(), Some(Pending::Retransmission));
        assert_eq!(sender.timers.next_ns(), Some(384 * 4 * MS)); // 302 + 75 = 377
    }

    /// `tcp_init_undo`: the probe's retransmission may cause a DSACK, too.
    #[test]
    fn a_timeout_counts_the_probe_that_is_in_flight() {
        let mut sender = sender(10, Some(10));
        sender.timer((START + 52) * 4 * MS);
        sender.timer(384 * 4 * MS);
        assert_eq!((sender.timers.timeouts, sender.timers.probe_end), (1, None));
        assert_eq!(sender.recovery.undo_retrans, Some(2), "the probe, and the first segment");
    }

    /// `tcp_send_loss_probe` turns Nagle's algorithm off (`TCP_NAGLE_OFF`).
    #[test]
    fn a_probe_sends_a_small_segment_that_waited_for_an_ack() {
        let mut sender = sender(5, Some(5));
        for (written, sent) in [(5300, 6), (5600, 6)] {
            sender.written = written;
            sender.push();
            assert_eq!(sender.sock.packets_out, sent, "{written} bytes written");
        }
        sender.timer(sender.timers.next_ns().unwrap_or_default());
        assert_eq!((sender.sock.packets_out, sender.next, sender.sock.total_retrans), (7, 5600, 0));
    }

    /// `tcp_pacing_delay`: what waits 11.9 ms for its turn delays a timer by two ticks.
    #[test]
    fn timers_start_when_the_next_segment_may_leave() {
        let mut sender = sender(20, None);
        sender.sock.wstamp_ns = sender.sock.now_ns + 11_900_000;
        assert!(sender.schedule_probe(true));
        assert_eq!(sender.timers.next_ns(), Some((START + 51 + 2 + 1) * 4 * MS));
    }

    /// `tcp_snd_wnd_test`: a segment that the receiver's window has no room for is not sent in part.
    #[test]
    fn a_probe_repeats_the_last_segment_if_the_receivers_window_is_full() {
        let mut sender = sender(5, Some(5));
        sender.written = 20_000;
        sender.window_end = 5500;
        sender.timer((START + 52) * 4 * MS);
        assert_eq!((sender.sock.packets_out, sender.sock.total_retrans), (5, 1));
    }
}
