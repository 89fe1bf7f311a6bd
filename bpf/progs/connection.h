/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finds the socket of one of this host's connections by its two endpoints. For pep_server and pep_inband.
 */
#pragma once
#include <hotcc/kernel.h>

#define BPF_F_CURRENT_NETNS -1

/* Kernel ABI. */
struct sock_tuple {
	union {
		struct {
			u32 remote, local;
			u16 remote_port, local_port;
		} v4;
		struct {
			u8 remote[16], local[16];
			u16 remote_port, local_port;
		} v6;
	};
};

/* Arguments are in network order; an IPv4 address is the first four bytes. The caller releases a found socket. */
static __always_inline struct bpf_sock *find_connection(struct __sk_buff *skb, const u8 *local, u16 local_port,
							const u8 *remote, u16 remote_port, u32 family)
{
	struct sock_tuple tuple = {};

	if (family == 4) {
		tuple.v4.remote = *(const u32 *)remote;
		tuple.v4.local = *(const u32 *)local;
		tuple.v4.remote_port = remote_port;
		tuple.v4.local_port = local_port;
		return bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.v4), BPF_F_CURRENT_NETNS, 0);
	}
	__builtin_memcpy(tuple.v6.remote, remote, 16);
	__builtin_memcpy(tuple.v6.local, local, 16);
	tuple.v6.remote_port = remote_port;
	tuple.v6.local_port = local_port;
	return bpf_sk_lookup_tcp(skb, &tuple, sizeof(tuple.v6), BPF_F_CURRENT_NETNS, 0);
}
