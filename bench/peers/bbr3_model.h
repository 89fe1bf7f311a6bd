/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's model of the path: values that are computed from the state without changing the phase. Section numbers are
 * those of draft-ietf-ccwg-bbr-06.
 */
#pragma once
#include "bbr3_state.h"

static __always_inline u32 now_ms_of(const struct tcp_sock *tp)
{
	return max((u32)(tp->tcp_mstamp / 1000), 1U); /* 0: never */
}

static __always_inline bool has_passed(const struct tcp_sock *tp, u32 stamp_ms)
{
	return (s32)(now_ms_of(tp) - stamp_ms) > 0;
}

static __always_inline bool has_selective_acks(const struct tcp_sock *tp)
{
	return core_bitfield(tp, rx_opt.sack_ok);
}

static __always_inline bool in_probe_bw(const struct bbr3 *b)
{
	return b->state >= DOWN && b->state <= UP;
}

static __always_inline bool is_probing_bw(const struct bbr3 *b)
{
	return b->state == STARTUP || b->state == REFILL || b->state == UP;
}

/* -- Gains: 5.6.1 -- */

static __always_inline u32 pacing_gain(const struct bbr3 *b)
{
	switch (b->state) {
	case STARTUP:
		return STARTUP_PACING_GAIN;
	case DRAIN:
		return DRAIN_PACING_GAIN;
	case DOWN:
		return DOWN_PACING_GAIN;
	case UP:
		return UP_PACING_GAIN;
	default:
		return UNITY_GAIN;
	}
}

static __always_inline u32 cwnd_gain(const struct bbr3 *b)
{
	if (b->state == UP)
		return UP_CWND_GAIN;
	return b->state == PROBE_RTT ? PROBE_RTT_CWND_GAIN : DEFAULT_CWND_GAIN;
}

/* -- Bandwidth: 5.5.2 to 5.5.6 -- */

static __always_inline u32 max_bw(const struct bbr3 *b)
{
	return max(b->max_bw_now, b->max_bw_before);
}

/* A cycle without any sample keeps the maximum of the last one. */
static __always_inline void advance_max_bw_filter(struct bbr3 *b)
{
	if (!b->max_bw_now)
		return;
	b->max_bw_before = b->max_bw_now;
	b->max_bw_now = 0;
}

static __always_inline void set_pacing_rate(struct sock *sk, const struct bbr3 *b, u32 gain)
{
	u64 rate = (u64)b->bw * BW_UNIT * gain / 1000 * (100 - PACING_MARGIN_PERCENT) / 100;

	if (rate && (b->full_bw_reached || rate > sk->sk_pacing_rate))
		sk->sk_pacing_rate = rate;
}

static __always_inline void init_pacing_rate(struct sock *sk, const struct bbr3_more *m)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt_us = tp->srtt_us >> 3 ?: NOMINAL_RTT_US;

	sk->sk_pacing_rate = (u64)m->initial_cwnd * tp->mss_cache * USEC_PER_SEC / srtt_us * STARTUP_PACING_GAIN / 1000;
}

/* -- Volumes: 5.6.4.2; rounded up to whole segments -- */

static __noinline u32 bdp_multiple(const struct tcp_sock *tp, const struct bbr3 *b, const struct bbr3_more *m, u32 bw,
				   u32 gain)
{
	u64 bytes, segment = max(tp->mss_cache, 1U) * 1000ULL;

	if (b->min_rtt_us == INFINITY)
		return m->initial_cwnd;
	bytes = (u64)bw * BW_UNIT * min(b->min_rtt_us, RTT_MAX_US) / USEC_PER_SEC;
	return min((bytes * gain + segment - 1) / segment, (u64)INFINITY - 1);
}

static __noinline u32 quantization_budget(const struct sock *sk, const struct bbr3 *b, u32 volume)
{
	u64 mss = max(((const struct tcp_sock *)sk)->mss_cache, 1U);
	u64 quantum = min(sk->sk_pacing_rate / SEND_QUANTUM_PER_S, (u64)SEND_QUANTUM_MAX);

	quantum = max(quantum, SEND_QUANTUM_MIN * mss);
	volume = max(volume, (u32)((OFFLOAD_QUANTA * quantum + mss - 1) / mss));
	volume = max(volume, (u32)MIN_PIPE_CWND);
	if (b->state == UP)
		volume = min(volume, INFINITY - 3) + 2;
	return volume;
}

static __always_inline u32 inflight(const struct sock *sk, const struct bbr3 *b, const struct bbr3_more *m, u32 bw)
{
	return quantization_budget(sk, b, bdp_multiple((const struct tcp_sock *)sk, b, m, bw, UNITY_GAIN));
}

static __always_inline u32 target_inflight(const struct tcp_sock *tp, const struct bbr3 *b, const struct bbr3_more *m)
{
	return min(bdp_multiple(tp, b, m, b->bw, UNITY_GAIN), tp->snd_cwnd);
}

static __always_inline u32 probe_rtt_cwnd(const struct tcp_sock *tp, const struct bbr3 *b, const struct bbr3_more *m)
{
	return max(bdp_multiple(tp, b, m, b->bw, PROBE_RTT_CWND_GAIN), (u32)MIN_PIPE_CWND);
}

static __always_inline u32 inflight_with_headroom(const struct bbr3 *b)
{
	u64 headroom = (u64)b->inflight_longterm * HEADROOM_PERCENT / 100;

	if (b->inflight_longterm == INFINITY)
		return INFINITY;
	headroom = min(max(headroom, 1ULL), (u64)b->inflight_longterm);
	return max((u32)(b->inflight_longterm - headroom), (u32)MIN_PIPE_CWND);
}

static __always_inline u32 share_percent(u32 of, u32 percent)
{
	return of == INFINITY ? INFINITY : (u64)of * percent / 100;
}

/* -- Aggregation: 5.5.9 -- */

static __always_inline void update_ack_aggregation(const struct tcp_sock *tp, const struct bbr3 *b, struct bbr3_more *m,
						   const struct ack *a)
{
	u32 *slot = &m->extra_acked[b->round_count % EXTRA_ACKED_SLOTS];
	u32 elapsed_us = min((u32)tp->tcp_mstamp - m->extra_acked_start_us, RTT_MAX_US);
	u64 expected = (u64)b->bw * BW_UNIT * elapsed_us / USEC_PER_SEC / max(tp->mss_cache, 1U);
	u32 extra;

	if (a->round_start)
		*slot = 0;
	if (m->extra_acked_delivered <= expected) {
		m->extra_acked_delivered = 0;
		m->extra_acked_start_us = tp->tcp_mstamp;
		expected = 0;
	}
	m->extra_acked_delivered += a->newly_acked;
	extra = m->extra_acked_delivered - min((u64)m->extra_acked_delivered, expected);
	extra = min(extra, tp->snd_cwnd);
	*slot = max(*slot, extra);
}

/* Until the pipe has been full, only this round counts. */
static __noinline u32 extra_acked(const struct bbr3 *b, const struct bbr3_more *m)
{
	u32 most = m->extra_acked[b->round_count % EXTRA_ACKED_SLOTS];

	for (u32 i = 1; b->full_bw_reached && i < EXTRA_ACKED_FILTER_ROUNDS; i++)
		most = max(most, m->extra_acked[(b->round_count - i) % EXTRA_ACKED_SLOTS]);
	return most;
}

/* -- Losses during a flight: the kernel does not keep RS.lost -- */

/* Losses that are closer together than an eighth of the segments that a flight delivers share one record. */
static __always_inline void record_loss(const struct tcp_sock *tp, struct bbr3_more *m, u32 delivered, u32 lost_before)
{
	u32 apart = max(delivered / LOSS_RECORDS_PER_FLIGHT, 1U);
	struct loss_record *newest = &m->losses[m->loss_newest % LOSS_RECORDS];

	if (tp->delivered - newest->delivered < apart)
		return;
	m->loss_newest++;
	newest = &m->losses[m->loss_newest % LOSS_RECORDS];
	newest->delivered = tp->delivered;
	newest->lost_before = lost_before;
}

/* Returns the segments lost since the acknowledged one was sent, when `prior_delivered` had been delivered. */
static __noinline u32 lost_since(const struct tcp_sock *tp, const struct bbr3_more *m, u32 prior_delivered)
{
	u32 before = tp->lost;

	asm volatile("" : "+r"(before)); /* the verifier requires a separate load for each kind of memory */
	for (u32 i = 0; i < LOSS_RECORDS; i++) {
		const struct loss_record *record = &m->losses[(m->loss_newest - i) % LOSS_RECORDS];

		if (tp->delivered - record->delivered >= tp->delivered - prior_delivered)
			break;
		before = record->lost_before;
	}
	return tp->lost - before;
}
