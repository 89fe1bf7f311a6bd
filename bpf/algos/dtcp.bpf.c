// SPDX-License-Identifier: GPL-2.0-only
/*
 * D-TCP (`dtcp`): the window grows by N segments per RTT and shrinks by a factor that depends on N; N follows the
 * estimated bandwidth, which the radio's SINR corrects before the packets notice.
 *
 * Paper: M. R. Kanagarathinam et al., "NexGen D-TCP: Next Generation Dynamic TCP Congestion Control Algorithm", IEEE
 * Access 8, 2020.
 *
 *   eq 1       B_i = delivered bytes / elapsed time, once per epoch
 *   eq 5       B_I = 0.90 B_I + 0.10 B_i                       (eq 4, Westwood's form, as a choice)
 *   eqs 6, 7   BW_E = B_I + g ((B_i - B_I) + S),  g = 0.5        S: what SINR - average SINR is worth
 *   eq 11      Q = (BW_E - BW_C) W / BW_E,  BW_C = B_i
 *   eqs 10,12  N = max(1, N + 1 - N Q / (alpha W)),  alpha = 0.2   (Algorithm 1, lines 14-25, as a choice)
 *   eq 14      W += N per RTT in congestion avoidance
 *   loss       W *= 1 - eta / (ceil((2 eta - 1) N) + 1),  ssthresh = W,  eta = 2   (Algorithm 1, lines 5-7)
 *   timeout    W = 2 x initial window, N = 1, a new epoch                            (lines 11-13)
 *   start      W = 2 x initial window                                                (lines 1-4)
 *
 * Hooks: `cong_avoid` (so that the kernel keeps PRR and its pacing rate), `pkts_acked` for the epochs, because it
 * also runs during recovery, `set_state` for the timeout, because the kernel sets its own window after `ssthresh`.
 *
 * Deviations from the paper, and why:
 *  - S: the paper adds a difference in dB to a bandwidth. `shannon` (default) turns it into the relative change of
 *    spectral efficiency, S = B_I (log2(1+s_i) - log2(1+s_A)) / log2(1+s_A), held within +-B_I; `literal` reads dB
 *    as kbit/s times `sinr_gain_kbps`. Without a fresh reading S = 0, which leaves eqs 1-5.
 *  - Eq 12 prints W_i where eqs 10 and 11 together give N_i; N_i is used.
 *  - Queue: at a saturated bottleneck BW_E = BW_C, Q = 0, and N could only grow; `default` takes the larger of eq 11
 *    and the queue that the RTT shows, W (R - base) / R, as TCP-FIT does.
 *  - N never exceeds W. It moves only in congestion avoidance, not in slow start or recovery.
 *  - Algorithm 1 keeps prevN for ever and would double past 32 bits; here it restarts with N.
 *  - Epoch: `default` one smoothed RTT (at least 5 ms), so that the queue is seen while it grows; paper 0.5 s.
 *  - After a timeout Algorithm 1 leaves ssthresh as it was, so W would slow-start straight back: `paper` does that,
 *    `default` keeps what `ssthresh` answered.
 *  - A timeout that proves spurious gives W and ssthresh back, as the kernel does; N starts anew all the same.
 * Application-limited epochs say little about the path: they may raise B_I, never lower it, and do not move N. An
 * epoch does not span an idle period. ECN: a CE mark is treated as a loss (the paper is silent).
 */
#include <hotcc/filter.h>
#include <hotcc/growth.h>
#include <hotcc/kernel.h>
#include <hotcc/radio.h>
#include <hotcc/round.h>
#include "shannon.h"
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

char _license[] SEC("license") = "GPL";

/* Choices, as macros: their values also go into the tags. */
#define FILTER_EQ5 0
#define FILTER_EQ4 1
#define SINR_SHANNON 0
#define SINR_LITERAL 1
#define SINR_OFF 2
#define RULE_EQ10 0
#define RULE_ALG1 1
#define QUEUE_BANDWIDTH 0
#define QUEUE_RTT 1
#define QUEUE_MAX 2
#define RTO_KERNEL 0
#define RTO_KEEP 1

TUNABLE(u32, epoch_us, 0, 500000, 0, 10000000, "us", "time between bandwidth samples; 0: one smoothed RTT");
TUNABLE_CHOICE(filter, FILTER_EQ5, FILTER_EQ5, "eq5,eq4", "low-pass filter of the bandwidth samples");
TUNABLE(u32, filter_permille, 900, 900, 0, 999, "permille", "weight of the old value in that filter");
TUNABLE(u32, g_permille, 500, 500, 0, 1000, "permille", "g of eq 7");
TUNABLE_CHOICE(sinr_term, SINR_SHANNON, SINR_LITERAL, "shannon,literal,off", "how the SINR enters eq 7");
TUNABLE(u32, sinr_gain_kbps, 1, 1, 0, 1000000, "kbit/s per dB", "weight of one dB where sinr_term is literal");
TUNABLE_CHOICE(n_rule, RULE_EQ10, RULE_EQ10, "eq10,alg1", "how N follows the estimate");
TUNABLE(u32, alpha_permille, 200, 200, 1, 1000, "permille", "alpha of eq 10: share of W wanted in the queue");
TUNABLE_CHOICE(queue, QUEUE_MAX, QUEUE_BANDWIDTH, "bandwidth,rtt,max", "which queue eq 10 sees");
TUNABLE(u32, n_max, 0, 0, 0, 1048576, "segments per RTT", "upper limit of N; 0: only W");
TUNABLE(u32, eta, 2, 2, 1, 16, "", "eta of the decrease after a loss");
TUNABLE(u32, initial_ssthresh_bytes, 0, 65535, 0, 1073741824, "bytes", "ssthresh of a new flow; 0: the kernel's");
TUNABLE_CHOICE(rto_ssthresh, RTO_KERNEL, RTO_KEEP, "kernel,keep",
	       "ssthresh after a timeout: by the kernel's rule, or as it was");

#define N_ONE_Q16 (1ULL << 16)
#define N_LIMIT_Q16 (1ULL << 36)	/* 2^20 segments per RTT: keeps N Q below 2^64 */
#define EPOCH_MIN_US 5000
#define RATIO_SHIFT 22			/* Q / W as a signed Q22 */
#define RATIO_LIMIT (1024LL << RATIO_SHIFT)

struct dtcp {
	struct flow_account account;
	u64 bandwidth_q8 FIELD("byte/s / 256", "B_I, the filtered bandwidth; 0: no sample yet");
	u64 sample_rate FIELD("byte/s", "B_(i-1), the previous raw sample");
	u64 n_q16 FIELD("segments per RTT / 65536", "N");
	u64 growth_q16 FIELD("segments^2 / 65536", "growth not yet paid out: N per segment acknowledged, W makes one");
	u64 prev_n_q16 FIELD("segments per RTT / 65536", "prevN of Algorithm 1");
	u32 epoch_start_us FIELD("us", "when the running epoch began");
	u32 epoch_delivered FIELD("segments", "delivered at that time");
	u32 base_us FIELD("us", "least RTT of the connection, 0: none yet");
	u32 initial_window FIELD("segments", "the kernel's window for a new flow");
	u32 prior_ssthresh FIELD("segments", "ssthresh before a timeout");
	struct radio_ref radio;
	u32 epochs_fresh FIELD("", "epochs with a fresh SINR, not yet counted");
	u32 epochs_stale FIELD("", "epochs with one that was too old");
	u32 epochs_absent FIELD("", "epochs with none");
	u8 epoch_app_limited FIELD("", "1: the application held the running epoch back at its start");
};
FLOW_STATE(struct dtcp);

static __always_inline void epoch_restart(struct tcp_sock *tp, struct dtcp *f)
{
	f->epoch_start_us = tp->tcp_mstamp;
	f->epoch_delivered = tp->delivered;
	f->epoch_app_limited = tp->app_limited != 0;
}

static __always_inline void n_restart(struct dtcp *f)
{
	f->n_q16 = N_ONE_Q16;
	f->prev_n_q16 = 0;
	f->growth_q16 = 0;
}

static __always_inline void signal_account(struct dtcp *f)
{
	struct hotcc_stats_v1 *s = stats_here();

	if (!s)
		return;
	STAT_ADD(s, signal_fresh, f->epochs_fresh);
	STAT_ADD(s, signal_stale, f->epochs_stale);
	STAT_ADD(s, signal_absent, f->epochs_absent);
	f->epochs_fresh = f->epochs_stale = f->epochs_absent = 0;
}

/* S of eq 7, in bytes/s, within +-B_I: what this SINR promises beyond the average one. */
static __always_inline s64 sinr_term_bytes_per_s(struct sock *sk, struct dtcp *f, s64 filtered)
{
	s32 sinr_q8 = 0, average_q8 = 0;
	s64 term, efficiency, average_efficiency;

	if (sinr_term == SINR_OFF)
		return 0;
	switch (radio_read(sk, &f->radio, &sinr_q8, &average_q8)) {
	case RADIO_FRESH:
		f->epochs_fresh++;
		break;
	case RADIO_STALE:
		f->epochs_stale++;
		return 0;
	default:
		f->epochs_absent++;
		return 0;
	}
	if (sinr_term == SINR_LITERAL) {
		term = div_s64((s64)(sinr_q8 - average_q8) * sinr_gain_kbps * 125, 256);
	} else {
		efficiency = shannon_efficiency_q20(sinr_q8);
		average_efficiency = shannon_efficiency_q20(average_q8);
		/* B_I < 2^39 and a difference < 2^25: no overflow; the divisor is never 0 */
		term = div_s64(filtered * (efficiency - average_efficiency), average_efficiency);
	}
	return max(min(term, filtered), -filtered);
}

/* Q / W by eq 11, signed Q22. */
static __always_inline s64 queue_by_bandwidth(s64 estimated, s64 current)
{
	s64 difference = estimated - current;
	u64 ratio;

	if (estimated <= 0)
		return 0;
	if (difference >= 0)
		return ((u64)difference << RATIO_SHIFT) / (u64)estimated;
	ratio = ((u64)-difference << RATIO_SHIFT) / (u64)estimated;
	return -(s64)min(ratio, (u64)RATIO_LIMIT);
}

/* Q / W = (R - base) / R, Q22. */
static __always_inline s64 queue_by_rtt(struct tcp_sock *tp, struct dtcp *f)
{
	u32 srtt_us = tp->srtt_us >> 3;

	if (!f->base_us || srtt_us <= f->base_us)
		return 0;
	return ((u64)(srtt_us - f->base_us) << RATIO_SHIFT) / srtt_us;
}

/* Eqs 10 and 12. */
static __always_inline u64 n_by_eq10(struct tcp_sock *tp, struct dtcp *f, s64 estimated, s64 current)
{
	s64 ratio = 0, by_rtt;
	u64 magnitude, change;

	if (queue != QUEUE_RTT)
		ratio = queue_by_bandwidth(estimated, current);
	if (queue != QUEUE_BANDWIDTH) {
		by_rtt = queue_by_rtt(tp, f);
		if (queue == QUEUE_RTT || by_rtt > ratio)
			ratio = by_rtt;
	}
	magnitude = ratio < 0 ? -ratio : ratio;
	change = mul_shift(f->n_q16, magnitude, RATIO_SHIFT) * 1000 / (alpha_permille ?: 1);
	if (ratio < 0)
		return f->n_q16 + N_ONE_Q16 + change;
	if (change >= f->n_q16)
		return N_ONE_Q16;
	return f->n_q16 + N_ONE_Q16 - change;
}

/* Algorithm 1, lines 14-25. */
static __always_inline u64 n_by_alg1(struct dtcp *f, s64 estimated, s64 current)
{
	u64 n_q16 = f->n_q16;

	if (current < estimated)
		n_q16 += max(N_ONE_Q16, f->prev_n_q16);
	else if (current > estimated)
		n_q16 += N_ONE_Q16;
	return n_q16;
}

static __always_inline void n_update(struct tcp_sock *tp, struct dtcp *f, s64 estimated, s64 current)
{
	u64 limit = min((u64)tp->snd_cwnd << 16, N_LIMIT_Q16);
	u64 n_q16;

	if (n_rule == RULE_ALG1)
		n_q16 = n_by_alg1(f, estimated, current);
	else
		n_q16 = n_by_eq10(tp, f, estimated, current);
	if (n_max)
		limit = min(limit, (u64)n_max << 16);
	f->n_q16 = max(min(n_q16, limit), N_ONE_Q16);
	if (n_rule == RULE_ALG1 && current != estimated)
		f->prev_n_q16 = f->n_q16;
}

/* The end of an epoch: eqs 1 to 12. */
static __always_inline void epoch_end(struct sock *sk, struct dtcp *f, u32 elapsed_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool app_limited = f->epoch_app_limited || tp->app_limited;
	u64 segments = (u32)(tp->delivered - f->epoch_delivered);
	u64 sample = rate_bytes_per_s(segments * tp->mss_cache, elapsed_us);
	u64 sample_q8 = sample << 8;
	s64 filtered, estimated;

	epoch_restart(tp, f);
	if (app_limited && sample_q8 <= f->bandwidth_q8)
		return;
	if (!f->bandwidth_q8)
		f->bandwidth_q8 = sample_q8;
	else if (filter == FILTER_EQ4)
		f->bandwidth_q8 = ewma_q8(f->bandwidth_q8, (sample + f->sample_rate) << 7, filter_permille);
	else
		f->bandwidth_q8 = ewma_q8(f->bandwidth_q8, sample_q8, filter_permille);
	f->sample_rate = sample;
	if (app_limited || tcp_in_slow_start(tp) || !tcp_may_grow(sk))
		return;
	filtered = f->bandwidth_q8 >> 8;
	estimated = (s64)sample - filtered + sinr_term_bytes_per_s(sk, f, filtered);
	estimated = filtered + div_s64(estimated * (s64)g_permille, 1000);
	n_update(tp, f, estimated, sample);
}

SEC("struct_ops") void BPF_PROG(dtcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	account_open(sk, &f->account);
	n_restart(f);
	epoch_restart(tp, f);
	f->initial_window = TCP_INIT_CWND;
	f->prior_ssthresh = tp->snd_ssthresh;
	if (tp->data_segs_out)
		return; /* moved here in the middle of its life: keeps its window */
	f->initial_window = tp->snd_cwnd;
	tp->snd_cwnd = min(2 * f->initial_window, tp->snd_cwnd_clamp);
	if (initial_ssthresh_bytes && tp->mss_cache)
		tp->snd_ssthresh = max(initial_ssthresh_bytes / tp->mss_cache, 2U);
}

SEC("struct_ops") void BPF_PROG(dtcp_release, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	/* a socket that only receives may come back: its start must not double each time */
	if (!tp->data_segs_out && tp->snd_cwnd == 2 * f->initial_window)
		tp->snd_cwnd = f->initial_window;
	signal_account(f);
	account_close(sk, &f->account);
}

SEC("struct_ops") void BPF_PROG(dtcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - f->epoch_start_us;

	least_rtt(&f->base_us, sample->rtt_us);
	if (elapsed_us >= (epoch_us ?: max(tp->srtt_us >> 3, (u32)EPOCH_MIN_US)))
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
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	avoidance_grow(tp, tp->snd_cwnd, &f->growth_q16, f->n_q16 * acked, SEGMENT_Q16);
}

/* W *= 1 - eta / (ceil((2 eta - 1) N) + 1), once per recovery. */
SEC("struct_ops") u32 BPF_PROG(dtcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);
	u64 divisor = (((2 * eta - 1) * f->n_q16 + N_ONE_Q16 - 1) >> 16) + 1;

	f->prior_ssthresh = tp->snd_ssthresh;
	if (divisor <= eta)
		return 2;
	return max(tp->snd_cwnd * (divisor - eta) / divisor, 2ULL);
}

SEC("struct_ops") void BPF_PROG(dtcp_set_state, struct sock *sk, u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dtcp *f = flow_state(sk);

	if (new_state != TCP_CA_Loss) /* a timeout within a recovery does not ask ssthresh() again */
		f->prior_ssthresh = tp->snd_ssthresh;
	if (new_state == TCP_CA_Recovery) {
		account_loss(sk, &f->account);
		signal_account(f);
	} else if (new_state == TCP_CA_Loss) {
		tp->snd_cwnd = min(2 * f->initial_window, tp->snd_cwnd_clamp);
		if (rto_ssthresh == RTO_KEEP)
			tp->snd_ssthresh = f->prior_ssthresh;
		n_restart(f);
		epoch_restart(tp, f);
		account_timeout(sk, &f->account);
		signal_account(f);
	}
}

/* After an idle period: it was no part of the path's bandwidth. */
SEC("struct_ops") void BPF_PROG(dtcp_tx_start, struct sock *sk)
{
	epoch_restart(tcp_sk(sk), flow_state(sk));
}

SEC("struct_ops") void BPF_PROG(dtcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		epoch_restart(tcp_sk(sk), flow_state(sk));
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
