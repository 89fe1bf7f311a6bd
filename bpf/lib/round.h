/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RTT rounds by sequence number: one ends when all that had been sent as it began is acknowledged.
 */
#pragma once
#include "kernel.h"
#include "tags.h"

struct rtt_round {
	u32 end FIELD("", "sequence number whose acknowledgement ends the running round");
};

/* At each ACK. Whether it ended a round; the next one has begun then. */
static __always_inline bool round_over(struct tcp_sock *tp, struct rtt_round *r)
{
	if ((s32)(tp->snd_una - r->end) < 0)
		return false;
	r->end = tp->snd_nxt;
	return true;
}
