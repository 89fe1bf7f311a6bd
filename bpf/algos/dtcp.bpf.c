// SPDX-License-Identifier: GPL-2.0-only
/*
 * D-TCP (`dtcp`): the window grows by N segments per RTT, and shrinks by a factor that depends on N. N follows the
 * estimated bandwidth, which the radio's SINR corrects before packets show the change.
 *
 * Paper: M. R. Kanagarathinam et al., "NexGen D-TCP: Next Generation Dynamic TCP Congestion Control Algorithm", IEEE
 * Access 8, 2020.
 *
 *   eq 1       B_i = delivered bytes / elapsed time, once per epoch
 *   eq 5       B_I = 0.90 B_I + 0.10 B_i                       (eq 4, Westwood's form, as a choice)
 *   eqs 6, 7   BW_E = B_I + g ((B_i - B_I) + S),  g = 0.5        S: what the SINR is worth, see below
 *   eq 11      Q = (BW_E - BW_C) W / BW_E,  BW_C = B_i
 *   eqs 10,12  N = max(1, N + 1 - N Q / (alpha W)),  alpha = 0.2   (n_rule; Algorithm 1, lines 14-25, is another)
 *   eq 14      W += N per RTT in congestion avoidance
 *   loss       W *= 1 - eta / (ceil((2 eta - 1) N) + 1),  ssthresh = W,  eta = 2   (Algorithm 1, lines 5-7)
 *   timeout    W = 2 x initial window, N = 1, a new epoch                            (lines 11-13)
 *   start      W = 2 x initial window                                                (lines 1-4)
 *
 * Hooks: `cong_avoid`, so that the kernel keeps PRR and its pacing rate; `pkts_acked` for the epochs, because it also
 * runs during recovery; `set_state` for the timeout, because the kernel sets its own window after `ssthresh`.
 *
 * The paper contradicts itself about S. Eqs 10 to 12 count an estimate above the present rate as a queue, so that a
 * better radio shrinks N; Algorithm 1 and the text count it as unused room. n_rule selects:
 *  - eq10 (`default`): S is room, bounded. With BW_0 = BW_E for S = 0:
 *      r = min(alpha, max(0, g S - max(0, B_i - BW_0)) / BW_0), 0 in an epoch with a queue of alpha or a loss, or
 *          while more than `loss_permille` is lost
 *      f = max(0, -g S) / BW_0, 0 without a queue of alpha / 4: what a flow does not use is not taken from it
 *      Q / W = queue + f - r
 *    so N becomes 2N + 1 at most, as in Algorithm 1, and 1 at once if the signal foretells less. If f > alpha or
 *    r = alpha, W itself follows, to (BW_0 + g S) base (1 + 3 alpha), and ssthresh follows a fall. A loss takes the
 *    last room out of N. S is what the link carries at this SINR, less B_I. The link's bandwidth by spectral efficiency,
 *    L, is learned while the flow fills the link, and otherwise only rises; so room lasts until the rate has followed.
 *    Changes below a tenth are noise. S counts as far as it was better than no forecast. A queue is what the least RTT
 *    of an epoch shows, which delayed ACKs do not raise.
 *  - eq10_print (`paper`): as printed.
 *  - alg1: Algorithm 1, which never lowers N.
 *
 * Deviations from the paper, and why:
 *  - S: the paper adds a difference in dB to a bandwidth. `shannon` (default) turns it into the relative change of
 *    spectral efficiency, S = B_I (log2(1+s_i) - log2(1+s_A)) / log2(1+s_A), held within +-B_I; with n_rule=eq10,
 *    S = L log2(1+s_i) - B_I. `literal` reads dB as kbit/s times `sinr_gain_kbps`. Without a fresh reading S = 0,
 *    which leaves eqs 1-5.
 *  - Eq 12 prints W_i, but eqs 10 and 11 together give N_i; N_i is used.
 *  - Queue: at a saturated bottleneck BW_E = BW_C, Q = 0, and N could only grow; `default` takes the larger of eq 11
 *    and the queue that the RTT shows, W (R - base) / R, as TCP-FIT does.
 *  - Growth: none in an epoch whose queue and fall exceed alpha W (n_rule=eq10); otherwise only a loss ends it.
 *  - N never exceeds W, or W / 4 unless n_rule=eq10_print. It changes only in congestion avoidance, not in slow start
 *    or recovery. If more than `loss_permille` of the segments are lost, N does not grow, and a loss without a queue
 *    halves it, because a policer drops without a queue.
 *  - Epoch: in `default` one smoothed RTT (at least 20 ms), so that the queue is seen while it grows; in `paper` 0.5 s.
 *  - base: `default` ages it. If no RTT near it was seen for `base_window_s`, W is cut to what the path holds without a
 *    queue, and slow start finds W again. On a new path, base restarts.
 *  - Start: in `default`, W is the kernel's initial window, and HyStart++ ends slow start.
 *  - After a timeout Algorithm 1 does not change ssthresh, so slow start would take W straight back: `paper` does that;
 *    `default` keeps the result of `ssthresh`, and W does not exceed it.
 *  - A timeout that proves spurious restores W and ssthresh, as in the kernel; N restarts nevertheless.
 * Application-limited epochs say little about the path: they may raise B_I but never lower it, and do not change N. An
 * epoch does not span an idle period. ECN: a CE mark counts as a loss (the paper does not mention ECN).
 */
#include <hotcc/filter.h>
#include <hotcc/growth.h>
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include <hotcc/struct_ops.h>

#include "dtcp_signal.h"

char _license[] SEC("license") = "GPL";

static __always_inline void epoch_restart(struct tcp_sock *tp, struct dtcp *f)
{
	f->epoch_start_us = tp->tcp_mstamp;
	f->epoch_delivered = tp->delivered;
	f->epoch_lost = tp->lost;
	f->epoch_app_limited = tp->app_limited != 0;
	base_round_end(tp, &f->base);
}

static __always_inline void n_restart(struct dtcp *f)
{
	f->n_q16 = N_ONE_Q16;
	f->growth_q16 = 0;
	f->forecast = 0;
	f->hold = f->room = 0;
}

static __always_inline void losses_add(struct dtcp *f, u64 segments, u32 lost)
{
	u64 sent = segments + lost, counted = min(sent, (u64)LOSS_SEGMENTS);
	u32 forgotten = (f->loss_q16 * counted + LOSS_SEGMENTS - 1) / LOSS_SEGMENTS;
	u32 added = ((u64)lost << 16) / max(sent, (u64)LOSS_SEGMENTS);

	f->loss_q16 = min(f->loss_q16 - forgotten + added, 65535U);
}

static __always_inline bool loses_much(struct dtcp *f)
{
	return loss_permille && f->loss_q16 * 1000ULL > (u64)loss_permille << 16;
}

/* The queue that eq 10 uses. */
static __always_inline s64 queue_ratio(s64 estimated, s64 current, s64 by_rtt)
{
	if (queue == QUEUE_RTT)
		return by_rtt;
	if (queue == QUEUE_BANDWIDTH)
		return queue_by_bandwidth(estimated, current);
	return max(queue_by_bandwidth(estimated, current), by_rtt);
}

static __always_inline void window_lower(struct tcp_sock *tp, u64 window)
{
	tp->snd_cwnd = min(max(window, 2ULL), (u64)min(tp->snd_cwnd, tp->snd_cwnd_clamp));
}

/* Raises W by no more than slow start would. */
static __always_inline void window_raise(struct tcp_sock *tp, u64 window)
{
	tp->snd_cwnd = min(max((u64)tp->snd_cwnd, min(window, 2ULL * tp->snd_cwnd)), (u64)tp->snd_cwnd_clamp);
}

/*
 * The W with which the path holds a queue of 3 alpha if the signal is right. With a smaller W, the queue would be empty
 * before the sender knows.
 */
static __always_inline u64 foretold_window(struct tcp_sock *tp, struct dtcp *f, s64 foretold)
{
	if (!f->base.us)
		return tp->snd_cwnd;
	return segments_in((u64)max(foretold, 0LL) * (1000 + 3 * alpha_permille) / 1000, f->base.us, tp->mss_cache);
}

/* Eq 10 with the signal as room (as in Algorithm 1) or as a fall. */
static __always_inline u64 n_by_room(struct sock *sk, struct dtcp *f, s64 sample, s64 by_least, bool lost)
{
	struct tcp_sock *tp = tcp_sk(sk);
	s64 expected = expected_bytes_per_s(f), alpha = alpha_of(alpha_permille);
	s64 by_rtt = queue_by_rtt(f->base.us, tp->srtt_us >> 3), filtered = f->bandwidth_q8 >> 8;
	s64 term = 0, room = 0, fall;
	s32 sinr_q8 = 0, average_q8 = 0;

	if (signal_fresh(sk, &sinr_q8, &average_q8)) {
		if (sinr_term == SINR_SHANNON)
			term = link_rate_at(&f->link, filtered, shannon_efficiency_q20(sinr_q8), filter_permille,
					    by_least >= alpha / 4 || loses_much(f)) -
			       filtered;
		else
			term = literal_term_bytes_per_s(sinr_q8, average_q8, filtered);
	}
	term = div_s64(term * (s64)g_permille, 1000);
	if (expected <= 0)
		return f->n_q16;
	f->forecast = max(min(div_s64(term * FORECAST_ONE, expected), FORECAST_MAX), -FORECAST_MAX);
	if (f->forecast < FORECAST_MIN && f->forecast > -FORECAST_MIN)
		f->forecast = 0;
	term = f->forecast ? div_s64(term * (s64)weight_q8(&f->weight), WEIGHT_ONE) : 0;
	fall = by_least >= alpha / 4 ? signal_fall(term, expected) : 0;
	if (!lost && by_least < alpha && !loses_much(f))
		room = signal_room(term, sample - expected, expected, alpha);
	f->room = room > 0;
	if (fall > alpha) {
		window_lower(tp, foretold_window(tp, f, expected + term));
		tp->snd_ssthresh =
			min(tp->snd_ssthresh, max(tp->snd_cwnd, 2U)); /* otherwise slow start would undo it */
	} else if (room == alpha) {
		window_raise(tp, foretold_window(tp, f, expected + term));
	}
	f->hold = by_least + fall > alpha;
	return n_by_eq10(f->n_q16, queue_ratio(expected, sample, by_rtt) + fall - room, alpha_permille);
}

/* Eq 10 as printed, and Algorithm 1: by BW_E of eqs 6 and 7. */
static __always_inline u64 n_by_estimate(struct sock *sk, struct dtcp *f, s64 sample)
{
	s64 filtered = f->bandwidth_q8 >> 8, estimated = sample - filtered;
	s32 sinr_q8 = 0, average_q8 = 0;

	if (signal_fresh(sk, &sinr_q8, &average_q8)) {
		if (sinr_term == SINR_SHANNON)
			estimated += relative_term_bytes_per_s(sinr_q8, average_q8, filtered);
		else
			estimated += literal_term_bytes_per_s(sinr_q8, average_q8, filtered);
	}
	estimated = filtered + div_s64(estimated * (s64)g_permille, 1000);
	if (n_rule == RULE_ALG1)
		return n_by_alg1(f->n_q16, estimated, sample);
	return n_by_eq10(f->n_q16, queue_ratio(estimated, sample, queue_by_rtt(f->base.us, tcp_sk(sk)->srtt_us >> 3)),
			 alpha_permille);
}

/* The largest N. */
static __always_inline u64 n_limit(const struct tcp_sock *tp)
{
	u64 limit = (u64)tp->snd_cwnd << 16;

	if (n_rule != RULE_EQ10_PRINT)
		limit /= 4;
	if (n_max)
		limit = min(limit, (u64)n_max << 16);
	return min(limit, N_LIMIT_Q16);
}

static __always_inline void n_update(struct sock *sk, struct dtcp *f, s64 sample, s64 by_least, bool lost)
{
	u64 limit = n_limit(tcp_sk(sk)), n_q16;

	if (n_rule == RULE_EQ10)
		n_q16 = n_by_room(sk, f, sample, by_least, lost);
	else
		n_q16 = n_by_estimate(sk, f, sample);
	if (loses_much(f))
		limit = min(limit, f->n_q16);
	f->n_q16 = max(min(n_q16, limit), N_ONE_Q16);
}

/* HyStart++ (RFC 9406), with the path's least RTT instead of the last round's. */
static __always_inline void start_watch(struct sock *sk, struct dtcp *f, u64 segments)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 least_us = base_round_least_us(&f->base), base_us = f->base.us;

	/* in a recovery or the loss state, the RTTs are those of the W before it */
	if (!tcp_in_slow_start(tp) || !tcp_may_grow(sk)) {
		f->css_rounds = 0;
		return;
	}
	if (slow_start == START_FULL || !base_us || !least_us || segments < ACKS_MIN)
		return;
	if (least_us < base_us + max(min(base_us / 8, 16000U), 4000U)) {
		f->css_rounds = 0;
		return;
	}
	if (f->css_rounds < CSS_ROUNDS && queue_by_rtt(base_us, least_us) < alpha_of(alpha_permille)) {
		f->css_rounds++;
		return;
	}
	f->css_rounds = 0;
	window_lower(tp, base_window(tp, &f->base, least_us));
	tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
}

/*
 * If no RTT near the least one was seen for long, drains the queue to measure the least RTT again; slow start then
 * finds W again.
 */
static __always_inline void base_probe(struct tcp_sock *tp, struct dtcp *f)
{
	if (!base_expired(tp, &f->base, base_window_s))
		return;
	tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
	window_lower(tp, (u64)base_window(tp, &f->base, tp->srtt_us >> 3) * 7 / 8);
	base_restart(tp, &f->base);
}

/* The end of an epoch: eqs 1 to 12. It is not inline, because each ACK would then save the registers that it uses. */
static __noinline void epoch_end(struct sock *sk, struct dtcp *f, u32 elapsed_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool app_limited = f->epoch_app_limited || tp->app_limited;
	u64 segments = (u32)(tp->delivered - f->epoch_delivered);
	u64 sample = rate_bytes_per_s(segments * tp->mss_cache, elapsed_us);
	u64 sample_q8 = sample << 8;
	u16 lost = (u16)tp->lost - f->epoch_lost;
	s64 by_least = queue_by_rtt(f->base.us, base_round_least_us(&f->base));
	s32 forecast = f->forecast;

	if (path_changed(sk, &f->path) && base_window_s) {
		base_restart(tp, &f->base);
		link_rate_restart(&f->link);
	}
	start_watch(sk, f, segments);
	losses_add(f, segments, lost);
	epoch_restart(tp, f);
	f->forecast = 0;
	f->hold = f->room = 0;
	if (app_limited && sample_q8 <= f->bandwidth_q8)
		return;
	if (!app_limited && forecast)
		signal_judge(f, forecast, sample, by_least);
	if (!f->bandwidth_q8)
		f->bandwidth_q8 = sample_q8;
	else if (filter == FILTER_EQ4)
		f->bandwidth_q8 = ewma_q8(f->bandwidth_q8, (sample + f->sample_rate) << 7, filter_permille);
	else
		f->bandwidth_q8 = ewma_q8(f->bandwidth_q8, sample_q8, filter_permille);
	f->sample_rate = sample;
	if (app_limited || tcp_in_slow_start(tp) || !tcp_may_grow(sk))
		return;
	n_update(sk, f, sample, by_least, lost);
	base_probe(tp, f);
}

static __always_inline u64 start_window(u32 initial)
{
	return initial_windows > 1 ? 2ULL * initial : initial;
}

SEC("struct_ops") void BPF_PROG(dtcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	account_open(sk, &f->account);
	n_restart(f);
	weight_restart(&f->weight);
	epoch_restart(tp, f);
	f->initial_window = TCP_INIT_CWND;
	f->prior_ssthresh = tp->snd_ssthresh;
	if (tp->data_segs_out) { /* a connection that is taken over keeps its window */
		base_take_over(sk, &f->base);
		f->bandwidth_q8 = learned_take_bandwidth_q8(sk);
		f->sample_rate = f->bandwidth_q8 >> 8;
		f->n_q16 = learned_take_n_q16(sk, N_ONE_Q16, n_limit(tp)) ?: N_ONE_Q16;
		return;
	}
	f->initial_window = min(tp->snd_cwnd, 65535U);
	tp->snd_cwnd = min(start_window(tp->snd_cwnd), (u64)tp->snd_cwnd_clamp);
	if (initial_ssthresh_bytes && tp->mss_cache)
		tp->snd_ssthresh = max(initial_ssthresh_bytes / tp->mss_cache, 2U);
}

SEC("struct_ops") void BPF_PROG(dtcp_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	/* a socket that only receives may return here: its start must not double each time */
	if (!tp->data_segs_out && tp->snd_cwnd == start_window(f->initial_window))
		tp->snd_cwnd = f->initial_window;
	learned_put(sk, f->bandwidth_q8, f->base.us);
	learned_put_n(sk, f->n_q16);
	signal_account(f);
	account_close(sk, &f->account);
}

SEC("struct_ops") void BPF_PROG(dtcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - f->epoch_start_us;
	u32 least_us = tcp_in_slow_start(tp) ? EPOCH_START_MIN_US : EPOCH_MIN_US;

	base_sample(&f->base, sample->rtt_us);
	if (elapsed_us >= (epoch_us ?: max(tp->srtt_us >> 3, least_us)))
		epoch_end(sk, f, elapsed_us);
}

/* Eq 14: W += N per RTT, spread over the RTT's segments. */
SEC("struct_ops") void BPF_PROG(dtcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		if (f->css_rounds) { /* RFC 9406: by a quarter */
			f->growth_q16 = (f->growth_q16 & 0xffff) + ((u64)acked << 14);
			acked = f->growth_q16 >> 16;
			f->growth_q16 &= 0xffff;
		}
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	if (!f->hold)
		avoidance_grow(tp, tp->snd_cwnd, &f->growth_q16, f->n_q16 * acked, SEGMENT_Q16);
}

/* W *= 1 - eta / (ceil((2 eta - 1) N) + 1), once per recovery. */
SEC("struct_ops") u32 BPF_PROG(dtcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);
	u64 divisor;

	f->prior_ssthresh = tp->snd_ssthresh;
	if (f->room)
		f->n_q16 = n_without_room(f->n_q16);
	f->room = 0;
	if (loses_much(f) && queue_by_rtt(f->base.us, tp->srtt_us >> 3) < alpha_of(alpha_permille))
		f->n_q16 = max(f->n_q16 / 2, N_ONE_Q16);
	divisor = (((2 * eta - 1) * f->n_q16 + N_ONE_Q16 - 1) >> 16) + 1;
	if (divisor <= eta)
		return 2;
	return max(tp->snd_cwnd * (divisor - eta) / divisor, 2ULL);
}

SEC("struct_ops") void BPF_PROG(dtcp_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);
	u32 window;

	if (new_state != TCP_CA_Loss) /* the kernel does not call ssthresh() for a timeout within a recovery */
		f->prior_ssthresh = tp->snd_ssthresh;
	if (new_state == TCP_CA_CWR) /* most likely a CE mark: the link is full, even if the RTT shows no queue */
		link_rate_settle(&f->link, f->bandwidth_q8 >> 8);
	if (new_state == TCP_CA_Recovery) {
		account_loss(sk, &f->account);
		signal_account(f);
	} else if (new_state == TCP_CA_Loss && tcp_timed_out(tp)) {
		account_timeout(sk, &f->account);
		window = min(2U * f->initial_window, tp->snd_cwnd_clamp);
		if (rto_ssthresh == RTO_KEEP)
			tp->snd_ssthresh = f->prior_ssthresh;
		else
			window = min(window, tp->snd_ssthresh); /* this is less than W was */
		tp->snd_cwnd = window;
		f->css_rounds = 0;
		n_restart(f);
		epoch_restart(tp, f);
		signal_account(f);
	}
}

/* An idle period says nothing about the path's bandwidth, and the signal's prediction was for the epoch before it. */
static __always_inline void idle_end(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	f->forecast = 0;
	base_idle_end(tp, &f->base, base_window_s);
	epoch_restart(tp, f);
}

SEC("struct_ops") void BPF_PROG(dtcp_tx_start, struct sock *sk)
{
	idle_end(sk);
}

SEC("struct_ops") void BPF_PROG(dtcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		idle_end(sk);
}

SEC("struct_ops") u32 BPF_PROG(dtcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc dtcp ALGORITHM(
	"grows by N segments per RTT; N follows bandwidth and SINR",
	"Kanagarathinam et al. 2020: NexGen D-TCP, IEEE Access, Algorithm 1, eqs 1-14") = {
	.init = (void *)dtcp_init,
	.release = (void *)dtcp_release,
	.pkts_acked = (void *)dtcp_pkts_acked,
	.cong_avoid = (void *)dtcp_cong_avoid,
	.ssthresh = (void *)dtcp_ssthresh,
	.set_state = (void *)dtcp_set_state,
	.cwnd_event = (void *)dtcp_cwnd_event,
	.cwnd_event_tx_start = (void *)dtcp_tx_start,
	.undo_cwnd = (void *)dtcp_undo_cwnd,
	.name = "dtcp",
	.flags = TCP_CONG_NON_RESTRICTED,
};
