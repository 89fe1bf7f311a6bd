// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pure functions of bpf/lib behind plain symbols, for tests that compare them with exact arithmetic.
 */
#include "filter.h"
#include "fixed.h"
#include "shannon.h"

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
HOTCC_EXPORT u32 unit_log2_bucket(u64 v)
{
	return log2_bucket(v);
}
HOTCC_EXPORT u64 unit_ewma_q8(u64 old_q8, u64 sample_q8, u32 weight)
{
	return ewma_q8(old_q8, sample_q8, weight);
}
HOTCC_EXPORT u32 unit_shannon_efficiency_q20(s32 db_q8)
{
	return shannon_efficiency_q20(db_q8);
}

/* stages[0] and [1]: the filter before and after. */
HOTCC_EXPORT void unit_westwood_filter_add(u64 *stages, u64 sample)
{
	struct westwood_filter filter = { stages[0], stages[1] };

	westwood_filter_add(&filter, sample);
	stages[0] = filter.first_q8;
	stages[1] = filter.second_q8;
}
