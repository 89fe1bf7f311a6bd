/* SPDX-License-Identifier: GPL-2.0-only */
/* Logarithms to base 2 in 1/1024, and their inverse. The error is at most 0.9 %. */
#pragma once
#include <hotcc/bpf.h>

#define LOG2_ONE 1024
#define EXP2_MAX (50 * LOG2_ONE)

/* log2(v); 0 for v = 0. */
__noinline u32 log2_q10(u64 v)
{
	u64 rest = v;
	u32 bits = 0, m;

	for (u32 step = 32; step >= 4; step >>= 1) {
		if (rest >> step) {
			rest >>= step;
			bits += step;
			asm("" : "+r"(bits)); /* otherwise clang computes both branches, in twice the instructions */
		}
	}
	bits += 0xffffaa50U >> 2 * rest & 3; /* the logarithms of 0 to 15, two bits each */
	m = v << (63 - bits) >> 53 & 1023;
	/* m is the ten bits below the highest; log2(1 + m) = m + 0.344 m (1 - m) */
	return bits * LOG2_ONE + m + (m * (1024 - m) * 352 >> 20);
}

/* 2^l, rounded down. */
__noinline u64 exp2_q10(u32 l)
{
	u32 f = l & 1023;
	u64 m = 1024 + f - (f * (1024 - f) * 352 >> 20);

	return m << (min(l, (u32)EXP2_MAX) >> 10) >> 10;
}
