// SPDX-License-Identifier: GPL-2.0-only
/*
 * BBRv3 in the harness, and what it makes of the losses that the kernel does not count per segment.
 */
#include "harness.c"

/* Segments lost since one was sent before which so many had been delivered. */
HOTCC_EXPORT u32 bbr3_lost_since(struct tcp_sock *tp, u32 prior_delivered)
{
	return lost_since(tp, more_of((struct sock *)tp), prior_delivered);
}
