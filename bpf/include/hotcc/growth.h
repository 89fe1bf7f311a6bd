/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Growth by fractions of a segment. ACKs add to a credit, whose unit is a given fraction of a segment. Whenever the
 * credit reaches a divisor, the window grows by the quotient, and the remainder stays: no window loses growth to
 * rounding. For algorithms whose window does not grow as Reno's does.
 */
#pragma once
#include <hotcc/kernel.h>

#define SEGMENT_Q16 (1ULL << 16)
/* for a factor in 1/65536 times one in permille, which needs no division then */
#define SEGMENT_Q16_PERMILLE (1000ULL << 16)
/*
 * An ACK acknowledges fewer than 2^24 segments (a window of 1 Gbyte), so credits of up to 2^40 for each segment stay
 * under 2^64, and credits of up to 2^50 if it acknowledges fewer than these.
 */
#define ACKED_FEW (1U << 14)

/* The credit for an ACK of `acked` segments, with a great `gain` for each; saturates at 2^63. */
static __always_inline u64 growth_credit(u64 gain, u32 acked)
{
	if (unlikely(acked >= ACKED_FEW) && gain > (1ULL << 63) / acked)
		return 1ULL << 63;
	return gain * acked;
}

/*
 * Congestion avoidance. The window grows by one segment per credit of W segments, W at the start; growth beyond the
 * clamp is lost. A window of zero, which the kernel does not have, does not grow.
 */
static __always_inline void avoidance_grow(struct tcp_sock *tp, u32 window, u64 *credit, u64 added, u64 segment)
{
	u64 divisor = window * segment, whole;

	added += *credit;
	*credit = added;
	if (likely(added < divisor) || !divisor)
		return;
	whole = added / divisor;
	*credit = added - whole * divisor;
	tp->snd_cwnd = min(window + whole, (u64)tp->snd_cwnd_clamp);
}

/*
 * Slow start by other steps than the kernel's, never past ssthresh or the clamp; what exceeds them is dropped, and the
 * remainder with it. The credit is in segments / SEGMENT_Q16_PERMILLE.
 */
static __always_inline void slow_start_grow(struct tcp_sock *tp, u32 window, u32 ssthresh, u32 *credit, u64 added)
{
	u32 limit = min(ssthresh, tp->snd_cwnd_clamp);
	u64 whole;

	added += *credit;
	whole = added / SEGMENT_Q16_PERMILLE;
	if (window + whole > limit) {
		tp->snd_cwnd = limit;
		*credit = 0;
		return;
	}
	tp->snd_cwnd = window + whole;
	*credit = added - whole * SEGMENT_Q16_PERMILLE;
}
