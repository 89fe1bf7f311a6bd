/* SPDX-License-Identifier: GPL-2.0-only */
/* Logarithms to base 2 in 1/1024, and their inverse. The error is at most 0.9 %. */
#pragma once
#include <hotcc/bpf.h>

#define LOG2_ONE 1024
#define EXP2_MAX (50 * LOG2_ONE)

/* log2(v); 0 for v = 0. */
__noinline u32 log2_q10(u64 v)
{
	u32 bits = 0, m;

	if (v <= 1)
		return 0;
	for (u32 step = 32; step; step >>= 1) {
		if (v >> bits >> step)
			bits += step;
	}
	m = bits >= 10 ? (v >> (bits - 10)) & 1023 : (v << (10 - bits)) & 1023;
	/* log2(1 + m) = m + 0.344 m (1 - m) */
	return bits * LOG2_ONE + m + (m * (1024 - m) * 352 >> 20);
}

/* 2^l, rounded down. */
__noinline u64 exp2_q10(u32 l)
{
	u32 f = l & 1023, bits = min(l, (u32)EXP2_MAX) >> 10;
	u64 m = 1024 + f - (f * (1024 - f) * 352 >> 20);

	return bits >= 10 ? m << (bits - 10) : m >> (10 - bits);
}
