//! Metadata of one loaded version of an algorithm: pinned beside it, and written before the version serves.

use bytemuck::{Pod, Zeroable};

/// Version of [`Meta`].
pub const META_VERSION: u32 = 1;

/// Value of a version's `meta` map.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Meta {
    /// [`META_VERSION`].
    pub version: u32,
    /// Number of times that this version became the serving one (load, swap, rollback); 0 if it never served.
    pub activations: u32,
    /// When it last became the serving one: wall clock, nanoseconds since 1970.
    pub since_unix_ns: u64,
    /// SHA-256 of the object file.
    pub sha256: [u8; 32],
    /// 1 if all steps that follow a switch to this version are done (defaults rewritten, open sockets moved), else 0.
    pub committed: u64,
    /// Origin of the object: `builtin:NAME`, or a path (the end of it, if it is longer than the field). NUL padded.
    pub object: [u8; 160],
    /// Profile that its tunables started from. NUL padded.
    pub profile: [u8; 32],
    /// Successful swaps and rollbacks of this name so far, including this version's activation.
    pub swaps: u64,
}

const _: () = assert!(size_of::<Meta>() == 256);

/// Counts of what commands did since the counters' map was created (usually since boot): the value of the pinned
/// `counters` map.
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
    /// Swaps that failed.
    pub swap_failures: u64,
    /// Swaps rolled back.
    pub rollbacks: u64,
    /// Rollbacks that failed.
    pub rollback_failures: u64,
    /// Algorithms unloaded.
    pub unloads: u64,
}
