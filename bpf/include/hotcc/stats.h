/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters that only grow, updated at loss, timeout and release, never per ACK. crates/abi/src/stats.rs has the layout.
 * For algorithms that keep counters.
 */
#pragma once
#include <hotcc/histogram.h>
#include <hotcc/kernel.h>
#include <hotcc/tags.h>

struct hotcc_stats_v2 {
	u64 flows_opened;
	u64 flows_closed;
	u64 acked_bytes;
	u64 retransmitted_segments;
	u64 loss_events;
	u64 timeouts;
	u64 signal_fresh;
	u64 signal_stale;
	u64 signal_absent;
	struct histogram min_rtt_us;
	struct histogram final_srtt_us;
	struct histogram duration_ms;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hotcc_stats_v2);
} stats SEC(".maps");

/* The share of a flow that the counters already include. The first member of each flow state. */
struct flow_account {
	u64 acked_bytes FIELD("bytes", "acknowledged bytes already counted");
	u32 retransmitted FIELD("segments", "retransmissions already counted");
	u32 opened_ms FIELD("ms", "monotonic time at which the flow came under this algorithm");
};

static __always_inline struct hotcc_stats_v2 *stats_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&stats, &zero);
}

/* The counters are per CPU, but a softirq may interrupt a release in process context on the same CPU: hence atomic. */
#define STAT_ADD(s, field, n) __sync_fetch_and_add(&(s)->field, (n))

/* The socket's own time stamp is as old as its last packet, which is too old at opening and closing. */
static __always_inline u32 now_ms(void)
{
	return bpf_ktime_get_ns() / 1000000;
}

static __always_inline void account_open(struct sock *sk, struct flow_account *a)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hotcc_stats_v2 *s = stats_here();

	a->acked_bytes = tp->bytes_acked;
	a->retransmitted = tp->total_retrans;
	a->opened_ms = max(now_ms(), 1U); /* 0 means never opened */
	if (s)
		STAT_ADD(s, flows_opened, 1);
}

/* Brings the counters up to date with the flow. */
static __always_inline void account_flush(struct sock *sk, struct flow_account *a, struct hotcc_stats_v2 *s)
{
	struct tcp_sock *tp = tcp_sk(sk);

	STAT_ADD(s, acked_bytes, tp->bytes_acked - a->acked_bytes);
	STAT_ADD(s, retransmitted_segments, (u32)(tp->total_retrans - a->retransmitted));
	a->acked_bytes = tp->bytes_acked;
	a->retransmitted = tp->total_retrans;
}

/* At the start of fast recovery. */
static __always_inline void account_loss(struct sock *sk, struct flow_account *a)
{
	struct hotcc_stats_v2 *s = stats_here();

	if (!s)
		return;
	STAT_ADD(s, loss_events, 1);
	account_flush(sk, a, s);
}

/* Counts a timeout, if the loss state that begins is that of one; for set_state, before it changes W. */
static __always_inline void account_timeout(struct sock *sk, struct flow_account *a)
{
	struct hotcc_stats_v2 *s = stats_here();

	if (!s || !tcp_timed_out((const struct tcp_sock *)sk))
		return;
	STAT_ADD(s, timeouts, 1);
	account_flush(sk, a, s);
}

static __always_inline void account_close(struct sock *sk, struct flow_account *a)
{
	const u32 bounds_us[] = BOUNDS_US, bounds_ms[] = BOUNDS_MS;
	struct tcp_sock *tp = tcp_sk(sk);
	struct hotcc_stats_v2 *s = stats_here();

	if (!s || !a->opened_ms)
		return;
	account_flush(sk, a, s);
	STAT_ADD(s, flows_closed, 1);
	histogram_add(&s->duration_ms, now_ms() - a->opened_ms, bounds_ms);
	if (!tp->srtt_us)
		return; /* nothing was ever acknowledged */
	histogram_add(&s->final_srtt_us, tp->srtt_us >> 3, bounds_us);
	histogram_add(&s->min_rtt_us, tp->rtt_min.s[0].v, bounds_us);
}
