/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One direction of a link: a policer, a first-in-first-out queue that is served at a rate which changes over time, and
 * after it delay, jitter, reordering and loss. The rate's future is known, so everything that happens to a packet is
 * known when it arrives.
 *
 * Service is counted in millibits from time 0. It only grows, so "when is this packet done" is a search in a table. For
 * link.bpf.c.
 */
#pragma once
#include <hotcc/bpf.h>

#define NS_PER_MS 1000000ULL
#define MILLIBITS_PER_BYTE 8000
#define TOKENS_PER_BYTE 8000000000ULL
#define SURVIVAL_POWERS 16

/* A stretch of time with one rate; all stretches of a link are of one length. */
struct service_step {
	u64 before; /* millibits served before it */
	u64 rate_bps;
};

/* What happens after the queue, from a point in time on. Probabilities are in units of 2^-32. */
struct phase {
	u64 from_ns;
	u64 delay_ns;
	u64 jitter_ns; /* up to this much more delay, evenly spread */
	u64 hold_ns;   /* a reordered packet arrives this much later, and holds up no other packet */
	u32 loss;
	u32 reorder;
	u32 survival[SURVIVAL_POWERS]; /* [i]: 2^i bytes arrive without a bit error; 0: certain loss, ~0: certain */
	u32 bit_errors;		       /* whether there are any */
	u32 pad;
};

struct link {
	/* configuration */
	u64 seed;
	u64 step_ns;
	u64 queue_bytes;
	u64 mark_bytes; /* queue from which ECN-capable packets are marked; 0: never */
	u32 first_step;
	u32 steps; /* 0: no rate, no queue */
	u32 first_phase;
	u32 phases;
	u32 keeps_records;
	u32 pad;
	/* A token is a billionth of a bit, so that a nanosecond at 1 bit/s earns one: nothing is rounded. */
	u64 police_bps;	   /* 0: no policer */
	u64 police_tokens; /* capacity of its bucket */
	/* state */
	u64 tokens;
	u64 tokens_ns; /* when `tokens` was right */
	u64 position;  /* millibits of service used up by what was accepted */
	u64 free_ns;   /* when the last accepted packet has left the queue */
	u64 release_ns;
	u32 hint;  /* step of `position` */
	u32 phase; /* the present one */
	/* counters */
	u64 arrived; /* packets */
	u64 packets; /* that left it */
	u64 bytes;
	u64 police_drops;
	u64 queue_drops;
	u64 losses;
	u64 ce_marks;
};

/* Purposes of random numbers: each has its own stream, so enabling one effect does not change the others. */
enum { DRAW_LOSS = 1, DRAW_BIT_ERROR, DRAW_JITTER, DRAW_REORDER };

/* Returns 32 uniformly distributed bits for a packet and a purpose. The mixer is splitmix64's. */
static __always_inline u32 draw(u64 seed, u64 packet, u32 purpose)
{
	u64 x = seed + (packet * 8 + purpose) * 0x9e3779b97f4a7c15ULL;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return (x ^ (x >> 31)) >> 32;
}

/* Returns the probability, in units of 2^-32, of no bit error in `bytes`: the product over its powers of two. */
static __always_inline u32 survival(const struct phase *p, u32 bytes)
{
	u64 all = 0xffffffff;

	for (int i = 0; i < SURVIVAL_POWERS; i++)
		if (bytes & (1u << i))
			all = (all * p->survival[i]) >> 32;
	return all;
}

/* Returns the millibits served since time 0, `ns` into the step. */
static __always_inline u64 served(const struct service_step *s, u64 ns)
{
	return s->before + s->rate_bps * ns / NS_PER_MS;
}

/* Returns how many nanoseconds into the step `position`, which lies in it, has been served. */
static __always_inline u64 time_in_step(const struct service_step *s, u64 position)
{
	if (!s->rate_bps)
		return 0;
	return ((position - s->before) * NS_PER_MS + s->rate_bps - 1) / s->rate_bps;
}
