/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the properties of a flow that policy rules match on from its socket. For policy and sock_migrate.
 */
#pragma once
#include "netns.h"
#include "policy.h"

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

struct net_device {
	char name[16];
} __core;

struct dst_entry {
	struct net_device *dev;
} __core;

typedef struct {
	u32 val;
} __core kuid_t;

/* Fields that are not in kernel.h's `struct sock`, which has only those that algorithms read. */
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

/* Reads the properties that the criteria in `wants` need. Addresses and ports are always read. */
static __always_inline void read_flow(struct tcp_sock *tp, bool has_user, u32 wants, struct policy_flow *flow)
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
	if (wants & POLICY_NETNS)
		flow->netns = netns_of(sk);
	if (skc->skc_state != TCP_LISTEN)
		flow->known |= POLICY_KNOWS_PEER;
	if (has_user) {
		flow->known |= POLICY_KNOWS_UID;
		flow->uid = more->sk_uid.val;
	}
	if (wants & POLICY_INTERFACE)
		read_interface(more, flow);
	if (wants & POLICY_CGROUP)
		read_cgroup(more, flow);
	if (wants & POLICY_SIGNALS && flow->known & POLICY_KNOWS_PEER &&
	    radio_read(sk, &link, &newest_q8, &flow->signal_q8) == RADIO_FRESH)
		flow->known |= POLICY_KNOWS_SIGNAL;
}
