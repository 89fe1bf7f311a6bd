//! Counters of the receiver's programs, `arwa` and `drwa`, and of the sender's algorithm `arwa`.

use bytemuck::{Pod, Zeroable};

/// One CPU's counters; the value of the pinned map `rx_counters` (`struct rx_counters_v1`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct RxCounters {
    /// Connections whose two ends both announced that they support hints.
    pub flows_agreed: u64,
    /// Hints made from an estimate.
    pub hints_made: u64,
    /// ACKs sent with a hint; each hint is sent on several.
    pub hints_sent: u64,
    /// ACKs that had no room for a hint.
    pub hints_without_room: u64,
    /// Hints that arrived with ACKs and were passed to the sender's algorithm; each hint counts once.
    pub hints_received: u64,
    /// ACKs whose hint was ignored: it was invalid, or arrived sooner than a receiver makes hints.
    pub hints_refused: u64,
    /// Hints that a sender acted on, even if its window did not change because it is at a limit or does not limit the
    /// sender.
    pub hints_applied: u64,
    /// Connections whose receive window DRWA took over.
    pub flows_clamped: u64,
    /// Times that DRWA set a window clamp.
    pub clamps_set: u64,
    /// Times that the kernel refused to set a window clamp.
    pub clamps_refused: u64,
}

impl RxCounters {
    /// Adds another CPU's counters.
    pub fn add(&mut self, other: &Self) {
        let all: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(self));
        for (a, b) in all.iter_mut().zip(bytemuck::cast_slice::<_, u64>(std::slice::from_ref(other))) {
            *a = a.wrapping_add(*b);
        }
    }
}
