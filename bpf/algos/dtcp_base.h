/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The least RTT of a path, while it is valid. Any RTT within 1/16 of it confirms it; if none does for a while, the path
 * is longer or there is a queue, and the caller finds out which. For `dtcp`.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/learned.h>

#define BASE_TICK_US 65536 /* of a 16-bit clock, which wraps after 71 minutes */
#define ROUND_TICK_US 64
#define ROUND_NONE 65535

struct rtt_base {
	u32 us FIELD("us", "least RTT of the path, 0: none yet");
	u16 seen FIELD("65536 us", "when an epoch last had an RTT near it");
	u16 round_least FIELD("64 us", "least RTT of the running epoch, rounded down; 65535: none yet");
};

static __always_inline u16 base_clock(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp / BASE_TICK_US;
}

static __always_inline void base_restart(const struct tcp_sock *tp, struct rtt_base *b)
{
	b->us = 0;
	b->seen = base_clock(tp);
}

/* A connection that is taken over. */
static __always_inline void base_take_over(struct sock *sk, struct rtt_base *b)
{
	base_restart(tcp_sk(sk), b);
	b->us = learned_base_us(sk);
}

static __always_inline void base_sample(struct rtt_base *b, s32 rtt_us)
{
	u32 ticks = min((u32)rtt_us / ROUND_TICK_US, (u32)ROUND_NONE);

	if (rtt_us <= 0 || ticks > b->round_least) /* base becomes no more than the epoch's least RTT */
		return;
	b->round_least = ticks;
	if (!b->us || (u32)rtt_us < b->us)
		b->us = rtt_us;
}

/*
 * The least RTT of the running epoch; 0: none yet. It is not rounded up: on a short path, that would look like a queue.
 */
static __always_inline u32 base_round_least_us(const struct rtt_base *b)
{
	return b->round_least == ROUND_NONE ? 0 : max(b->round_least * ROUND_TICK_US, 1U);
}

static __always_inline void base_round_end(const struct tcp_sock *tp, struct rtt_base *b)
{
	if (b->round_least != ROUND_NONE && (u32)b->round_least * ROUND_TICK_US <= b->us + (b->us >> 4))
		b->seen = base_clock(tp);
	b->round_least = ROUND_NONE;
}

static __always_inline bool base_expired(const struct tcp_sock *tp, const struct rtt_base *b, u32 window_s)
{
	return window_s && b->us && (u16)(base_clock(tp) - b->seen) * (u64)BASE_TICK_US > window_s * 1000000ULL;
}

/*
 * The RTTs from before an idle period are old; nothing of this flow is in a queue after it. After a timeout, which has
 * the same event, W is small, and base falls again as the queue drains.
 */
static __always_inline void base_idle_end(const struct tcp_sock *tp, struct rtt_base *b, u32 window_s)
{
	b->round_least = ROUND_NONE;
	if (base_expired(tp, b, window_s))
		base_restart(tp, b);
}

/* W less the queue that this RTT shows. */
static __always_inline u32 base_window(const struct tcp_sock *tp, const struct rtt_base *b, u32 rtt_us)
{
	if (rtt_us <= b->us)
		return tp->snd_cwnd;
	return (u64)tp->snd_cwnd * b->us / rtt_us;
}
