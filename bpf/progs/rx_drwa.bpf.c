// SPDX-License-Identifier: GPL-2.0-only
/*
 * DRWA's receiver, on the sockets of one cgroup: grants the sender a window that keeps its queue short (drwa.h), and
 * needs no support from the sender. Decides whenever a segment is sent, mostly an ACK, and sets the window clamp again
 * each time, since the kernel's autotuning overwrites it.
 */
#include "drwa.h"
#include <hotcc/kernel.h>
#include "abi/rx_counters.h"
#include "sock_ops.h"
#include "sockets.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct drwa);
} drwa_flows SEC(".maps");

/* A shorter RTT is not the path's but processing time; this is also the resolution of a timestamp. */
#define MIN_RTT_US 1000U

/* The handshake's RTT is that of an empty queue; the first one from data includes a pause of the application. */
static __always_inline void begin_with_handshake(struct drwa *d, const struct tcp_sock *tp)
{
	u32 rtt_us = tp->rtt_min.s[0].v;

	if (rtt_us != ~0U)
		d->least_rtt_us = max(rtt_us, MIN_RTT_US);
}

static __always_inline void steer(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	const struct tcp_sock *tp;
	struct drwa *d;
	u32 clamp;

	if (!sk)
		return;
	d = bpf_sk_storage_get(&drwa_flows, sk, NULL, 0);
	tp = tcp_sock_to_read(sk);
	if (!d || !tp)
		return;
	if (!d->least_rtt_us)
		begin_with_handshake(d, tp);
	drwa_receive(d, bpf_ktime_get_ns() / 1000, tp->bytes_received, tp->rcv_rtt_est.rtt_us >> 3);
	/* a socket never grants more than its buffer */
	clamp = min(d->window, (u32)tp->inet_conn.icsk_inet.sk.sk_rcvbuf);
	if (!clamp || clamp == tp->window_clamp)
		return;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp)))
		RX_COUNT(clamps_refused);
	else
		RX_COUNT(clamps_set);
}

SEC("sockops") int options(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (!sk || !bpf_sk_storage_get(&drwa_flows, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE))
			break;
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		RX_COUNT(flows_clamped);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		/* a socket that only sends has no window to steer */
		if (!ctx->args[0] && (ctx->bytes_received || !ctx->skb_len))
			steer(ctx);
		break;
	}
	return 1;
}

/*
 * Lifts the clamps when the receiver is removed: autotuning never raises a small clamp, whatever the socket receives.
 */
SEC("iter/tcp") int lift(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp = skc ? bpf_skc_to_tcp_sock(skc) : NULL;
	struct drwa *d;
	u32 clamp;

	if (!tp)
		return 0;
	d = bpf_sk_storage_get(&drwa_flows, tp, NULL, 0);
	if (!d || !d->window)
		return 0;
	clamp = tp->inet_conn.icsk_inet.sk.sk_rcvbuf;
	bpf_setsockopt(tp, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
	return 0;
}
