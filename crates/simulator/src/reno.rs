//! Reno, as in the kernel's `tcp_reno` (net/ipv4/tcp_cong.c): RFC 5681 with appropriate byte counting.

use crate::congestion::{CongestionControl, Sock};
use crate::growth::{additive_increase, slow_start};

/// Reno, which has no state of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reno;

impl CongestionControl for Reno {
    fn init(&mut self, _sock: &mut Sock) {}

    fn ssthresh(&mut self, sock: &mut Sock) -> u32 {
        (sock.snd_cwnd >> 1).max(2)
    }

    fn cong_avoid(&mut self, sock: &mut Sock, mut acked: u32) {
        if !sock.cwnd_limited() {
            return;
        }
        if sock.in_slow_start() {
            acked = slow_start(sock, acked);
            if acked == 0 {
                return;
            }
        }
        additive_increase(sock, sock.snd_cwnd, acked);
    }

    fn undo_cwnd(&mut self, sock: &mut Sock) -> u32 {
        sock.snd_cwnd.max(sock.prior_cwnd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sock(snd_cwnd: u32, snd_ssthresh: u32) -> Sock {
        Sock { snd_cwnd, snd_ssthresh, snd_cwnd_clamp: u32::MAX, is_cwnd_limited: true, ..Sock::default() }
    }

    #[test]
    fn slow_start_ends_at_ssthresh_and_the_rest_counts_for_avoidance() {
        let mut sock = sock(8, 10);
        Reno.cong_avoid(&mut sock, 7);
        assert_eq!((sock.snd_cwnd, sock.snd_cwnd_cnt), (10, 5));
        Reno.cong_avoid(&mut sock, 5);
        assert_eq!((sock.snd_cwnd, sock.snd_cwnd_cnt), (11, 0), "one segment per window");
    }

    #[test]
    fn the_window_stays_if_it_does_not_hold_the_sender_back() {
        let mut sock = Sock { is_cwnd_limited: false, ..sock(20, 10) };
        Reno.cong_avoid(&mut sock, 20);
        assert_eq!(sock.snd_cwnd, 20);
        assert_eq!(Reno.ssthresh(&mut sock), 10);
    }
}
