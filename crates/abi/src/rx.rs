//! What the receiver's programs, `arwa` and `drwa`, and the sender's algorithm `arwa` did.

use bytemuck::{Pod, Zeroable};

/// One CPU's counters; the value of the pinned map `rx_counters` (`struct rx_counters_v1`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct RxCounters {
    /// Connections whose both ends said that they know hints.
    pub flows_agreed: u64,
    /// Hints that came of an estimate.
    pub hints_made: u64,
    /// ACKs that carried a hint; each hint goes on several.
    pub hints_sent: u64,
    /// ACKs that had no room for one.
    pub hints_without_room: u64,
    /// Hints that came with ACKs, each counted once, and were given to the sender's algorithm.
    pub hints_received: u64,
    /// ACKs whose hint was not: without meaning, or sooner than a receiver makes them.
    pub hints_refused: u64,
    /// Hints that a sender acted on; where its window is at a limit, or not what holds it back, that moves nothing.
    pub hints_applied: u64,
    /// Connections whose receive window DRWA took over.
    pub flows_clamped: u64,
    /// Times it set a window clamp.
    pub clamps_set: u64,
    /// Times the kernel refused that.
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
