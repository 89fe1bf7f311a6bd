// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives sockets the congestion control of the first rule that matches: when a connection is established, from either
 * side, and when a socket listens. A socket that has another choice than hotcc's is left alone, unless the rule overrides
 * that. Runs on the root cgroup, after the programs of all cgroups below it.
 */
#include "policy.h"
#include "policy_flow.h"
#include "sock_ops.h"

char _license[] SEC("license") = "GPL";

#define ENOENT 2

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct policy_counts);
} policy_counts SEC(".maps");

/* For people, and for `hotcc diff`; no program reads it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct policy_text);
} policy_texts SEC(".maps");

/* The kernel's types that lead from a socket to its cgroup, namespace and interface. */
struct kernfs_node {
	const char *name;
} __core;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} __core;

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
} __core;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} __core;

struct ns_common {
	u32 inum;
} __core;

struct net {
	struct ns_common ns;
} __core;

struct net_device {
	char name[16];
} __core;

struct dst_entry {
	struct net_device *dev;
} __core;

typedef struct {
	u32 val;
} __core kuid_t;

/* kernel.h's `struct sock` has what algorithms read. */
struct sock___policy {
	kuid_t sk_uid;
	struct dst_entry *sk_dst_cache;
	struct sock_cgroup_data sk_cgrp_data;
} __core;

static long (*const bpf_probe_read_kernel_str)(void *dst, u32 size, const void *src) = (void *)115;

static __noinline u64 hash_of_name(const char *name)
{
	u64 words[POLICY_CGROUP_NAME / 8] = {}, hash = 0;

	bpf_probe_read_kernel_str(words, sizeof(words), name);
	for (int i = 0; i < POLICY_CGROUP_NAME / 8; i++)
		hash = policy_mix(hash, words[i]);
	return hash;
}

static __always_inline void read_cgroup(const struct sock___policy *sk, struct policy_flow *flow)
{
	const struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;

	for (int i = 0; i < POLICY_CGROUP_WALK && cgroup; i++) {
		const struct cgroup_subsys_state *parent = cgroup->self.parent;
		const struct kernfs_node *node = cgroup->kn;
		u32 level = cgroup->level - 1; /* the root, which has no name, has level 0 */

		if (!parent || !node)
			break;
		if (level < POLICY_CGROUP_LEVELS)
			flow->cgroup[level] = hash_of_name(node->name);
		cgroup = parent->cgroup;
	}
}

static __always_inline void read_interface(const struct sock___policy *sk, struct policy_flow *flow)
{
	const struct dst_entry *route = sk->sk_dst_cache;
	const struct net_device *device = route ? route->dev : NULL;

	if (device)
		bpf_probe_read_kernel_str(flow->interface, sizeof(flow->interface), &device->name);
}

static __always_inline void read_flow(struct tcp_sock *tp, bool is_outgoing, struct policy_flow *flow)
{
	struct sock *sk = (struct sock *)tp;
	const struct sock___policy *more = (const struct sock___policy *)tp;
	struct sock_common *skc = &sk->__sk_common;
	u32 *local = (u32 *)flow->local;
	struct radio_ref link = {};
	s32 newest_q8;
	u16 port;

	peer_address(sk, flow->remote);
	if (skc->skc_family == AF_INET6) {
		for (int i = 0; i < 4; i++)
			local[i] = skc->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
	} else {
		local[2] = 0xffff0000;
		local[3] = skc->skc_rcv_saddr;
	}
	port = skc->skc_dport;
	flow->remote_port = port << 8 | port >> 8;
	flow->local_port = skc->skc_num;
	flow->netns = skc->skc_net.net->ns.inum;
	if (skc->skc_state != TCP_LISTEN)
		flow->known |= POLICY_KNOWS_PEER;
	if (is_outgoing) { /* what is accepted gets its user later, when a process takes it */
		flow->known |= POLICY_KNOWS_UID;
		flow->uid = more->sk_uid.val;
	}
	read_interface(more, flow);
	if (job.wants_cgroup)
		read_cgroup(more, flow);
	if (job.wants_signal && flow->known & POLICY_KNOWS_PEER &&
	    radio_read(sk, &link, &newest_q8, &flow->signal_q8) == RADIO_FRESH)
		flow->known |= POLICY_KNOWS_SIGNAL;
}

/* Whether somebody chose whom the rule is to yield to. */
static __always_inline bool is_chosen(struct tcp_sock *tp, struct bpf_sock_ops *ctx, const struct policy_rule *rule)
{
	char name[POLICY_MARK_NAME] = {};
	struct policy_mark *mark;

	if (!core_flag(&tp->inet_conn, icsk_ca_setsockopt))
		return false;
	mark = bpf_sk_storage_get(&policy_mark, ctx->sk, NULL, 0);
	if (!mark || bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)) ||
	    !policy_same_name(name, mark->cc_name))
		return !rule->overrides;
	return mark->by == POLICY_BY_RUN;
}

SEC("sockops") int choose(struct bpf_sock_ops *ctx)
{
	struct policy_search search = {};
	struct policy_counts *counts;
	struct policy_rule *rule;
	struct tcp_sock *tp;
	long result;

	/* not at TCP_CONNECT_CB: it would start before the kernel knows window and segment size */
	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	tp = ctx->sk ? bpf_skc_to_tcp_sock(ctx->sk) : NULL;
	if (!tp)
		return 1;
	read_flow(tp, ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, &search.flow);
	policy_find(&search);
	rule = bpf_map_lookup_elem(&policy_rules, &search.found);
	counts = bpf_map_lookup_elem(&policy_counts, &search.found);
	if (!rule || !counts)
		return 1;
	if (is_chosen(tp, ctx, rule)) {
		__sync_fetch_and_add(&counts->left_alone, 1);
		return 1;
	}
	result = bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, rule->cc_name, sizeof(rule->cc_name));
	if (result) {
		__sync_fetch_and_add(result == -ENOENT ? &counts->unavailable : &counts->refused, 1);
		return 1;
	}
	__sync_fetch_and_add(ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB ? &counts->listeners : &counts->connections, 1);
	policy_put_mark(ctx->sk, POLICY_BY_RULE, rule->cc_name);
	return 1;
}

struct xdp_md {
	u32 data;
	u32 data_end;
};

/* A question about one rule, put by the loader as a packet. */
struct policy_question {
	u32 rule;
	u32 pad;
	struct policy_flow flow;
};

/* Which criterion of the rule the flow does not fulfil. */
SEC("xdp") int explain(struct xdp_md *ctx)
{
	const struct policy_question *asked = (void *)(u64)ctx->data;
	struct policy_question question;
	struct policy_rule *rule;

	if ((u64)(asked + 1) > (u64)ctx->data_end)
		return -1;
	question = *asked;
	rule = bpf_map_lookup_elem(&policy_rules, &question.rule);
	return rule ? (int)policy_mismatch(rule, &question.flow) : -1;
}
