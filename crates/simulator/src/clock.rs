//! The kernel's clocks (jiffies and microseconds) and its timer wheel.
//!
//! In a real kernel, the phase of jiffies depends on the time of its boot. Here, the first jiffy begins with the
//! simulation.

/// `CONFIG_HZ` of Debian's kernels: jiffies per second.
pub const HZ: u64 = 250;

/// Length of a jiffy.
pub(crate) const JIFFY_NS: u64 = 1_000_000_000 / HZ;
const US_PER_JIFFY: u64 = 1_000_000 / HZ;

/// Timers that are less than this many jiffies ahead expire at jiffy resolution (`LVL_START(1)` of
/// kernel/time/timer.c).
const FIRST_LEVEL: u64 = 63;
/// Each level of the wheel is eight times as coarse as the one below.
const LEVEL_SHIFT: u32 = 3;
const LEVELS: u32 = 8;

/// `tcp_jiffies32`, without its wrap.
#[must_use]
pub fn jiffies(now_ns: u64) -> u64 {
    now_ns / JIFFY_NS
}

/// `usecs_to_jiffies`, which rounds up.
#[must_use]
pub fn jiffies_from_us(us: u64) -> u64 {
    us.div_ceil(US_PER_JIFFY)
}

/// Returns when a timer fires that is set now for `ahead` jiffies later. A timer never fires early, so it fires one
/// jiffy after the given time; timers that are further ahead have the coarser resolution of their level
/// (`calc_wheel_index`).
pub(crate) fn timer_fires_ns(now_ns: u64, ahead: u64) -> u64 {
    let expires = jiffies(now_ns) + ahead;
    let (mut shift, mut bound) = (0, FIRST_LEVEL);
    for _ in 1..LEVELS {
        if ahead < bound {
            break;
        }
        shift += LEVEL_SHIFT;
        bound <<= LEVEL_SHIFT;
    }
    (((expires >> shift) + 1) << shift) * JIFFY_NS
}

/// `tcp_mstamp`, without its wrap.
#[must_use]
pub fn micros(now_ns: u64) -> u64 {
    now_ns / 1000
}

/// `after`: returns whether sequence number `a` is later than `b`.
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
    fn timers_never_fire_early_and_far_ones_are_coarse() {
        assert_eq!(timer_fires_ns(0, 10), 11 * JIFFY_NS);
        assert_eq!(timer_fires_ns(JIFFY_NS + 1, 10), 12 * JIFFY_NS);
        assert_eq!(timer_fires_ns(0, 250), 256 * JIFFY_NS);
    }

    #[test]
    fn sequence_numbers_compare_across_their_wrap() {
        assert!(after(1, 0) && !after(0, 0) && !after(0, 1));
        assert!(after(5, u32::MAX - 5) && !after(u32::MAX - 5, 5));
    }
}
