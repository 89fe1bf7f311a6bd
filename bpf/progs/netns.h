/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The network namespace of a socket. For policy_flow, ack_trace and the lab's probes.
 */
#pragma once
#include <hotcc/kernel.h>

struct ns_common {
	u32 inum;
} __core;

struct net {
	struct ns_common ns;
} __core;

/* Returns its inode, as in `net:[INODE]`. */
static __always_inline u32 netns_of(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ns.inum;
}
