/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Integer arithmetic for formulas that a paper writes with real numbers: rates, products that must not overflow,
 * logarithms. Both algorithms and other BPF programs use it.
 */
#pragma once
#include <hotcc/bpf.h>

#define USEC_PER_SEC 1000000ULL
/* 4.4 Tbit/s. With times up to RTT_MAX_US, rate x time stays under 2^63. */
#define RATE_MAX_BYTES_PER_S (1ULL << 39)
#define RTT_MAX_US (1U << 24)

/* bytes / time, in bytes/s, at most RATE_MAX_BYTES_PER_S; 0 if the time is 0. */
static __always_inline u64 rate_bytes_per_s(u64 bytes, u64 elapsed_us)
{
	u64 rate;

	if (!elapsed_us)
		return 0;
	if (bytes < 1ULL << 43)
		rate = bytes * USEC_PER_SEC / elapsed_us;
	else
		rate = bytes / elapsed_us * USEC_PER_SEC;
	return min(rate, RATE_MAX_BYTES_PER_S);
}

/* rate x time, in whole segments. */
static __always_inline u64 segments_in(u64 rate_bytes_per_s, u32 time_us, u32 mss)
{
	if (!mss)
		return 0;
	return min(rate_bytes_per_s, RATE_MAX_BYTES_PER_S) * min(time_us, RTT_MAX_US) / USEC_PER_SEC / mss;
}

/* Signed division that rounds towards zero. BPF has a signed division only since version 4 of its instruction set. */
static __always_inline s64 div_s64(s64 a, u64 b)
{
	return a < 0 ? (s64) - (-(u64)a / b) : (s64)((u64)a / b);
}

/* x * factor >> shift without losing high bits, for factor <= 2^32 and shift < 32; saturates. */
static __always_inline u64 mul_shift(u64 x, u64 factor, u32 shift)
{
	u64 low = (x & 0xffffffffULL) * factor;
	u64 high = (x >> 32) * factor + (low >> 32);

	if (high >> (32 + shift))
		return ~0ULL;
	return (high << (32 - shift)) + ((low & 0xffffffffULL) >> shift);
}

/* x * factor / divisor, rounded down, for factors up to 2^24 and divisors up to 2^40 that are not 0. */
static __always_inline u64 mul_div(u64 x, u64 factor, u64 divisor)
{
	u64 whole;

	if (x < 1ULL << 40)
		return x * factor / divisor;
	whole = x / divisor;
	return whole * factor + (x - whole * divisor) * factor / divisor;
}

/* The smallest i with v <= 2^i: the bucket of v in a histogram over powers of two. */
static __always_inline u32 log2_bucket(u64 v)
{
	u32 bits = 0;

	if (v <= 1)
		return 0;
	v--;
	for (u32 step = 32; step > 1; step >>= 1) {
		if (v >> step) {
			bits += step;
			v >>= step;
		}
	}
	return bits + (v >> 1) + 1;
}
