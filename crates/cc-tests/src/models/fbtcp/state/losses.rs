//! What losses, marks and timeouts do to W and ssthresh.

use super::*;
use crate::models::reno;

impl State {
    /// "Immune to random packet losses": returns W, so that PRR sends one segment for each that arrives.
    pub(in crate::models::fbtcp) fn ssthresh(&mut self, sock: &View) -> u32 {
        self.coverage.add("reductions asked for");
        let window = sock.snd_cwnd.max(MIN_WINDOW);
        self.restore = Some(Restore { window, ssthresh: sock.snd_ssthresh });
        (self.step.whole, self.step.left) = (0, 0); // the running step ends
        window
    }

    /// Handles an ECN mark, which is no random loss: ssthresh becomes `ecn_permille` of W.
    pub(in crate::models::fbtcp) fn enter_cwr(&mut self, t: &Tunables, sock: &mut View) {
        self.coverage.add("marks");
        let window = self.abandon_drain(sock).unwrap_or(sock.snd_cwnd);
        sock.snd_ssthresh = part(window, t.ecn_permille).max(MIN_WINDOW);
        self.restore = None;
    }

    /// Ends a recovery: restores the W from before it, and ends slow start.
    pub(in crate::models::fbtcp) fn complete(&mut self, sock: &mut View) {
        let Some(restore) = self.restore.take() else { return };
        self.coverage.add("recoveries completed");
        if restore.window > sock.snd_cwnd {
            self.coverage.add("windows restored");
        }
        if restore.ssthresh > sock.snd_cwnd.max(restore.window) {
            self.coverage.add("slow starts ended by a loss");
        }
        sock.snd_cwnd = sock.snd_cwnd.max(restore.window).min(sock.snd_cwnd_clamp);
        let under = sock.snd_cwnd.saturating_sub(1);
        sock.snd_ssthresh = restore.ssthresh.min(under).max(three_quarters(sock.snd_cwnd)).max(MIN_WINDOW);
    }

    /// Handles a timeout, before which W was `window`; the kernel sets it to 1.
    pub(in crate::models::fbtcp) fn time_out(&mut self, sock: &mut View, window: u32) {
        self.coverage.add("timeouts");
        sock.snd_ssthresh = three_quarters(window).max(MIN_WINDOW);
        self.restore = None;
        (self.step.whole, self.step.left) = (0, 0); // the running step ends
        self.no_rule();
    }

    /// Undoes a reduction for a loss that proved spurious.
    pub(in crate::models::fbtcp) fn undo(&mut self, sock: &View) -> u32 {
        self.coverage.add("undos");
        self.restore = None;
        reno::undo_cwnd(sock)
    }
}
