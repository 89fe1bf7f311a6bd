//! What is known of one loaded version of an algorithm: pinned beside it, written before it serves.

use bytemuck::{Pod, Zeroable};

/// Version of [`Meta`].
pub const META_VERSION: u32 = 1;

/// Value of a version's `meta` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Meta {
    /// [`META_VERSION`].
    pub version: u32,
    /// Times this version became the serving one (load, swap, rollback); 0: never served.
    pub activations: u32,
    /// When it last became the serving one: wall clock, nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// SHA-256 of the object file.
    pub sha256: [u8; 32],
    /// 1: all that follows a switch to it is done (defaults written again, open sockets moved); 0: not yet.
    pub committed: u64,
    /// Where it came from: `builtin:NAME`, or a path (its end, where it is longer than the field). NUL padded.
    pub object: [u8; 160],
    /// Profile its tunables started from. NUL padded.
    pub profile: [u8; 32],
    /// Successful swaps and rollbacks of this name so far, this version's activation included.
    pub swaps: u64,
}

const _: () = assert!(size_of::<Meta>() == 256);

/// What commands did since the counters' map was made (boot, usually): value of the pinned `counters` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Counters {
    /// [`META_VERSION`].
    pub version: u64,
    /// Algorithms loaded.
    pub loads: u64,
    /// Loads that failed.
    pub load_failures: u64,
    /// Algorithms swapped.
    pub swaps: u64,
    /// Swaps that failed; the old version went on serving.
    pub swap_failures: u64,
    /// Swaps undone.
    pub rollbacks: u64,
    /// Undoings that failed.
    pub rollback_failures: u64,
    /// Algorithms unloaded.
    pub unloads: u64,
}
