/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a connection was busy, and what limited it, in ticks, as in TCP_INFO. For sock_flows, and for policy and
 * sock_migrate (policy_figures.h).
 */
#pragma once
#include <hotcc/kernel.h>

enum chrono {
	CHRONO_SENDING,	 /* with data in flight or to send, and limited by neither of the following */
	CHRONO_RECEIVER, /* limited by the receiver's window */
	CHRONO_BUFFER,	 /* limited by the send buffer */
	CHRONOS,
};

struct tcp_sock___chrono {
	u8 chrono_type : 2; /* 0: nothing to send; else 1 + enum chrono */
	u32 chrono_start;   /* ticks */
	u32 chrono_stat[CHRONOS];
} __core;

static u64 (*const bpf_jiffies64)(void) = (void *)118;

/* Ticks of one kind so far. */
static __always_inline u32 chrono_ticks(const struct tcp_sock *tp, enum chrono kind)
{
	const struct tcp_sock___chrono *more = (const void *)tp;
	u32 ticks = more->chrono_stat[kind];

	if (core_bitfield(more, chrono_type) == kind + 1)
		ticks += (u32)bpf_jiffies64() - more->chrono_start;
	return ticks;
}
