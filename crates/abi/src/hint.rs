//! What the receiver of a flow asks of its sender: the value of the socket storage `arwa_hint`.
//!
//! An agent writes it as it comes with an ACK; `arwa` reads it at each ACK, and acts on a hint once. A program that writes
//! in place stores the time and the hint first and moves the sequence last. A write from userspace
//! (`bpf_map_update_elem` with the socket's descriptor as key) takes the place of the whole at once.

use bytemuck::{Pod, Zeroable};
use std::ops::RangeInclusive;

/// Hints that shrink the window, by so many percent.
pub const SHRINK: RangeInclusive<u8> = 1..=70;
/// Hints that grow the window, by what is above 100 in percent. All others mean nothing.
pub const GROW: RangeInclusive<u8> = 101..=120;
/// A hint may be dated this much later than the time stamp of the socket that reads it.
pub const CLOCK_SLACK_MS: u32 = 10;

/// Version 2 of the hint.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ArwaHint {
    /// When it came, [`crate::clock::monotonic_ns`].
    pub time_ns: u64,
    /// 0: never written; else another number for each hint.
    pub sequence: u32,
    /// [`SHRINK`], [`GROW`], or nothing.
    pub hint: u8,
    /// Its number in the TCP option, by which the agent knows copies. Nothing to `arwa`.
    pub wire_sequence: u8,
    /// Zero.
    pub pad: [u8; 2],
    /// Bytes of the connection that were acknowledged when it came, by which the agent refuses hints that come faster than a
    /// receiver makes them. Nothing to `arwa`.
    pub bytes_acked: u64,
}

const _: () = assert!(size_of::<ArwaHint>() == 24);
