//! The kernel's NewReno (`net/ipv4/tcp_cong.c`), for the algorithms that extend it.

use super::slow_start;
use hotcc_host_algo::View;

/// What an ACK counted for: nothing if W does not hold the sender back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Slow start.
    pub slow_start: bool,
    /// Congestion avoidance.
    pub avoidance: bool,
}

/// `tcp_reno_cong_avoid`.
pub fn cong_avoid(sock: &mut View, acked: u32) -> Growth {
    let mut growth = Growth::default();
    if !sock.cwnd_limited() {
        return growth;
    }
    let mut left = acked;
    if sock.in_slow_start() {
        growth.slow_start = true;
        left = slow_start(sock, acked);
        if left == 0 {
            return growth;
        }
    }
    growth.avoidance = true;
    // tcp_cong_avoid_ai: one segment for each W acknowledged; a count left over from a larger W adds one at once
    let window = sock.snd_cwnd;
    if sock.snd_cwnd_cnt >= window {
        sock.snd_cwnd_cnt = 0;
        sock.snd_cwnd += 1;
    }
    sock.snd_cwnd_cnt += left;
    sock.snd_cwnd += sock.snd_cwnd_cnt / window;
    sock.snd_cwnd_cnt %= window;
    sock.snd_cwnd = sock.snd_cwnd.min(sock.snd_cwnd_clamp);
    growth
}

/// `tcp_reno_ssthresh`.
#[must_use]
pub fn ssthresh(sock: &View) -> u32 {
    half(sock.snd_cwnd)
}

/// Returns the window after a loss.
#[must_use]
pub fn half(window: u32) -> u32 {
    (window >> 1).max(2)
}

/// `tcp_reno_undo_cwnd`.
#[must_use]
pub fn undo_cwnd(sock: &View) -> u32 {
    sock.snd_cwnd.max(sock.prior_cwnd)
}
