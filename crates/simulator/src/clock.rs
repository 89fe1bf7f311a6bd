//! The kernel's coarse clock and timer wheel, at the 250 ticks per second of Debian's kernels.

/// Length of a tick.
pub(crate) const JIFFY_NS: u64 = 4_000_000;
/// Deltas up to this many ticks expire at tick resolution (`LVL_START(1)` of kernel/time/timer.c).
const FIRST_LEVEL_TICKS: u64 = 63;
/// Each level of the wheel is eight times as coarse as the one below.
const LEVEL_SHIFT: u32 = 3;
const LEVELS: u32 = 8;

/// Ticks passed (`tcp_jiffies32`).
pub(crate) fn jiffies(now_ns: u64) -> u64 {
    now_ns / JIFFY_NS
}

/// `usecs_to_jiffies`: rounds up.
pub(crate) fn us_to_jiffies(us: u64) -> u64 {
    (us * 1000).div_ceil(JIFFY_NS)
}

/// When a timer that is set now for so many ticks ahead fires: never early, so a tick later than asked, and farther timers
/// at the coarser resolution of their level (`calc_wheel_index`).
pub(crate) fn timer_fires_ns(now_ns: u64, ticks: u64) -> u64 {
    let now = jiffies(now_ns);
    let expires = now + ticks;
    let mut shift = 0;
    let mut bound = FIRST_LEVEL_TICKS;
    for _ in 1..LEVELS {
        if ticks < bound {
            break;
        }
        shift += LEVEL_SHIFT;
        bound <<= LEVEL_SHIFT;
    }
    ((expires >> shift) + 1 << shift) * JIFFY_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_never_fire_early_and_far_ones_are_coarse() {
        assert_eq!(timer_fires_ns(0, 10), 11 * JIFFY_NS);
        assert_eq!(timer_fires_ns(JIFFY_NS + 1, 10), 12 * JIFFY_NS);
        let far = timer_fires_ns(0, 250);
        assert_eq!(far, 256 * JIFFY_NS);
        assert_eq!((us_to_jiffies(4000), us_to_jiffies(4001)), (1, 2));
    }
}
