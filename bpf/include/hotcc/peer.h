/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The address of a socket's peer in the form of the signal maps' keys: network order, IPv4 as ::ffff:a.b.c.d. radio.h
 * and path.h include it.
 */
#pragma once
#include <hotcc/kernel.h>

static __always_inline void peer_address(const struct sock *sk, u8 address[16])
{
	u32 *words = (u32 *)address;

	if (sk->__sk_common.skc_family == AF_INET6) {
		words[0] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
		words[1] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1];
		words[2] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2];
		words[3] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	} else {
		words[0] = words[1] = 0;
		words[2] = 0xffff0000; /* ::ffff:0:0/96, network order on a little-endian machine */
		words[3] = sk->__sk_common.skc_daddr;
	}
}
