/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Data that the flows of one network namespace to one receiver share. A receiver is a link of the radio map, or else an
 * address, never a prefix. For `crest`.
 *
 * Each of these flows leaves a few segments in the queue, and keeps at least four in flight. A single flow therefore
 * cannot distinguish the queue of its group from a rival's, nor see the path's least RTT. The record of the group
 * contains
 *
 *   how many they are     which queue they leave together, and which rate they had together at their best
 *   a common probe        the first whose probe is due says so, and the others join it: the queue of all of them goes
 *   the least RTT         that a newcomer takes over, unless its own is so long that its path must be longer
 *   what a flow gets      of the link's capacity, if readings of that have foretold its rate: a newcomer's start jumps to
 *                         half of it
 *
 * A flow reads the record once per round. If two flows write at the same time, one value may be lost; the next round, or
 * for the number of flows the next second, repairs it.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/kernel.h>
#include <hotcc/log2.h>
#include <hotcc/peer.h>
#include <hotcc/tags.h>

#include "crest_state.h"

#define GROUPS 32768 /* the least recently used one is evicted */
#define GROUP_EPOCH_SHIFT 10 /* an epoch is 1024 ms */
#define GROUP_EPOCHS (1U << (32 - GROUP_EPOCH_SHIFT)) /* until the time wraps */
#define GROUP_FLOWS_SHIFT 40
#define GROUP_RATE_MASK ((1ULL << GROUP_FLOWS_SHIFT) - 1)
#define GROUP_PEAK_DECAY 40U /* of log2 in 1/1024 per epoch: halves in 26 s */
#define GROUP_LEVEL_EPOCHS 10 /* how long a group without flows remembers its level */
#define GROUP_LEVEL_ERROR 512 /* 1/16, the mean square of log2: readings that foretell a rate to a fifth */

struct crest_group_key {
	u64 net; /* the namespace; with a link of the radio map, its slot */
	u8 peer[16];
};

struct crest_group {
	u64 now;    /* in this epoch: flows in the upper 24 bits, and the sum of their rates, in segments/s */
	u64 before; /* the same for the previous epoch */
	u32 epoch;
	u32 peak;     /* log2 of the best sum of rates */
	u32 probe_ms; /* when the latest probe began */
	u32 base_us;  /* least RTT that any of them saw; 0: none */
	u32 base_ms;  /* when base_us was seen */
	u16 level;    /* of a flow's signal, if that is the capacity and foretells its rate; 0: none */
	u16 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GROUPS);
	__type(key, struct crest_group_key);
	__type(value, struct crest_group);
} crest_groups SEC(".maps");

static __always_inline struct crest_group *group_find(const struct sock *sk, u32 slot)
{
	struct crest_group_key key = { .net = slot };
	struct crest_group fresh = {}, *found;

	if (!slot) {
		key.net = (u64)sk->__sk_common.skc_net.net;
		peer_address(sk, key.peer);
	}
	found = bpf_map_lookup_elem(&crest_groups, &key);
	if (found)
		return found;
	bpf_map_update_elem(&crest_groups, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&crest_groups, &key);
}

/*
 * Counts a flow once per epoch. On another processor, the last epoch may not have ended yet: `passed` then has its largest
 * value.
 */
static __always_inline void group_count(struct crest_group *g, struct crest *f, u32 now_ms)
{
	u32 epoch = now_ms >> GROUP_EPOCH_SHIFT;
	u32 passed = (epoch - g->epoch) % GROUP_EPOCHS;
	u64 rate, ended;

	if (passed && passed < GROUP_EPOCHS - 1) {
		ended = g->now;
		g->now = 0;
		g->before = passed == 1 ? ended : 0;
		if (passed > GROUP_LEVEL_EPOCHS)
			g->level = 0;
		g->epoch = epoch;
		g->peak = max(log2_q10(ended & GROUP_RATE_MASK),
			      g->peak - min(g->peak, GROUP_PEAK_DECAY * min(passed, 256U)));
	}
	if (f->counted != (u8)epoch) {
		f->counted = epoch;
		rate = (u64)f->window * USEC_PER_SEC / SEGMENT / max(f->round_rtt_us, 1U);
		__sync_fetch_and_add(&g->now, (1ULL << GROUP_FLOWS_SHIFT) + min(rate, GROUP_RATE_MASK >> 16));
	}
}

/* The number of flows in the group, including this one. */
static __always_inline u32 group_flows(const struct crest_group *g)
{
	return g ? max(max(g->now >> GROUP_FLOWS_SHIFT, g->before >> GROUP_FLOWS_SHIFT), 1ULL) : 1;
}

/*
 * How much longer than the path's least RTT a newcomer's may be for the queue of the group: four segments of each flow.
 * The best rate does not include the running epoch, which may be the first.
 */
static __always_inline u64 group_queue_us(const struct crest_group *g)
{
	u64 rate = max(max(exp2_q10(g->peak), g->now & GROUP_RATE_MASK), 1ULL);

	return (u64)group_flows(g) * (W_MIN / SEGMENT) * USEC_PER_SEC / rate;
}

/*
 * A newcomer's first RTTs include the queue of its group. If that and an eighth explain its least RTT, it adopts the
 * group's, and probes when the others do. Otherwise its path is longer than theirs.
 */
static __always_inline void group_share_base(struct crest_group *g, struct crest *f, u32 now_ms, u32 holds_ms)
{
	/* another processor's time may be slightly ahead */
	if (!g->base_us || f->base_us <= g->base_us || now_ms + 16 - g->base_ms > holds_ms + 16) {
		g->base_us = f->base_us;
		g->base_ms = f->base_seen_ms;
	} else if (f->probes < YOUNG_PROBES && f->base_us - g->base_us <= f->base_us / 8 + group_queue_us(g)) {
		f->base_us = g->base_us;
		f->base_seen_ms = now_ms - min(now_ms - g->probe_ms, now_ms - g->base_ms);
		f->probes = YOUNG_PROBES;
	}
}

/*
 * Remembers what a flow gets of the capacity, or forgets it if readings foretell the flow's rate worse than is assumed of
 * those of a newcomer.
 */
static __always_inline void group_learn(struct crest_group *g, const struct crest_signal *s)
{
	if (s->radio.kind != RADIO_CAPACITY || !s->level)
		return;
	if (s->error_with <= GROUP_LEVEL_ERROR)
		g->level = s->level;
	else if (s->error_with > ERROR_FIRST)
		g->level = 0;
}

/*
 * The rate, in 1/16 segments per second, that a newcomer may expect by what its group got of the capacity; 0 if that is
 * not known, or was learned on a shorter path.
 */
static __always_inline u64 group_expects(const struct crest_group *g, const struct crest *f)
{
	const struct crest_signal *s = &f->signal;

	if (!g || !g->level || f->base_us != g->base_us || s->radio.kind != RADIO_CAPACITY ||
	    s->readings[0] == NO_READING)
		return 0;
	return min(exp2_q10(max(g->level + s->readings[0], 1)), RATE_MAX);
}

/* W of a probe. Of several flows, four segments each may be more than the path holds. */
static __always_inline u32 group_least_window(const struct crest_group *g)
{
	return group_flows(g) > 1 ? W_MIN / 2 : W_MIN;
}

/* Whether the group's rate fell by so much from its best, in log2. */
static __always_inline bool group_fell(const struct crest_group *g, u32 by)
{
	return log2_q10(g->before & GROUP_RATE_MASK) + by < g->peak;
}

/*
 * Whether a flow of the group began a probe within the last one and a half rounds, and this flow neither probed nor saw
 * an RTT near its least in the last four.
 */
static __always_inline bool group_probes(const struct crest_group *g, const struct crest *f, u32 now_ms, u32 rtt_ms)
{
	u32 round_ms = max(rtt_ms, SLICE_MIN_US / 1000U);

	return g && now_ms - g->probe_ms <= round_ms * 3 / 2 && now_ms - f->base_seen_ms > 4 * round_ms;
}
