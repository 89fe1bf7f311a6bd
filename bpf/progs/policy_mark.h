/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marks on sockets whose congestion control hotcc chose. For policy, sock_migrate and cgroup_cc. A connection's socket
 * storage costs an allocation for each map, so the mark also has room for what policy_figures.h needs.
 */
#pragma once
#include <hotcc/kernel.h>

#define POLICY_MARK_NAME 16

/* The party that chose a socket's congestion control. */
enum policy_chooser {
	POLICY_BY_NOBODY = 0,
	POLICY_BY_RULE = 1, /* or `hotcc migrate`, if the application had not chosen */
	POLICY_BY_RUN = 2,
	POLICY_BY_APPLICATION = 3,
};

/*
 * The kernel's flag only shows that a socket's congestion control was chosen; the mark names the party. It is valid
 * while the socket runs that congestion control. A listener passes it to the connections that it accepts.
 */
struct policy_mark {
	char cc_name[POLICY_MARK_NAME];
	u32 by;
	/* where the connection stood when its rule took it; without a rule, the rest has no meaning */
	u32 busy_ticks;
	u64 rule; /* policy_rule.id; 0: the connection counts for none */
	u64 time_ns;
	u64 acked_bytes;
	u32 segments;
	u32 retransmits;
	u32 timeouts;
	u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__uint(pinning, 1);
	__type(key, int);
	__type(value, struct policy_mark);
} policy_socket SEC(".maps");

static __always_inline bool policy_same_name(const char a[POLICY_MARK_NAME], const char b[POLICY_MARK_NAME])
{
	for (int i = 0; i < POLICY_MARK_NAME; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

/* NULL: the socket has no mark. */
static __always_inline struct policy_mark *policy_mark_of(void *sk)
{
	return bpf_sk_storage_get(&policy_socket, sk, NULL, 0);
}

/* Records that `by` gave the socket this congestion control. The connection counts for no rule. */
static __always_inline struct policy_mark *policy_put_mark(void *sk, u32 by, const char cc_name[POLICY_MARK_NAME])
{
	struct policy_mark *mark = bpf_sk_storage_get(&policy_socket, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!mark)
		return NULL;
	mark->by = by;
	mark->rule = 0;
	for (int i = 0; i < POLICY_MARK_NAME; i++)
		mark->cc_name[i] = cc_name[i];
	return mark;
}

/* Reads the name of the congestion control that the socket runs. */
static __always_inline bool policy_cc_name(const struct tcp_sock *tp, char name[POLICY_MARK_NAME])
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;

	return ops && !bpf_probe_read_kernel(name, POLICY_MARK_NAME, &ops->name);
}

/* `sk` is the same socket, as the program got it. */
static __always_inline enum policy_chooser policy_chooser(const struct tcp_sock *tp, void *sk)
{
	const struct policy_mark *mark;
	char name[POLICY_MARK_NAME] = {};

	if (!core_flag(&tp->inet_conn, icsk_ca_setsockopt))
		return POLICY_BY_NOBODY;
	mark = policy_mark_of(sk);
	if (mark && policy_cc_name(tp, name) && policy_same_name(name, mark->cc_name))
		return mark->by;
	return POLICY_BY_APPLICATION;
}
