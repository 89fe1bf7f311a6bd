// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives sockets the congestion control of the first rule that matches: when a connection is established, from either
 * side, and when a socket listens. A socket whose congestion control `hotcc run` or the application chose is left
 * alone; a rule may override the application's choice. Runs on the root cgroup, after the programs of all cgroups below
 * it. An iterator does the same for open sockets. The loader runs `explain` to ask whether a rule matches a flow.
 */
#include "move.h"
#include "policy_canary.h"
#include "policy_flow.h"
#include "sock_ops.h"

char _license[] SEC("license") = "GPL";

#define ENOENT 2

struct policy_job job SEC(".data") = {};

/* The loader gives these maps as many entries as there are rules. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct policy_rule);
} policy_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct policy_counts);
} policy_counts SEC(".maps");

/* For people, and for `hotcc diff`; no BPF program reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct policy_text);
} policy_texts SEC(".maps");

struct policy_search {
	struct policy_flow flow;
	u32 found; /* job.rules: none */
	u32 pad;
};

/* Returns the first criterion of the rule that the flow does not meet. */
static __always_inline enum policy_criterion mismatch(const struct policy_rule *rule, const struct policy_flow *flow)
{
	enum policy_criterion failed = policy_mismatch(rule, flow);

	if (failed == POLICY_MATCHES && rule->cohort == 1 + POLICY_CANARY && !policy_canary_takes(rule, flow))
		return POLICY_SHARE;
	return failed;
}

static long try_rule(u32 index, struct policy_search *search)
{
	struct policy_rule *rule = bpf_map_lookup_elem(&policy_rules, &index);

	if (!rule || mismatch(rule, &search->flow) != POLICY_MATCHES)
		return 0;
	search->found = index;
	return 1;
}

/* Whether the rule must yield to the choice of `hotcc run` or of the application. */
static __always_inline bool is_chosen(struct tcp_sock *tp, void *sk, const struct policy_rule *rule)
{
	enum policy_chooser chooser = policy_chooser(tp, sk);

	return chooser == POLICY_BY_RUN || (chooser == POLICY_BY_APPLICATION && !rule->overrides);
}

/* The connection ends. */
static __always_inline void ends(struct bpf_sock *sk)
{
	struct policy_mark *mark = policy_mark_of(sk);
	char ran[POLICY_MARK_NAME] = {};
	struct policy_ended ended = {};
	struct tcp_sock *tp;

	if (!mark || !mark->rule)
		return;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !policy_cc_name(tp, ran))
		return;
	if (policy_end(mark, tp, ran, job.tick_us, &ended))
		policy_canary_record(&ended);
}

/* The connection is established, or the socket listens. */
static __always_inline void begins(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct policy_search search = {};
	struct policy_counts *counts;
	struct policy_mark *mark;
	struct policy_rule *rule;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	long result;

	if (!tp)
		return;
	/* an accepted connection gets its user later, when a process accepts it */
	read_flow(tp, ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, job.criteria_in_use, &search.flow);
	search.found = job.rules;
	bpf_loop(job.rules, try_rule, &search, 0);
	rule = bpf_map_lookup_elem(&policy_rules, &search.found);
	counts = bpf_map_lookup_elem(&policy_counts, &search.found);
	if (!rule || !counts)
		return;
	if (is_chosen(tp, sk, rule)) {
		__sync_fetch_and_add(&counts->left_alone, 1);
		return;
	}
	result = bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, rule->cc_name, sizeof(rule->cc_name));
	if (result) {
		__sync_fetch_and_add(result == -ENOENT ? &counts->unavailable : &counts->refused, 1);
		return;
	}
	mark = policy_put_mark(sk, POLICY_BY_RULE, rule->cc_name);
	if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB) {
		__sync_fetch_and_add(&counts->listeners, 1);
		return;
	}
	__sync_fetch_and_add(&counts->connections, 1);
	if (!mark)
		return;
	policy_begin(mark, tp, rule->id);
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

SEC("sockops") int choose(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk;

	switch (ctx->op) {
	case BPF_SOCK_OPS_STATE_CB:
		sk = ctx->args[1] == BPF_TCP_CLOSE ? ctx->sk : NULL;
		if (sk)
			ends(sk);
		return 1;
	/* not at TCP_CONNECT_CB: the algorithm would start before the kernel knows window and segment size */
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		sk = ctx->sk; /* read once: the verifier does not know that a second read is not NULL, too */
		if (sk)
			begins(ctx, sk);
	}
	return 1;
}

/* Counts of open sockets by outcome. Layout: loader/src/policy/layout.rs. */
struct policy_moved {
	u64 moved;
	u64 same; /* already ran the rule's congestion control */
	u64 left_alone;
	u64 unavailable;
	u64 refused;
	u64 unmatched; /* no rule matches */
	struct learned_counts learned;
};

struct policy_moved moved = {};

/* Makes the kernel call `choose` when the connection ends, too. Linux before 6.12 has no way to do so here. */
static __always_inline bool ask_for_the_end(struct tcp_sock *tp)
{
	u32 flags = 0;

	if (bpf_getsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return false;
	flags |= BPF_SOCK_OPS_STATE_CB_FLAG;
	return !bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
}

/* Applies the rules to the open sockets of one network namespace, or only counts. */
SEC("iter/tcp") int move(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct policy_search search = {};
	struct policy_mark *mark;
	struct policy_rule *rule;
	struct socket_cc cc = {};
	struct tcp_sock *tp;
	long result;

	tp = skc ? bpf_skc_to_tcp_sock(skc) : NULL;
	if (!tp || !read_socket_cc(tp, &cc))
		return 0;
	/*
	 * Which side opened it is no longer known; an accepted connection has the user of the accepting process. What a
	 * listener gets, the connections that it accepts would inherit.
	 */
	read_flow(tp, skc->skc_state != TCP_LISTEN, job.criteria_in_use, &search.flow);
	search.found = job.rules;
	bpf_loop(job.rules, try_rule, &search, 0);
	rule = bpf_map_lookup_elem(&policy_rules, &search.found);
	if (!rule) {
		moved.unmatched++;
		return 0;
	}
	if (same_name(cc.name, rule->cc_name)) {
		moved.same++;
		return 0;
	}
	if (is_chosen(tp, tp, rule)) {
		moved.left_alone++;
		return 0;
	}
	if (job.only_count)
		result = core_flag(&tp->inet_conn, icsk_ca_dst_locked);
	else
		result = move_socket(tp, rule->cc_name, &moved.learned);
	if (result == -ENOENT)
		moved.unavailable++;
	else if (result)
		moved.refused++;
	else
		moved.moved++;
	if (result || job.only_count)
		return 0;
	policy_leave(policy_mark_of(tp), tp, cc.name, job.tick_us);
	mark = policy_put_mark(tp, POLICY_BY_RULE, rule->cc_name);
	if (mark && skc->skc_state != TCP_LISTEN && ask_for_the_end(tp))
		policy_begin(mark, tp, rule->id);
	return 0;
}

struct xdp_md {
	u32 data;
	u32 data_end;
};

/* A query about one rule, which the loader passes as a packet. */
struct policy_query {
	u32 rule;
	u32 pad;
	struct policy_flow flow;
};

/* Returns the first criterion of the rule that the flow does not meet; -1 if the query is invalid. */
SEC("xdp") int explain(struct xdp_md *ctx)
{
	const struct policy_query *asked = (void *)(u64)ctx->data;
	struct policy_query query;
	struct policy_rule *rule;

	if ((u64)(asked + 1) > (u64)ctx->data_end)
		return -1;
	query = *asked;
	rule = bpf_map_lookup_elem(&policy_rules, &query.rule);
	return rule ? (int)mismatch(rule, &query.flow) : -1;
}
