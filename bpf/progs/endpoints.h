/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The addresses and ports of a connection. For sock_flows and ack_trace.
 */
#pragma once
#include <hotcc/kernel.h>

struct endpoints {
	u8 local[16]; /* IPv4 as ::ffff:a.b.c.d */
	u8 peer[16];
	u16 local_port; /* host order */
	u16 peer_port;
};

static __always_inline void put_address(u8 *to, const struct in6_addr *v6, u32 v4, bool is_v6)
{
	u32 *words = (u32 *)to;

	words[0] = is_v6 ? v6->in6_u.u6_addr32[0] : 0;
	words[1] = is_v6 ? v6->in6_u.u6_addr32[1] : 0;
	words[2] = is_v6 ? v6->in6_u.u6_addr32[2] : 0xffff0000; /* ::ffff:0:0/96, network order */
	words[3] = is_v6 ? v6->in6_u.u6_addr32[3] : v4;
}

static __always_inline void read_endpoints(const struct sock_common *skc, struct endpoints *ends)
{
	bool is_v6 = skc->skc_family == AF_INET6;
	u16 port = skc->skc_dport;

	put_address(ends->local, &skc->skc_v6_rcv_saddr, skc->skc_rcv_saddr, is_v6);
	put_address(ends->peer, &skc->skc_v6_daddr, skc->skc_daddr, is_v6);
	ends->local_port = skc->skc_num;
	ends->peer_port = port << 8 | port >> 8;
}
