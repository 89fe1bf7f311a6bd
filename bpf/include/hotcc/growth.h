/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growth by fractions of a segment. What ACKs earn goes into an account, in a unit of which a segment has a given
 * number, and only whole segments are paid out: nothing is lost to rounding, at whatever window. For algorithms whose
 * window does not grow as Reno's does.
 */
#pragma once
#include <hotcc/kernel.h>

#define SEGMENT_Q16 (1ULL << 16)
/* for a factor in 1/65536 times one in permille, which needs no division then */
#define SEGMENT_Q16_PERMILLE (1000ULL << 16)
/*
 * An ACK acknowledges fewer than 2^24 segments (a window of 1 Gbyte), so gains of up to 2^40 for each stay under 2^64,
 * and gains of up to 2^50 where it acknowledges fewer than these.
 */
#define ACKED_FEW (1U << 14)

/* What an ACK of `acked` segments earns at a great `gain` for each; saturates at 2^63. */
static __always_inline u64 growth_earned(u64 gain, u32 acked)
{
	if (unlikely(acked >= ACKED_FEW) && gain > (1ULL << 63) / acked)
		return 1ULL << 63;
	return gain * acked;
}

/*
 * Congestion avoidance. One segment is paid for W segments earned, W at the start; what the clamp cuts off is lost. A
 * window of zero, which the kernel does not have, earns nothing.
 */
static __always_inline void avoidance_grow(struct tcp_sock *tp, u32 window, u64 *account, u64 earned, u64 segment)
{
	u64 price = window * segment, whole;

	earned += *account;
	*account = earned;
	if (likely(earned < price) || !price)
		return;
	whole = earned / price;
	*account = earned - whole * price;
	tp->snd_cwnd = min(window + whole, (u64)tp->snd_cwnd_clamp);
}

/*
 * Slow start by other steps than the kernel's, never past ssthresh or the clamp; what would go past is dropped, the
 * fraction with it. The fraction is kept in segments / SEGMENT_Q16_PERMILLE.
 */
static __always_inline void slow_start_grow(struct tcp_sock *tp, u32 window, u32 ssthresh, u32 *account, u64 earned)
{
	u32 limit = min(ssthresh, tp->snd_cwnd_clamp);
	u64 whole;

	earned += *account;
	whole = earned / SEGMENT_Q16_PERMILLE;
	if (window + whole > limit) {
		tp->snd_cwnd = limit;
		*account = 0;
		return;
	}
	tp->snd_cwnd = window + whole;
	*account = earned - whole * SEGMENT_Q16_PERMILLE;
}
