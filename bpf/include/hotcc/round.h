/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The round trip: the least time of one, and rounds, in each of which all is acknowledged that was in flight when it
 * began. The algorithm keeps the end of the running round, a sequence number; a round begins by setting it to snd_nxt.
 * For algorithms that do something once per round.
 */
#pragma once
#include <hotcc/kernel.h>

/* Least of the positive samples, 0: none yet. */
static __always_inline void least_rtt(u32 *least_us, s32 rtt_us)
{
	if (rtt_us > 0 && (!*least_us || (u32)rtt_us < *least_us))
		*least_us = rtt_us;
}

/* Whether this ACK ends the round; the next one then begins. */
static __always_inline bool round_over(const struct tcp_sock *tp, u32 *end)
{
	if ((s32)(tp->snd_una - *end) < 0)
		return false;
	*end = tp->snd_nxt;
	return true;
}
