//! The comparison of a queueing discipline of the kernel with the lab's: the same arrivals go into both.

use crate::queue::Parameters;
use serde::{Deserialize, Serialize};

/// A comparison.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Comparison {
    /// The discipline's arguments of `tc qdisc add`.
    pub kernel: String,
    /// The lab's discipline; drop-tail without.
    pub ours: Option<Parameters>,
    /// Capacity of the lab's queue.
    pub limit_bytes: u64,
    /// Rate of the link, which counts the bytes of Ethernet frames.
    pub rate_bps: u64,
    /// Packets, in order of time.
    pub arrivals: Vec<Arrival>,
}

/// A packet.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Arrival {
    /// Time since the start at which it is sent, at the earliest.
    pub at_ns: u64,
    /// Length of the Ethernet frame.
    pub bytes: u32,
    /// The two bits of its ECN field.
    pub ecn_bits: u8,
    /// Its flow.
    pub flow: u16,
}

/// The results of a discipline.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Counts {
    /// Packets that left the queue.
    pub sent: u64,
    /// Packets that left it marked.
    pub marked: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// The results of both, which the guest writes as JSON.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub struct Compared {
    /// The kernel's discipline.
    pub kernel: Counts,
    /// A hash over the packets that left it: each with its number, its mark, and how many had been sent by then.
    pub kernel_hash: u64,
    /// The lab's.
    pub ours: Counts,
    /// What the lab's code takes per packet; in virtual time, this is the number of instructions.
    pub ns_per_packet: f64,
}
