/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Histograms that convert without error both to one with bounds at powers of two, in the kernel's unit, and to one of
 * Prometheus' schema 3, whose bounds are 2^(n/8) seconds or bytes per second. So each power of two has 9 buckets. Each
 * is at most 9 % wide. crates/abi/src/histogram.rs has the layout and the conversions.
 */
#pragma once
#include <hotcc/fixed.h>

#define BUCKETS_PER_POWER 9
#define HISTOGRAM_BUCKETS (33 * BUCKETS_PER_POWER) /* for values below 2^32 */

struct histogram {
	u64 buckets[HISTOGRAM_BUCKETS];
	u64 sum;
};

/*
 * The 8 bounds of schema 3 between 2^31 and 2^32, rounded down, in units of a microsecond, a millisecond and a kbit/s,
 * times a power of two.
 */
#define BOUNDS_US                                                                                        \
	{ 2233359836, 2435496171, 2655927407, 2896309375, 3158447770, 3444311716, 3756048560, 4096000000 }
#define BOUNDS_MS                                                                                        \
	{ 2286960472, 2493948079, 2719669665, 2965820800, 3234250516, 3526975198, 3846193726, 4194304000 }
#define BOUNDS_KBPS                                                                                      \
	{ 2199023255, 2398051864, 2615094101, 2851780339, 3109888511, 3391357470, 3698301545, 4033026432 }

/* The bucket of a value. Upper bounds are inclusive; bucket 0 has only zeros. */
static __always_inline u32 histogram_bucket(u32 value, const u32 bounds[BUCKETS_PER_POWER - 1])
{
	u32 power = log2_bucket(value);
	u64 scaled = (u64)value << (32 - power); /* to the range of the bounds */
	u32 bucket = power * BUCKETS_PER_POWER;

	for (u32 i = 0; i < BUCKETS_PER_POWER - 1; i++)
		bucket += (bounds[i] - scaled) >> 63; /* 1 if the value is above */
	asm volatile("" : "+r"(bucket));	      /* else the compiler removes the check that the verifier needs */
	return min(bucket, (u32)HISTOGRAM_BUCKETS - 1);
}

/* Counts a value; atomic, as a histogram may be shared between CPUs, and a softirq may interrupt. */
static __always_inline void histogram_add(struct histogram *h, u32 value, const u32 bounds[BUCKETS_PER_POWER - 1])
{
	__sync_fetch_and_add(&h->buckets[histogram_bucket(value, bounds)], 1);
	__sync_fetch_and_add(&h->sum, value);
}
