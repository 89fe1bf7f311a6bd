/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads the TCP segment that a packet carries: IPv4 and IPv6, up to two VLAN tags inside the frame (a third may be in
 * the packet's metadata), and super-packets of GRO and GSO. The packet is not changed, and nothing in it is trusted
 * without a check. For pep_border.
 */
#pragma once
#include "packet.h"

#define GTP_U_PORT 2152
#define VLAN_TAGS 2
#define IPV6_EXTENSIONS 4

/* What a packet turned out to be. */
enum packet_kind {
	PACKET_SEGMENT,
	PACKET_OTHER,	  /* not TCP, or not IP */
	PACKET_FRAGMENT,  /* an IP fragment: only the first one has the ports */
	PACKET_EXTENSION, /* behind an IPv6 extension header that is not skipped (routing, AH, ...) */
	PACKET_MALFORMED, /* truncated, or impossible lengths */
	PACKET_GTP_U,
};

/* Address and port in network order; IPv4 as ::ffff:a.b.c.d. */
struct endpoint {
	u32 address[4];
	u16 port;
	u16 zero;
};

struct segment {
	struct endpoint from, to;
	u32 seq;
	u32 ack;
	u32 payload; /* bytes */
	u32 count;   /* segments in a super-packet; else 1 */
	u8 flags;
};

/* One read covers nearly every packet: an IPv4 header without options and a TCP header, or an IPv6 header. */
union ip_headers {
	u8 version;
	struct {
		struct ipv4_header ip;
		struct tcp_header tcp;
	} v4;
	struct ipv6_header v6;
};

static __always_inline bool is_vlan(u16 protocol)
{
	return protocol == swap16(ETHERTYPE_VLAN) || protocol == swap16(ETHERTYPE_SERVICE_VLAN);
}

/* Returns the offset of the IP header, and sets `protocol` to that behind the tags. */
static __always_inline u32 skip_vlan_tags(struct __sk_buff *skb, u32 at, u16 *protocol)
{
	u16 tag[2];

	for (int i = 0; i < VLAN_TAGS && is_vlan(*protocol); i++) {
		if (bpf_skb_load_bytes(skb, at, tag, sizeof(tag)))
			break;
		*protocol = tag[1];
		at += sizeof(tag);
	}
	return at;
}

/* Moves `at` past hop-by-hop and destination options, and returns the protocol that follows. */
static __always_inline u8 skip_extensions(struct __sk_buff *skb, u8 next, u32 *at)
{
	u8 header[2];

	for (int i = 0; i < IPV6_EXTENSIONS && (next == 0 || next == 60); i++) {
		if (bpf_skb_load_bytes(skb, *at, header, sizeof(header)))
			break;
		next = header[0];
		*at += (header[1] + 1) * 8;
	}
	return next;
}

/* A super-packet may be too long for its length field: the field is 0 then, and the packet ends with the buffer. */
static __always_inline u32 end_of(struct __sk_buff *skb, u32 at, u32 length, bool is_said)
{
	return is_said || !skb->gso_size ? at + length : skb->len;
}

static __always_inline enum packet_kind read_tcp(struct __sk_buff *skb, const struct tcp_header *tcp, u32 at, u32 end,
						 struct segment *s)
{
	u32 header = (tcp->offset >> 4) * 4;

	if (header < sizeof(*tcp) || end > skb->len || at + header > end)
		return PACKET_MALFORMED;
	s->from.port = tcp->source;
	s->to.port = tcp->dest;
	s->from.zero = s->to.zero = 0;
	s->seq = swap32(tcp->seq);
	s->ack = swap32(tcp->ack);
	s->flags = tcp->flags;
	s->payload = end - at - header;
	s->count = skb->gso_segs;
	if (!s->count) /* a guest's super-packet has no count until it is segmented */
		s->count = skb->gso_size ? (s->payload + skb->gso_size - 1) / skb->gso_size : 1;
	return PACKET_SEGMENT;
}

static __always_inline enum packet_kind read_ipv4(struct __sk_buff *skb, u32 at, union ip_headers *h, struct segment *s)
{
	u32 header = (h->v4.ip.version_ihl & 15) * 4, length = swap16(h->v4.ip.length), end;
	struct tcp_header *tcp = &h->v4.tcp;

	if (h->v4.ip.version_ihl >> 4 != 4 || header < sizeof(h->v4.ip))
		return PACKET_MALFORMED;
	end = end_of(skb, at, length, length);
	if (h->v4.ip.fragment & swap16(0x3fff))
		return PACKET_FRAGMENT;
	s->from.address[0] = s->from.address[1] = s->to.address[0] = s->to.address[1] = 0;
	s->from.address[2] = s->to.address[2] = swap32(0xffff);
	s->from.address[3] = h->v4.ip.source;
	s->to.address[3] = h->v4.ip.dest;
	if (header > sizeof(h->v4.ip) && bpf_skb_load_bytes(skb, at + header, tcp, sizeof(*tcp)))
		return PACKET_MALFORMED;
	return read_tcp(skb, tcp, at + header, end, s);
}

static __always_inline enum packet_kind read_ipv6(struct __sk_buff *skb, u32 at, const struct ipv6_header *ip,
						  u32 tcp_at, struct segment *s)
{
	u32 length = swap16(ip->length);
	struct tcp_header tcp;

	__builtin_memcpy(s->from.address, ip->source, sizeof(ip->source));
	__builtin_memcpy(s->to.address, ip->dest, sizeof(ip->dest));
	if (bpf_skb_load_bytes(skb, tcp_at, &tcp, sizeof(tcp)))
		return PACKET_MALFORMED;
	return read_tcp(skb, &tcp, tcp_at, end_of(skb, at + sizeof(*ip), length, length), s);
}

static __always_inline enum packet_kind read_udp(struct __sk_buff *skb, u32 at)
{
	u16 ports[2];

	if (!bpf_skb_load_bytes(skb, at, ports, sizeof(ports)) && ports[1] == swap16(GTP_U_PORT))
		return PACKET_GTP_U;
	return PACKET_OTHER;
}

/* `link_header` is the length of the link-layer header on that kind of device. */
static __always_inline enum packet_kind read_segment(struct __sk_buff *skb, u32 link_header, struct segment *s)
{
	u16 protocol = skb->protocol;
	u32 at = skip_vlan_tags(skb, link_header, &protocol), next_at;
	union ip_headers h;
	u8 next;

	if (protocol != swap16(ETHERTYPE_IPV4) && protocol != swap16(ETHERTYPE_IPV6))
		return PACKET_OTHER;
	if (bpf_skb_load_bytes(skb, at, &h, sizeof(h))) {
		/* shorter than an IP and a TCP header: valid only if it is IPv4 with a shorter payload */
		if (protocol != swap16(ETHERTYPE_IPV4) || bpf_skb_load_bytes(skb, at, &h.v4.ip, sizeof(h.v4.ip)))
			return PACKET_MALFORMED;
		return h.v4.ip.protocol == PROTOCOL_TCP ? PACKET_MALFORMED :
		       h.v4.ip.protocol == PROTOCOL_UDP ? read_udp(skb, at + (h.v4.ip.version_ihl & 15) * 4) :
							  PACKET_OTHER;
	}
	if (protocol == swap16(ETHERTYPE_IPV4)) {
		if (h.v4.ip.protocol == PROTOCOL_TCP)
			return read_ipv4(skb, at, &h, s);
		next = h.v4.ip.fragment & swap16(0x1fff) ? 0 : h.v4.ip.protocol;
		next_at = at + (h.v4.ip.version_ihl & 15) * 4;
	} else {
		if (h.version >> 4 != 6)
			return PACKET_MALFORMED;
		next_at = at + sizeof(h.v6);
		next = skip_extensions(skb, h.v6.next, &next_at);
		if (next == PROTOCOL_TCP)
			return read_ipv6(skb, at, &h.v6, next_at, s);
	}
	switch (next) {
	case PROTOCOL_UDP:
		return read_udp(skb, next_at);
	case 44:
		return PACKET_FRAGMENT;
	case 0:
	case 43:
	case 51:
	case 60:
	case 135:
		return protocol == swap16(ETHERTYPE_IPV6) ? PACKET_EXTENSION : PACKET_OTHER;
	default:
		return PACKET_OTHER;
	}
}
