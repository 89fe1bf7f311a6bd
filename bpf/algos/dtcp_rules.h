/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * N from one epoch to the next: D-TCP's eqs 10 to 12, as this project reads them and as printed, and Algorithm 1. These
 * are pure functions. For `dtcp`.
 */
#pragma once
#include <hotcc/fixed.h>

#define N_ONE_Q16 (1ULL << 16)
#define N_LIMIT_Q16 (1ULL << 36) /* 2^20 segments per RTT: keeps N Q below 2^64 */
#define RATIO_SHIFT 22		 /* Q / W as a signed Q22 */
#define RATIO_ONE (1LL << RATIO_SHIFT)
#define RATIO_LIMIT (1024LL << RATIO_SHIFT)

/* Q / W by eq 11, signed Q22. */
static __always_inline s64 queue_by_bandwidth(s64 estimated, s64 current)
{
	s64 difference = estimated - current;
	u64 ratio;

	if (estimated <= 0)
		return 0;
	if (difference >= 0)
		return ((u64)difference << RATIO_SHIFT) / (u64)estimated;
	ratio = ((u64)-difference << RATIO_SHIFT) / (u64)estimated;
	return -(s64)min(ratio, (u64)RATIO_LIMIT);
}

/* Q / W = (R - base) / R, Q22, as in TCP-FIT. */
static __always_inline s64 queue_by_rtt(u32 base_us, u32 srtt_us)
{
	if (!base_us || srtt_us <= base_us)
		return 0;
	return ((u64)(srtt_us - base_us) << RATIO_SHIFT) / srtt_us;
}

static __always_inline s64 alpha_of(u32 permille)
{
	return ((s64)permille << RATIO_SHIFT) / 1000;
}

/* The share of the bandwidth that the signal promises and the flow does not use yet, Q22; at most alpha. */
static __always_inline s64 signal_room(s64 term, s64 unused_before, s64 bandwidth, s64 alpha)
{
	s64 room = term - max(unused_before, 0LL);

	if (room <= 0)
		return 0;
	return min((s64)(((u64)room << RATIO_SHIFT) / (u64)bandwidth), alpha);
}

/* The share of the bandwidth by which the signal predicts less, Q22. */
static __always_inline s64 signal_fall(s64 term, s64 bandwidth)
{
	if (term >= 0)
		return 0;
	return min((s64)(((u64)-term << RATIO_SHIFT) / (u64)bandwidth), RATIO_LIMIT);
}

/* Eqs 10 and 12. */
static __always_inline u64 n_by_eq10(u64 n_q16, s64 ratio, u32 alpha_permille)
{
	u64 magnitude = ratio < 0 ? -ratio : ratio;
	u64 change = mul_shift(n_q16, magnitude, RATIO_SHIFT) * 1000 / (alpha_permille ?: 1);

	if (ratio < 0)
		return n_q16 + N_ONE_Q16 + change;
	if (change >= n_q16)
		return N_ONE_Q16;
	return n_q16 + N_ONE_Q16 - change;
}

/* Algorithm 1, lines 14-25. Its prevN is N, or 0 if N is 1. */
static __always_inline u64 n_by_alg1(u64 n_q16, s64 estimated, s64 current)
{
	if (current < estimated)
		return 2 * n_q16;
	if (current > estimated)
		return n_q16 + N_ONE_Q16;
	return n_q16;
}

/* N less the most that the signal may have added to it in the last epoch. */
static __always_inline u64 n_without_room(u64 n_q16)
{
	return n_q16 <= 3 * N_ONE_Q16 ? N_ONE_Q16 : (n_q16 - N_ONE_Q16) / 2;
}
