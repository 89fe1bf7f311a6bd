/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marks on sockets whose congestion control hotcc chose. For policy, sock_migrate and cgroup_cc.
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
 * while the socket runs that congestion control.
 */
struct policy_mark {
	u32 by;
	char cc_name[POLICY_MARK_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__uint(pinning, 1);
	__type(key, int);
	__type(value, struct policy_mark);
} policy_mark SEC(".maps");

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

static __always_inline void policy_copy_name(char to[POLICY_MARK_NAME], const char from[POLICY_MARK_NAME])
{
	for (int i = 0; i < POLICY_MARK_NAME; i++)
		to[i] = from[i];
}

/* Records that `by` gave the socket this congestion control. */
static __always_inline void policy_put_mark(void *sk, u32 by, const char cc_name[POLICY_MARK_NAME])
{
	struct policy_mark *mark = bpf_sk_storage_get(&policy_mark, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	if (!mark)
		return;
	mark->by = by;
	policy_copy_name(mark->cc_name, cc_name);
}

static __always_inline enum policy_chooser policy_chooser(const struct tcp_sock *tp, const struct policy_mark *mark)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;
	char name[POLICY_MARK_NAME] = {};

	if (!core_flag(&tp->inet_conn, icsk_ca_setsockopt))
		return POLICY_BY_NOBODY;
	if (mark && ops) {
		bpf_probe_read_kernel(name, sizeof(name), &ops->name);
		if (policy_same_name(name, mark->cc_name))
			return mark->by;
	}
	return POLICY_BY_APPLICATION;
}
