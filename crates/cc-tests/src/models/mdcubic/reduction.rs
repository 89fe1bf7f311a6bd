//! W after a loss, in domain 1 and in domain 2.

use super::Mdcubic;
use hotcc_host_algo::View;

impl Mdcubic {
    /// Returns the delegate's `recalc_ssthresh` for W1 of this window.
    pub(super) fn recalculated(&mut self, window: u32) -> u32 {
        self.coverage.recalculations += 1;
        (self.w1(window) * 7 / 10).max(2)
    }

    /// Returns W after a loss in domain 1: CUBIC's reduction of W1, plus D2, about which the loss says nothing. A loss
    /// never raises W, however large D2 seems to be.
    pub(super) fn reduced(&mut self, window: u32) -> u32 {
        let whole = self.recalculated(window).saturating_add(self.d2_segments);
        self.coverage.reductions_limited += u64::from(whole > window.max(2));
        whole.min(window.max(2))
    }

    /// Returns the segments of a window that wait in a queue of domain 2. Domain 2's share of the window is its share
    /// of the smoothed RTT; without a queue it takes the least RTT beyond the PEP. A difference below `sixteenths` of
    /// the smoothed RTT does not count as a queue. Segments below the client's last SACK block are no longer in domain
    /// 2: they were lost, or have arrived.
    pub(super) fn waiting_in_domain_2(&mut self, sock: &View, window: u32, sixteenths: f64) -> u32 {
        if self.tunables.d2_reduction == 1 || self.tunables.kind == 1 || !self.clocked {
            return 0;
        }
        let rtt_us = f64::from(sock.srtt_us / 8);
        let [here, window] = [self.in_domain_2_now(sock), window].map(f64::from);
        let without_waiting = window * self.beyond_us(sock);
        let least = without_waiting + window * (rtt_us * sixteenths / 16.0).floor();
        let waits = rtt_us > 0.0 && here * rtt_us >= least;
        self.coverage.queues += u64::from(waits);
        self.coverage.no_queues += u64::from(!waits);
        if waits { ((here * rtt_us - without_waiting) / rtt_us) as u32 } else { 0 }
    }

    /// Returns W after more losses in domain 2 than are forgiven. If W1 is a rate, clocked by the PEP, and domain 2
    /// loses segments because this rate is too high, the number of losses shows by how much; CUBIC's reduction is the
    /// limit.
    pub(super) fn reduced_by_losses(&mut self, sock: &View, window: u32) -> u32 {
        let as_cubic = self.reduced(window);
        let by_losses = self.waiting_in_domain_2(sock, window, 3.0) > 0;
        let is_counted = self.events < 0xffff; // a greater count makes no difference, however wide the field
        let rest = window.checked_sub(self.events).filter(|rest| by_losses && is_counted && *rest > as_cubic);
        self.coverage.reduced_by_losses += u64::from(rest.is_some());
        rest.unwrap_or(as_cubic)
    }

    /// Returns W after a loss from a long queue in domain 2. W gives up half of that queue; CUBIC's reduction is the
    /// limit. Slow start ends, with at most what the rate fills in both domains.
    pub(super) fn reduced_by_queue(&mut self, sock: &View, window: u32, queue: u32) -> u32 {
        let as_cubic = self.reduced(window);
        self.was_full = true;
        let rest = window.saturating_sub(queue / 2).max(as_cubic);
        self.coverage.reduced_by_queue += u64::from(rest > as_cubic);
        let w1 = if self.d2_segments == 0 { window } else { self.w1(window) };
        if w1 >= self.before_ssthresh {
            return rest;
        }
        let filled = self.filled_by_the_rate(sock);
        self.coverage.starts_ended += u64::from(filled < f64::from(rest));
        f64::from(rest).min(filled) as u32
    }
}
