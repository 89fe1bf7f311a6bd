/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the connections of each policy rule did, counted when one ends or leaves its rule, whatever congestion control
 * it ran. Layout: loader/src/policy/figures.rs. For policy and sock_migrate.
 */
#pragma once
#include "chrono.h"
#include "policy_mark.h"
#include <hotcc/histogram.h>

#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* of bpf_setsockopt, since Linux 6.12 */

enum policy_figure {
	FIGURE_RTT_US,	      /* smoothed, at the end */
	FIGURE_MIN_RTT_US,    /* the kernel's, over `tcp_min_rtt_wlen` */
	FIGURE_GOODPUT_KBPS,  /* acknowledged bytes over the time in which there was something to send */
	FIGURE_DELIVERY_KBPS, /* the kernel's last sample */
	FIGURE_DURATION_MS,
	FIGURE_RETRANSMITS_PPM, /* of the data segments sent */
	FIGURES,
};

struct policy_figures {
	u64 connections;
	u64 acked_bytes;
	u64 segments; /* with data, retransmissions included */
	u64 retransmits;
	u64 timeouts; /* since Linux 6.7 */
	struct histogram figures[FIGURES];
};

/* By policy_rule.id. The loader creates the entries. The map outlives a policy: rules that stay keep their figures. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, 1);
	__type(key, u64);
	__type(value, struct policy_figures);
} policy_figures2 SEC(".maps"); /* other builds of 0.1.0 have another layout in `policy_figures` */

#define POLICY_NO_VALUE ((u64)-1)

/* What a connection did under its rule. */
struct policy_ended {
	u64 rule;
	u64 began_ns;
	u64 acked_bytes;
	u64 rtt_us; /* POLICY_NO_VALUE: none, also below */
	u64 min_rtt_us;
	u64 goodput_kbps;
	u64 delivery_kbps;
	u64 duration_ms;
	u32 segments;
	u32 retransmits;
	u32 timeouts;
	u32 pad;
};

struct tcp_sock___figures {
	u16 total_rto;
} __core;

/* Ticks in which the connection had something to send or to be acknowledged, as TCP_INFO's tcpi_busy_time. */
static __always_inline u32 busy_ticks(const struct tcp_sock *tp)
{
	return chrono_ticks(tp, CHRONO_SENDING) + chrono_ticks(tp, CHRONO_RECEIVER) + chrono_ticks(tp, CHRONO_BUFFER);
}

static __always_inline u32 timeouts(const struct tcp_sock *tp)
{
	const struct tcp_sock___figures *more = (const void *)tp;

	return core_field_exists(struct tcp_sock___figures, total_rto) ? more->total_rto : 0;
}

/* Starts counting the connection for the rule that the mark is from. */
static __always_inline void policy_begin(struct policy_mark *mark, const struct tcp_sock *tp, u64 rule)
{
	mark->rule = rule;
	mark->time_ns = bpf_ktime_get_ns();
	mark->acked_bytes = tp->bytes_acked;
	mark->segments = tp->data_segs_out;
	mark->retransmits = tp->total_retrans;
	mark->timeouts = timeouts(tp);
	mark->busy_ticks = busy_ticks(tp);
}

/* Most connections have neither retransmissions nor timeouts; an atomic addition would cost the same for them. */
static __always_inline void add_if_any(u64 *sum, u64 value)
{
	if (value)
		__sync_fetch_and_add(sum, value);
}

static __always_inline void add_figure(struct policy_figures *figures, enum policy_figure which, u64 value,
				       const u32 bounds[BUCKETS_PER_POWER - 1])
{
	if (value != POLICY_NO_VALUE)
		histogram_add(&figures->figures[which], min(value, 0xffffffffULL), bounds);
}

/*
 * Counts what the connection did since `policy_begin`, and reports it in `ended`: it ends or leaves its rule, and ran
 * `ran` until now. If that is not the rule's congestion control, the application has changed it, and the connection
 * does not count: its figures are those of both. Returns whether it counts.
 */
static __always_inline bool policy_end(struct policy_mark *start, const struct tcp_sock *tp,
				       const char ran[POLICY_MARK_NAME], u32 tick_us, struct policy_ended *ended)
{
	const u32 bounds_us[] = BOUNDS_US, bounds_ms[] = BOUNDS_MS, bounds_kbps[] = BOUNDS_KBPS;
	u64 busy_us, delivery_us = tp->rate_interval_us;
	struct policy_figures *figures;

	if (!start || !start->rule)
		return false;
	ended->rule = start->rule;
	start->rule = 0;
	figures = bpf_map_lookup_elem(&policy_figures2, &ended->rule);
	if (!figures || !policy_same_name(ran, start->cc_name))
		return false;
	busy_us = (u64)(busy_ticks(tp) - start->busy_ticks) * tick_us;
	ended->began_ns = start->time_ns;
	ended->acked_bytes = tp->bytes_acked - start->acked_bytes;
	ended->rtt_us = tp->srtt_us ? tp->srtt_us >> 3 : POLICY_NO_VALUE;
	ended->min_rtt_us = tp->srtt_us ? tp->rtt_min.s[0].v : POLICY_NO_VALUE;
	ended->goodput_kbps = busy_us ? ended->acked_bytes * 8000 / busy_us : POLICY_NO_VALUE;
	ended->delivery_kbps = delivery_us ? (u64)tp->rate_delivered * tp->mss_cache * 8000 / delivery_us :
					     POLICY_NO_VALUE;
	ended->duration_ms = (bpf_ktime_get_ns() - start->time_ns) / 1000000;
	ended->segments = tp->data_segs_out - start->segments;
	ended->retransmits = tp->total_retrans - start->retransmits;
	ended->timeouts = (u16)(timeouts(tp) - start->timeouts);
	__sync_fetch_and_add(&figures->connections, 1);
	__sync_fetch_and_add(&figures->acked_bytes, ended->acked_bytes);
	__sync_fetch_and_add(&figures->segments, ended->segments);
	add_if_any(&figures->retransmits, ended->retransmits);
	add_if_any(&figures->timeouts, ended->timeouts);
	add_figure(figures, FIGURE_RTT_US, ended->rtt_us, bounds_us);
	add_figure(figures, FIGURE_MIN_RTT_US, ended->min_rtt_us, bounds_us);
	add_figure(figures, FIGURE_GOODPUT_KBPS, ended->goodput_kbps, bounds_kbps);
	add_figure(figures, FIGURE_DELIVERY_KBPS, ended->delivery_kbps, bounds_kbps);
	add_figure(figures, FIGURE_DURATION_MS, ended->duration_ms, bounds_ms);
	if (ended->segments)
		add_figure(figures, FIGURE_RETRANSMITS_PPM, (u64)ended->retransmits * 1000000 / ended->segments,
			   bounds_us);
	return true;
}

/* Counts a connection that leaves its rule before it ends. */
static __always_inline void policy_leave(struct policy_mark *mark, const struct tcp_sock *tp,
					 const char ran[POLICY_MARK_NAME], u32 tick_us)
{
	struct policy_ended ended = {};

	policy_end(mark, tp, ran, tick_us, &ended);
}
