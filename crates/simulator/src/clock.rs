//! The two clocks of the kernel that congestion controls read: jiffies and microseconds.
//!
//! The phase of a real kernel's jiffies depends on when it booted; here the first jiffy begins with the simulation.

/// `CONFIG_HZ` of Debian's kernels: jiffies per second.
pub const HZ: u64 = 250;

const NS_PER_JIFFY: u64 = 1_000_000_000 / HZ;
const US_PER_JIFFY: u64 = 1_000_000 / HZ;

/// `tcp_jiffies32`, without its wrap.
#[must_use]
pub fn jiffies(now_ns: u64) -> u64 {
    now_ns / NS_PER_JIFFY
}

/// `usecs_to_jiffies`, which rounds up.
#[must_use]
pub fn jiffies_from_us(us: u64) -> u64 {
    us.div_ceil(US_PER_JIFFY)
}

/// `tcp_mstamp`, without its wrap.
#[must_use]
pub fn micros(now_ns: u64) -> u64 {
    now_ns / 1000
}

/// `after`: whether sequence number `a` is later than `b`.
#[must_use]
pub fn after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jiffy_is_four_milliseconds_and_durations_round_up() {
        assert_eq!((jiffies(3_999_999), jiffies(4_000_000), jiffies(1_000_000_000)), (0, 1, 250));
        assert_eq!(
            (jiffies_from_us(0), jiffies_from_us(1), jiffies_from_us(4000), jiffies_from_us(4001)),
            (0, 1, 1, 2)
        );
    }

    #[test]
    fn sequence_numbers_compare_across_their_wrap() {
        assert!(after(1, 0) && !after(0, 0) && !after(0, 1));
        assert!(after(5, u32::MAX - 5) && !after(u32::MAX - 5, 5));
    }
}
