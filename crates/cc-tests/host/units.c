// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pure functions of algorithms' headers behind plain symbols, for tests that compare them with exact arithmetic.
 */
#include <hotcc/filter.h>
#include <hotcc/fixed.h>
#include <hotcc/growth.h>
#include <hotcc/histogram.h>
#include "algos/rate_ca.h"
#include "algos/shannon.h"

u64 host_now_ns;

HOTCC_EXPORT u64 unit_rate_bytes_per_s(u64 bytes, u64 elapsed_us)
{
	return rate_bytes_per_s(bytes, elapsed_us);
}
HOTCC_EXPORT u64 unit_segments_in(u64 rate, u32 time_us, u32 mss)
{
	return segments_in(rate, time_us, mss);
}
HOTCC_EXPORT s64 unit_div_s64(s64 a, u64 b)
{
	return div_s64(a, b);
}
HOTCC_EXPORT u64 unit_mul_shift(u64 x, u64 factor, u32 shift)
{
	return mul_shift(x, factor, shift);
}
HOTCC_EXPORT u64 unit_mul_div(u64 x, u64 factor, u64 divisor)
{
	return mul_div(x, factor, divisor);
}
HOTCC_EXPORT u32 unit_log2_bucket(u64 v)
{
	return log2_bucket(v);
}
HOTCC_EXPORT u32 unit_histogram_bucket_us(u32 v)
{
	const u32 bounds[] = BOUNDS_US;

	return histogram_bucket(v, bounds);
}
HOTCC_EXPORT u32 unit_histogram_bucket_ms(u32 v)
{
	const u32 bounds[] = BOUNDS_MS;

	return histogram_bucket(v, bounds);
}
HOTCC_EXPORT u32 unit_histogram_bucket_kbps(u32 v)
{
	const u32 bounds[] = BOUNDS_KBPS;

	return histogram_bucket(v, bounds);
}
HOTCC_EXPORT u64 unit_ewma_q8(u64 old_q8, u64 sample_q8, u32 weight)
{
	return ewma_q8(old_q8, sample_q8, weight);
}
HOTCC_EXPORT u64 unit_tustin_q8(u64 old_q8, u64 sample_q8, u64 previous_q8, u32 d_us, u64 tau_us)
{
	return tustin_q8(old_q8, sample_q8, previous_q8, d_us, tau_us);
}
HOTCC_EXPORT u64 unit_growth_credit(u64 gain, u32 acked)
{
	return growth_credit(gain, acked);
}
HOTCC_EXPORT u32 unit_shannon_efficiency_q20(s32 db_q8)
{
	return shannon_efficiency_q20(db_q8);
}

/* stages[0] and [1] are the two stages of the filter, which this updates. */
HOTCC_EXPORT void unit_westwood_filter_add(u64 *stages, u64 sample)
{
	struct westwood_filter filter = { stages[0], stages[1] };

	westwood_filter_add(&filter, sample);
	stages[0] = filter.first_q8;
	stages[1] = filter.second_q8;
}

/* Sets into[0] to rate_CA, and into[1] to its inverse. */
HOTCC_EXPORT void unit_rate_ca(u64 *into, u64 old_rtt, u64 new_rtt, u32 min_permille, u32 max_permille)
{
	struct rate_ca r = rate_ca(old_rtt, new_rtt, min_permille, max_permille);

	into[0] = r.rate_q16;
	into[1] = r.inverse_q16;
}
