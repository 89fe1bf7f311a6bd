//! The processing of an ACK (net/ipv4/tcp_input.c: `tcp_ack` and what it calls), in the kernel's order.

use super::rate::us_between;
use super::state::{Flags, REORDERING, Sample, Send, Sender};
use crate::clock::jiffies;
use crate::congestion::CaState;
use crate::packet::{Ack, Range};

const JIFFY_US: u32 = 4000;

/// The first and the last of several send times.
#[derive(Clone, Copy, Debug, Default)]
struct Times(Option<(u64, u64)>);

impl Times {
    fn add(&mut self, sent_ns: u64) {
        self.0 = Some((self.0.map_or(sent_ns, |(first, _)| first), sent_ns));
    }
}

/// Results of the processing of SACK blocks.
#[derive(Debug)]
struct Sacked {
    times: Times,
    /// Lowest sequence number that was delivered late without a retransmission.
    reordered: u64,
}

impl Sender {
    /// Processes an ACK.
    pub fn acknowledge(&mut self, now_ns: u64, ack: &Ack) {
        self.take_ack(now_ns, ack, Some(ack.echo_ms));
    }

    /// Processes an ACK, with the timestamp that it echoes.
    pub(super) fn take_ack(&mut self, now_ns: u64, ack: &Ack, echo_ms: Option<u32>) {
        self.sock.now_ns = now_ns;
        self.record(false);
        let prior_una = self.una;
        if ack.cumulative > self.next {
            return;
        }
        let mut flags = Flags { ece: ack.ece && self.config.ecn, ..Flags::default() };
        if ack.cumulative > prior_una {
            flags.una_advanced = true;
            self.timers.retransmits = 0;
        }
        self.window_end = self.window_end.max(ack.window_end);
        self.echo_ms = echo_ms;
        self.sock.rcv_tsval = ack.stamp_ms;
        let (delivered, lost) = (self.sock.delivered, self.sock.lost);
        let prior_highest = self.highest_sack();
        self.sample = Sample::default();
        self.sample.prior_in_flight = self.sock.in_flight();
        let mut sacked = Sacked { times: Times::default(), reordered: self.next };
        if ack.blocks > 0 {
            self.take_sack(ack, prior_una, &mut sacked, &mut flags);
        }
        self.una = self.una.max(ack.cumulative);
        self.sock.bytes_acked = self.una;
        self.share_sequence(); // the congestion control sees the new `snd_una` in `pkts_acked`
        if ack.cumulative < prior_una {
            self.take_overtaken(ack, &mut flags);
            return;
        }
        let mut send = Send::Nothing;
        let had_packets = self.sock.packets_out > 0;
        if had_packets {
            self.clean(prior_una, prior_highest, &sacked, &mut flags);
            self.rack_update_window();
        }
        if flags.ece {
            self.delivered_ece += u64::from(self.sock.delivered.wrapping_sub(delivered));
        }
        self.share_sequence();
        if self.timers.probe_end.is_some() {
            self.process_probe_ack(ack.cumulative, &flags);
        }
        if had_packets && self.is_dubious(&flags) || !had_packets && flags.dsack {
            let is_duplicate = !flags.una_advanced && !flags.data_acked && !flags.dsack;
            send = self.alert(prior_una, is_duplicate, &mut flags);
        }
        if had_packets {
            if flags.set_timer {
                self.set_transmission_timer();
            }
            self.control(delivered, lost, &flags);
            self.transmit_for_recovery(send);
        }
        self.push();
        self.share_sequence();
    }

    /// The rest of an ACK that a newer one overtook (`old_ack` in `tcp_ack`): the congestion control does not see it.
    fn take_overtaken(&mut self, ack: &Ack, flags: &mut Flags) {
        if ack.blocks > 0 {
            let send = self.alert(self.una, false, flags);
            self.transmit_for_recovery(send);
        }
        self.push();
        self.share_sequence();
    }

    /// `tcp_ack_is_dubious`.
    fn is_dubious(&self, flags: &Flags) -> bool {
        !flags.data_acked || flags.data_sacked || flags.ece || flags.dsack || self.sock.ca_state != CaState::Open
    }

    /// `tcp_rate_gen` and `tcp_cong_control`.
    fn control(&mut self, delivered_before: u32, lost_before: u32, flags: &Flags) {
        let delivered = self.sock.delivered.wrapping_sub(delivered_before);
        let lost = self.sock.lost.wrapping_sub(lost_before);
        let sample = self.rate_sample(delivered, lost);
        if self.cc.cong_control(&mut self.sock, &sample) {
            return;
        }
        if matches!(self.sock.ca_state, CaState::Cwr | CaState::Recovery) {
            self.reduce(delivered, lost, flags.una_advanced);
        } else if self.may_raise(flags) {
            self.cc.cong_avoid(&mut self.sock, delivered);
            self.cwnd_stamp_ns = self.sock.now_ns;
        }
        self.update_pacing_rate();
    }

    /// `tcp_may_raise_cwnd`.
    fn may_raise(&self, flags: &Flags) -> bool {
        if self.rack.reordering > REORDERING {
            flags.data_acked || flags.data_sacked || flags.una_advanced
        } else {
            flags.data_acked
        }
    }

    /// `tcp_xmit_recovery`.
    fn transmit_for_recovery(&mut self, send: Send) {
        match send {
            Send::Nothing => return,
            Send::New => {
                self.push();
                if self.next > self.recovery.high {
                    return;
                }
                self.recovery.frto = false;
            }
            Send::Lost => {}
        }
        self.retransmit();
    }

    /// `tcp_sacktag_write_queue`.
    fn take_sack(&mut self, ack: &Ack, prior_una: u64, sacked: &mut Sacked, flags: &mut Flags) {
        let blocks = &ack.sack[..usize::from(ack.blocks)];
        if self.sock.sacked_out == 0 {
            self.board.highest_sack = prior_una;
            self.board.known.clear();
        }
        let duplicate = blocks.first().copied().filter(|_| ack.is_dsack);
        let duplicates = duplicate.map_or(0, |range| self.note_duplicate(range, prior_una, sacked, flags));
        let mut sorted: Vec<Range> =
            blocks[usize::from(duplicate.is_some())..].iter().copied().filter(|b| b.1 > prior_una).collect();
        sorted.sort_unstable();
        for block in &sorted {
            for part in self.board.unknown(*block) {
                self.take_part(part, sacked, flags);
            }
        }
        self.sock.sack = Default::default();
        for (shown, block) in self.sock.sack.iter_mut().zip(&sorted) {
            *shown = (block.0 as u32, block.1 as u32);
        }
        self.board.known = sorted;
        self.sock.delivered = self.sock.delivered.wrapping_add(duplicates);
        if self.sock.ca_state != CaState::Loss || self.recovery.undo_marker.is_some() {
            self.check_reordering(sacked.reordered);
        }
    }

    /// `tcp_check_dsack` and `tcp_dsack_seen`. Returns how many unnecessary retransmissions it reports.
    fn note_duplicate(&mut self, range: Range, prior_una: u64, found: &mut Sacked, flags: &mut Flags) -> u32 {
        let segments = (range.1 - range.0).div_ceil(u64::from(self.sock.mss)).max(1) as u32;
        if self.timers.probe_was_retransmission && self.timers.probe_end == Some(range.1) {
            flags.dsack_of_probe = true;
        }
        self.duplicates += segments;
        if self.duplicates > self.sock.total_retrans {
            return 0; // the network duplicated it
        }
        self.rack.dsack_seen |= self.rack.reorderings > 0 && !flags.dsack_of_probe;
        flags.dsack = true;
        if range.1 <= prior_una {
            self.retransmitted_in_vain(range.1, segments);
        } else {
            self.note_duplicate_of_queue(range, found);
        }
        segments
    }

    /// The share of `tcp_sacktag_one` in a DSACK: segments that are still in the queue.
    fn note_duplicate_of_queue(&mut self, range: Range, found: &mut Sacked) {
        let mut number = self.board.at(range.0);
        while let Some(&segment) = self.board.get(number).filter(|segment| segment.end() <= range.1) {
            number += 1;
            if segment.seq < range.0 || !segment.was_retransmitted() {
                continue;
            }
            self.retransmitted_in_vain(segment.end(), 1);
            if segment.sacked {
                found.reordered = found.reordered.min(segment.seq);
            }
            if segment.retransmitted
                && !segment.lost
                && let Some(place) = self.board.get_mut(number - 1)
            {
                place.retransmitted = false; // both copies have arrived
                self.sock.retrans_out -= 1;
            }
        }
    }

    /// Counts retransmissions that were unnecessary, the last of them up to `end`.
    fn retransmitted_in_vain(&mut self, end: u64, segments: u32) {
        if self.recovery.undo_marker.is_some_and(|marker| end > marker)
            && let Some(left) = &mut self.recovery.undo_retrans
        {
            *left = left.saturating_sub(segments);
        }
    }

    /// `tcp_sacktag_walk` and `tcp_sacktag_one`.
    fn take_part(&mut self, part: Range, found: &mut Sacked, flags: &mut Flags) {
        let mut number = self.board.at(part.0);
        while let Some(&segment) = self.board.get(number) {
            if segment.seq >= part.1 {
                break;
            }
            number += 1;
            if segment.sacked || segment.seq < part.0 || segment.end() > part.1 {
                continue;
            }
            self.rack_advance(&segment);
            let mut after = segment;
            if segment.retransmitted {
                if segment.lost {
                    after.lost = false;
                    after.retransmitted = false;
                    self.sock.lost_out -= 1;
                    self.sock.retrans_out -= 1;
                }
            } else {
                if !segment.ever_retransmitted {
                    if segment.seq < self.highest_sack() {
                        found.reordered = found.reordered.min(segment.seq);
                    }
                    flags.original_delivered |= segment.end() <= self.recovery.high;
                    found.times.add(segment.sent_ns);
                }
                if segment.lost {
                    after.lost = false;
                    self.sock.lost_out -= 1;
                }
            }
            after.sacked = true;
            flags.data_sacked = true;
            self.sock.sacked_out += 1;
            self.sock.delivered = self.sock.delivered.wrapping_add(1);
            self.rate_delivered(&segment);
            after.state.delivered_ns = None;
            self.board.highest_sack = self.board.highest_sack.max(segment.end());
            if let Some(place) = self.board.get_mut(number - 1) {
                *place = after;
            }
        }
    }

    /// `tcp_clean_rtx_queue`.
    fn clean(&mut self, prior_una: u64, prior_highest: u64, sacked: &Sacked, flags: &mut Flags) {
        let (prior_sacked, mut acked) = (self.sock.sacked_out, 0);
        let (mut times, mut reordered, mut retransmitted) = (Times::default(), self.next, false);
        while self.board.head().is_some_and(|head| head.end() <= self.una) {
            let Some(segment) = self.board.pop() else { break };
            acked += 1;
            if segment.was_retransmitted() {
                self.sock.retrans_out -= u32::from(segment.retransmitted);
                retransmitted = true;
            } else if !segment.sacked {
                times.add(segment.sent_ns);
                reordered = reordered.min(segment.seq);
                flags.original_delivered |= segment.end() <= self.recovery.high;
            }
            if segment.sacked {
                self.sock.sacked_out -= 1;
            } else {
                self.sock.delivered = self.sock.delivered.wrapping_add(1);
                // the echoed timestamp precedes the retransmission: the original arrived
                let spurious = segment.was_retransmitted() && self.echo_ms.is_some_and(|e| e < ms(segment.sent_ns));
                if !spurious {
                    self.rack_advance(&segment);
                }
            }
            self.sock.lost_out -= u32::from(segment.lost);
            self.sock.packets_out -= 1;
            self.rate_delivered(&segment);
        }
        let now_ns = self.sock.now_ns;
        let since = |sent_ns: u64| us_between(sent_ns, now_ns) as u32;
        let (mut smoothed, mut latest) = (None, None);
        if let (Some((first, last)), false) = (times.0, retransmitted) {
            smoothed = Some(since(first));
            latest = Some(since(last));
            let one = acked == 1 && prior_sacked == 0 && self.una - prior_una < u64::from(self.sock.mss);
            let at_once = self.sample.prior_delivered.wrapping_add(1) == self.sock.delivered;
            flags.maybe_delayed = one && at_once && !(flags.data_sacked || flags.ece || flags.dsack);
        }
        let from_sack = sacked.times.0.map(|(first, last)| (since(first), since(last)));
        if let Some((_, last)) = from_sack {
            latest = Some(last);
        }
        smoothed = smoothed.or(from_sack.map(|(first, _)| first));
        if smoothed.is_none() && acked > 0 {
            // only retransmitted data: the RTT comes from the timestamp, which may be in the future for a paced segment
            let by_stamp = self.echo_ms.and_then(|echo| ms(now_ns).wrapping_sub(echo).max(1).checked_mul(1000));
            smoothed = by_stamp;
            latest = by_stamp;
        }
        self.sample.rtt_us = latest;
        self.sample.is_ack_delayed = flags.maybe_delayed;
        if let (Some(smoothed), Some(latest)) = (smoothed, latest) {
            self.take_rtt(if latest == 0 { JIFFY_US } else { latest }, smoothed, flags.maybe_delayed);
        }
        if acked > 0 {
            flags.data_acked = true;
            flags.set_timer = true;
            if reordered < prior_highest {
                self.check_reordering(reordered);
            }
        } else if let (Some((sack_us, _)), Some(head)) = (from_sack, self.board.head()) {
            flags.set_timer |= sack_us > since(head.sent_ns);
        }
        self.cc.pkts_acked(&mut self.sock, acked, latest);
    }

    /// Adds a sample to both estimates. `maybe_delayed`: the sample may include the receiver's delay of its ACK.
    pub(super) fn take_rtt(&mut self, rtt_us: u32, smoothed_us: u32, maybe_delayed: bool) {
        if !(maybe_delayed && rtt_us > self.sock.min_rtt_us) {
            let now = jiffies(self.sock.now_ns);
            self.sock.min_rtt_us = self.rtt.least(now, rtt_us.max(1));
        }
        self.rtt.estimate(&mut self.sock.srtt_us, smoothed_us.max(1), self.una, self.next);
    }

    /// `tcp_process_tlp_ack`.
    fn process_probe_ack(&mut self, cumulative: u64, flags: &Flags) {
        let Some(end) = self.timers.probe_end.filter(|end| cumulative >= *end) else { return };
        if !self.timers.probe_was_retransmission || flags.dsack_of_probe {
            self.timers.probe_end = None;
        } else if cumulative > end {
            // the probe has repaired a loss, so the window is reduced once
            self.begin_reduction();
            self.set_state(CaState::Cwr);
            self.end_reduction();
            self.try_keep_open();
        } else if !flags.una_advanced && !flags.data_acked && !flags.data_sacked {
            self.timers.probe_end = None; // both copies arrived
        }
    }
}

fn ms(ns: u64) -> u32 {
    (ns / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MS, MSS, START_MS, ack, sender};
    use crate::congestion::{CongestionControl, Sock};
    use crate::packet::Ack;

    /// Sets the window to `snd_una` when an ACK arrives.
    struct Witness;

    impl CongestionControl for Witness {
        fn init(&mut self, _sock: &mut Sock) {}

        fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
            sock.snd_cwnd
        }

        fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
            sock.snd_cwnd
        }

        fn pkts_acked(&mut self, sock: &mut Sock, _acked: u32, _rtt_us: Option<u32>) {
            sock.snd_cwnd = sock.snd_una;
        }
    }

    /// `tcp_snd_una_update` comes before `tcp_clean_rtx_queue`.
    #[test]
    fn a_congestion_control_sees_what_its_ack_acknowledges() {
        let mut sender = sender(20, None);
        sender.cc = Box::new(Witness);
        sender.acknowledge((START_MS + 100) * MS, &ack(2, 0..0, START_MS));
        assert_eq!(u64::from(sender.sock.snd_cwnd), 2 * MSS);
    }

    /// `recv_sack_cache`: sorted, without the DSACK, and kept by ACKs without blocks.
    #[test]
    fn a_congestion_control_sees_the_last_sack_blocks() {
        let mut sender = sender(20, None);
        let sack = [(12 * MSS, 13 * MSS), (4 * MSS, 6 * MSS), (0, 0)];
        sender.acknowledge((START_MS + 100) * MS, &Ack { sack, blocks: 2, ..ack(1, 0..0, START_MS) });
        assert_eq!(sender.sock.sack, [(4000, 6000), (12_000, 13_000), (0, 0)]);
        sender.acknowledge((START_MS + 101) * MS, &ack(2, 0..0, START_MS));
        assert_eq!(sender.sock.sack[1], (12_000, 13_000));
        let sack = [(0, MSS), (12 * MSS, 13 * MSS), (0, 0)];
        sender.acknowledge((START_MS + 102) * MS, &Ack { sack, blocks: 2, is_dsack: true, ..ack(6, 0..0, START_MS) });
        assert_eq!(sender.sock.sack, [(12_000, 13_000), (0, 0), (0, 0)]);
    }

    /// `tcp_cong_avoid`: a window that grew has not been unused.
    #[test]
    fn growth_restarts_the_time_of_an_unused_window() {
        let mut sender = sender(20, None);
        sender.acknowledge((START_MS + 100) * MS, &ack(2, 0..0, START_MS));
        assert_eq!(sender.cwnd_stamp_ns, (START_MS + 100) * MS);
    }

    /// `tcp_dsack_seen`: what arrived twice was delivered twice; RACK was only wrong if it knew that segments are
    /// reordered.
    #[test]
    fn a_duplicate_is_delivered_and_widens_racks_window_only_after_reordering() {
        for (reorderings, seen) in [(0, false), (1, true)] {
            let mut sender = sender(20, None);
            sender.retransmit_segment(0);
            sender.rack.reorderings = reorderings;
            let before = sender.sock.delivered;
            sender.acknowledge((START_MS + 100) * MS, &Ack { is_dsack: true, ..ack(1, 0..1, START_MS) });
            assert_eq!(sender.sock.delivered - before, 2, "the segment and its copy");
            assert_eq!(sender.rack.window_steps > 1, seen);
        }
    }

    /// A probe retransmits the only segment. Its ACK echoes a timestamp from the future, which a paced segment can
    /// have.
    #[test]
    fn a_time_stamp_from_the_future_is_no_round_trip_time() {
        let mut sender = sender(1, Some(1));
        sender.timer(1312 * MS);
        assert_eq!(sender.sock.total_retrans, 1);
        let before = sender.sock.srtt_us;
        sender.acknowledge(1400 * MS, &ack(1, 0..0, 1401));
        assert_eq!((sender.sock.packets_out, sender.sock.srtt_us), (0, before));
    }

    /// `tcp_sacktag_one`: a redundant retransmission is no longer in flight.
    #[test]
    fn a_retransmission_that_a_dsack_reports_is_not_in_flight() {
        let mut sender = sender(20, None);
        sender.retransmit_segment(1);
        let mut duplicate = Ack { is_dsack: true, ..ack(0, 1..2, START_MS) };
        duplicate.sack[1] = (MSS, 3 * MSS);
        duplicate.blocks = 2;
        sender.acknowledge((START_MS + 100) * MS, &duplicate);
        assert!(sender.board.get(1).is_some_and(|segment| segment.sacked && !segment.retransmitted));
        assert_eq!(sender.sock.retrans_out, 0);
    }
}
