// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the open TCP sockets of one network namespace by congestion control, and by version of it, with the
 * distributions of window, RTT and delivery rate. Runs when somebody looks; adds up over the namespaces visited.
 */
#include "fixed.h"
#include "sockets.h"
#include "stats.h"

char _license[] SEC("license") = "GPL";

struct group {
	u64 connections; /* every state but LISTEN */
	u64 listeners;	 /* those that chose it, and hand it on to what they accept */
	struct log2_histogram cwnd_segments;
	struct log2_histogram srtt_us;
	struct log2_histogram delivery_kbps;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct socket_cc);
	__type(value, struct group);
} groups SEC(".maps");

static const struct group no_group;

SEC("iter/tcp") int count_flows(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct socket_cc key = {};
	struct tcp_sock *tp;
	struct group *g;
	u64 rate;

	if (!skc)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc); /* no time-wait or request sockets */
	if (!tp || listens_on_the_default(tp) || !read_socket_cc(tp, &key))
		return 0;
	g = bpf_map_lookup_elem(&groups, &key);
	if (!g) {
		bpf_map_update_elem(&groups, &key, &no_group, BPF_NOEXIST);
		g = bpf_map_lookup_elem(&groups, &key);
		if (!g)
			return 0;
	}
	if (skc->skc_state == TCP_LISTEN) {
		g->listeners++;
		return 0;
	}
	g->connections++;
	histogram_add(&g->cwnd_segments, tp->snd_cwnd);
	if (tp->srtt_us)
		histogram_add(&g->srtt_us, tp->srtt_us >> 3);
	rate = rate_bytes_per_s((u64)tp->rate_delivered * tp->mss_cache, tp->rate_interval_us);
	if (rate)
		histogram_add(&g->delivery_kbps, rate / 125);
	return 0;
}
