//! States of congestion avoidance, PRR and undo (`tcp_fastretrans_alert` and what it calls; RFC 6937, RFC 5682).

use super::state::{Flags, REORDERING, Send, Sender};
use crate::congestion::{CaEvent, CaState, INFINITE_SSTHRESH};

impl Sender {
    pub(super) fn set_state(&mut self, state: CaState) {
        self.cc.set_state(&mut self.sock, state);
        self.sock.ca_state = state;
    }

    fn reduces(&self) -> bool {
        matches!(self.sock.ca_state, CaState::Cwr | CaState::Recovery)
    }

    /// Counts segments that are sent during a reduction (`tcp_in_cwnd_reduction`).
    pub(super) fn count_sent(&mut self, segments: u32) {
        if self.reduces() {
            self.recovery.sent += segments;
        }
    }

    /// `tcp_current_ssthresh`.
    pub(super) fn current_ssthresh(&self) -> u32 {
        let sock = &self.sock;
        if self.reduces() {
            sock.snd_ssthresh
        } else {
            sock.snd_ssthresh.max((sock.snd_cwnd >> 1) + (sock.snd_cwnd >> 2))
        }
    }

    /// `tcp_init_undo`.
    fn init_undo(&mut self) {
        self.recovery.undo_marker = Some(self.una);
        let probe = u32::from(self.timers.probe_end.is_some() && self.timers.probe_was_retransmission);
        self.recovery.undo_retrans = Some(self.sock.retrans_out + probe).filter(|out| *out > 0);
    }

    /// `tcp_init_cwnd_reduction`.
    pub(super) fn begin_reduction(&mut self) {
        self.recovery.high = self.next;
        self.timers.probe_end = None;
        self.sock.snd_cwnd_cnt = 0;
        self.sock.prior_cwnd = self.sock.snd_cwnd;
        self.recovery.delivered = 0;
        self.recovery.sent = 0;
        self.sock.snd_ssthresh = self.cc.ssthresh(&mut self.sock);
        self.must_send_cwr = self.config.ecn;
    }

    /// `tcp_cwnd_reduction`: PRR.
    pub(super) fn reduce(&mut self, delivered: u32, lost: u32, una_advanced: bool) {
        let (sock, recovery) = (&mut self.sock, &mut self.recovery);
        if delivered == 0 || sock.prior_cwnd == 0 {
            return;
        }
        recovery.delivered += delivered;
        let in_flight = sock.in_flight();
        let below = i64::from(sock.snd_ssthresh) - i64::from(in_flight);
        let (so_far, sent) = (i64::from(recovery.delivered), i64::from(recovery.sent));
        let may_send = if below < 0 {
            let prior = i64::from(sock.prior_cwnd);
            (i64::from(sock.snd_ssthresh) * so_far + prior - 1) / prior - sent
        } else {
            let grown = (so_far - sent).max(delivered.into()) + i64::from(una_advanced && lost == 0);
            grown.min(below)
        };
        let may_send = may_send.max(i64::from(recovery.sent == 0)); // the first retransmission ignores the window
        sock.snd_cwnd = in_flight + may_send as u32;
    }

    /// `tcp_end_cwnd_reduction`.
    pub(super) fn end_reduction(&mut self) {
        if self.cc.has_cong_control() {
            return;
        }
        let sock = &mut self.sock;
        let counts = sock.ca_state == CaState::Cwr || self.recovery.undo_marker.is_some();
        if sock.snd_ssthresh < INFINITE_SSTHRESH && counts {
            sock.snd_cwnd = sock.snd_ssthresh;
            self.cwnd_stamp_ns = sock.now_ns;
        }
        self.cc.cwnd_event(&mut self.sock, CaEvent::CompleteCwr);
    }

    /// `tcp_enter_cwr`, for an ECN echo.
    fn enter_cwr(&mut self) {
        self.recovery.prior_ssthresh = 0;
        if self.sock.ca_state < CaState::Cwr {
            self.recovery.undo_marker = None;
            self.begin_reduction();
            self.set_state(CaState::Cwr);
        }
    }

    /// `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        if !self.any_retransmitted() {
            self.recovery.stamp_ms = None; // `tcp_retrans_stamp_cleanup`
        }
        self.recovery.prior_ssthresh = 0;
        self.init_undo();
        if !self.reduces() {
            if !ece {
                self.recovery.prior_ssthresh = self.current_ssthresh();
            }
            self.begin_reduction();
        }
        self.set_state(CaState::Recovery);
    }

    /// `tcp_enter_loss`.
    pub(super) fn enter_loss(&mut self) {
        let is_new = self.sock.ca_state < CaState::Recovery;
        self.mark_all_lost();
        let again = self.sock.ca_state == CaState::Loss && self.timers.retransmits == 0;
        if self.sock.ca_state <= CaState::Disorder || self.recovery.high <= self.una || again {
            self.recovery.prior_ssthresh = self.current_ssthresh();
            self.sock.prior_cwnd = self.sock.snd_cwnd;
            self.sock.snd_ssthresh = self.cc.ssthresh(&mut self.sock);
            self.cc.cwnd_event(&mut self.sock, CaEvent::Loss);
            self.init_undo();
        }
        self.sock.snd_cwnd = self.sock.in_flight() + 1;
        self.sock.snd_cwnd_cnt = 0;
        self.cwnd_stamp_ns = self.sock.now_ns;
        if self.sock.ca_state <= CaState::Disorder && self.sock.sacked_out >= REORDERING {
            self.rack.reordering = self.rack.reordering.min(REORDERING);
        }
        self.set_state(CaState::Loss);
        self.recovery.high = self.next;
        self.timers.probe_end = None;
        self.must_send_cwr = self.config.ecn;
        self.recovery.frto = is_new || self.timers.retransmits > 0;
    }

    /// `tcp_timeout_mark_lost`: marks all segments as lost, except those sent within the last RTT.
    fn mark_all_lost(&mut self) {
        let numbers = self.board.numbers();
        let first = numbers.start;
        for number in numbers {
            let Some(segment) = self.board.get(number).copied() else { break };
            if number == first || self.rack_remaining_us(&segment, 0) <= 0 {
                self.mark_lost(number);
            }
        }
        self.board.hint = None;
    }

    /// `tcp_packet_delayed`: the echoed timestamp precedes the first retransmission.
    fn was_delayed(&self) -> bool {
        self.recovery.stamp_ms.is_none_or(|stamp| self.echo_ms.is_some_and(|echo| echo < stamp))
    }

    /// `tcp_may_undo`.
    fn may_undo(&self) -> bool {
        self.recovery.undo_marker.is_some() && (self.recovery.undo_retrans == Some(0) || self.was_delayed())
    }

    /// `tcp_undo_cwnd_reduction`.
    fn undo_reduction(&mut self, unmark_loss: bool) {
        if unmark_loss {
            self.board.iter_mut().for_each(|segment| segment.lost = false);
            self.sock.lost_out = 0;
            self.board.hint = None;
        }
        if self.recovery.prior_ssthresh > 0 {
            self.sock.snd_cwnd = self.cc.undo_cwnd(&mut self.sock);
            self.sock.snd_ssthresh = self.sock.snd_ssthresh.max(self.recovery.prior_ssthresh);
        }
        self.cwnd_stamp_ns = self.sock.now_ns;
        self.recovery.undo_marker = None;
        self.rack.advanced = true; // so that the segments marked as lost are examined again
    }

    /// `tcp_try_undo_recovery`.
    fn try_undo_recovery(&mut self) {
        if self.may_undo() {
            self.undo_reduction(false);
        } else {
            self.rack.window_persists = self.rack.window_persists.saturating_sub(1);
        }
        self.set_state(CaState::Open);
    }

    /// `tcp_try_undo_dsack`: undoes the reduction if DSACKs reported every retransmission as unnecessary.
    fn try_undo_dsack(&mut self) -> bool {
        let undone = self.recovery.undo_marker.is_some() && self.recovery.undo_retrans == Some(0);
        if undone {
            self.rack.keep_window();
            self.undo_reduction(false);
        }
        undone
    }

    /// `tcp_try_undo_loss`.
    fn try_undo_loss(&mut self, frto: bool) -> bool {
        let undone = frto || self.may_undo();
        if undone {
            self.undo_reduction(true);
            self.timers.retransmits = 0;
            self.set_state(CaState::Open);
        }
        undone
    }

    /// `tcp_try_undo_partial`: returns whether to wait for more ACKs before the next retransmission.
    fn try_undo_partial(&mut self, prior_una: u64) -> bool {
        if self.recovery.undo_marker.is_some() && self.was_delayed() {
            self.check_reordering(prior_una);
            if self.sock.retrans_out > 0 {
                return true;
            }
            if !self.any_retransmitted() {
                self.recovery.stamp_ms = None;
            }
            self.undo_reduction(true);
            self.try_keep_open();
        }
        false
    }

    /// `tcp_any_retrans_done`.
    fn any_retransmitted(&self) -> bool {
        self.sock.retrans_out > 0 || self.board.head().is_some_and(|head| head.ever_retransmitted)
    }

    /// `tcp_try_keep_open`.
    pub(super) fn try_keep_open(&mut self) {
        let is_in_order = self.sock.sacked_out + self.sock.lost_out == 0 && !self.any_retransmitted();
        let state = if is_in_order { CaState::Open } else { CaState::Disorder };
        if self.sock.ca_state != state {
            self.set_state(state);
            self.recovery.high = self.next;
        }
    }

    /// `tcp_try_to_open`.
    fn try_to_open(&mut self, flags: &Flags) {
        if !self.any_retransmitted() {
            self.recovery.stamp_ms = None;
        }
        if flags.ece {
            self.enter_cwr();
        }
        if self.sock.ca_state != CaState::Cwr {
            self.try_keep_open();
        }
    }

    /// `tcp_fastretrans_alert`: returns what to send in addition to new data.
    pub(super) fn alert(&mut self, prior_una: u64, is_duplicate: bool, flags: &mut Flags) -> Send {
        if flags.ece {
            self.recovery.prior_ssthresh = 0;
        }
        if self.sock.ca_state == CaState::Open {
            self.recovery.stamp_ms = None;
        } else if self.una >= self.recovery.high {
            match self.sock.ca_state {
                CaState::Cwr if self.una != self.recovery.high => {
                    self.end_reduction();
                    self.set_state(CaState::Open);
                }
                CaState::Recovery => {
                    self.try_undo_recovery();
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.sock.ca_state {
            CaState::Recovery => {
                if flags.una_advanced && self.try_undo_partial(prior_una) {
                    return Send::Nothing;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(flags);
                }
                self.identify_loss(flags);
                if self.sock.ca_state != CaState::Recovery {
                    if self.sock.lost_out == 0 {
                        return Send::Nothing;
                    }
                    self.enter_recovery(flags.ece);
                }
                return Send::Lost;
            }
            CaState::Loss => {
                let send = self.process_loss(is_duplicate, flags);
                self.identify_loss(flags);
                if self.sock.ca_state != CaState::Open && !flags.lost_retransmission {
                    return send;
                }
            }
            _ => {}
        }
        if self.sock.ca_state <= CaState::Disorder {
            self.try_undo_dsack();
        }
        self.identify_loss(flags);
        if self.sock.lost_out == 0 {
            self.try_to_open(flags);
            return Send::Nothing;
        }
        self.enter_recovery(flags.ece);
        Send::Lost
    }

    /// `tcp_process_loss`, with the SACK variant of F-RTO.
    fn process_loss(&mut self, is_duplicate: bool, flags: &Flags) -> Send {
        let recovered = self.una >= self.recovery.high;
        if flags.una_advanced && self.try_undo_loss(false) {
            return Send::Nothing;
        }
        if self.recovery.frto {
            if flags.original_delivered && self.try_undo_loss(true) {
                return Send::Nothing;
            }
            if self.next > self.recovery.high {
                if flags.data_sacked || is_duplicate {
                    self.recovery.frto = false; // the loss was real
                }
            } else if flags.una_advanced && !recovered {
                self.recovery.high = self.next;
                if self.next < self.written && self.next < self.window_end {
                    return Send::New;
                }
                self.recovery.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return Send::Nothing;
        }
        Send::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, MSS, START_MS, ack, sender};
    use super::*;
    use crate::packet::Ack;

    /// Returns a sender in a reduction from 20 segments to 10, with `pipe` segments in flight.
    fn reducing(pipe: u32) -> Sender {
        let mut sender = sender(20, None);
        sender.sock.prior_cwnd = 20;
        sender.sock.snd_ssthresh = 10;
        sender.sock.packets_out = pipe;
        sender
    }

    /// RFC 6937, section 3: CEIL(prr_delivered x ssthresh / RecoverFS) - prr_out; here, half of what was delivered.
    #[test]
    fn above_ssthresh_prr_sends_in_proportion_to_what_is_delivered() {
        let mut sender = reducing(19);
        let mut sent = Vec::new();
        for delivered in [1, 1, 1, 1, 3] {
            sender.sock.packets_out -= delivered;
            sender.reduce(delivered, 0, true);
            let may_send = sender.sock.snd_cwnd - sender.sock.in_flight();
            sender.recovery.sent += may_send;
            sender.sock.packets_out += may_send;
            sent.push(may_send);
        }
        // ceil of 1/2, 2/2, 3/2, 4/2 and 7/2, less what was sent before
        assert_eq!(sent, [1, 0, 1, 0, 2]);
    }

    /// RFC 6937, section 3: the slow start reduction bound. Linux applies the bound's additional segment only for an
    /// ACK that advances and reports no losses, as in RFC 9937.
    #[test]
    fn below_ssthresh_prr_sends_what_is_delivered_and_one_more_if_no_more_is_lost() {
        let window = |pipe, delivered, lost, una_advanced| {
            let mut sender = reducing(pipe);
            sender.reduce(delivered, lost, una_advanced);
            sender.sock.snd_cwnd
        };
        assert_eq!(window(4, 1, 1, true), 4 + 1);
        assert_eq!(window(4, 1, 0, false), 4 + 1);
        assert_eq!(window(4, 1, 0, true), 4 + 2);
        assert_eq!(window(4, 3, 1, true), 4 + 3);
        assert_eq!(window(9, 5, 0, true), 10, "not above ssthresh");
    }

    #[test]
    fn below_ssthresh_prr_sends_what_it_held_back_before() {
        let mut sender = reducing(4);
        (sender.recovery.delivered, sender.recovery.sent) = (4, 1);
        sender.reduce(1, 1, false);
        assert_eq!(sender.sock.snd_cwnd, 4 + (4 + 1 - 1));
    }

    #[test]
    fn the_first_retransmission_leaves_even_if_the_window_is_full() {
        for (sent, window) in [(0, 11), (1, 10)] {
            let mut sender = reducing(10);
            sender.recovery.sent = sent;
            sender.reduce(1, 1, false);
            assert_eq!(sender.sock.snd_cwnd, window);
        }
    }

    /// Returns a sender that, one round trip after the start, has marked the first of 20 segments as lost and
    /// retransmitted it.
    fn recovering() -> Sender {
        let mut sender = sender(20, None);
        sender.sock.snd_ssthresh = 16;
        sender.acknowledge((START_MS + 100) * MS, &ack(0, 1..4, START_MS));
        assert_eq!((sender.sock.ca_state, sender.sock.snd_ssthresh), (CaState::Recovery, 10));
        assert_eq!(sender.sock.retrans_out, 1);
        sender
    }

    fn windows(sender: &Sender) -> (CaState, u32, u32) {
        (sender.sock.ca_state, sender.sock.snd_cwnd, sender.sock.snd_ssthresh)
    }

    /// RFC 3522: the ACK echoes a timestamp from before the retransmission.
    #[test]
    fn an_ack_of_the_original_undoes_the_reduction() {
        let mut sender = recovering();
        sender.acknowledge((START_MS + 110) * MS, &ack(4, 0..0, START_MS));
        assert_eq!(windows(&sender), (CaState::Open, 20, 16));
    }

    /// RFC 3708: the receiver already had every segment that was retransmitted.
    #[test]
    fn a_dsack_of_each_retransmission_undoes_the_reduction() {
        let mut sender = recovering();
        sender.acknowledge((START_MS + 105) * MS, &ack(0, 1..20, START_MS));
        sender.acknowledge((START_MS + 200) * MS, &ack(20, 0..0, START_MS + 100));
        assert_eq!(windows(&sender), (CaState::Open, 10, 10), "the episode is over");
        let duplicate = Ack { is_dsack: true, ..ack(20, 0..1, START_MS + 100) };
        sender.acknowledge((START_MS + 201) * MS, &duplicate);
        assert_eq!(windows(&sender), (CaState::Open, 20, 16));
    }

    /// `tcp_sacktag_one`: a DSACK of a segment that is still in the queue counts, too.
    #[test]
    fn a_dsack_above_a_gap_counts_a_retransmission_as_unnecessary() {
        let mut sender = recovering();
        let retransmitted = sender.recovery.undo_retrans;
        for number in 0..2 {
            sender.retransmit_segment(number);
        }
        assert_eq!(sender.recovery.undo_retrans, retransmitted.map(|before| before + 2));
        let mut duplicate = Ack { is_dsack: true, ..ack(0, 1..2, START_MS + 100) };
        duplicate.sack[1] = (MSS, 20 * MSS);
        duplicate.blocks = 2;
        sender.acknowledge((START_MS + 201) * MS, &duplicate);
        assert_eq!(sender.recovery.undo_retrans, retransmitted.map(|before| before + 1));
    }

    /// `tcp_retrans_stamp_cleanup`: the timestamp of the first retransmission is kept while one is in flight. Segments 0
    /// (twice) and 20 are lost; 20 was sent after the first episode had begun.
    #[test]
    fn an_episode_that_follows_at_once_is_not_undone_by_the_ack_of_a_retransmission() {
        let mut sender = recovering();
        sender.acknowledge((START_MS + 110) * MS, &ack(0, 1..20, START_MS));
        let two = [(21 * MSS, 29 * MSS), (MSS, 20 * MSS), (0, 0)];
        let beyond = Ack { sack: two, blocks: 2, ..ack(0, 0..0, START_MS) };
        sender.acknowledge((START_MS + 215) * MS, &beyond);
        assert_eq!(sender.sock.retrans_out, 2, "0 once more, and 20");
        sender.acknowledge((START_MS + 315) * MS, &ack(20, 21..29, START_MS + 215));
        assert_eq!((sender.sock.ca_state, sender.sock.snd_ssthresh), (CaState::Recovery, 5));
        sender.acknowledge((START_MS + 316) * MS, &ack(29, 0..0, START_MS + 215));
        let after = (sender.sock.ca_state, sender.sock.snd_ssthresh, sender.rack.reorderings);
        assert_eq!(after, (CaState::Recovery, 5, 0));
    }

    /// `tcp_rack_detect_loss` takes a segment out of its list when it marks it.
    #[test]
    fn a_retransmission_whose_mark_was_undone_is_lost_once() {
        let mut sender = sender(20, None);
        sender.mark_lost(0);
        sender.retransmit_segment(0);
        sender.undo_reduction(true);
        sender.acknowledge((START_MS + 100) * MS, &ack(0, 1..20, START_MS));
        let sock = &sender.sock;
        assert_eq!((sock.lost, sock.lost_out, sock.retrans_out, sock.total_retrans), (2, 1, 1, 1));
    }

    /// `tcp_rack_detect_loss` takes a segment out of its list, and an undo does not put it back: if it is lost, only a
    /// timeout repairs it. Ten segments count as lost; three of them are retransmitted.
    #[test]
    fn what_was_wrongly_lost_is_examined_again_only_after_a_retransmission() {
        let mut sender = sender(20, None);
        sender.acknowledge((START_MS + 100) * MS, &ack(0, 10..13, START_MS));
        assert_eq!((sender.sock.lost_out, sender.sock.retrans_out), (10, 3));
        sender.undo_reduction(true);
        sender.acknowledge((START_MS + 101) * MS, &ack(0, 10..14, START_MS));
        assert_eq!((sender.sock.lost_out, sender.sock.retrans_out), (0, 3));
    }
}
