// SPDX-License-Identifier: GPL-2.0-only
/*
 * ARWA's receiver, and the sender's end of its option, on the sockets of one cgroup. Each connection may have both
 * roles. docs/guide/receiver.md describes the option on the wire.
 *
 *   measure   tcp_probe, which sees every packet that an established connection gets: delay and rate (arwa_receiver.h)
 *   options   sock_ops: announces in SYN and SYN-ACK that this host supports hints, puts hints on ACKs, and stores the
 *             peer's hints in the sender's socket storage, where `arwa` finds them (hint.h)
 *
 * tcp_probe runs for all sockets of the host: sockets without any BPF storage are skipped after one load.
 */
#include "arwa_receiver.h"
#include "hint_option.h"
#include <hotcc/kernel.h>
#include "packet.h"
#include "abi/rx_counters.h"
#include "sock_ops.h"

char _license[] SEC("license") = "GPL";

TUNABLE(u32, hint_copies, 3, 3, 1, 16, "", "ACKs in a row that carry the same hint");

/* without options, and with the longest options */
#define TCP_HEADER_SIZE sizeof(struct tcp_header)
#define TCP_HEADER_MAX (TCP_HEADER_SIZE + TCP_OPTIONS_MAX)

struct whole_tcp_header {
	struct tcp_header fixed;
	u8 options[TCP_OPTIONS_MAX];
};

/* bytes that a segment's ACK may be behind the last one: more than segments in disorder are, and few of all numbers */
#define ACKED_AGO_MAX (1U << 20)

/* this many SACK blocks leave no room beside timestamps, without which there are no hints */
#define SACKS_WITHOUT_ROOM 3

/*
 * The receiver's state of a connection whose peer supports hints; `arwa_hint` is the sender's. The hint is in the first
 * cache line: an ACK needs no more than that.
 */
struct rx_flow {
	u32 made; /* when the hint was made, in hint_time()'s unit */
	u8 hint;
	u8 sequence; /* 0: no hint was made yet */
	u8 copies;   /* still to be sent */
	struct arwa_receiver receiver;
};
_Static_assert(sizeof(struct rx_flow) <= 128 - 8, "with the map's 8 bytes it is two cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rx_flow);
} rx_flows SEC(".maps");

static __always_inline u16 gso_size_of(const struct sk_buff *skb)
{
	u16 size = 0;

	bpf_probe_read_kernel(&size, sizeof(size),
			      skb->head + skb->end + core_field_offset(struct skb_shared_info, gso_size));
	return size;
}

SEC("tp_btf/tcp_probe") int BPF_PROG(measure, struct sock *sk, struct sk_buff *skb)
{
	struct arwa_segments segments = {};
	struct whole_tcp_header header;
	const struct tcp_sock *tp;
	struct rx_flow *f;
	u32 mss, header_size, options_size, data_size, rcv_nxt, rcv_wnd, snd_nxt, snd_una;
	u64 now_ns;

	/*
	 * Mostly an ACK, which does not change the state. On a host with many connections, neither the state nor the
	 * socket's fields for it are in a cache, so they are not touched.
	 */
	if (skb->len <= TCP_HEADER_MAX || !sk->sk_bpf_storage)
		return 0;
	tp = tcp_sock_to_read(sk);
	if (!tp)
		return 0;
	mss = tp->inet_conn.icsk_ack.rcv_mss;
	if (skb->len < TCP_HEADER_SIZE + mss)
		return 0;
	/* read all needed fields of the socket together, before the call to the clock, which would wait for them */
	segments.least_rtt_us = tp->rtt_min.s[0].v; /* from the handshake on */
	if (segments.least_rtt_us == ~0U)
		segments.least_rtt_us = tp->rcv_rtt_est.rtt_us >> 3;
	rcv_nxt = tp->rcv_nxt;
	rcv_wnd = tp->rcv_wnd;
	snd_nxt = tp->snd_nxt;
	snd_una = tp->snd_una;
	f = bpf_sk_storage_get(&rx_flows, sk, NULL, 0);
	if (!f || bpf_probe_read_kernel(&header, TCP_HEADER_SIZE + STAMP_ALIGNED, skb->data))
		return 0;
	/*
	 * TCP has not checked the packet yet: beyond the window it may be forged, below it, it was received already. An
	 * ACK of what was not sent, or was acknowledged long ago, is forged, too.
	 */
	if (swap32(header.fixed.seq) - rcv_nxt >= rcv_wnd ||
	    snd_nxt - swap32(header.fixed.ack) > snd_nxt - snd_una + ACKED_AGO_MAX)
		return 0;
	/* for the ACK of the packet before this one: if there is no room at all, the kernel does not ask for options */
	if (f->copies && tp->rx_opt.num_sacks + core_bitfield(tp, rx_opt.dsack) >= SACKS_WITHOUT_ROOM)
		RX_COUNT(hints_without_room);
	header_size = header.fixed.offset >> 4 << 2;
	data_size = skb->len - header_size;
	if (header_size < TCP_HEADER_SIZE || skb->len <= header_size)
		return 0;
	options_size = header_size - TCP_HEADER_SIZE;
	segments.size = data_size;
	if (data_size > mss) /* perhaps several segments */
		segments.size = gso_size_of(skb) ?: data_size;
	if (segments.size < mss)
		return 0;
	segments.count = data_size / segments.size;
	if (!tcp_aligned_timestamp(header.options, options_size, &segments.tsval) &&
	    (bpf_probe_read_kernel(&header, sizeof(header), skb->data) ||
	     !tcp_timestamp(header.options, options_size, &segments.tsval)))
		return 0;
	now_ns = bpf_ktime_get_ns();
	segments.now_us = now_ns / 1000;
	if (!arwa_receive(&f->receiver, &segments, &f->hint))
		return 0;
	f->copies = f->hint ? hint_copies : 0;
	if (!f->hint)
		return 0;
	f->made = hint_time(now_ns);
	f->sequence = hint_sequence_after(f->sequence);
	RX_COUNT(hints_made);
	return 0;
}

static __always_inline struct rx_flow *flow_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return sk ? bpf_sk_storage_get(&rx_flows, sk, NULL, 0) : NULL;
}

static __always_inline bool peer_permits(struct bpf_sock_ops *ctx, u64 where)
{
	struct hint_option permit = HINT_OPTION(PERMIT_SIZE);

	return bpf_load_hdr_opt(ctx, &permit, sizeof(permit), where) == PERMIT_SIZE;
}

/*
 * Returns the size of the option for the segment about to be sent. A retransmitted SYN has none: a middlebox may drop
 * unknown options. Segments with data have none: they are as long as the path allows.
 */
static __always_inline u32 option_size(struct bpf_sock_ops *ctx)
{
	u32 flags = ctx->skb_tcp_flags;
	struct rx_flow *f;

	if (flags & (TCPHDR_FIN | TCPHDR_RST))
		return 0;
	if (flags & TCPHDR_SYN) {
		if (flags & TCPHDR_ACK)
			return peer_permits(ctx, BPF_LOAD_HDR_OPT_TCP_SYN) ? PERMIT_SIZE : 0;
		return ctx->total_retrans ? 0 : PERMIT_SIZE;
	}
	f = flow_of(ctx);
	if (!f || !f->copies || !hint_is_current(f->made, hint_time(bpf_ktime_get_coarse_ns())))
		return 0;
	return HINT_SIZE;
}

static __always_inline void reserve(struct bpf_sock_ops *ctx)
{
	u32 size = option_size(ctx);

	if (size && bpf_reserve_hdr_opt(ctx, size, 0) && size == HINT_SIZE)
		RX_COUNT(hints_without_room);
}

static __always_inline void write(struct bpf_sock_ops *ctx)
{
	struct hint_option option = HINT_OPTION(HINT_SIZE);
	struct rx_flow *f;

	if (ctx->skb_tcp_flags & TCPHDR_SYN) {
		option.size = PERMIT_SIZE;
		bpf_store_hdr_opt(ctx, &option, PERMIT_SIZE, 0);
		return;
	}
	f = flow_of(ctx);
	if (!f || !f->copies)
		return;
	option.hint = f->hint;
	option.sequence = f->sequence;
	if (bpf_store_hdr_opt(ctx, &option, HINT_SIZE, 0))
		return;
	f->copies--;
	RX_COUNT(hints_sent);
}

/* Whether the peer can have made a hint since the last one: that takes `period_us`, or `period_packets` packets. */
static __always_inline bool may_take(struct bpf_sock_ops *ctx, const struct arwa_hint_v2 *last, u64 now_ns)
{
	u64 bytes = ctx->bytes_acked - last->bytes_acked;

	return !last->sequence || now_ns - last->time_ns >= period_us * 1000ULL ||
	       bytes >= (u64)ctx->mss_cache * period_packets;
}

static __always_inline void take(struct bpf_sock_ops *ctx)
{
	struct hint_option option = HINT_OPTION(PERMIT_SIZE); /* searches for kind and ExID */
	struct arwa_hint_v2 *stored;
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock *tp;
	u64 now_ns;

	/* the slowest load first: the option is searched for while this one is fetched from memory */
	stored = sk ? bpf_sk_storage_get(&arwa_hint, sk, NULL, 0) : NULL;
	if (!stored || bpf_load_hdr_opt(ctx, &option, sizeof(option), 0) != HINT_SIZE)
		return;
	if (stored->sequence && option.sequence == stored->wire_sequence) /* a copy */
		return;
	tp = tcp_sock_to_read(sk);
	if (!tp)
		return;
	now_ns = tp->tcp_mstamp * 1000; /* when this packet arrived */
	if (!hint_is_valid(option.hint) || !may_take(ctx, stored, now_ns)) {
		RX_COUNT(hints_refused);
		return;
	}
	stored->time_ns = now_ns;
	stored->hint = option.hint;
	stored->wire_sequence = option.sequence;
	stored->bytes_acked = ctx->bytes_acked;
	if (!__sync_add_and_fetch(&stored->sequence, 1)) /* skips 0, which means never written */
		__sync_fetch_and_add(&stored->sequence, 1);
	RX_COUNT(hints_received);
}

/* Enables hints both ways if the peer supports them; else disables further calls for this connection. */
static __always_inline void established(struct bpf_sock_ops *ctx, u64 where_peer_says)
{
	int flags = BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG;
	struct bpf_sock *sk = ctx->sk;

	if (sk && peer_permits(ctx, where_peer_says) &&
	    bpf_sk_storage_get(&rx_flows, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE) &&
	    bpf_sk_storage_get(&arwa_hint, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE)) {
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | flags);
		RX_COUNT(flows_agreed);
	} else {
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	}
}

static __always_inline void announce(struct bpf_sock_ops *ctx)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

SEC("sockops") int options(struct bpf_sock_ops *ctx)
{
	int on = 1, saved = 0;

	/* the most frequent calls first: without a segment, for a SYN cookie, or for a segment with data */
	if (likely(ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB && (ctx->args[0] || ctx->skb_len)))
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		announce(ctx);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		announce(ctx);
		/* an application may have asked for more of the SYN than its headers */
		if (bpf_getsockopt(ctx, SOL_TCP, TCP_SAVE_SYN, &saved, sizeof(saved)) || !saved)
			bpf_setsockopt(ctx, SOL_TCP, TCP_SAVE_SYN, &on, sizeof(on));
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		established(ctx, 0);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ctx, BPF_LOAD_HDR_OPT_TCP_SYN);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		reserve(ctx);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write(ctx);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		take(ctx);
		break;
	}
	return 1;
}
