//! When segments are sent (net/ipv4/tcp_output.c): window, pacing, bundles, Nagle's algorithm, retransmissions.

use super::scoreboard::Segment;
use super::state::{Pending, Sender};
use crate::clock::jiffies;
use crate::congestion::{CaEvent, CaState};
use crate::packet::{Content, Data};

/// Number of segments at the start that are not paced, as in the original fq queueing discipline.
const UNPACED_SEGMENTS: u32 = 10;
/// `tcp_min_tso_segs`.
const MIN_BUNDLE: u32 = 2;
/// `sk_pacing_shift`: a bundle is about a millisecond of the pacing rate.
const PACING_SHIFT: u32 = 10;
/// `tcp_tso_rtt_log`: a short RTT allows larger bundles.
const BUNDLE_RTT_LOG: u32 = 9;
/// `sk_gso_max_size`: 64 KiB less the headers (`sk_dst_gso_max_size`).
const MAX_BUNDLE_BYTES: u64 = 65_536 - 321;
/// `tcp_init_cwnd`.
pub(super) const INITIAL_WINDOW: u32 = 10;

impl Sender {
    /// Sends what may be sent (`tcp_push_pending_frames`).
    pub(super) fn push(&mut self) {
        if self.next < self.written {
            self.write(false);
        }
    }

    /// `tcp_write_xmit`. `probe`: sends one segment, even if the window is full, and without Nagle's algorithm.
    pub(super) fn write(&mut self, probe: bool) {
        let largest = self.bundle();
        let mut sent = 0;
        while self.next < self.written {
            if self.waits_for_pacing() {
                break;
            }
            let mut quota = self.quota();
            if quota == 0 {
                if !probe {
                    break;
                }
                quota = 1;
            }
            let Some(segments) = self.take_segments(quota.min(largest), probe) else { break };
            self.transmit_new(segments);
            sent += segments;
            if probe {
                break;
            }
        }
        let is_limited = self.sock.in_flight() >= self.sock.snd_cwnd;
        if sent > 0 || is_limited {
            self.validate_window(is_limited);
        }
        if sent > 0 {
            self.count_sent(sent);
            if !probe {
                self.schedule_probe(false);
            }
        }
    }

    /// `tcp_cwnd_test`.
    fn quota(&self) -> u32 {
        let (window, in_flight) = (self.sock.snd_cwnd, self.sock.in_flight());
        if in_flight >= window { 0 } else { (window - in_flight).min((window >> 1).max(1)) }
    }

    /// `tcp_tso_segs`: returns the number of segments per bundle.
    fn bundle(&self) -> u32 {
        let mut bytes = self.sock.pacing_rate >> PACING_SHIFT;
        let shift = self.sock.min_rtt_us >> BUNDLE_RTT_LOG;
        if shift < u32::BITS {
            bytes += MAX_BUNDLE_BYTES >> shift;
        }
        let segments = (bytes.min(MAX_BUNDLE_BYTES) / u64::from(self.sock.mss)) as u32;
        let goal = segments.max(self.cc.min_tso_segs(&self.sock).unwrap_or(MIN_BUNDLE));
        goal.min(self.config.offload_segments)
    }

    /// Returns how many of the next segments may be sent together; `None` if the receiver's window or, unless this is a
    /// probe, Nagle's algorithm holds them back.
    fn take_segments(&self, most: u32, probe: bool) -> Option<u32> {
        let mss = u64::from(self.sock.mss);
        let available = self.written.min(self.window_end.max(self.next)) - self.next;
        if available >= mss {
            return Some(((available / mss) as u32).min(most));
        }
        if available == 0 || self.window_end < self.written {
            return None;
        }
        // Minshall's variant: a small segment waits for the ACK of the last small one
        let waits = !probe && self.sock.packets_out > 0 && self.small_end > self.una;
        (!waits).then_some(1)
    }

    /// `tcp_pacing_check`.
    fn waits_for_pacing(&mut self) -> bool {
        if !self.sock.needs_pacing || self.sock.wstamp_ns <= self.sock.now_ns {
            return false;
        }
        self.timers.pacing_ns = Some(self.sock.wstamp_ns);
        true
    }

    /// `tcp_update_skb_after_send`: returns the time at which a segment counts as sent. The next segment may follow
    /// once this one has left at the pacing rate.
    fn pace(&mut self, bytes: u32) -> u64 {
        let before_ns = self.sock.wstamp_ns;
        self.sock.wstamp_ns = before_ns.max(self.sock.now_ns);
        let sent_ns = self.sock.wstamp_ns;
        let rate = self.sock.pacing_rate;
        if self.sock.needs_pacing && rate != 0 && rate != u64::MAX && self.sock.data_segs_out >= UNPACED_SEGMENTS {
            let length_ns = u64::from(bytes) * 1_000_000_000 / rate;
            let credit_ns = sent_ns - before_ns;
            self.sock.wstamp_ns += length_ns - (length_ns / 2).min(credit_ns);
        }
        sent_ns
    }

    fn event_data_sent(&mut self, segments: u32) {
        if self.sock.in_flight() == 0 {
            self.cc.cwnd_event(&mut self.sock, CaEvent::TxStart);
        }
        self.sock.data_segs_out += segments;
        self.sock.lsnd_ns = self.sock.now_ns;
    }

    fn transmit_new(&mut self, segments: u32) {
        let was_idle = self.sock.packets_out == 0;
        let mss = u64::from(self.sock.mss);
        let (seq, len) = (self.next, (self.written - self.next).min(mss * u64::from(segments)));
        self.event_data_sent(segments);
        let sent_ns = self.pace(len as u32);
        let state = self.state_to_remember(sent_ns);
        let push = self.application.ends_write_within(seq, seq + len);
        for at in 0..u64::from(segments) {
            let from = seq + at * mss;
            let part = (seq + len - from).min(mss) as u32;
            self.board.push(Segment {
                seq: from,
                len: part,
                sent_ns,
                transmissions: 1,
                state,
                push,
                ..Segment::default()
            });
        }
        if len < mss {
            self.small_end = seq + len;
        }
        let cwr = std::mem::take(&mut self.must_send_cwr);
        self.out.push(Content::Data(Data { cwr, ..self.data(seq, len as u32, segments, sent_ns, push) }));
        self.next = seq + len;
        self.sock.packets_out += segments;
        if was_idle || self.timers.pending() == Some(Pending::Probe) {
            self.rearm_rto();
        }
    }

    /// `tcp_xmit_retransmit_queue`.
    pub(super) fn retransmit(&mut self) {
        if self.sock.packets_out == 0 {
            return;
        }
        let numbers = self.board.numbers();
        let mut rearm = false;
        let mut has_hole = false;
        for number in self.board.hint.unwrap_or(numbers.start)..numbers.end {
            if self.waits_for_pacing() {
                break;
            }
            if !has_hole {
                self.board.hint = Some(number);
            }
            if self.sock.snd_cwnd <= self.sock.in_flight() || self.sock.retrans_out >= self.sock.lost_out {
                break;
            }
            let Some(segment) = self.board.get(number) else { break };
            if !segment.lost {
                has_hole |= !segment.retransmitted && !segment.sacked;
                continue;
            }
            if segment.sacked || segment.retransmitted {
                continue;
            }
            self.retransmit_segment(number);
            self.count_sent(1);
            rearm |= number == numbers.start && self.timers.pending() != Some(Pending::Reordering);
        }
        if rearm {
            self.set_timer(Pending::Retransmission, self.rtt.rto_ticks + self.pacing_ticks());
        }
    }

    /// `tcp_retransmit_skb`.
    pub(super) fn retransmit_segment(&mut self, number: u64) {
        let Some(sent_ns) = self.transmit_again(number) else { return };
        if let Some(segment) = self.board.get_mut(number) {
            segment.retransmitted = true;
            self.sock.retrans_out += 1;
        }
        self.board.moved(number);
        let stamp_ms = self.stamp_ms(sent_ns);
        self.recovery.stamp_ms.get_or_insert(stamp_ms);
        self.recovery.undo_retrans = Some(self.recovery.undo_retrans.unwrap_or(0) + 1);
    }

    /// `__tcp_retransmit_skb`: returns the time at which the segment counts as sent.
    pub(super) fn transmit_again(&mut self, number: u64) -> Option<u64> {
        let Segment { seq, len, push, .. } = *self.board.get(number)?;
        self.event_data_sent(1);
        let sent_ns = self.pace(len);
        let state = self.state_to_remember(sent_ns);
        let segment = self.board.get_mut(number)?;
        segment.sent_ns = sent_ns;
        segment.transmissions += 1;
        segment.state = state;
        segment.ever_retransmitted = true;
        if !segment.lost {
            self.board.moved(number);
        }
        self.sock.total_retrans += 1;
        self.out.push(Content::Data(Data { is_retransmission: true, ..self.data(seq, len, 1, sent_ns, push) }));
        self.record(true);
        Some(sent_ns)
    }

    fn data(&self, seq: u64, len: u32, segments: u32, sent_ns: u64, push: bool) -> Data {
        let (stamp_ms, echo_ms) = (self.stamp_ms(sent_ns), self.sock.rcv_tsval);
        Data { seq, len, segments, stamp_ms, echo_ms, push, cwr: false, is_retransmission: false }
    }

    /// `tcp_cwnd_validate` (the concern of RFC 7661).
    fn validate_window(&mut self, is_limited: bool) {
        let (una, next) = (self.una, self.next);
        let sock = &mut self.sock;
        let larger = !sock.is_cwnd_limited && sock.packets_out > sock.max_packets_out;
        if una >= self.usage_end || is_limited || larger {
            sock.is_cwnd_limited = is_limited;
            sock.max_packets_out = sock.packets_out;
            self.usage_end = next;
        }
        if sock.cwnd_limited() {
            self.cwnd_used = 0;
            self.cwnd_stamp_ns = sock.now_ns;
            return;
        }
        self.cwnd_used = self.cwnd_used.max(sock.packets_out);
        let idle = jiffies(sock.now_ns) - jiffies(self.cwnd_stamp_ns);
        if idle >= self.rtt.rto_ticks && !self.cc.has_cong_control() {
            self.shrink_unused();
        }
    }

    /// `tcp_cwnd_application_limited`: not while the application waits for room in its buffer.
    fn shrink_unused(&mut self) {
        if self.sock.ca_state == CaState::Open && !self.waits_for_room() {
            let used = self.cwnd_used.max(INITIAL_WINDOW);
            if used < self.sock.snd_cwnd {
                self.sock.snd_ssthresh = self.current_ssthresh();
                self.sock.snd_cwnd = (self.sock.snd_cwnd + used) >> 1;
            }
            self.cwnd_used = 0;
        }
        self.cwnd_stamp_ns = self.sock.now_ns;
    }

    /// `tcp_slow_start_after_idle_check`: applied when the application writes (RFC 2861).
    pub(super) fn restart_after_idle(&mut self) {
        if self.sock.packets_out > 0 || self.cc.has_cong_control() {
            return;
        }
        let mut idle = jiffies(self.sock.now_ns) - jiffies(self.sock.lsnd_ns);
        let rto = self.rtt.rto_ticks;
        if self.sock.data_segs_out == 0 || idle <= rto {
            return;
        }
        self.cc.cwnd_event(&mut self.sock, CaEvent::CwndRestart);
        self.sock.snd_ssthresh = self.current_ssthresh();
        let least = self.sock.snd_cwnd.min(INITIAL_WINDOW);
        while idle > rto && self.sock.snd_cwnd > least {
            idle -= rto;
            self.sock.snd_cwnd >>= 1;
        }
        self.sock.snd_cwnd = self.sock.snd_cwnd.max(least);
        self.cwnd_stamp_ns = self.sock.now_ns;
        self.cwnd_used = 0;
    }

    fn stamp_ms(&self, sent_ns: u64) -> u32 {
        (sent_ns / 1_000_000) as u32
    }
}

#[cfg(test)]
mod tests;
