//! The one clock that userspace and BPF programs share: `CLOCK_MONOTONIC`, which `bpf_ktime_get_ns` reads.

use nix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds of `CLOCK_MONOTONIC`.
#[must_use]
pub fn monotonic_ns() -> u64 {
    // Reading this clock cannot fail; 0 reads as "long ago", which every reader treats as stale.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |t| t.tv_sec().unsigned_abs() * 1_000_000_000 + t.tv_nsec().unsigned_abs())
}

/// Returns the milliseconds of `CLOCK_MONOTONIC`, wrapped to 32 bits as the radio SINR word carries them (wraps
/// every 49.7 days; ages are differences modulo 2^32).
#[must_use]
pub fn monotonic_ms32() -> u32 {
    ms32(monotonic_ns())
}

/// Converts a time of [`monotonic_ns`] to the SINR word's milliseconds modulo 2^32.
#[must_use]
pub fn ms32(at_ns: u64) -> u32 {
    (at_ns / 1_000_000) as u32
}
