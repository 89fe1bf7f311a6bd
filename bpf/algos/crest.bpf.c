// SPDX-License-Identifier: GPL-2.0-only
/*
 * crest (`crest`): the window is the rate that the link has just served times the least RTT, plus a small queue. The
 * radio's capacity or SINR corrects the rate, weighted by how well it has predicted the rate so far. Up to 3 % of losses
 * do not lower the window, except at the start or against a rival.
 *
 * The law is this project's own, without a paper. docs/algorithms/crest.md describes it and its limits.
 *
 *            +-------+  a queue, or losses  +--------+  the least RTT is old, or a queue stands  +-------+
 *  init ---> | START | -------------------> | CRUISE | ----------------------------------------> | PROBE |
 *            +-------+                      +--------+                                           +-------+
 *             W doubles                      ^  ^  W of the model            W small, two rounds  |     |
 *             per RTT                        |  | two rounds                  in all other cases  |     |
 *                                            |  +--------+ <--------------------------------------+     |
 *                                            |  | REFILL |  W as before                                 |
 *                                            |  +--------+ <--- MOVED <--- any state, see below         |
 *             the queue is gone for 16 RTTs  |   ^                                                      |
 *                                            |   | the queue is its own,            two tests on end:   |
 *                                            |   | or is never full                 others own it       |
 *                                            |  +---------+    others own it     +---------+            |
 *                                 W smaller, |  | RECHECK | -------------------> | COMPETE | <----------+
 *                                 two rounds |  +---------+ <------------------- +---------+
 *                                            |        24, 50, 100 .. rounds, or    | W as CUBIC's
 *                                            |        the queue doubled            |
 *                                            +-------------------------------------+
 *
 *   sample   B = delivered / RTT of the segment just acknowledged (Little's law over its flight), once per slice, a quarter
 *            of an RTT. The kernel's delivered / interval spans stalls, and is too low after each.
 *   window   W = B path + (B q + extra) room, q = max(5 ms, base / 8) + burst, extra = max(3, 1.25 sqrt(W)) segments
 *            In a queue of more than 2 q, B goes over to the rate of the last two slices, if that is less.
 *            Without a queue for half an RTT, W grows by 40 to 50 % per RTT, to twice the model's at most.
 *   burst    grows by 6 % of base with each round that saw no queue, and shrinks by 1 % with any other
 *   room     1; it shrinks while more than 3 % of the segments are lost. W stays above 1.1 B path.
 *   marks    ECN marks shrink room more, in the end to 0; then W is 15/16 B path, and grows in rounds without marks.
 *   limit    losses without a queue: W is what arrives, for a while (a policer); if that does not help, they are random
 *   path     base, and the time that ACKs wait in a queue on the way back, which the receiver's clock in them shows
 *   base     the least RTT; after 5 s (or 62 RTTs) without one near it, a probe looks for it; or what a smaller W saw
 *            three times on end, the last time in a probe: a longer path
 *   MOVED    from any state, when the path or the serving cell changed: W is small, so that the flow's own queue goes.
 *            What the first round acknowledges was sent before the change was seen; base is that of the second, and
 *            REFILL follows.
 *
 * crest_border.h has the losses behind a border PEP, crest_compete.h the probes and the competition, crest_group.h the
 * data that flows to one receiver share, crest_losses.h losses and marks, crest_reverse.h the way back, crest_signal.h
 * the radio signal, and crest_window.h the window. Hooks: `cong_control`, which also sets the pacing rate; `ssthresh`, in
 * which COMPETE reduces W for a loss, while the kernel's ssthresh stays; `set_state` for marks and counters; `cwnd_event` and
 * `cwnd_event_tx_start` for idle periods.
 */
#include <hotcc/fixed.h>
#include <hotcc/learned.h>
#include <hotcc/log2.h>
#include <hotcc/round.h>
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

#include "account_map.h"
#include "crest_border.h"
#include "crest_compete.h"
#include "crest_group.h"
#include "crest_losses.h"
#include "crest_reverse.h"
#include "crest_signal.h"
#include "crest_state.h"
#include "crest_window.h"

char _license[] SEC("license") = "GPL";

TUNABLE(u32, base_window_ms, 5000, 5000, 100, 100000, "ms", "how long a least RTT holds until a probe looks for it");
TUNABLE_CHOICE(radio, 1, 1, "off,on", "whether to read the radio's capacity and SINR");

FLOW_STATE(struct crest);

/* -- Window -- */

static __always_inline void pace(struct sock *sk, const struct crest *f, u32 path_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 bytes = (u64)f->window * tp->mss_cache / SEGMENT;
	u32 rtt_us = path_us ?: tp->srtt_us >> 3;

	bytes = bytes * (f->phase == START ? START_PACING_PERMILLE : PACING_PERMILLE) * 1000 / max(rtt_us, 1U);
	sk->sk_pacing_rate = min(bytes, (u64)sk->sk_max_pacing_rate);
}

/*
 * W doubles per RTT. If a policer drops much of it, nearly everything that arrives is a retransmission, and neither
 * slices nor rounds end.
 */
static __always_inline void start_grow(struct sock *sk, struct crest *f, u32 acked)
{
	if (round_losses(tcp_sk(sk), f) > f->window / (8 * SEGMENT) + 4) {
		f->phase = CRUISE;
		return;
	}
	f->window =
		min((u64)f->window + acked * SEGMENT, (u64)min(tcp_sk(sk)->snd_cwnd_clamp, W_MAX / SEGMENT) * SEGMENT);
	pace(sk, f, f->base_us);
}

/* -- Least RTT -- */

static __always_inline void base_sample(const struct tcp_sock *tp, struct crest *f, u32 rtt_us)
{
	if (f->base_us && rtt_us > f->base_us + (f->base_us >> 6))
		return;
	if (!f->base_us || rtt_us < f->base_us)
		f->base_us = rtt_us;
	f->base_seen_ms = tp->tcp_mstamp / 1000;
}

/*
 * The path changed, or so it is reported. W is that of a probe: otherwise the flow's own queue would be part of the new
 * least RTT, and each false report would add to it.
 */
static __always_inline void base_restart(struct crest *f, struct crest_group *g)
{
	if (f->phase == START || f->phase == CRUISE || f->phase == COMPETE)
		f->resume = log2_q10(f->window);
	f->window = max(min((u64)f->window, drained_window(f)), (u64)W_MIN);
	f->phase = MOVED;
	f->rounds = f->rivals = f->doubt = f->filled = f->policed = 0;
	f->same_rtt = 0;
	if (g)
		g->base_us = g->level = 0;
}

static __always_inline void base_restarted(const struct tcp_sock *tp, struct crest *f)
{
	f->stood = f->loss = f->empty = 0;
	f->room = ROOM_ONE;
	f->peak = f->resume;
	f->base_us = f->round_rtt_us;
	f->base_seen_ms = tp->tcp_mstamp / 1000;
	probe_refill(f, exp2_q10(f->resume));
}

static __always_inline bool probe_is_due(const struct crest *f, u32 now_ms)
{
	u32 age_ms = now_ms - f->base_seen_ms;

	if (f->probes < YOUNG_PROBES)
		return age_ms > max(YOUNG_WINDOW_MS, f->base_us / 100) << f->probes;
	return age_ms > max(base_window_ms, f->base_us / 16);
}

/* -- Rounds -- */

static __always_inline void cruise_round(struct sock *sk, struct crest *f, struct crest_group *g, u32 q_us, bool lost,
					 u32 ignored)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now_ms = tp->tcp_mstamp / 1000, window_log = log2_q10(f->window), flows = group_flows(g);
	/* the queue that flows of this kind leave together */
	u64 stands = queue_target_us(f) * 3ULL / 2;
	bool squeezed, stood, longer = q_us > least_target_us(f) && !tp->app_limited;

	if (g && flows > 1) {
		squeezed = group_fell(g, LOG2_ONE);
		longer = longer && group_fell(g, LONGER_FALL);
		stands += flows * extra_of(window_log) * (USEC_PER_SEC / SEGMENT) / max(exp2_q10(g->peak), 1ULL);
	} else {
		squeezed = window_log + LOG2_ONE < f->peak;
		stands += extra_of(f->peak) * f->base_us / max(exp2_q10(f->peak), 1ULL);
	}
	f->peak = max(window_log, max(f->peak, (u16)2) - 2U); /* halves in 512 rounds */
	if (lost && q_us > stands) {
		f->filled = true;
		f->rounds = 255;
	}
	if (q_us > stands && (q_us > f->base_us / 2 || squeezed))
		f->rounds = min(f->rounds + (squeezed ? 2 : 1), 255);
	else if (q_us <= stands && f->rounds)
		f->rounds--;
	else if (q_us <= stands)
		f->filled = 0;
	if (!tp->app_limited) {
		if (q_us <= least_target_us(f) / 4 && f->loss <= ignored)
			f->burst = min(f->burst + 6U, burst_permille / 10);
		else
			f->burst -= min(f->burst, (u8)1);
	}
	if (group_probes(g, f, now_ms, tp->srtt_us / 8000)) {
		probe_begin(f, group_least_window(g));
		return;
	}
	stood = f->rounds >= STAND_ROUNDS << f->doubt && q_us > stands && !lost;
	longer_round(f, window_log, longer);
	if (f->probes >= YOUNG_PROBES + LONGER_SIGNS - 1) {
		f->rounds = 0; /* a probe, not a test */
		stood = false;
	} else if (!stood && !probe_is_due(f, now_ms)) {
		return;
	}
	f->probes += !stood && f->probes < YOUNG_PROBES;
	if (g)
		g->probe_ms = now_ms;
	probe_begin(f, group_least_window(g));
}

static __always_inline void round_end(struct sock *sk, struct crest *f, u64 rate, u32 path_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct crest_group *g = group_find(sk, signal_link(&f->signal, radio));
	bool lost = round_losses(tp, f), moved = path_changed(sk, &f->signal.path);
	u32 q_us, lost_permille, ignored = losses_ignored(f);

	if (radio_cell_changed(&f->signal.radio) || moved)
		base_restart(f, g);
	if (g && f->phase != MOVED) {
		group_count(g, f, tp->tcp_mstamp / 1000);
		group_share_base(g, f, tp->tcp_mstamp / 1000, 2 * base_window_ms);
		group_learn(g, &f->signal);
	}
	q_us = f->round_rtt_us > f->base_us ? f->round_rtt_us - f->base_us : 0;
	lost_permille = losses_add(sk, f, ignored);
	set_lost_before(f, tp->lost);
	f->round_delivered = tp->delivered;
	switch (f->phase) {
	case START:
		if (f->loss > ignored)
			f->phase = CRUISE;
		else /* a jump; TCP's window follows by two segments for each that arrives, so no burst leaves */
			f->window =
				max((u64)f->window, min(segments_of(group_expects(g, f), f->base_us) / 2, (u64)W_MAX));
		break;
	case CRUISE:
		policer_round(f, segments_of(rate, path_us), lost_permille, q_us > least_target_us(f));
		cruise_round(sk, f, g, q_us, lost, ignored);
		break;
	case PROBE:
	case RECHECK:
		if (++f->rounds >= 2)
			probe_end(tp, f);
		break;
	case REFILL: /* the samples are of the probe */
		if (++f->rounds < 2)
			break;
		f->phase = CRUISE;
		f->rounds = f->stood;
		f->stood = f->empty = 0;
		break;
	case COMPETE:
		compete_round(tp, f, q_us, queue_target_us(f), lost, group_least_window(g));
		break;
	case MOVED:
		if (++f->rounds > 2)
			base_restarted(tp, f);
		break;
	}
	f->round_rtt_us = 0;
}

/* -- Samples -- */

/*
 * The rate of the model is that of the last flight. A deep queue makes the flight old; then it is that of the last two
 * slices.
 */
static __always_inline u64 model_rate(struct sock *sk, struct crest *f, u64 flight, u64 rate, u64 recent, u32 q_us,
				      u32 low, u32 target)
{
	u32 deep = 2 * target, forecast = 0;

	if (radio)
		forecast = signal_slice(sk, &f->signal, log2_q10(rate), q_us > low);
	recent = min(recent, flight);
	flight = min(signal_expect(&f->signal, flight, forecast, f->empty < 8), RATE_MAX);
	if (q_us <= deep || f->phase >= PROBE)
		return flight;
	recent = min(signal_expect(&f->signal, recent, forecast, f->empty < 8), RATE_MAX);
	if (q_us >= 2ULL * deep)
		return recent;
	return (flight * (2ULL * deep - q_us) + recent * (q_us - deep)) / max(deep, 1U);
}

/* The end of a slice. It is not inline, because each ACK would then save the registers that it uses. */
static __noinline void slice_end(struct sock *sk, struct crest *f, const struct rate_sample *rs, u32 elapsed_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 n = tp->delivered - f->slice_delivered, ack_rtt_us = min(rs->rtt_us, (long)RTT_MAX_US);
	u32 waited, path_us, q_us, low, target;
	u64 flight = min((u64)rs->delivered * RATE_UNIT / rs->rtt_us, RATE_MAX);
	u64 rate = min(n * RATE_UNIT / elapsed_us, RATE_MAX), recent, w;

	recent = min(((u64)n + f->last_delivered) * RATE_UNIT / ((u64)elapsed_us + rtt_of(f->last_time)), RATE_MAX);
	q_us = ack_rtt_us > f->base_us ? ack_rtt_us - f->base_us : 0;
	waited = reverse_queue(tp, f, q_us >> RTT_TICK_SHIFT, elapsed_us);
	f->wait = max(waited, f->wait * 7U / 8);
	f->slice_rtt_us = min(f->slice_rtt_us, ack_rtt_us - rtt_of(waited));
	/* the verifier follows the rest once, not for each branch above */
	asm volatile("" ::: "memory");
	base_sample(tp, f, f->slice_rtt_us);
	path_us = forgotten(f->base_us + rtt_of(f->wait));
	q_us = forgotten(f->slice_rtt_us - f->base_us);
	target = queue_target_us(f);
	flight = flight_rate(tp, flight, recent, ack_rtt_us, q_us, target);
	/* a segment's own time on the link is not a queue */
	low = min(least_target_us(f) / 4 + RATE_UNIT / max(rate, 1ULL), (u64)target);
	rate = model_rate(sk, f, flight, rate, recent, q_us, low, target);
	w = model_window(tp, f, rate, q_us, low, target, elapsed_us, path_us);
	f->last_time = rtt_ticks(elapsed_us);
	f->last_delivered = n;
	if (f->phase == START && q_us > target / 2)
		f->phase = CRUISE;
	/* is_app_limited is also set for the first flight, after the SYN */
	if (f->phase == CRUISE &&
	    !((tp->app_limited | (rs->is_app_limited & (rs->prior_delivered > 1))) && w < f->window))
		f->window = w;
	else if (f->phase >= PROBE && (f->phase == MOVED ? q_us <= low : q_us > target))
		f->window = min((u64)f->window, w);
	least_rtt(&f->round_rtt_us, f->slice_rtt_us);
	if ((f->phase == PROBE || f->phase == RECHECK) && f->slice_rtt_us <= f->base_us + f->base_us / 64) {
		f->round_rtt_us = f->slice_rtt_us;
		probe_end(tp, f);
	}
	slice_begin(tp, f);
	if ((s32)(rs->prior_delivered - f->round_delivered) >= 0)
		round_end(sk, f, flight, path_us);
	pace(sk, f, f->base_us + rtt_of(f->wait)); /* a round's end may change both W and the path */
}

/* The RTT also follows a queue that grows fast, but not at once an ACK that the receiver delayed. */
static __always_inline bool slice_is_over(const struct tcp_sock *tp, const struct crest *f,
					  const struct rate_sample *rs, u32 elapsed_us)
{
	u32 rtt_us = f->base_us ? min(f->base_us, f->slice_rtt_us) : f->slice_rtt_us;

	return rtt_us && elapsed_us >= rtt_us / 4 && rs->delivered > 0 && rs->rtt_us > 0 && !rs->is_retrans &&
	       (elapsed_us >= rtt_us ||
		(tp->delivered - f->slice_delivered >= SLICE_SEGMENTS &&
		 rs->rtt_us < max(f->slice_rtt_us + rtt_of(f->wait), tp->srtt_us >> 3) + DELAYED_ACK_US));
}

/* -- Events -- */

CONG_CONTROL(crest_cong_control, sk, ack, flag, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct crest *f = flow_state(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - f->slice_start_us, acked = min(rs->acked_sacked, ACKED_MAX), w;

	if (rs->losses > 0 && pep_is_possible(sk))
		border_losses(sk, f, rs->losses, f->base_us + 3 * queue_target_us(f) / 2);
	if (rs->rtt_us > 0 && (!f->slice_rtt_us || rs->rtt_us < f->slice_rtt_us)) {
		least_rtt(&f->slice_rtt_us, reverse_rtt(tp, f, min(rs->rtt_us, (long)RTT_MAX_US)));
		if (f->slice_rtt_us < f->base_us)
			reverse_note(tp, f);
	}
	/* not is_app_limited: the kernel sets it for the first flight, before which there was nothing to send */
	if (f->phase == START && tcp_is_limited_by(tp, tp->snd_cwnd, TCP_INFINITE_SSTHRESH))
		start_grow(sk, f, acked);
	/* most ACKs end no slice: the time comes first */
	if (elapsed_us >= SLICE_MIN_US && slice_is_over(tp, f, rs, elapsed_us))
		slice_end(sk, f, rs, elapsed_us);
	w = f->window / SEGMENT;
	if (w > tp->snd_cwnd) /* after a timeout, a probe or a jump, two segments for each segment that arrives */
		w = min(w, tp->snd_cwnd + 2 * acked);
	tp->snd_cwnd = min(w, tp->snd_cwnd_clamp);
}

SEC("struct_ops") void BPF_PROG(crest_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct crest *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	mapped_account_open(sk);
	f->window = min(max(tp->snd_cwnd, W_MIN / SEGMENT), W_MAX / SEGMENT) * SEGMENT;
	if (tp->data_segs_out) /* a connection that is taken over */
		f->base_us = min(learned_base_us(sk), RTT_MAX_US);
	f->room = ROOM_ONE;
	f->round_delivered = tp->delivered;
	set_lost_before(f, tp->lost);
	f->base_seen_ms = tp->tcp_mstamp / 1000;
	slice_begin(tp, f);
	sk->sk_pacing_status = sk->sk_pacing_status ?: 1; /* TCP itself paces, unless fq does */
	pace(sk, f, f->base_us);
}

SEC("struct_ops") void BPF_PROG(crest_release, struct sock *sk)
{
	learned_put(sk, 0, flow_state(sk)->base_us);
	mapped_account_close(sk);
}

SEC("struct_ops") u32 BPF_PROG(crest_ssthresh, struct sock *sk)
{
	struct crest *f = flow_state(sk);

	if (f->phase == COMPETE) {
		u32 log = log2_q10(f->window);

		if (f->peak == PEAK_UNKNOWN) {
			f->window = max(f->window / 10 * 9, W_MIN);
		} else {
			f->peak = f->stood && log < f->peak ? log - LOG2_ONE / 4 : log;
			f->window = max(f->window / 10 * 7, W_MIN);
		}
		f->stood = 0;
	}
	return max(tcp_sk(sk)->snd_ssthresh, 2U);
}

SEC("struct_ops") void BPF_PROG(crest_set_state, struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_CWR)
		mark_seen(flow_state(sk));
	else if (new_state == TCP_CA_Recovery)
		mapped_account_loss(sk);
	else if (new_state == TCP_CA_Loss)
		timeout_seen(sk, flow_state(sk));
}

SEC("struct_ops") void BPF_PROG(crest_tx_start, struct sock *sk)
{
	idle_end(sk, flow_state(sk));
}

SEC("struct_ops") void BPF_PROG(crest_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		idle_end(sk, flow_state(sk));
}

/* Outside COMPETE, no loss reduces W at once; in COMPETE, its reduction stays. */
SEC("struct_ops") u32 BPF_PROG(crest_undo_cwnd, struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, 2U);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc crest ALGORITHM("W = rate served x (least RTT + small queue); radio helps",
						  "this project: docs/algorithms/crest.md") = {
	.init = (void *)crest_init,
	.release = (void *)crest_release,
	.cong_control = (void *)crest_cong_control,
	.ssthresh = (void *)crest_ssthresh,
	.set_state = (void *)crest_set_state,
	.cwnd_event = (void *)crest_cwnd_event,
	.cwnd_event_tx_start = (void *)crest_tx_start,
	.undo_cwnd = (void *)crest_undo_cwnd,
	.name = "crest",
	.flags = TCP_CONG_NON_RESTRICTED,
};
