//! Growth of W by the PEP's ACKs.

use super::{Mdcubic, reno};
use hotcc_host_algo::View;

impl Mdcubic {
    /// Grows W by the PEP's ACKs. Section II-C: "congestion control can be clocked by PEP ACKs"; slow start happens
    /// between sender and PEP.
    pub(super) fn clock(&mut self, sock: &mut View, risen: u32) {
        self.coverage.floors += u64::from(sock.snd_cwnd < self.d2_segments + 2);
        self.renew_d2(sock);
        let segments = self.whole_segments(sock, risen);
        if segments > 0 {
            let before = sock.snd_cwnd;
            self.grow(sock, segments);
            self.coverage.grown += u64::from(sock.snd_cwnd > before);
        }
        self.bound(sock);
    }

    /// Grows W in a recovery for losses in domain 2, which are hidden from CUBIC; the growth shows after the recovery.
    /// Slow start does not continue.
    pub(super) fn clock_recovery(&mut self, sock: &mut View, risen: u32) {
        let segments = self.whole_segments(sock, risen);
        let Some((window, threshold)) = self.before.filter(|_| segments > 0) else { return };
        // without a D2, W1 is W, which is 1 after a timeout and so below any threshold
        let w1 = if self.d2_segments == 0 { window } else { self.w1(window) };
        if w1 < threshold {
            self.coverage.slow_starts_waiting += 1;
            return;
        }
        let mut whole = View { snd_cwnd: window, snd_ssthresh: threshold, ..*sock };
        self.grow(&mut whole, segments);
        self.coverage.grown_in_recovery += u64::from(whole.snd_cwnd > window);
        self.before = Some((whole.snd_cwnd, threshold));
        self.undo_limit = whole.snd_cwnd;
        sock.snd_ssthresh = whole.snd_cwnd.max(2);
        sock.snd_cwnd_cnt = whole.snd_cwnd_cnt;
    }

    /// Returns the whole segments to grow for; the remaining bytes are kept for the next report.
    pub(super) fn whole_segments(&mut self, sock: &View, risen: u32) -> u32 {
        let newly = risen + self.remainder;
        self.remainder = newly % sock.mss;
        self.coverage.remainders += u64::from(self.remainder > 0);
        let segments = newly / sock.mss;
        if segments > 0 && !sock.cwnd_limited() {
            self.coverage.growth_unlimited += 1;
            return 0;
        }
        segments
    }

    /// Grows W1 as CUBIC does.
    pub(super) fn grow(&mut self, sock: &mut View, segments: u32) {
        sock.snd_cwnd = self.w1(sock.snd_cwnd);
        let growth = reno::cong_avoid(sock, segments);
        sock.snd_cwnd = self.whole_window(sock, sock.snd_cwnd);
        self.coverage.avoidances += 1;
        self.coverage.grown_slow_start += u64::from(growth.slow_start);
        self.coverage.grown_avoidance += u64::from(growth.avoidance);
    }
}
