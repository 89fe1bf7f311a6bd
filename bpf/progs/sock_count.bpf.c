// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts the open TCP sockets of one network namespace by congestion control, and by version of it, with the
 * distributions of window, RTT and delivery rate, and the fields of the algorithm's state that it exports. Runs on
 * demand; adds up over the namespaces visited.
 */
#include <hotcc/fixed.h>
#include <hotcc/log2.h>
#include <hotcc/tags.h>
#include "sockets.h"

char _license[] SEC("license") = "GPL";

#define LOG2_BUCKETS 32

struct log2_histogram {
	u64 buckets[LOG2_BUCKETS];
	u64 sum;
};

#define EXPORTED_FIELDS 8
#define EXPORTED_COUNTS 32

#define FORECAST_MAX_LOG (44 * LOG2_ONE) /* 10^12 segments/s */

/* A field of an algorithm's per-flow state, added up in `exported` of its group. */
struct exported_field {
	u8 offset;  /* in icsk_ca_priv */
	u8 size;    /* in bytes; 0: no further fields */
	u8 first;   /* place of its sum, or of the count of connections where it is 0; those of larger values follow */
	u8 counts;  /* number of these counts; 0: a sum */
	u8 reading; /* offset of what a forecast adds */
	u8 is_forecast; /* a sum of the rates that it forecasts, bytes/s */
};

struct exported_fields {
	struct exported_field all[EXPORTED_FIELDS];
};

/* By the id of the struct_ops map. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32);
	__type(value, struct exported_fields);
} fields SEC(".maps");

struct group {
	struct socket_cc cc;
	u32 pad;
	u64 connections; /* every state but LISTEN */
	u64 listeners;	 /* those that chose it; accepted connections inherit it */
	struct log2_histogram cwnd_segments;
	struct log2_histogram srtt_us;
	struct log2_histogram delivery_kbps;
	u64 exported[EXPORTED_COUNTS];
	struct exported_fields fields;
};

/* By the address of the ops table: reading a name for each socket would cost more than counting. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u64);
	__type(value, struct group);
} groups SEC(".maps");

static struct group fresh;
static u8 state[ICSK_CA_PRIV_SIZE + sizeof(u64)]; /* of the socket at hand, padded for reads of whole words */

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
	const struct exported_fields none = {}, *found;

	if (g || !ops || !read_socket_cc(tp, &fresh.cc))
		return g;
	found = bpf_map_lookup_elem(&fields, &fresh.cc.map_id);
	fresh.fields = found ? *found : none;
	bpf_map_update_elem(&groups, &ops, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&groups, &ops);
}

/* As EXPORT_FORECAST of hotcc/tags.h says. */
static __always_inline u64 forecast_bytes_per_s(u16 level, s16 reading, u32 mss)
{
	if (!level || reading == NO_READING)
		return 0;
	return exp2_q10(max(min(level + reading, FORECAST_MAX_LOG), 0)) * mss / 16;
}

static __always_inline void export_state(struct group *g, const struct tcp_sock *tp, u32 mss)
{
	if (!g->fields.all[0].size)
		return;
	bpf_probe_read_kernel(state, ICSK_CA_PRIV_SIZE, tp->inet_conn.icsk_ca_priv);
	for (u32 i = 0; i < EXPORTED_FIELDS; i++) {
		struct exported_field f = g->fields.all[i];
		u64 value;
		s16 reading;

		if (!f.size || f.size > sizeof(value) || f.offset >= ICSK_CA_PRIV_SIZE ||
		    f.reading >= ICSK_CA_PRIV_SIZE)
			return;
		__builtin_memcpy(&value, &state[f.offset], sizeof(value));
		value &= ~0ULL >> (64 - 8 * f.size);
		if (f.is_forecast) {
			__builtin_memcpy(&reading, &state[f.reading], sizeof(reading));
			value = forecast_bytes_per_s(value, reading, mss);
		}
		if (f.counts)
			++g->exported[(f.first + min(value, f.counts - 1ULL)) & (EXPORTED_COUNTS - 1)];
		else
			g->exported[f.first & (EXPORTED_COUNTS - 1)] += value;
	}
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
	if (rate && !is_silent(tp))
		tally(&g->delivery_kbps, rate / 125);
	export_state(g, tp, mss);
	return 0;
}
