//! Drains: if the base RTT was not seen for long, W falls until the path must be empty. The least RTT measured then
//! becomes the base.

use super::*;

/// Least W of a drain, segments.
const MIN_DRAIN_SEGMENTS: u32 = 4;

/// A drain under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::models::fbtcp) struct Drain {
    /// W to go back to, segments.
    window: u32,
    /// Whether everything in flight was sent under the lower W.
    drained: bool,
}

impl State {
    /// Begins a drain, at three quarters of the target (eq 3), if one is due. Returns whether it did.
    pub(super) fn begin_drain(&mut self, t: &Tunables, sock: &mut View) -> bool {
        let (Some(base), Some(least_us)) = (self.base, self.round.least_rtt_us) else { return false };
        if t.base_window_us == 0 || elapsed_us(base.seen_us, sock.now_us) < u64::from(t.base_window_us) {
            return false;
        }
        let (_, csi) = Self::congestion_status(base.rtt_us, least_us);
        if csi == 0.0 {
            return false;
        }
        self.coverage.add("drains");
        let window = self.window(sock);
        let target = (f64::from(window) * csi).floor();
        self.drain = Some(Drain { window, drained: false });
        self.lower(sock, ((target * 3.0 / 4.0).floor() as u32).max(MIN_DRAIN_SEGMENTS).min(window));
        true
    }

    pub(super) fn end_drain_round(&mut self, sock: &mut View) {
        let Some(drain) = &mut self.drain else { return };
        let drained = std::mem::replace(&mut drain.drained, true);
        let window = drain.window;
        let Some(least_us) = self.round.least_rtt_us.filter(|_| drained) else { return };
        self.coverage.add("drains that found the base");
        self.drain = None;
        self.base = Some(Base { rtt_us: least_us, seen_us: sock.now_us });
        match &mut self.restore {
            Some(restore) if sock.ca_state == u32::from(RECOVERY) => {
                restore.window = window.max(MIN_WINDOW).min(sock.snd_cwnd_clamp);
                sock.snd_ssthresh = restore.window.max(MIN_WINDOW);
            }
            _ => sock.snd_cwnd = sock.snd_cwnd.max(window).min(sock.snd_cwnd_clamp),
        }
    }

    /// Ends a running drain without a result, and returns the W from before it. The next drain is at least
    /// `base_window_us` away.
    pub(super) fn abandon_drain(&mut self, sock: &View) -> Option<u32> {
        let drain = self.drain.take()?;
        self.coverage.add("drains abandoned");
        if let Some(base) = &mut self.base {
            base.seen_us = sock.now_us;
        }
        Some(drain.window)
    }

    /// Handles the entry to the loss state; the kernel sets W to 1. Within a recovery, the kernel reported no timeout.
    pub(in crate::models::fbtcp) fn enter_loss(&mut self, sock: &mut View) {
        if let Some(restore) = self.restore {
            self.time_out(sock, restore.window);
        }
        self.cut_drain_short(sock);
        self.start_span(sock); // the loss cap does not count what the timeout marked as lost
    }

    /// Ends a running drain; slow start then finds W, up to 3/4 of that from before it.
    pub(super) fn cut_drain_short(&mut self, sock: &mut View) {
        if let Some(window) = self.abandon_drain(sock) {
            sock.snd_ssthresh = three_quarters(window).max(MIN_WINDOW);
        }
    }
}
