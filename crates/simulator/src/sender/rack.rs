//! Loss detection by time (RACK, RFC 8985; net/ipv4/tcp_recovery.c).

use super::rate::{sent_after, us_between};
use super::scoreboard::Segment;
use super::state::{Flags, Pending, Rack, Sender};
use super::timers::TIMEOUT_MIN_US;
use crate::clock::jiffies_from_us;
use crate::congestion::CaState;

/// `TCP_RACK_RECOVERY_THRESH`: number of recoveries for which a widened reordering window is kept.
const WIDENED_RECOVERIES: u8 = 16;
/// `tcp_max_reordering`.
const MAX_REORDERING: u32 = 300;

impl Rack {
    /// Keeps the widened window for one more recovery, because DSACKs proved a recovery unnecessary.
    pub fn keep_window(&mut self) {
        self.window_persists = WIDENED_RECOVERIES.min(self.window_persists + 1);
    }
}

impl Sender {
    /// `tcp_rack_advance`.
    pub(super) fn rack_advance(&mut self, segment: &Segment) {
        let rtt_us = us_between(segment.sent_ns, self.sock.now_ns) as u32;
        // sooner than the path allows: the ACK is that of an earlier transmission
        if rtt_us < self.sock.min_rtt_us && segment.was_retransmitted() {
            return;
        }
        let rack = &mut self.rack;
        rack.advanced = true;
        rack.rtt_us = rtt_us;
        if sent_after((segment.sent_ns, segment.end()), (rack.sent_ns, rack.end)) {
            rack.sent_ns = segment.sent_ns;
            rack.end = segment.end();
        }
    }

    /// `tcp_rack_reo_wnd`.
    fn reordering_window_us(&self) -> u64 {
        let sock = &self.sock;
        if self.rack.reorderings == 0 && (sock.ca_state >= CaState::Recovery || sock.sacked_out >= self.rack.reordering)
        {
            return 0;
        }
        let window_us = u64::from(sock.min_rtt_us >> 2) * u64::from(self.rack.window_steps);
        window_us.min(u64::from(sock.srtt_us >> 3))
    }

    /// `tcp_rack_skb_timeout`: returns how much longer to wait for a segment. If this is 0 or negative, the segment is
    /// lost.
    pub(super) fn rack_remaining_us(&self, segment: &Segment, window_us: u64) -> i64 {
        let waited_us = us_between(segment.sent_ns, self.sock.now_ns);
        (u64::from(self.rack.rtt_us) + window_us).cast_signed() - waited_us.cast_signed()
    }

    /// `tcp_rack_detect_loss`: marks lost segments. Returns how long to wait for the others.
    pub(super) fn rack_detect_loss(&mut self) -> u64 {
        let window_us = self.reordering_window_us();
        let (mut place, mut wait_us) = (0, 0);
        while let Some((number, behind)) = self.board.next_by_time(place) {
            let Some(&segment) = self.board.get(number) else { break };
            if !sent_after((self.rack.sent_ns, self.rack.end), (segment.sent_ns, segment.end())) {
                break;
            }
            let remaining_us = self.rack_remaining_us(&segment, window_us);
            if remaining_us <= 0 {
                self.mark_lost(number);
                self.board.leave_order(behind - 1); // `list_del_init`; the next entry takes its place
                place = behind - 1;
            } else {
                wait_us = wait_us.max(remaining_us.unsigned_abs());
                place = behind;
            }
        }
        wait_us
    }

    /// `tcp_rack_mark_lost`, and what `tcp_identify_packet_loss` notes.
    pub(super) fn identify_loss(&mut self, flags: &mut Flags) {
        let retransmitted = self.sock.retrans_out;
        if self.rack.advanced && self.sock.packets_out > 0 {
            self.rack.advanced = false;
            let wait_us = self.rack_detect_loss();
            if wait_us > 0 {
                let ticks = jiffies_from_us(wait_us + TIMEOUT_MIN_US);
                self.set_timer(Pending::Reordering, ticks.min(self.rtt.rto_ticks));
                flags.set_timer = false;
            }
        }
        flags.lost_retransmission |= retransmitted > self.sock.retrans_out;
    }

    /// `tcp_mark_skb_lost`.
    pub(super) fn mark_lost(&mut self, number: u64) {
        let sock = &mut self.sock;
        // `tcp_verify_retransmit_hint`: without a hint, lost segments before this one may still wait to be sent again
        let begins = self.board.hint.map_or(sock.retrans_out >= sock.lost_out, |hint| number < hint);
        let Some(segment) = self.board.get_mut(number) else { return };
        if segment.sacked {
            return;
        }
        if !segment.lost {
            segment.lost = true;
            sock.lost_out += 1;
            sock.lost += 1;
        } else if segment.retransmitted {
            segment.retransmitted = false; // lost again
            sock.retrans_out -= 1;
            sock.lost += 1;
        }
        if begins {
            self.board.hint = Some(number);
        }
    }

    /// `tcp_rack_update_reo_wnd`: widens the window after each round in which DSACKs showed that it was too narrow.
    pub(super) fn rack_update_window(&mut self) {
        let prior = self.sample.prior_delivered;
        if prior == 0 {
            return;
        }
        let rack = &mut self.rack;
        if prior.wrapping_sub(rack.last_delivered).cast_signed() < 0 {
            rack.dsack_seen = false; // at most once per round
        }
        if rack.dsack_seen {
            rack.window_steps = rack.window_steps.saturating_add(1);
            rack.dsack_seen = false;
            rack.last_delivered = self.sock.delivered;
            rack.window_persists = WIDENED_RECOVERIES;
        } else if rack.window_persists == 0 {
            rack.window_steps = 1;
        }
    }

    /// `tcp_check_sack_reordering`: a segment below the highest SACK was delivered without a retransmission.
    pub(super) fn check_reordering(&mut self, lowest: u64) {
        let highest = self.highest_sack();
        if lowest >= highest {
            return;
        }
        let (distance, mss) = (highest - lowest, u64::from(self.sock.mss));
        if distance > u64::from(self.rack.reordering) * mss {
            self.rack.reordering = (distance.div_ceil(mss) as u32).min(MAX_REORDERING);
        }
        self.rack.reorderings += 1;
    }

    /// `tcp_rack_reo_timeout`: the reordering window has expired.
    pub(super) fn reordering_timeout(&mut self) {
        let (in_flight, lost) = (self.sock.in_flight(), self.sock.lost);
        self.rack_detect_loss();
        if in_flight != self.sock.in_flight() {
            if self.sock.ca_state != CaState::Recovery {
                self.enter_recovery(false);
                if !self.cc.has_cong_control() {
                    self.reduce(1, self.sock.lost - lost, false);
                }
            }
            self.retransmit();
        }
        if self.timers.pending() != Some(Pending::Retransmission) {
            self.rearm_rto();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, START_MS, ack, sender};
    use super::*;

    /// RFC 8985, section 6.2, step 4: a quarter of the minimum RTT times the steps, and at most the smoothed RTT.
    /// Before reordering was seen, the window is 0 in recovery or if three segments are SACKed.
    #[test]
    fn the_reordering_window_is_that_of_the_rfc() {
        let mut sender = sender(20, None);
        sender.sock.min_rtt_us = 40_000;
        sender.sock.srtt_us = 8 * 50_000;
        assert_eq!(sender.reordering_window_us(), 10_000);
        sender.sock.sacked_out = 2;
        assert_eq!(sender.reordering_window_us(), 10_000);
        sender.sock.sacked_out = 3;
        assert_eq!(sender.reordering_window_us(), 0);
        sender.rack.reorderings = 1;
        for (steps, window_us) in [(1, 10_000), (3, 30_000), (5, 50_000), (6, 50_000)] {
            sender.rack.window_steps = steps;
            assert_eq!(sender.reordering_window_us(), window_us);
        }
        sender.sock.ca_state = CaState::Recovery;
        assert_eq!(sender.reordering_window_us(), 50_000);
        sender.rack.reorderings = 0;
        assert_eq!(sender.reordering_window_us(), 0);
    }

    /// RFC 8985, section 6.2, step 4: one more step per round with a DSACK, for 16 recoveries.
    #[test]
    fn a_dsack_widens_the_window_once_per_round() {
        let mut sender = sender(20, None);
        let mut steps = |prior_delivered, delivered, dsack_seen| {
            sender.sample.prior_delivered = prior_delivered;
            sender.sock.delivered = delivered;
            sender.rack.dsack_seen = dsack_seen;
            sender.rack_update_window();
            (sender.rack.window_steps, sender.rack.window_persists)
        };
        assert_eq!(steps(5, 9, false), (1, 0));
        assert_eq!(steps(5, 9, true), (2, 16));
        assert_eq!(steps(8, 10, true), (2, 16), "what was sent in the same round");
        assert_eq!(steps(9, 12, true), (3, 16));
        assert_eq!(steps(12, 15, false), (3, 16));
        sender.rack.window_persists = 0;
        sender.rack_update_window();
        assert_eq!(sender.rack.window_steps, 1);
    }

    /// The segment after the first one arrives after 100 ms. The first counts as lost 25 ms later. The timer adds 2 ms to
    /// that: 27 ms in total, or seven ticks after tick 275. It fires at the end of the seventh tick.
    #[test]
    fn a_segment_is_lost_when_the_window_is_over() {
        let mut sender = sender(20, None);
        sender.acknowledge((START_MS + 100) * MS, &ack(0, 1..2, START_MS));
        assert_eq!((sender.sock.lost_out, sender.timers.pending()), (0, Some(Pending::Reordering)));
        assert_eq!(sender.timers.next_ns(), Some((275 + 7 + 1) * 4 * MS));
        sender.timer((275 + 7 + 1) * 4 * MS);
        assert_eq!((sender.sock.lost_out, sender.sock.retrans_out), (1, 1));
        assert_eq!(sender.sock.ca_state, CaState::Recovery);
    }

    /// RFC 8985, section 6.2, step 5: three SACKed segments show the loss of the first without waiting.
    #[test]
    fn three_segments_beyond_it_show_a_loss_at_once() {
        let mut sender = sender(20, None);
        sender.acknowledge((START_MS + 100) * MS, &ack(0, 1..4, START_MS));
        assert_eq!((sender.sock.lost_out, sender.sock.sacked_out), (1, 3));
    }
}
