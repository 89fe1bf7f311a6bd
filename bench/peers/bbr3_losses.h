/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * BBRv3's phases of ProbeBW, and its reaction to losses; a loss may end a phase. Section numbers are those of
 * draft-ietf-ccwg-bbr-06.
 */
#pragma once
#include "bbr3_model.h"

/* -- Steps that several phases share -- */

static __always_inline void start_round(const struct tcp_sock *tp, struct bbr3 *b)
{
	b->next_round_delivered = tp->delivered;
}

static __always_inline void reset_full_bw(struct bbr3 *b, u32 full_bw)
{
	b->full_bw = full_bw;
	b->full_bw_count = 0;
	b->full_bw_now = false;
}

static __always_inline void reset_congestion_signals(struct bbr3 *b)
{
	b->is_loss_in_round = false;
	b->loss_events = 0;
	b->bw_latest = 0;
	b->inflight_latest = 0;
}

static __always_inline void reset_short_term_model(struct bbr3 *b)
{
	b->bw_shortterm = INFINITY;
	b->inflight_shortterm = INFINITY;
}

static __always_inline void save_cwnd(struct sock *sk, struct bbr3 *b)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (tcp_ca_state(sk) < TCP_CA_Recovery && b->state != PROBE_RTT)
		b->prior_cwnd = cwnd;
	else
		b->prior_cwnd = max(b->prior_cwnd, cwnd);
}

static __always_inline void save_state_upon_loss(struct bbr3 *b, struct bbr3_more *m)
{
	b->undo_state = NO_STATE;
	m->undo_bw_shortterm = b->bw_shortterm;
	m->undo_inflight_shortterm = b->inflight_shortterm;
	m->undo_inflight_longterm = b->inflight_longterm;
}

static __always_inline void restore_cwnd(struct tcp_sock *tp, const struct bbr3 *b)
{
	tp->snd_cwnd = min(max(tp->snd_cwnd, b->prior_cwnd), tp->snd_cwnd_clamp);
}

static __always_inline u32 by_chance(const struct tcp_sock *tp)
{
	u32 x = (u32)tp->tcp_mstamp * 2654435761U ^ tp->delivered * 2246822519U;

	x ^= x >> 15;
	x *= 739982445U;
	return x ^ x >> 12;
}

/* -- Phases of ProbeBW: 5.3.3 -- */

static __always_inline void pick_probe_wait(const struct tcp_sock *tp, struct bbr3 *b)
{
	u32 x = by_chance(tp);

	b->rounds_since_probe_up = x & 1;
	b->bw_probe_wait_ms = PROBE_WAIT_MIN_MS + (x >> 1) % (PROBE_WAIT_SPREAD_MS + 1);
}

static __always_inline void start_down(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m)
{
	reset_congestion_signals(b);
	m->probe_up_acked_per_inc = INFINITY;
	pick_probe_wait(tp, b);
	b->cycle_stamp_ms = now_ms_of(tp);
	b->ack_phase = ACKS_PROBE_STOPPING;
	start_round(tp, b);
	b->state = DOWN;
}

static __always_inline void start_refill(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m)
{
	reset_short_term_model(b);
	m->bw_probe_up_rounds = 0;
	m->bw_probe_up_acked = 0;
	b->prev_probe_precautionary = false;
	b->ack_phase = ACKS_REFILLING;
	start_round(tp, b);
	b->state = REFILL;
}

static __always_inline void raise_inflight_longterm_slope(const struct tcp_sock *tp, struct bbr3_more *m)
{
	u32 growth = 1U << (m->bw_probe_up_rounds & 31);

	m->bw_probe_up_rounds = min(m->bw_probe_up_rounds + 1, (u32)PROBE_UP_ROUNDS_MAX);
	m->probe_up_acked_per_inc = max(tp->snd_cwnd / growth, 1U);
}

static __always_inline void start_up(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m,
				     const struct ack *a)
{
	b->ack_phase = ACKS_PROBE_STARTING;
	start_round(tp, b);
	reset_full_bw(b, a->delivery_rate);
	b->state = UP;
	raise_inflight_longterm_slope(tp, m);
}

static __always_inline bool is_time_to_probe_bw(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m)
{
	u32 rounds = min(target_inflight(tp, b, m), (u32)RENO_ROUNDS_MAX);

	if (!has_passed(tp, b->cycle_stamp_ms + b->bw_probe_wait_ms) && b->rounds_since_probe_up < rounds)
		return false;
	start_refill(tp, b, m);
	return true;
}

static __always_inline bool is_time_to_cruise(struct sock *sk, const struct bbr3 *b, const struct bbr3_more *m)
{
	u32 flight = tcp_in_flight(tcp_sk(sk));

	return flight <= inflight_with_headroom(b) && flight <= inflight(sk, b, m, max_bw(b));
}

static __always_inline bool is_time_to_go_down(const struct tcp_sock *tp, struct bbr3 *b, const struct ack *a)
{
	if (b->prev_probe_too_high && tcp_in_flight(tp) >= b->inflight_longterm) {
		b->prev_probe_precautionary = true;
		return true;
	}
	if (core_flag(tp, is_cwnd_limited) && tp->snd_cwnd >= b->inflight_longterm) {
		reset_full_bw(b, a->delivery_rate);
		return false;
	}
	return b->full_bw_now;
}

/* -- Losses: 5.5.10 -- */

static __always_inline bool is_inflight_too_high(const struct tcp_sock *tp, const struct ack *a)
{
	if (!has_selective_acks(tp))
		return a->lost;
	return (u64)a->lost * 100 > (u64)a->tx_in_flight * LOSS_THRESH_PERCENT;
}

/* Returns the flight at which the share of losses crossed the threshold, within the `size` segments marked as lost. */
static __always_inline u32 inflight_at_loss(const struct ack *a, u32 size)
{
	s64 flight = (s64)a->tx_in_flight - size, lost = (s64)a->lost - size;
	s64 prefix = div_s64(LOSS_THRESH_PERCENT * flight - 100 * lost, 100 - LOSS_THRESH_PERCENT);

	return flight + prefix < 0 ? 0 : flight + prefix;
}

static __always_inline void handle_inflight_too_high(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m,
						     const struct ack *a)
{
	b->prev_probe_too_high = true;
	b->is_bw_probe_sample = false;
	if (!a->is_app_limited)
		b->inflight_longterm = max(a->tx_in_flight, share_percent(target_inflight(tp, b, m), BETA_PERCENT));
	if (b->state == UP) {
		b->undo_state = UP;
		start_down(tp, b, m);
	}
}

static __always_inline void note_loss(struct sock *sk, struct bbr3 *b, struct bbr3_more *m)
{
	if (!b->is_loss_in_round) {
		b->loss_round_delivered = tcp_sk(sk)->delivered;
		save_cwnd(sk, b);
		save_state_upon_loss(b, m);
	}
	b->is_loss_in_round = true;
}

/* Records the losses since the last call, and sets the ACK's RS.lost and RS.tx_in_flight. Returns the new losses. */
static __always_inline u32 take_losses(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m, struct ack *a)
{
	u32 newly_lost = tp->lost - b->lost_seen;

	if (newly_lost)
		record_loss(tp, m, a->delivered, b->lost_seen);
	b->lost_seen = tp->lost;
	if (a->delivered) {
		a->lost = lost_since(tp, m, a->prior_delivered);
		a->tx_in_flight = a->delivered + a->lost;
	}
	return newly_lost;
}

/* Judges the losses by the flight of `of` or, if it delivered nothing, by the flight before them. */
static __always_inline void handle_losses(struct sock *sk, struct bbr3 *b, struct bbr3_more *m, const struct ack *of,
					  u32 newly_lost)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ack a = *of;

	if (!newly_lost)
		return;
	note_loss(sk, b, m);
	b->loss_events = min(b->loss_events + 1, 255);
	if (!b->is_bw_probe_sample)
		return;
	a.lost = max(newly_lost, a.lost);
	a.tx_in_flight = a.delivered ? a.delivered + a.lost : tcp_in_flight(tp) + newly_lost;
	if (!is_inflight_too_high(tp, &a))
		return;
	a.tx_in_flight = inflight_at_loss(&a, newly_lost);
	handle_inflight_too_high(tp, b, m, &a);
}

static __always_inline void adapt_lower_bounds(const struct tcp_sock *tp, struct bbr3 *b)
{
	if (is_probing_bw(b) || !b->is_loss_in_round)
		return;
	if (b->bw_shortterm == INFINITY)
		b->bw_shortterm = max_bw(b);
	if (b->inflight_shortterm == INFINITY)
		b->inflight_shortterm = tp->snd_cwnd;
	b->bw_shortterm = max(b->bw_latest, share_percent(b->bw_shortterm, BETA_PERCENT));
	b->inflight_shortterm = max(b->inflight_latest, share_percent(b->inflight_shortterm, BETA_PERCENT));
}
