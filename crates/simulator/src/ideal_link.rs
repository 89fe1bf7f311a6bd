//! One connection over an ideal link, for tests: a queue that is served at a fixed rate, a policer before it, an ACK
//! per segment, and no retransmissions. A segment counts as lost when the ACK of a later one arrives.

use crate::clock::micros;
use crate::congestion::{CaState, CongestionControl, INFINITE_SSTHRESH, RateSample, Sock};
use std::collections::VecDeque;

/// Segment size, bytes.
pub const MSS: u32 = 1448;

/// A token bucket.
#[derive(Clone, Copy)]
pub struct Policer {
    pub segments_per_s: u64,
    pub burst: u64,
}

/// The link.
#[derive(Clone, Copy)]
pub struct Link {
    pub segments_per_s: u64,
    pub delay_us: u64,
    /// Number of segments that fit into the queue.
    pub queue: u64,
    pub policer: Option<Policer>,
}

/// A segment in flight; the fields are those of `struct tcp_skb_cb` that rate samples need.
struct Segment {
    end_seq: u32,
    sent_ns: u64,
    first_sent_ns: u64,
    prior_delivered: u32,
    prior_delivered_ns: u64,
    /// Time at which its ACK arrives; `None` if the segment is lost.
    acked_ns: Option<u64>,
}

/// The sender and its segments in flight.
pub struct Connection {
    pub sock: Sock,
    link: Link,
    flight: VecDeque<Segment>,
    first_sent_ns: u64,
    link_free_ns: u64,
    tokens: f64,
    tokens_ns: u64,
    recovery_end: u32,
}

/// Returns a connection that always has data to send.
pub fn sock() -> Sock {
    Sock {
        snd_cwnd: 10,
        snd_ssthresh: INFINITE_SSTHRESH,
        snd_cwnd_clamp: u32::MAX,
        mss: MSS,
        is_cwnd_limited: true,
        ..Sock::default()
    }
}

impl Connection {
    pub fn new(link: Link) -> Self {
        let tokens = link.policer.map_or(0.0, |policer| policer.burst as f64);
        Self {
            sock: sock(),
            link,
            flight: VecDeque::new(),
            first_sent_ns: 0,
            link_free_ns: 0,
            tokens,
            tokens_ns: 0,
            recovery_end: 0,
        }
    }

    /// Runs the connection, and calls `observe` after each ACK.
    pub fn run(
        &mut self,
        control: &mut dyn CongestionControl,
        seconds: u64,
        mut observe: impl FnMut(&Sock, &dyn CongestionControl),
    ) {
        control.init(&mut self.sock);
        loop {
            let may_send = self.sock.packets_out < self.sock.snd_cwnd;
            let send_ns = may_send.then(|| self.sock.now_ns.max(self.sock.wstamp_ns));
            let ack_ns = self.flight.iter().find_map(|segment| segment.acked_ns);
            let (now_ns, is_ack) = match (send_ns, ack_ns) {
                (Some(send_ns), Some(ack_ns)) => (send_ns.min(ack_ns), ack_ns <= send_ns),
                (Some(send_ns), None) => (send_ns, false),
                (None, Some(ack_ns)) => (ack_ns, true),
                (None, None) => panic!("everything in flight is lost"),
            };
            if now_ns > seconds * 1_000_000_000 {
                return;
            }
            self.sock.now_ns = now_ns;
            if is_ack {
                self.receive_ack(control);
                observe(&self.sock, &*control);
            } else {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        let sock = &mut self.sock;
        if self.flight.is_empty() {
            self.first_sent_ns = sock.now_ns;
            sock.delivered_ns = sock.now_ns;
        }
        sock.snd_nxt = sock.snd_nxt.wrapping_add(MSS);
        sock.packets_out += 1;
        sock.lsnd_ns = sock.now_ns;
        if sock.needs_pacing {
            sock.wstamp_ns = sock.now_ns.max(sock.wstamp_ns) + u64::from(MSS) * 1_000_000_000 / sock.pacing_rate;
        }
        let (end_seq, sent_ns) = (sock.snd_nxt, sock.now_ns);
        let (prior_delivered, prior_delivered_ns) = (sock.delivered, sock.delivered_ns);
        let first_sent_ns = self.first_sent_ns;
        let acked_ns = self.forward();
        let segment = Segment { end_seq, sent_ns, first_sent_ns, prior_delivered, prior_delivered_ns, acked_ns };
        self.flight.push_back(segment);
    }

    /// Returns when the ACK of a segment that is sent now arrives; `None` if the segment is lost.
    fn forward(&mut self) -> Option<u64> {
        let now_ns = self.sock.now_ns;
        if let Some(policer) = self.link.policer {
            let gained = (now_ns - self.tokens_ns) as f64 * policer.segments_per_s as f64 / 1e9;
            self.tokens_ns = now_ns;
            self.tokens = (self.tokens + gained).min(policer.burst as f64);
            if self.tokens < 1.0 {
                return None;
            }
            self.tokens -= 1.0;
        }
        let segment_ns = 1_000_000_000 / self.link.segments_per_s;
        let start_ns = self.link_free_ns.max(now_ns);
        if (start_ns - now_ns) / segment_ns > self.link.queue {
            return None;
        }
        self.link_free_ns = start_ns + segment_ns;
        Some(self.link_free_ns + self.link.delay_us * 1000)
    }

    fn receive_ack(&mut self, control: &mut dyn CongestionControl) {
        let sock = &mut self.sock;
        let prior_in_flight = sock.packets_out;
        let (mut losses, mut is_another_episode) = (0, false);
        let segment = loop {
            let segment = self.flight.pop_front().expect("an ACK is of a segment in flight");
            sock.packets_out -= 1;
            if segment.acked_ns.is_some() {
                break segment;
            }
            losses += 1;
            // A segment that was sent before the last episode was noticed belongs to that episode, even if its loss is
            // noticed later.
            is_another_episode |= crate::clock::after(segment.end_seq, self.recovery_end);
        };
        sock.lost += losses;
        sock.snd_una = segment.end_seq;
        sock.delivered += 1;
        sock.delivered_ns = sock.now_ns;
        self.first_sent_ns = segment.sent_ns;
        let rtt_us = micros(sock.now_ns - segment.sent_ns) as u32;
        sock.srtt_us = if sock.srtt_us == 0 { rtt_us * 8 } else { sock.srtt_us - sock.srtt_us / 8 + rtt_us };
        sock.min_rtt_us = if sock.min_rtt_us == 0 { rtt_us } else { sock.min_rtt_us.min(rtt_us) };
        sock.max_packets_out = sock.snd_cwnd;
        control.pkts_acked(sock, 1, Some(rtt_us));

        let is_over = crate::clock::after(segment.end_seq, self.recovery_end);
        if sock.ca_state == CaState::Recovery && is_over {
            control.set_state(sock, CaState::Open);
            sock.ca_state = CaState::Open;
        }
        if is_another_episode && sock.ca_state == CaState::Open {
            sock.prior_cwnd = sock.snd_cwnd;
            sock.snd_ssthresh = control.ssthresh(sock);
            control.set_state(sock, CaState::Recovery);
            sock.ca_state = CaState::Recovery;
            self.recovery_end = sock.snd_nxt;
        }
        let send_ns = segment.sent_ns - segment.first_sent_ns;
        let ack_ns = sock.now_ns - segment.prior_delivered_ns;
        let sample = RateSample {
            prior_ns: segment.prior_delivered_ns,
            prior_delivered: segment.prior_delivered,
            delivered: (sock.delivered - segment.prior_delivered).cast_signed(),
            interval_us: micros(send_ns.max(ack_ns)).cast_signed(),
            rtt_us: i64::from(rtt_us),
            losses,
            acked_sacked: 1,
            prior_in_flight,
            is_app_limited: sock.app_limited > 0 && !crate::clock::after(segment.prior_delivered, sock.app_limited),
            is_retrans: false,
            is_ack_delayed: false,
        };
        if !control.cong_control(sock, &sample) {
            if sock.ca_state == CaState::Open {
                control.cong_avoid(sock, 1);
            } else {
                sock.snd_cwnd = sock.snd_ssthresh;
            }
        }
    }
}
