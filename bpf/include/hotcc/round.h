/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least round-trip time, and rounds. A round ends when everything is acknowledged that was in flight at its start.
 * The algorithm stores the sequence number at which the running round ends; a round starts when it is set to snd_nxt.
 * For algorithms that do something once per round.
 */
#pragma once
#include <hotcc/kernel.h>

/* The least of the positive samples; 0: none yet. */
static __always_inline void least_rtt(u32 *least_us, s32 rtt_us)
{
	if (rtt_us > 0 && (!*least_us || (u32)rtt_us < *least_us))
		*least_us = rtt_us;
}

/* Whether this ACK ends the round; if so, the next round starts. */
static __always_inline bool round_over(const struct tcp_sock *tp, u32 *end)
{
	if ((s32)(tp->snd_una - *end) < 0)
		return false;
	*end = tp->snd_nxt;
	return true;
}
