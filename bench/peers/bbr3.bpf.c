// SPDX-License-Identifier: GPL-2.0-only
/*
 * BBRv3 after draft-ietf-ccwg-bbr-06 (July 2026), written from the draft's text, as a peer in comparisons. Section
 * numbers are the draft's. docs/reference/bbr3.md has a row for each state and constant.
 *
 * Deviations, all because a stock kernel does not provide what the draft needs:
 *   RS.lost          computed from records of (delivered, lost); with many losses, precise to an eighth of the segments
 *                    that a flight delivers
 *   RS.tx_in_flight  RS.delivered + RS.lost: on a path that keeps the order, the flight that a segment was sent into
 *                    has been delivered or lost when its ACK arrives; too low while the kernel may still take a loss
 *                    for reordering
 *   HandleLostPacket called once per ACK for all segments that the ACK marks as lost, as if they were one packet of the
 *                    flight of the segment acknowledged last; at a timeout, of the flight before it
 *   lost ranges      of a round: the number of ACKs that reported losses
 *   C.send_quantum   the kernel sizes bundles: to a millisecond of the pacing rate, as in the draft, and larger at
 *                    short RTTs; the offload budget uses the draft's value
 *   ECN              a reduction for CE marks (TCP_CA_CWR) counts as a loss in its round; the draft leaves that open
 *   C.app_limited    not set in ProbeRTT before Linux 6.10: samples from ProbeRTT then count for the bandwidth
 *   random numbers   a hash of the time and of the number of delivered segments, so that runs repeat
 */
#include <hotcc/struct_ops.h>

#include "bbr3_losses.h"

char _license[] SEC("license") = "GPL";

/* -- Signals of an ACK: 5.5.1, 5.5.5, 5.5.10.3 -- */

static __always_inline void update_latest_delivery_signals(const struct tcp_sock *tp, struct bbr3 *b, struct ack *a)
{
	b->bw_latest = max(b->bw_latest, a->delivery_rate);
	b->inflight_latest = max(b->inflight_latest, a->delivered);
	if (!a->delivered || (s32)(a->prior_delivered - b->loss_round_delivered) < 0)
		return;
	b->loss_round_delivered = tp->delivered;
	a->loss_round_start = true;
}

static __always_inline void update_round(const struct tcp_sock *tp, struct bbr3 *b, struct ack *a)
{
	if (!a->delivered || (s32)(a->prior_delivered - b->next_round_delivered) < 0)
		return;
	start_round(tp, b);
	b->round_count++;
	b->rounds_since_probe_up = min(b->rounds_since_probe_up + 1, 255);
	a->round_start = true;
}

static __always_inline void update_congestion_signals(struct sock *sk, struct bbr3 *b, struct ack *a)
{
	update_round(tcp_sk(sk), b, a);
	if (a->delivery_rate && (a->delivery_rate >= max_bw(b) || !a->is_app_limited))
		b->max_bw_now = max(b->max_bw_now, a->delivery_rate);
	if (!a->loss_round_start)
		return;
	adapt_lower_bounds(tcp_sk(sk), b);
	a->startup_loss = b->is_loss_in_round && tcp_ca_state(sk) == TCP_CA_Recovery &&
			  is_inflight_too_high(tcp_sk(sk), a) &&
			  (b->loss_events >= STARTUP_FULL_LOSS_COUNT || !has_selective_acks(tcp_sk(sk)));
	b->is_loss_in_round = false;
	b->loss_events = 0;
}

/* -- Startup and Drain: 5.3.1, 5.3.2 -- */

static __always_inline void check_full_bw_reached(struct bbr3 *b, const struct ack *a)
{
	if (b->full_bw_now || !a->round_start || a->is_app_limited || !a->delivery_rate)
		return;
	if ((u64)a->delivery_rate * 100 >= (u64)b->full_bw * FULL_BW_GROWTH_PERCENT) {
		reset_full_bw(b, a->delivery_rate);
		return;
	}
	b->full_bw_count++;
	b->full_bw_now = b->full_bw_count >= FULL_BW_ROUNDS;
	if (b->full_bw_now)
		b->full_bw_reached = true;
}

static __always_inline void check_startup_done(const struct tcp_sock *tp, struct bbr3 *b, const struct bbr3_more *m,
					       const struct ack *a)
{
	if (b->state != STARTUP)
		return;
	if (a->startup_loss && !b->full_bw_reached) {
		b->undo_state = STARTUP;
		b->full_bw_reached = true;
		b->inflight_longterm = max(bdp_multiple(tp, b, m, b->bw, UNITY_GAIN), b->inflight_latest);
	}
	if (!b->full_bw_reached)
		return;
	b->state = DRAIN;
	b->drain_start_round = b->round_count;
}

static __always_inline void check_drain_done(struct sock *sk, struct bbr3 *b, struct bbr3_more *m)
{
	if (b->state == DRAIN && (tcp_in_flight(tcp_sk(sk)) <= inflight(sk, b, m, b->bw) ||
				  b->round_count > b->drain_start_round + DRAIN_ROUNDS))
		start_down(tcp_sk(sk), b, m);
}

/* -- ProbeBW: 5.3.3.9 -- */

static __always_inline void probe_inflight_longterm_upward(const struct tcp_sock *tp, struct bbr3 *b,
							   struct bbr3_more *m, const struct ack *a)
{
	u32 per_inc = max(m->probe_up_acked_per_inc, 1U), delta;

	if (!core_flag(tp, is_cwnd_limited) || tp->snd_cwnd < b->inflight_longterm)
		return;
	m->bw_probe_up_acked += a->newly_acked;
	if (m->bw_probe_up_acked >= per_inc) {
		delta = m->bw_probe_up_acked / per_inc;
		m->bw_probe_up_acked -= delta * per_inc;
		b->inflight_longterm = min((u64)b->inflight_longterm + delta, (u64)INFINITY - 1);
	}
	if (a->round_start)
		raise_inflight_longterm_slope(tp, m);
}

/* Returns whether it changed the phase. */
static __always_inline bool adapt_long_term_model(const struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m,
						  const struct ack *a)
{
	if (b->ack_phase == ACKS_PROBE_STARTING && a->round_start)
		b->ack_phase = ACKS_PROBE_FEEDBACK;
	if (b->ack_phase == ACKS_PROBE_STOPPING && a->round_start) {
		b->is_bw_probe_sample = false;
		b->ack_phase = ACKS_INIT;
		if (in_probe_bw(b) && !a->is_app_limited)
			advance_max_bw_filter(b);
		if (in_probe_bw(b) && b->prev_probe_precautionary && !b->prev_probe_too_high) {
			start_refill(tp, b, m);
			return true;
		}
	}
	if (is_inflight_too_high(tp, a) || b->inflight_longterm == INFINITY)
		return false;
	b->inflight_longterm = max(b->inflight_longterm, a->tx_in_flight);
	if (b->state == UP)
		probe_inflight_longterm_upward(tp, b, m, a);
	return false;
}

static __always_inline void update_probe_bw_cycle_phase(struct sock *sk, struct bbr3 *b, struct bbr3_more *m,
							const struct ack *a)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!b->full_bw_reached || adapt_long_term_model(tp, b, m, a))
		return;
	switch (b->state) {
	case DOWN:
		if (!is_time_to_probe_bw(tp, b, m) && is_time_to_cruise(sk, b, m))
			b->state = CRUISE;
		break;
	case CRUISE:
		is_time_to_probe_bw(tp, b, m);
		break;
	case REFILL:
		if (a->round_start) {
			b->is_bw_probe_sample = true;
			start_up(tp, b, m, a);
		}
		break;
	case UP:
		if (is_time_to_go_down(tp, b, a)) {
			b->prev_probe_too_high = false;
			start_down(tp, b, m);
		}
		break;
	}
}

/* -- ProbeRTT: 5.3.4 -- */

static __always_inline void update_min_rtt(struct sock *sk, struct bbr3 *b, const struct bbr3_more *m,
					   const struct ack *a)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_first = b->min_rtt_us == INFINITY;

	b->probe_rtt_expired = has_passed(tp, b->probe_rtt_min_stamp_ms + PROBE_RTT_INTERVAL_MS);
	if (a->rtt_us >= 0 && ((u32)a->rtt_us < b->probe_rtt_min_us || b->probe_rtt_expired)) {
		b->probe_rtt_min_us = max((u32)a->rtt_us, 1U);
		b->probe_rtt_min_stamp_ms = now_ms_of(tp);
	}
	if (b->probe_rtt_min_us < b->min_rtt_us || has_passed(tp, b->min_rtt_stamp_ms + MIN_RTT_FILTER_MS)) {
		b->min_rtt_us = b->probe_rtt_min_us;
		b->min_rtt_stamp_ms = b->probe_rtt_min_stamp_ms;
	}
	if (is_first && b->min_rtt_us != INFINITY) /* 5.6.2: the first pacing rate waits for an RTT */
		init_pacing_rate(sk, m);
}

static __always_inline void check_probe_rtt_done(struct tcp_sock *tp, struct bbr3 *b, struct bbr3_more *m)
{
	if (!b->probe_rtt_done_ms || !has_passed(tp, b->probe_rtt_done_ms))
		return;
	b->probe_rtt_min_stamp_ms = now_ms_of(tp);
	restore_cwnd(tp, b);
	reset_short_term_model(b);
	b->state = STARTUP;
	if (b->full_bw_reached) {
		start_down(tp, b, m);
		b->state = CRUISE;
	}
}

/* Before 6.10, which also brought cong_control's arguments, programs may not. */
static __always_inline void mark_app_limited(struct tcp_sock *tp, u32 flight)
{
	if (!CONG_CONTROL_TAKES_ACK())
		return;
	tp->app_limited = max(tp->delivered + flight, 1U);
}

static __always_inline void check_probe_rtt(struct sock *sk, struct bbr3 *b, struct bbr3_more *m, const struct ack *a)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 flight = tcp_in_flight(tp);

	if (b->state != PROBE_RTT && b->probe_rtt_expired && !b->idle_restart) {
		b->state = PROBE_RTT;
		save_cwnd(sk, b);
		b->probe_rtt_done_ms = 0;
		b->ack_phase = ACKS_PROBE_STOPPING;
		start_round(tp, b);
	}
	if (b->state == PROBE_RTT) {
		mark_app_limited(tp, flight);
		if (!b->probe_rtt_done_ms && flight <= probe_rtt_cwnd(tp, b, m)) {
			b->probe_rtt_done_ms = max(now_ms_of(tp) + PROBE_RTT_DURATION_MS, 1U);
			b->probe_rtt_round_done = false;
			start_round(tp, b);
		} else if (b->probe_rtt_done_ms) {
			b->probe_rtt_round_done |= a->round_start;
			if (b->probe_rtt_round_done)
				check_probe_rtt_done(tp, b, m);
		}
	}
	if (a->delivered)
		b->idle_restart = false;
}

/* -- Window: 5.6.4 -- */

static __always_inline u32 next_cwnd(const struct sock *sk, const struct bbr3 *b, const struct bbr3_more *m,
				     const struct ack *a)
{
	const struct tcp_sock *tp = (const struct tcp_sock *)sk;
	u64 volume = (u64)bdp_multiple(tp, b, m, b->bw, cwnd_gain(b)) + extra_acked(b, m);
	u32 most = quantization_budget(sk, b, min(volume, (u64)INFINITY - 1)), cwnd = tp->snd_cwnd, cap = INFINITY;

	if (b->full_bw_reached)
		cwnd = min(cwnd + a->newly_acked, most);
	else if (cwnd < most || tp->delivered < m->initial_cwnd)
		cwnd += a->newly_acked;
	cwnd = max(cwnd, (u32)MIN_PIPE_CWND);
	if (b->state == PROBE_RTT)
		cwnd = min(cwnd, probe_rtt_cwnd(tp, b, m));
	if (in_probe_bw(b) && b->state != CRUISE)
		cap = b->inflight_longterm;
	else if (b->state == PROBE_RTT || b->state == CRUISE)
		cap = inflight_with_headroom(b);
	cap = max(min(cap, b->inflight_shortterm), (u32)MIN_PIPE_CWND);
	return min(min(cwnd, cap), tp->snd_cwnd_clamp);
}

/* -- Events -- */

/* Returns the window after the ACK. */
static __noinline u32 update_on_ack(struct sock *sk, struct bbr3 *b, struct bbr3_more *m, struct ack *a)
{
	struct tcp_sock *tp = tcp_sk(sk);

	update_latest_delivery_signals(tp, b, a);
	update_congestion_signals(sk, b, a);
	update_ack_aggregation(tp, b, m, a);
	check_full_bw_reached(b, a);
	check_startup_done(tp, b, m, a);
	check_drain_done(sk, b, m);
	update_probe_bw_cycle_phase(sk, b, m, a);
	update_min_rtt(sk, b, m, a);
	check_probe_rtt(sk, b, m, a);
	if (a->loss_round_start) {
		b->bw_latest = a->delivery_rate;
		b->inflight_latest = a->delivered;
	}
	b->bw = min(max_bw(b), b->bw_shortterm);
	set_pacing_rate(sk, b, pacing_gain(b));
	return next_cwnd(sk, b, m, a);
}

CONG_CONTROL(bbr3_cong_control, sk, ack, flag, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = flow_state(sk);
	struct bbr3_more *m = more_of(sk);
	struct ack a = {
		.delivered = rs->delivered > 0 ? rs->delivered : 0,
		.prior_delivered = rs->prior_delivered,
		.newly_acked = rs->acked_sacked,
		.rtt_us = rs->rtt_us < 0 ? -1 : min(rs->rtt_us, (long)RTT_MAX_US),
		.is_app_limited = rs->is_app_limited,
	};

	if (!m)
		return;
	if (a.delivered && rs->interval_us > 0)
		a.delivery_rate = min(rate_bytes_per_s((u64)a.delivered * tp->mss_cache, rs->interval_us) / BW_UNIT,
				      (u64)INFINITY - 1);
	handle_losses(sk, b, m, &a, take_losses(tp, b, m, &a));
	tp->snd_cwnd = update_on_ack(sk, b, m, &a);
}

SEC("struct_ops") void BPF_PROG(bbr3_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = flow_state(sk);
	struct bbr3_more *m = more_open(sk);

	__builtin_memset(b, 0, sizeof(*b));
	b->state = STARTUP;
	b->undo_state = NO_STATE;
	b->min_rtt_us = tp->srtt_us >> 3 ?: INFINITY;
	b->probe_rtt_min_us = b->min_rtt_us;
	b->min_rtt_stamp_ms = now_ms_of(tp);
	b->probe_rtt_min_stamp_ms = b->min_rtt_stamp_ms;
	b->inflight_longterm = INFINITY;
	b->next_round_delivered = tp->delivered;
	b->loss_round_delivered = tp->delivered;
	b->lost_seen = tp->lost;
	reset_short_term_model(b);
	sk->sk_pacing_status = sk->sk_pacing_status ?: 1; /* paced by TCP itself, unless fq paces */
	if (!m)
		return;
	__builtin_memset(m, 0, sizeof(*m));
	m->probe_up_acked_per_inc = INFINITY;
	m->extra_acked_start_us = tp->tcp_mstamp;
	m->initial_cwnd = tp->snd_cwnd;
	for (u32 i = 0; i < LOSS_RECORDS; i++)
		m->losses[i] = (struct loss_record){ tp->delivered, tp->lost };
	init_pacing_rate(sk, m);
}

SEC("struct_ops") void BPF_PROG(bbr3_release, struct sock *sk)
{
	more_close(sk);
}

/* A recovery, a timeout or a reduction for marks begins: 5.6.4.4. BBR does not use ssthresh. */
SEC("struct_ops") u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	struct bbr3_more *m = more_of(sk);

	save_cwnd(sk, flow_state(sk));
	if (m)
		save_state_upon_loss(flow_state(sk), m);
	return max(tcp_sk(sk)->snd_ssthresh, 2U);
}

SEC("struct_ops") void BPF_PROG(bbr3_set_state, struct sock *sk, u8 new_state)
{
	struct bbr3 *b = flow_state(sk);
	struct bbr3_more *m = more_of(sk);
	struct ack nothing = {};
	u32 prior_cwnd = b->prior_cwnd;

	if (new_state == TCP_CA_Loss && m) {
		handle_losses(sk, b, m, &nothing, take_losses(tcp_sk(sk), b, m, &nothing));
		b->prior_cwnd = max(b->prior_cwnd, prior_cwnd); /* the kernel has cut the window already */
	}
	if (new_state == TCP_CA_CWR && m)
		note_loss(sk, b, m);
	if (tcp_ca_state(sk) >= TCP_CA_Recovery && new_state < TCP_CA_Recovery)
		restore_cwnd(tcp_sk(sk), b);
}

/* Before the first segment after silence: 5.4. */
static __always_inline void restart_from_idle(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = flow_state(sk);
	struct bbr3_more *m = more_of(sk);

	if (!m || !tp->app_limited)
		return;
	b->idle_restart = true;
	m->extra_acked_start_us = tp->tcp_mstamp;
	if (in_probe_bw(b))
		set_pacing_rate(sk, b, UNITY_GAIN);
	else if (b->state == PROBE_RTT)
		check_probe_rtt_done(tp, b, m);
}

SEC("struct_ops") void BPF_PROG(bbr3_tx_start, struct sock *sk)
{
	restart_from_idle(sk);
}

SEC("struct_ops") void BPF_PROG(bbr3_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		restart_from_idle(sk);
}

/* The losses were spurious: 5.5.11. */
SEC("struct_ops") u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *b = flow_state(sk);
	struct bbr3_more *m = more_of(sk);
	u8 undo_state = b->undo_state;

	if (!m)
		return max(tp->snd_cwnd, 2U);
	b->is_loss_in_round = false;
	reset_full_bw(b, 0);
	b->bw_shortterm = max(b->bw_shortterm, m->undo_bw_shortterm);
	b->inflight_shortterm = max(b->inflight_shortterm, m->undo_inflight_shortterm);
	b->inflight_longterm = max(b->inflight_longterm, m->undo_inflight_longterm);
	b->undo_state = NO_STATE;
	if (undo_state == STARTUP && b->state != STARTUP) {
		b->full_bw_reached = false;
		if (b->state != PROBE_RTT)
			b->state = STARTUP;
	} else if (undo_state == UP && b->state != UP && b->state != PROBE_RTT) {
		start_refill(tp, b, m);
	}
	return min(max(max(tp->snd_cwnd, b->prior_cwnd), 2U), tp->snd_cwnd_clamp);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc bbr3 ALGORITHM(
	"BBR version 3: a model of bandwidth, RTT and losses, probed in cycles",
	"Cardwell et al. 2026: BBR Congestion Control, draft-ietf-ccwg-bbr-06") = {
	.init = (void *)bbr3_init,
	.release = (void *)bbr3_release,
	.cong_control = (void *)bbr3_cong_control,
	.ssthresh = (void *)bbr3_ssthresh,
	.set_state = (void *)bbr3_set_state,
	.cwnd_event = (void *)bbr3_cwnd_event,
	.cwnd_event_tx_start = (void *)bbr3_tx_start,
	.undo_cwnd = (void *)bbr3_undo_cwnd,
	.name = "bbr3",
	.flags = TCP_CONG_NON_RESTRICTED,
};
