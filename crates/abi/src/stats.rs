//! Counters that an algorithm keeps per CPU, and updates only at the loss, timeout and release of a flow.

use crate::histogram::Histogram;
use bytemuck::{Pod, Zeroable};

/// One CPU's counters of an algorithm, over all its versions since it was loaded; the value of its pinned `stats` map
/// (`struct hotcc_stats_v2`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct AlgoStats {
    /// Flows that began to use the algorithm (`init`).
    pub flows_opened: u64,
    /// Flows that stopped using it (`release`: closed, or moved to another algorithm or version).
    pub flows_closed: u64,
    /// Bytes acknowledged while a flow used it.
    pub acked_bytes: u64,
    /// Segments retransmitted while a flow used it.
    pub retransmitted_segments: u64,
    /// Loss recoveries entered (fast recovery).
    pub loss_events: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Decisions made with a fresh radio signal.
    pub signal_fresh: u64,
    /// Decisions made without a radio signal because it was too old.
    pub signal_stale: u64,
    /// Decisions made without a radio signal because there was none.
    pub signal_absent: u64,
    /// Minimum RTT of each flow at its release, over the kernel's window (`tcp_min_rtt_wlen`, 300 s), microseconds.
    pub min_rtt_us: Histogram,
    /// Smoothed RTT of each flow at its release, microseconds.
    pub final_srtt_us: Histogram,
    /// Time each flow spent under one version, milliseconds.
    pub duration_ms: Histogram,
}

impl AlgoStats {
    /// Adds another CPU's or version's counters.
    pub fn add(&mut self, other: &Self) {
        let all: &mut [u64] = bytemuck::cast_slice_mut(std::slice::from_mut(self));
        for (a, b) in all.iter_mut().zip(bytemuck::cast_slice::<_, u64>(std::slice::from_ref(other))) {
            *a = a.wrapping_add(*b);
        }
    }
}
