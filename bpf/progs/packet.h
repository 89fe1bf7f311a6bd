/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packet headers on the wire, in network order. For programs that parse packets, including those of the lab and the
 * tests.
 */
#pragma once
#include "skb.h"

#define ETHERNET_HEADER 14
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_SERVICE_VLAN 0x88a8
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17

enum tcp_flag { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };

struct ipv4_header {
	u8 version_ihl, tos;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 source, dest;
};

struct ipv6_header {
	u32 version_class_flow;
	u16 length;
	u8 next, hop_limit;
	u8 source[16], dest[16];
};

struct tcp_header {
	u16 source, dest; /* as in UDP */
	u32 seq, ack;
	u8 offset; /* upper half: header length in words */
	u8 flags;
	u16 window, checksum, urgent;
};

static __always_inline u16 swap16(u16 v)
{
	return __builtin_bswap16(v);
}

static __always_inline u32 swap32(u32 v)
{
	return __builtin_bswap32(v);
}
