//! The kernel's helpers for growing a window: `tcp_slow_start` and `tcp_cong_avoid_ai`.

use crate::congestion::Sock;

/// Grows the window in slow start, up to ssthresh: by one segment for each acknowledged one (RFC 5681, section 3.1).
/// Returns the number of acknowledged segments that are left for congestion avoidance.
pub fn slow_start(sock: &mut Sock, acked: u32) -> u32 {
    let window = sock.snd_cwnd.saturating_add(acked).min(sock.snd_ssthresh);
    let left = acked - (window - sock.snd_cwnd);
    sock.snd_cwnd = window.min(sock.snd_cwnd_clamp);
    left
}

/// Grows the window in congestion avoidance: by one segment for every `segments_per_step` acknowledged ones.
pub fn additive_increase(sock: &mut Sock, segments_per_step: u32, acked: u32) {
    // If the step has become shorter, the credit of the longer step buys at most one segment.
    if sock.snd_cwnd_cnt >= segments_per_step {
        sock.snd_cwnd_cnt = 0;
        sock.snd_cwnd += 1;
    }
    sock.snd_cwnd_cnt += acked;
    if sock.snd_cwnd_cnt >= segments_per_step {
        let steps = sock.snd_cwnd_cnt / segments_per_step;
        sock.snd_cwnd_cnt -= steps * segments_per_step;
        sock.snd_cwnd += steps;
    }
    sock.snd_cwnd = sock.snd_cwnd.min(sock.snd_cwnd_clamp);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sock(snd_cwnd: u32, snd_ssthresh: u32) -> Sock {
        Sock { snd_cwnd, snd_ssthresh, snd_cwnd_clamp: 1000, ..Sock::default() }
    }

    #[test]
    fn slow_start_stops_at_ssthresh_and_returns_the_rest() {
        let mut s = sock(10, 20);
        assert_eq!((slow_start(&mut s, 4), s.snd_cwnd), (0, 14));
        assert_eq!((slow_start(&mut s, 9), s.snd_cwnd), (3, 20));
    }

    #[test]
    fn growth_stops_at_the_clamp() {
        let mut s = Sock { snd_cwnd_clamp: 12, ..sock(10, 100) };
        slow_start(&mut s, 5);
        assert_eq!(s.snd_cwnd, 12);
        additive_increase(&mut s, 2, 10);
        assert_eq!(s.snd_cwnd, 12);
    }

    #[test]
    fn additive_increase_keeps_the_remainder() {
        let mut s = sock(10, 5);
        additive_increase(&mut s, 4, 3);
        assert_eq!((s.snd_cwnd, s.snd_cwnd_cnt), (10, 3));
        additive_increase(&mut s, 4, 6);
        assert_eq!((s.snd_cwnd, s.snd_cwnd_cnt), (12, 1));
    }

    #[test]
    fn credit_of_a_longer_step_buys_one_segment() {
        let mut s = Sock { snd_cwnd_cnt: 50, ..sock(10, 5) };
        additive_increase(&mut s, 4, 1);
        assert_eq!((s.snd_cwnd, s.snd_cwnd_cnt), (11, 1));
    }
}
