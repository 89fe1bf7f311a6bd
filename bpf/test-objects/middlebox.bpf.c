// SPDX-License-Identifier: GPL-2.0-only
/*
 * A middlebox on a router that strips, overwrites or drops the hints' option, or loses segments. For IPv4 without IP
 * options.
 */
#include "progs/hint_option.h"
#include "progs/one_way.h"
#include "progs/packet.h"

char _license[] SEC("license") = "GPL";

#define TCP_AT (ETHERNET_HEADER + sizeof(struct ipv4_header))
#define OPTIONS_AT (TCP_AT + sizeof(struct tcp_header))
#define TWO_NOPS 0x0101

/* the segments with the option that it acts on */
enum { SYN = 1, SYN_ACK = 2, OTHERS = 4 };
enum { STRIP, OVERWRITE, DROP };

struct middlebox_job {
	u32 segments;
	u32 action;
	u32 word;	 /* OVERWRITE: which 16 bits of the option ... */
	u32 value;	 /* ... and their new value, as on the wire */
	u32 loss_period; /* of each so many segments with data, the 1st, 3rd, 5th and 7th are lost; 0: none */
	u32 with_data;	 /* so far */
	u32 seen;	 /* segments that it acted on because of the option */
};

struct middlebox_job job SEC(".data") = {};

static long (*const bpf_l4_csum_replace)(struct __sk_buff *skb, u32 at, u64 from, u64 to, u64 flags) = (void *)11;

/* Returns where in the options it is, and sets its size; 0: not found. */
static __always_inline u32 find(const u8 options[64], u32 length, u32 *size)
{
	u32 at = 0;

	for (int i = 0; i < TCP_OPTIONS_MAX; i++) {
		if (at + PERMIT_SIZE > length || options[at & 63] == TCPOPT_EOL)
			return 0;
		if (options[at & 63] == TCPOPT_NOP) {
			at++;
			continue;
		}
		*size = options[(at + 1) & 63];
		if (options[at & 63] == TCPOPT_EXPERIMENT)
			return at;
		if (*size < 2)
			return 0;
		at += *size;
	}
	return 0;
}

static __always_inline void put(struct __sk_buff *skb, u32 at, u16 value)
{
	u16 before;

	if (bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
		return;
	bpf_l4_csum_replace(skb, TCP_AT + 16, before, value, sizeof(value));
	bpf_skb_store_bytes(skb, at, &value, sizeof(value), 0);
}

SEC("tc") int interfere(struct __sk_buff *skb)
{
	struct ipv4_header ip;
	struct tcp_header tcp;
	u8 options[64] = {};
	u32 length, at, size = 0, segment;

	if (skb->protocol != swap16(ETHERTYPE_IPV4) || bpf_skb_load_bytes(skb, ETHERNET_HEADER, &ip, sizeof(ip)) ||
	    ip.protocol != PROTOCOL_TCP || bpf_skb_load_bytes(skb, TCP_AT, &tcp, sizeof(tcp)))
		return TC_ACT_UNSPEC;
	length = (tcp.offset >> 4) * 4 - sizeof(tcp);
	if (job.loss_period && skb->len > OPTIONS_AT + length) {
		u32 place = job.with_data++ % job.loss_period;

		if (place < 8 && place % 2 == 0)
			return TC_ACT_SHOT;
	}
	if (!length)
		return TC_ACT_UNSPEC;
	/* else the compiler merges both limits into one on another number, which verifiers do not understand */
	asm volatile("" : "+r"(length));
	if (length > TCP_OPTIONS_MAX || bpf_skb_load_bytes(skb, OPTIONS_AT, options, length))
		return TC_ACT_UNSPEC;
	segment = !(tcp.flags & TCP_SYN) ? OTHERS : tcp.flags & TCP_ACK ? SYN_ACK : SYN;
	at = find(options, length, &size);
	if (!at || !(job.segments & segment))
		return TC_ACT_UNSPEC;
	job.seen++;
	at += OPTIONS_AT;
	if (job.action == DROP)
		return TC_ACT_SHOT;
	if (job.action == OVERWRITE) {
		put(skb, at + job.word * 2, job.value);
		return TC_ACT_UNSPEC;
	}
	put(skb, at, TWO_NOPS);
	put(skb, at + 2, TWO_NOPS);
	if (size == HINT_SIZE)
		put(skb, at + 4, TWO_NOPS);
	return TC_ACT_UNSPEC;
}
