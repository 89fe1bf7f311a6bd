//! What an ARWA receiver tells the sender about a flow.

use bytemuck::{Pod, Zeroable};

/// The last hint of a flow's receiver. A writer stores the time first and moves the sequence last.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Hint {
    /// When it came, [`crate::clock::monotonic_ns`].
    pub time_ns: u64,
    /// Moves with each hint; 0: never written.
    pub sequence: u32,
    /// 1..=70: lower W by so many percent; 101..=120: raise it by what exceeds 100.
    pub hint: u8,
    /// Zero.
    pub pad: [u8; 3],
}

const _: () = assert!(size_of::<Hint>() == 16);
