/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The two rules of `hotcc canary`: a share of the connections, which may change and expires, gets the canary's rule; the
 * others get the control's. Layout: loader/src/policy/layout.rs. For policy.
 */
#pragma once
#include "policy_figures.h"
#include "policy.h"

enum policy_canary_state {
	POLICY_CANARY_NONE = 0,
	POLICY_CANARY_RUNNING = 1,  /* until it expires */
	POLICY_CANARY_PROMOTED = 2, /* until it expires, all flows are the canary's; by then, one rule replaces both */
};

/* Written by hotcc. */
struct policy_canary {
	u64 rules[POLICY_COHORTS]; /* policy_rule.id */
	u64 expires_ns;		   /* CLOCK_MONOTONIC; from then on the share is 0 */
	u32 share;		   /* flows whose hash is below it are the canary's */
	u32 state;		   /* enum policy_canary_state, or one that only hotcc uses */
	u32 step;		   /* from 1 */
	u32 steps;
	char from[POLICY_CC_NAME];
	char to[POLICY_CC_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, struct policy_canary);
} policy_canary SEC(".maps");

struct policy_cohorts {
	u64 ended[POLICY_COHORTS]; /* connections */
	u64 dropped;		   /* of these, the ring had no room for the record */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, struct policy_cohorts);
} policy_cohorts SEC(".maps");

/* `struct policy_ended` of connections of the two rules. The loader makes it larger for a canary. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} policy_records SEC(".maps");

/* A ring buffer's definition names no type: this constant puts the type into the object's BTF. */
const struct policy_ended *const policy_ended_layout = NULL;

/* Returns NULL if it has expired. */
static __always_inline const struct policy_canary *policy_canary_now(void)
{
	const struct policy_canary *canary = bpf_map_lookup_elem(&policy_canary, &(u32){ 0 });

	return canary && bpf_ktime_get_ns() < canary->expires_ns ? canary : NULL;
}

/* Whether the canary whose rule this is takes the flow, which meets the rule's conditions. */
static __always_inline bool policy_canary_takes(const struct policy_rule *rule, const struct policy_flow *flow)
{
	const struct policy_canary *canary = policy_canary_now();

	if (!canary || canary->rules[POLICY_CANARY] != rule->id)
		return false;
	if (canary->state == POLICY_CANARY_PROMOTED)
		return true;
	return canary->state == POLICY_CANARY_RUNNING && flow->known & POLICY_KNOWS_PEER &&
	       policy_hash(flow, rule->seed) < canary->share;
}

/* Sends what a connection did to `hotcc canary start`, which polls, if it was under one of the two rules. */
static __always_inline void policy_canary_record(const struct policy_ended *ended)
{
	const struct policy_canary *canary = policy_canary_now();
	struct policy_cohorts *cohorts = bpf_map_lookup_elem(&policy_cohorts, &(u32){ 0 });
	u32 cohort = POLICY_CONTROL;

	if (!canary || canary->state != POLICY_CANARY_RUNNING || !cohorts)
		return;
	if (ended->rule == canary->rules[POLICY_CANARY])
		cohort = POLICY_CANARY;
	else if (ended->rule != canary->rules[POLICY_CONTROL])
		return;
	__sync_fetch_and_add(&cohorts->ended[cohort], 1);
	if (bpf_ringbuf_output(&policy_records, ended, sizeof(*ended), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&cohorts->dropped, 1);
}
