// SPDX-License-Identifier: GPL-2.0-only
/*
 * BBRv3 in the harness, and its own count of the losses that the kernel does not count per segment.
 */
#include "harness.c"

/* Returns the segments lost since a segment was sent, when `prior_delivered` had been delivered. */
HOTCC_EXPORT u32 bbr3_lost_since(struct tcp_sock *tp, u32 prior_delivered)
{
	return lost_since(tp, more_of((struct sock *)tp), prior_delivered);
}
