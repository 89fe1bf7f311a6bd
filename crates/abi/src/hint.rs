//! A hint: what the receiver of a flow asks of its sender. It is the value of the socket storage `arwa_hint`.
//!
//! On the sending host, an agent writes each hint that arrives with an ACK. `arwa` reads the storage at each ACK, and
//! acts on a hint once. A program that writes in place stores the time and the hint first, and changes the sequence
//! last. A write from userspace (`bpf_map_update_elem` with the socket's descriptor as key) replaces the whole value at
//! once.

use bytemuck::{Pod, Zeroable};
use std::ops::RangeInclusive;

/// Hints that shrink the window, by this many percent.
pub const SHRINK: RangeInclusive<u8> = 1..=70;
/// Hints that grow the window, by the percentage above 100. Values outside both ranges mean nothing.
pub const GROW: RangeInclusive<u8> = 101..=120;
/// A hint may be dated this much later than the time stamp of the socket that reads it.
pub const CLOCK_SLACK_MS: u32 = 10;

/// Version 2 of the hint.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ArwaHint {
    /// When the hint arrived, [`crate::clock::monotonic_ns`].
    pub time_ns: u64,
    /// 0 if no hint was ever written; otherwise a different number for each hint.
    pub sequence: u32,
    /// A value in [`SHRINK`] or [`GROW`]; any other means nothing.
    pub hint: u8,
    /// The hint's number in the TCP option, by which the agent detects copies. `arwa` ignores it.
    pub wire_sequence: u8,
    /// Zero.
    pub pad: [u8; 2],
    /// Acknowledged bytes of the connection when the hint arrived. By these, the agent ignores hints that arrive faster
    /// than a receiver makes them. `arwa` ignores this field.
    pub bytes_acked: u64,
}

const _: () = assert!(size_of::<ArwaHint>() == 24);
