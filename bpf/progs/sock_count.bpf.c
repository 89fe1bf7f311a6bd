// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the open TCP sockets of one network namespace by congestion control, and by version of it, with the
 * distributions of window, RTT and delivery rate. Runs on demand; adds up over the namespaces visited.
 */
#include <hotcc/fixed.h>
#include "sockets.h"

char _license[] SEC("license") = "GPL";

#define LOG2_BUCKETS 32

struct log2_histogram {
	u64 buckets[LOG2_BUCKETS];
	u64 sum;
};

struct group {
	struct socket_cc cc;
	u32 pad;
	u64 connections; /* every state but LISTEN */
	u64 listeners;	 /* those that chose it; accepted connections inherit it */
	struct log2_histogram cwnd_segments;
	struct log2_histogram srtt_us;
	struct log2_histogram delivery_kbps;
};

/* By the address of the ops table: reading a name for each socket would cost more than counting. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct group);
} groups SEC(".maps");

static struct group fresh;

/* One walk at a time: nothing here is shared between CPUs. */
static __always_inline void tally(struct log2_histogram *h, u64 value)
{
	u32 bucket = min(log2_bucket(value), (u32)LOG2_BUCKETS - 1);

	++h->buckets[bucket & (LOG2_BUCKETS - 1)]; /* the verifier needs the mask */
	h->sum += value;
}

static __always_inline struct group *group_of(struct tcp_sock *tp)
{
	u64 ops = (u64)tp->inet_conn.icsk_ca_ops;
	struct group *g = bpf_map_lookup_elem(&groups, &ops);

	if (g || !ops || !read_socket_cc(tp, &fresh.cc))
		return g;
	bpf_map_update_elem(&groups, &ops, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&groups, &ops);
}

SEC("iter/tcp") int count_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	u32 cwnd, srtt_us, mss, delivered, interval_us;
	struct tcp_sock *tp;
	struct group *g;
	u64 rate;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc); /* no time-wait or request sockets */
	if (!tp)
		return 0;
	/* all at once: a cold socket's cache misses then overlap */
	cwnd = READ_ONCE(tp->snd_cwnd);
	srtt_us = READ_ONCE(tp->srtt_us);
	mss = READ_ONCE(tp->mss_cache);
	delivered = READ_ONCE(tp->rate_delivered);
	interval_us = READ_ONCE(tp->rate_interval_us);
	if (listens_on_the_default(tp))
		return 0;
	g = group_of(tp);
	if (!g)
		return 0;
	if (skc->skc_state == TCP_LISTEN) {
		g->listeners++;
		return 0;
	}
	g->connections++;
	tally(&g->cwnd_segments, cwnd);
	if (srtt_us)
		tally(&g->srtt_us, srtt_us >> 3);
	rate = rate_bytes_per_s((u64)delivered * mss, interval_us);
	if (rate)
		tally(&g->delivery_kbps, rate / 125);
	return 0;
}
