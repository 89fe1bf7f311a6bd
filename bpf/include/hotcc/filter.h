/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bandwidth filters: low-pass filters over samples in bytes/s. Their state is in 1/256 byte/s, so that rounding stays
 * under 0.1 % down to 1 kbyte/s. For algorithms that estimate a bandwidth.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/tags.h>

/* (weight * old + (1000 - weight) * sample) / 1000, weight in permille. */
static __always_inline u64 ewma_q8(u64 old_q8, u64 sample_q8, u32 weight_permille)
{
	return (old_q8 * weight_permille + sample_q8 * (1000 - weight_permille)) / 1000;
}

/* The cascade of Linux's Westwood+: two filters of 7/8 in a row; the first sample starts both. */
struct westwood_filter {
	u64 first_q8 FIELD("byte/s / 256", "first stage of the bandwidth filter");
	u64 second_q8 FIELD("byte/s / 256", "BWE, the second stage");
};

static __always_inline void westwood_filter_add(struct westwood_filter *f, u64 sample_bytes_per_s)
{
	u64 sample_q8 = sample_bytes_per_s << 8;

	if (!f->first_q8 && !f->second_q8) {
		f->first_q8 = f->second_q8 = sample_q8;
		return;
	}
	f->first_q8 = (7 * f->first_q8 + sample_q8) >> 3;
	f->second_q8 = (7 * f->second_q8 + f->first_q8) >> 3;
}

/*
 * Westwood's filter, Tustin's discretisation of a low-pass with the time constant tau, for a sample that spans `d`:
 * BWE = a BWE + (1 - a) (sample + previous sample) / 2 with a = (2 tau - d) / (2 tau + d). Exact but for the last
 * rounding, which is towards the old value.
 */
static __always_inline u64 tustin_q8(u64 old_q8, u64 sample_q8, u64 previous_q8, u32 d_us, u64 tau_us)
{
	u64 samples_q8 = sample_q8 + previous_q8, divisor = 2 * tau_us + d_us;

	if (samples_q8 >= 2 * old_q8)
		return old_q8 + mul_div(samples_q8 - 2 * old_q8, d_us, divisor);
	return old_q8 - mul_div(2 * old_q8 - samples_q8, d_us, divisor);
}
