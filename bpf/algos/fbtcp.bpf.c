// SPDX-License-Identifier: GPL-2.0-only
/*
 * FB-TCP (`fbtcp`): once per round trip one row of a table moves the window, by how empty the path is, how far the
 * window is from what the path needs, and whether it is beyond what was ever delivered. A few losses do not move it.
 *
 * Paper: R. Poorzare, A. Calveras Auge, "FB-TCP: A 5G mmWave Friendly TCP for Urban Deployments", IEEE Access 9, 2021,
 * section IV.
 *
 *   eq 1       maxCwnd = DP * baseRtt / MSS * rho,  rho = 1.05         DP: delivery rate over the last 100 ms
 *   eq 2       Diff = W - target
 *   eq 3       target = W * CSI
 *   eq 4       CSI = baseRtt / minRtt                                  least RTT of connection and of round
 *   eq 5       W <= maxCwnd: Convergence, Tables 1 and 3; else Divergence, Table 5
 *   eq 6       CAD = target / W
 *   eqs 7-10   after thirty rounds in C10, D3 or D4: W *= 0.9, maxCwnd *= 0.9
 *
 * Hooks: `pkts_acked` for RTTs, DP and the end of a round, because it also runs during recovery; `cong_avoid` for
 * growth, so that the kernel keeps PRR and its pacing rate; `ssthresh` and CA_EVENT_COMPLETE_CWR to come out of a
 * recovery as it was entered (fbtcp_recovery.h); `set_state` for the reduction after a mark, which must follow
 * `ssthresh`.
 *
 * Deviations from the paper, and why:
 *  - Eq 1 is printed with a count of packets for DP; with its "/ 8" it can only be a rate in bits. Its minRtt is the
 *    connection's, eq 4's baseRtt.
 *  - maxCwnd is the largest of the estimates: a flow that its window limits delivers W per RTT, so a mere refresh would
 *    keep W <= maxCwnd only while CSI >= 0.95. `paper`: for the whole connection, so it never learns of a path that got
 *    slower; `default`: over 10 s.
 *  - The printed ranges overlap (C6 and C8, C7 and C9): the first row that matches wins. C8, C11 and C13 want
 *    CAD >= 0.95 where CSI < 0.95. They can never fire, since CAD <= CSI when target is rounded down (they are kept for
 *    other thresholds); C7 fires at a few small windows only.
 *  - The `b` rows act in the third round ("more than two RTTs"; elsewhere "two successive"), eqs 7-10 in the 31st; then
 *    the count starts over. Table 4 does not name C12.b's constant; it is `m`.
 *  - Steps are spread over the ACKs of a round; fractions are kept. `default` ends a step at maxCwnd + 1: 120 segments
 *    onto a path of 40 would be three bandwidth-delay products at once.
 *  - A round with under 3 RTT samples says little about minRtt, so W grows by one segment, as Reno's.
 *  - A round that W did not limit does not change W: the tables assume full windows.
 *  - Slow start doubles W per RTT until 900 segments, and again after a timeout. `default` leaves it when W > maxCwnd
 *    with a queue (CSI < 0.95), because 900 segments are many bandwidth-delay products of most paths.
 *  - baseRtt: `default` measures it again if it was not seen for 10 s; otherwise a path that became longer would look
 *    congested for ever. A queue may hide it, so W falls under the target for two rounds, as BBR's does in ProbeRTT.
 *    The least RTT of the second round becomes baseRtt. An RTT with CSI >= 0.98, a threshold of the tables, counts as
 *    seeing baseRtt. A connection that switches from another algorithm starts with the kernel's least RTT.
 *
 * Loss: immune, as the paper wants: W stays, PRR conserves packets, and the recovery ends with the W and ssthresh it
 * began with, except that slow start ends there. Rows that fire in a recovery move that W, at once: on a lossy path, or
 * with a W that overflows the bottleneck in each round, a flow is in recovery whenever a round ends, and nothing else
 * would move it.
 * `default`: random losses of 2 % rarely exceed 2 % of a round (or of several, with 100 segments together) by two
 * standard deviations. More than that is a policer's or a short queue's loss: W falls by twice the lost share, maxCwnd
 * falls to W, and W then grows as in Divergence for hold_rounds, because a policer lets bursts pass from which eq 1
 * computes too large a maxCwnd. Losses that a border PEP saw pass (abi/pep.h; not trusted, no older than a second) are
 * the access network's: their cap is 30 %.
 * Undo: the kernel's. Timeout: W = 1 by the kernel, then slow start to 3/4 of the old W (the paper says nothing).
 * ECN: a CE mark is no random loss; it halves W, as a full queue on this host does, and a loss that a loss probe
 * repairs. One during a recovery does nothing.
 * Application-limited: such an interval of DP counts only if its estimate is at least maxCwnd. Idle: DP and round
 * restart. Times are kept modulo 2^32 us (71 minutes).
 */
#include "fbtcp_losses.h"
#include "fbtcp_recovery.h"
#include "fbtcp_state.h"
#include "fbtcp_tables.h"
#include <hotcc/fixed.h>
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include <hotcc/round.h>
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

char _license[] SEC("license") = "GPL";

TUNABLE(u32, rho_permille, 1050, 1050, 100, 4000, "permille", "rho of eq 1: maxCwnd over what was delivered");
TUNABLE(u32, min_samples, 3, 3, 1, 1000, "", "RTT samples that a round needs for a row");
TUNABLE(u32, dp_interval_us, 100000, 100000, 1000, 10000000, "us", "time between estimates of maxCwnd");
TUNABLE(u32, slow_start_exit, 900, 900, 2, 1000000000, "segments", "W at which slow start ends");

/* Where the profiles differ. */
TUNABLE_CHOICE(limit_step, 1, 0, "off,on", "whether a step in Convergence ends at maxCwnd + 1");
TUNABLE_CHOICE(exit_on_queue, 1, 0, "off,on", "whether slow start ends when W > maxCwnd with a queue");
TUNABLE(u32, max_window_us, 10000000, 0, 0, 3600000000, "us", "time maxCwnd outlives larger estimates; 0: for ever");
TUNABLE(u32, base_window_us, 10000000, 0, 0, 3600000000, "us",
	"time without baseRtt seen after which the queue is drained to see it; 0: never");
TUNABLE(u32, ecn_permille, 500, 500, 0, 1000, "permille", "share of W that stays after a mark");

#define MIN_DRAIN_SEGMENTS 4U

/* Lowers W, and keeps slow start from undoing it; the 3/4 are what the kernel remembers of a window that it lowers. */
static __always_inline void window_reduce(struct tcp_sock *tp, struct fbtcp *flow, u64 to, bool recovering)
{
	u32 cwnd = max(to, 2ULL);

	if (recovering) {
		recovery_aim(tp, flow, cwnd);
		return;
	}
	tp->snd_cwnd = cwnd;
	tp->snd_ssthresh = max(max(min(tp->snd_ssthresh, cwnd), (u32)((u64)cwnd * 3 / 4)), 2U);
}

/* Raises W over the round that begins; in a recovery at once, since PRR approaches it with the ACKs. */
static __always_inline void window_raise(struct tcp_sock *tp, struct fbtcp *flow, u64 segments, bool recovering)
{
	if (recovering)
		recovery_aim(tp, flow, flow->restore_cwnd + segments);
	else
		step_set(flow, segments);
}

static __always_inline void round_restart(struct fbtcp *flow)
{
	flow->samples = 0;
	flow->round_min_us = 0;
}

/* Losses are counted over a round, or over as many rounds as have LOSS_SPAN segments. */
static __always_inline void loss_span_restart(struct tcp_sock *tp, struct fbtcp *flow)
{
	flow->span_delivered = tp->delivered;
	flow->span_lost = tp->lost;
	flow->flags &= ~LOST_BEFORE_PEP;
}

static __always_inline void dp_restart(struct tcp_sock *tp, struct fbtcp *flow)
{
	flow->dp_start_us = tp->tcp_mstamp;
	flow->dp_delivered = tp->delivered;
	flow->flags &= ~DP_LIMITED;
	if (tp->app_limited || flow->drain_cwnd)
		flow->flags |= DP_LIMITED;
}

static __always_inline void rtt_add(struct fbtcp *flow, u32 rtt_us, u32 now_us)
{
	if (!flow->base_us || rtt_us <= flow->base_us) {
		flow->base_us = rtt_us;
		flow->base_time_us = now_us;
	} else if ((u64)rtt_us * csi_full <= flow->base_us * 1000ULL) {
		flow->base_time_us = now_us;
	}
	if (!flow->round_min_us || rtt_us < flow->round_min_us)
		flow->round_min_us = rtt_us;
	if (flow->samples < 0xffff)
		flow->samples++;
}

/*
 * Updates maxCwnd by eq 1 at the end of an interval, and starts the next one. Neither this nor place_losses() nor
 * round_end() is inline, because each ACK would then save the registers that they use.
 */
static __noinline void dp_end(struct tcp_sock *tp, struct fbtcp *flow, u32 now_us, u32 elapsed_us)
{
	bool limited = flow->flags & DP_LIMITED || tp->app_limited || flow->drain_cwnd;
	u64 segments = (u32)(tp->delivered - flow->dp_delivered);
	u64 dp = rate_bytes_per_s(segments * tp->mss_cache, elapsed_us);
	u64 estimate = segments_in(dp * rho_permille / 1000, flow->base_us, tp->mss_cache);
	bool outlived = max_window_us && now_us - flow->max_time_us >= max_window_us && !limited;

	estimate = max(min(estimate, (u64)TCP_INFINITE_SSTHRESH), 2ULL);
	if (estimate >= flow->max_cwnd || outlived) {
		flow->max_cwnd = estimate;
		flow->max_time_us = now_us;
	}
	dp_restart(tp, flow);
}

static __noinline void place_losses(struct sock *sk, struct fbtcp *flow, bool first)
{
	if (!(flow->flags & LOST_BEFORE_PEP) && !lost_behind_pep(sk, first))
		flow->flags |= LOST_BEFORE_PEP;
}

/* Ends the span if it is long enough. Returns the W that remains if its losses are not random, else 0. */
static __always_inline u32 loss_span_end(struct sock *sk, struct fbtcp *flow, u32 cwnd)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool in_access = pep_is_possible(sk) && !(flow->flags & LOST_BEFORE_PEP);
	u32 lost = tp->lost - flow->span_lost, arrived = tp->delivered - flow->span_delivered;

	if ((u64)lost + arrived < LOSS_SPAN)
		return 0;
	loss_span_restart(tp, flow);
	return window_after_losses(cwnd, lost, arrived, in_access ? access_loss_cap_permille : loss_cap_permille);
}

/* Returns whether slow start, which has not reached ssthresh, ends here. */
static __always_inline bool slow_start_over(struct tcp_sock *tp, struct fbtcp *flow, u32 csi_q16)
{
	if (tp->snd_cwnd >= slow_start_exit)
		return true;
	return exit_on_queue && flow->max_cwnd && tp->snd_cwnd > flow->max_cwnd && flow->round_min_us &&
	       !at_least(csi_q16, csi_high);
}

/* Applies a row that fired for the `repeat`th successive round. */
static __always_inline void row_apply(struct tcp_sock *tp, struct fbtcp *flow, u32 row, u32 repeat, bool recovering)
{
	u32 cwnd = window_kept(tp, flow, recovering);
	bool again = !row_raises(row) && repeat >= (row_holds(row) ? hold_rounds : repeat_rounds);
	u64 window = window_by(row, again, cwnd);
	u64 step;

	flow->rule = again ? row + AGAIN : row;
	flow->repeat = again ? 0 : repeat;
	if (row_raises(row)) {
		step = window - cwnd;
		if (limit_step && row <= C9)
			step = min(step, (u64)(flow->max_cwnd - cwnd) + 1);
		window_raise(tp, flow, step, recovering);
		return;
	}
	if (row_holds(row) && !again)
		return;
	window_reduce(tp, flow, window, recovering);
	if (row_holds(row)) /* eqs 8 and 10; 0 would mean that maxCwnd is unknown */
		flow->max_cwnd = max(share(flow->max_cwnd, row == C10 ? beta_permille : theta_permille), 2ULL);
}

/* Lowers W for as long as it takes to see baseRtt: under what the path holds without a queue. */
static __always_inline void drain_begin(struct tcp_sock *tp, struct fbtcp *flow, u32 csi_q16, u32 cwnd, bool recovering)
{
	u64 target = (u64)cwnd * csi_q16 >> 16;

	flow->drain_cwnd = cwnd;
	window_reduce(tp, flow, min(max(target * 3 / 4, (u64)MIN_DRAIN_SEGMENTS), (u64)cwnd), recovering);
}

/* Ends a drain, even one without a result; the next drain is at least base_window_us away. */
static __always_inline void drain_abandon(const struct tcp_sock *tp, struct fbtcp *flow)
{
	if (!flow->drain_cwnd)
		return;
	flow->base_time_us = tp->tcp_mstamp;
	flow->drain_cwnd = 0;
	flow->flags &= ~DRAINED;
}

/* Ends a drain after which W is found by slow start, up to 3/4 of the W before it. */
static __always_inline void drain_cut_short(struct tcp_sock *tp, struct fbtcp *flow)
{
	if (flow->drain_cwnd)
		tp->snd_ssthresh = max((u32)((u64)flow->drain_cwnd * 3 / 4), 2U);
	drain_abandon(tp, flow);
}

/* Ends a round of a drain. In the first one, what was sent before it leaves the path; the second one shows baseRtt. */
static __always_inline void drain_round_end(struct tcp_sock *tp, struct fbtcp *flow, bool recovering)
{
	u32 cwnd = flow->drain_cwnd;

	if (!(flow->flags & DRAINED)) {
		flow->flags |= DRAINED;
		return;
	}
	if (!flow->round_min_us)
		return;
	flow->base_us = flow->round_min_us;
	drain_abandon(tp, flow);
	if (recovering)
		recovery_aim(tp, flow, cwnd);
	else
		tp->snd_cwnd = min(max(tp->snd_cwnd, cwnd), tp->snd_cwnd_clamp);
}

/* Ends a round, and applies its effect to W. */
static __noinline void round_end(struct sock *sk, struct fbtcp *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u8 state = tcp_ca_state(sk);
	bool recovering = recovery_goes_on(flow, state);
	u32 cwnd = window_kept(tp, flow, recovering);
	u32 last_row = flow->rule % AGAIN;
	u32 last_repeat = flow->repeat;
	u32 csi_q16 = 0, row, left; /* CSI only of a round that has an RTT */
	bool held = flow->loss_hold;

	flow->loss_hold -= held;
	step_set(flow, 0);
	flow->rule = 0;
	flow->repeat = 0;
	if (flow->round_min_us) { /* eq 4 */
		csi_q16 = min(((u64)flow->base_us << 16) / flow->round_min_us, 65536ULL);
		flow->csi_q16 = csi_q16;
	}
	if (!recovering && (state == TCP_CA_Recovery || state == TCP_CA_CWR))
		return; /* PRR sets W, and W < ssthresh is not slow start */
	if (flow->drain_cwnd) {
		drain_round_end(tp, flow, recovering);
		return;
	}
	left = state == TCP_CA_Loss ? 0 : loss_span_end(sk, flow, cwnd);
	if (left) {
		window_reduce(tp, flow, left, recovering);
		flow->max_cwnd = min(flow->max_cwnd, left);
		flow->loss_hold = hold_rounds;
		return;
	}
	if (!recovering) {
		if (tcp_in_slow_start(tp) && slow_start_over(tp, flow, csi_q16))
			tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
		if (tcp_in_slow_start(tp) || state == TCP_CA_Loss)
			return;
	}
	if (base_window_us && csi_q16 && (u32)tp->tcp_mstamp - flow->base_time_us >= base_window_us) {
		drain_begin(tp, flow, csi_q16, cwnd, recovering);
		return;
	}
	if (!tcp_is_cwnd_limited(sk) || !flow->base_us || !flow->max_cwnd)
		return;
	if (!flow->round_min_us || flow->samples < min_samples) {
		flow->rule = RENO_STEP;
		window_raise(tp, flow, 1, recovering);
		return;
	}
	row = row_at(csi_q16, cwnd, held ? 0 : flow->max_cwnd);
	row_apply(tp, flow, row, row == last_row ? last_repeat + 1 : 1, recovering);
}

SEC("struct_ops") void BPF_PROG(fbtcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fbtcp *flow = flow_state(sk);

	__builtin_memset(flow, 0, sizeof(*flow));
	account_open(sk, &flow->account);
	flow->round_end = tp->snd_nxt;
	flow->step_price = tp->snd_cwnd;
	if (tp->data_segs_out) /* a connection that is taken over */
		flow->base_us = learned_base_us(sk);
	if (flow->base_us)
		flow->base_time_us = tp->tcp_mstamp;
	round_restart(flow);
	loss_span_restart(tp, flow);
	dp_restart(tp, flow);
}

SEC("struct_ops") void BPF_PROG(fbtcp_release, struct sock *sk)
{
	struct fbtcp *flow = flow_state(sk);

	learned_put(sk, 0, flow->base_us);
	account_close(sk, &flow->account);
}

SEC("struct_ops") void BPF_PROG(fbtcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fbtcp *flow = flow_state(sk);
	s32 rtt_us = sample->rtt_us;
	u32 now_us = tp->tcp_mstamp;
	u32 elapsed_us = now_us - flow->dp_start_us;

	if (rtt_us > 0)
		rtt_add(flow, rtt_us, now_us);
	if (elapsed_us >= dp_interval_us && flow->base_us)
		dp_end(tp, flow, now_us, elapsed_us);
	if (tcp_ca_state(sk) == TCP_CA_Recovery)
		place_losses(sk, flow, false);
	if (round_over(tp, &flow->round_end)) {
		round_end(sk, flow);
		flow->step_price = tp->snd_cwnd;
		round_restart(flow);
	}
}

/* Grows W by the round's step, spread over its segments. */
SEC("struct_ops") void BPF_PROG(fbtcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fbtcp *flow = flow_state(sk);
	u64 growth, whole;

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	growth = flow->growth + (u64)flow->step * acked;
	if (growth >= flow->step_price) {
		whole = part(growth, flow->step_price);
		growth -= whole * flow->step_price;
		whole = min(whole, (u64)flow->step_left);
		flow->step_left -= whole;
		tp->snd_cwnd = min(tp->snd_cwnd + whole, (u64)tp->snd_cwnd_clamp);
	}
	flow->growth = growth;
}

/* Begins a recovery, the reduction after a mark, or the loss state. PRR aims at the value returned. */
SEC("struct_ops") u32 BPF_PROG(fbtcp_ssthresh, struct sock *sk)
{
	struct fbtcp *flow = flow_state(sk);

	recovery_begin(tcp_sk(sk), flow);
	place_losses(sk, flow, true);
	return flow->restore_cwnd;
}

/* Begins a timeout, before which W was `window`. */
static __always_inline void timeout_begin(struct tcp_sock *tp, struct fbtcp *flow, u32 window)
{
	tp->snd_ssthresh = max((u32)((u64)window * 3 / 4), 2U);
	recovery_drop(flow);
	step_set(flow, 0);
	flow->rule = 0;
	flow->repeat = 0;
}

SEC("struct_ops") void BPF_PROG(fbtcp_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fbtcp *flow = flow_state(sk);

	if (new_state == TCP_CA_CWR) {
		tp->snd_ssthresh = max(share(flow->drain_cwnd ?: tp->snd_cwnd, ecn_permille), 2ULL);
		recovery_drop(flow);
		drain_abandon(tp, flow);
	} else if (new_state == TCP_CA_Recovery) {
		account_loss(sk, &flow->account);
	} else if (new_state == TCP_CA_Loss) {
		if (flow->restore_cwnd) /* within a recovery, the kernel reports no CA_EVENT_LOSS */
			timeout_begin(tp, flow, flow->restore_cwnd);
		drain_cut_short(tp, flow);
		loss_span_restart(tp, flow); /* the timeout has its own reduction, and may be spurious */
		account_timeout(sk, &flow->account);
	}
}

/*
 * Restarts the measurements after an idle period, which says nothing about the path's bandwidth or a round, and at the
 * first retransmission after a timeout that left nothing in flight.
 */
static __always_inline void idle_end(struct tcp_sock *tp, struct fbtcp *flow)
{
	flow->round_end = tp->snd_nxt;
	drain_cut_short(tp, flow);
	round_restart(flow);
	loss_span_restart(tp, flow);
	dp_restart(tp, flow);
}

SEC("struct_ops") void BPF_PROG(fbtcp_tx_start, struct sock *sk)
{
	idle_end(tcp_sk(sk), flow_state(sk));
}

SEC("struct_ops") void BPF_PROG(fbtcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fbtcp *flow = flow_state(sk);

	if (event == CA_EVENT_COMPLETE_CWR)
		recovery_end(tp, flow);
	else if (event == CA_EVENT_LOSS) /* W is still the old one; the kernel then sets it to 1 */
		timeout_begin(tp, flow, tp->snd_cwnd);
	else if (event == CA_EVENT_TX_START)
		idle_end(tp, flow);
}

SEC("struct_ops") u32 BPF_PROG(fbtcp_undo_cwnd, struct sock *sk)
{
	struct fbtcp *flow = flow_state(sk);

	recovery_drop(flow);
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc fbtcp ALGORITHM(
	"fuzzy rules on queue and rate move W; a few losses do not",
	"Poorzare & Calveras 2021: FB-TCP, IEEE Access, section IV, eqs 1-10, Tables 1-6") = {
	.init = (void *)fbtcp_init,
	.release = (void *)fbtcp_release,
	.pkts_acked = (void *)fbtcp_pkts_acked,
	.cong_avoid = (void *)fbtcp_cong_avoid,
	.ssthresh = (void *)fbtcp_ssthresh,
	.set_state = (void *)fbtcp_set_state,
	.cwnd_event = (void *)fbtcp_cwnd_event,
	.cwnd_event_tx_start = (void *)fbtcp_tx_start,
	.undo_cwnd = (void *)fbtcp_undo_cwnd,
	.name = "fbtcp",
	.flags = TCP_CONG_NON_RESTRICTED,
};
