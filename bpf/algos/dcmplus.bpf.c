// SPDX-License-Identifier: GPL-2.0-only
/*
 * DCM+ (`dcmplus`): Westwood+ whose window, once the path is full, tracks the measured bandwidth times the least RTT,
 * and grows beyond it as far as the trend of the RTT allows.
 *
 * Paper: R. Hamamreh, "Congestion Control Protocol for Future Networks (DCM+)", SCIREA J. Electrical Engineering 5(5),
 * 2020, section III, equations 4 to 7 and Fig. 1.
 *
 *   rate_CA           RTT_old / RTT_new, RTTs smoothed                                     (eq 5)
 *   RTO               RTO_new = RTO_old * RTT_new / RTT_old                                (eq 6)
 *   on ACK (eq 7)     W < ssthresh: W += 2 rate_CA;  else W += 2 / (rate_CA W)
 *   ssthresh          max(2, BWE * RTTmin / segment size), BWE as Westwood+'s              (eq 4)
 *   tracking          W moves to the present ssthresh at each new one                      (section III, Fig. 1)
 *   loss, timeout     ssthresh and W from the same equations
 *
 * Hooks: `cong_avoid` (so that the kernel keeps PRR and its pacing rate); `pkts_acked` for the estimator, tracking and
 * the rounds, because it also runs during recovery; `ssthresh` once per recovery; `set_state` for what a timeout ends.
 *
 * Deviations from the paper, and why:
 *  - No ssthresh is in force at the start. From the first ACK on, it would hold W at the initial window: BWE is W / RTT
 *    then, so BWE * RTTmin cannot exceed W. In `paper` the first loss or timeout puts ssthresh in force; in `default`
 *    also a round in which each RTT exceeds 1.25 times the least one: there is a queue, so the path is full. If the
 *    first eight RTTs of a round show a queue, slow start ends at once: the round can take as long as the queue, and W
 *    would triple in it.
 *  - For the same reason, a sample from a path that is not full measures W, or less after a delayed ACK. In `default`
 *    samples therefore lower ssthresh and W only after a round with a queue; in `paper` always.
 *  - The filter takes a dozen samples to follow a change. `default` uses the newest sample instead of BWE if it is
 *    larger: at the end of slow start, BWE would still be that of its beginning.
 *  - rate_CA is computed once per round, from the smoothed RTTs at the ends of the last two rounds; before the second
 *    round it is 1. `default` keeps it between 0.5 and 2: a single jump of the RTT must not multiply the growth of a
 *    whole round.
 *  - Slow start ends at ssthresh: a step of 2 rate_CA could jump past it. Eq 7's second branch may exceed ssthresh,
 *    until W moves to the next one.
 *  - Eq 6 is omitted: a congestion control cannot set the RTO, and RFC 6298's RTO already follows the RTT.
 *  - RTTmin starts as in `westwoodp`. It is renewed after the loss state of a timeout that was not spurious. It ages
 *    after an hour, instead of 10 s.
 *  - Loss and timeout as in `westwoodp`: W = min(W, ssthresh) at a loss; before the first sample, Reno's half. After a
 *    timeout, W is the kernel's.
 * Fractions of a segment accumulate to whole segments; a loss, a timeout, and each move of W to another ssthresh drop
 * them. ECN: a CE mark counts as a loss. Application-limited samples, including those that span an idle time, may raise
 * BWE but never lower it, and do not move W. A window that the application does not fill does not grow. Idle restart
 * and undo: the kernel's; after an undo, ssthresh stays in force.
 */
#include <hotcc/filter.h>
#include <hotcc/growth.h>
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include "rate_ca.h"
#include <hotcc/round.h>
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>
/* W tracks RTTmin. An RTTmin that was measured over a standing queue would keep that queue, and add to it. */
#define BASE_WINDOW_US 3600000000
#include "westwood.h"

char _license[] SEC("license") = "GPL";

/* Choices are macros, because the tags also contain their values. */
#define ESTIMATE_GREATER 0
#define ESTIMATE_FILTERED 1
#define LOWER_QUEUE 0
#define LOWER_ALWAYS 1

TUNABLE(u32, min_sample_us, 50000, 50000, 1000, 10000000, "us", "shortest time a bandwidth sample spans");
TUNABLE(u32, slow_start_permille, 2000, 2000, 1, 10000, "permille",
	"growth per segment acknowledged below ssthresh, eq 7");
TUNABLE(u32, avoidance_permille, 2000, 2000, 1, 10000, "permille", "growth per RTT from ssthresh on, eq 7");
TUNABLE(u32, rate_min_permille, 500, 0, 0, 1000, "permille", "lower limit of rate_CA, 0: none");
TUNABLE(u32, rate_max_permille, 2000, 1000000, 1000, 1000000, "permille", "upper limit of rate_CA");
TUNABLE(u32, onset_permille, 1250, 0, 0, 100000, "permille",
	"least RTT of a round, in shares of the least of all, that shows a queue and puts ssthresh in force; 0: none");
TUNABLE_CHOICE(estimate, ESTIMATE_GREATER, ESTIMATE_FILTERED, "greater,filtered",
	       "ssthresh is found from BWE, or from the newest sample where that is more");
TUNABLE_CHOICE(lower, LOWER_QUEUE, LOWER_ALWAYS, "queue,always",
	       "when W and ssthresh follow a bandwidth down: after a round with a queue, or always");

#define PAUSE_SAMPLES 8 /* RTT samples that are enough for a round's least RTT: RFC 9406's N_RTT_SAMPLE */

struct dcmplus {
	struct flow_account account;
	struct westwood_filter bandwidth;
	u64 newest_q8 FIELD("byte/s / 256", "newest bandwidth sample that went into the filter");
	u64 rate_q16 FIELD("1/65536", "rate_CA");
	u64 inverse_q16 FIELD("1/65536", "1 / rate_CA");
	u64 avoidance FIELD("segments^2 / 65536000", "growth credit of congestion avoidance: W makes one segment");
	u32 slow_start FIELD("segments / 65536000", "growth credit of slow start");
	u32 sample_start_us FIELD("us", "when the running sample began");
	u32 sample_delivered FIELD("segments", "delivered at that time");
	u32 base_us FIELD("us", "RTTmin, 0: none yet");
	u32 base_seen_us FIELD("us", "when it was last seen");
	u32 loss_ssthresh FIELD("segments", "ssthresh to set when the recovery ends, 0: none");
	u32 round_end FIELD("", "sequence number that ends the round");
	u32 round_srtt FIELD("us / 8", "smoothed RTT at the end of the last round, 0: none yet");
	u32 round_least_us FIELD("us", "least RTT of the running round, 0: none yet");
	u8 round_samples FIELD("", "ACKs of the running round, 8 at most, while ssthresh is not in force");
	u8 queue FIELD("", "1: all RTTs of the last round showed a queue");
	u8 tracking FIELD("", "1: ssthresh is in force and W tracks it");
	u8 sample_app_limited FIELD("", "1: the application held the running sample back at its start");
};
FLOW_STATE(struct dcmplus);

static __always_inline void sample_restart(const struct tcp_sock *tp, struct dcmplus *f)
{
	f->sample_start_us = tp->tcp_mstamp;
	f->sample_delivered = tp->delivered;
	f->sample_app_limited = tp->app_limited != 0;
}

static __always_inline void growth_restart(struct dcmplus *f)
{
	f->avoidance = 0;
	f->slow_start = 0;
}

static __always_inline u64 bandwidth_q8(const struct dcmplus *f)
{
	return estimate == ESTIMATE_GREATER ? max(f->bandwidth.second_q8, f->newest_q8) : f->bandwidth.second_q8;
}

/* Sets the present ssthresh, and moves W to it. */
static __always_inline void track(struct sock *sk, struct dcmplus *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 ssthresh = westwood_window(sk, bandwidth_q8(f), f->base_us);
	u32 window;

	if (lower == LOWER_ALWAYS || f->queue) {
		tp->snd_ssthresh = ssthresh;
		window = max(ssthresh, 2U);
	} else {
		tp->snd_ssthresh = max(tp->snd_ssthresh, ssthresh);
		window = max(ssthresh, tp->snd_cwnd);
	}
	window = min(window, tp->snd_cwnd_clamp);
	if (window == tp->snd_cwnd)
		return;
	tp->snd_cwnd = window;
	growth_restart(f);
}

/* Westwood+'s sample, and what depends on it. */
static __noinline void sample_end(struct sock *sk, struct dcmplus *f, u32 elapsed_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool app_limited = f->sample_app_limited || tp->app_limited;
	u64 segments = (u32)(tp->delivered - f->sample_delivered);
	u64 sample = rate_bytes_per_s(segments * tp->mss_cache, elapsed_us);

	sample_restart(tp, f);
	if (app_limited && sample << 8 < f->bandwidth.second_q8)
		return;
	westwood_filter_add(&f->bandwidth, sample);
	f->newest_q8 = sample << 8;
	if (f->tracking && !app_limited && tcp_may_grow(sk))
		track(sk, f);
}

/* Whether all RTTs of the running round so far show a queue. */
static __always_inline bool round_has_queue(const struct dcmplus *f)
{
	return onset_permille && f->round_least_us * 1000ULL > (u64)f->base_us * onset_permille;
}

/* Ends slow start if the round's first RTTs show a queue, without waiting for the end of the round. */
static __always_inline void slow_start_pause(struct sock *sk, struct dcmplus *f)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (f->round_samples >= PAUSE_SAMPLES || ++f->round_samples < PAUSE_SAMPLES)
		return;
	if (round_has_queue(f) && !tp->app_limited && tcp_may_grow(sk))
		tp->snd_ssthresh = min(tp->snd_ssthresh, max(tp->snd_cwnd, 2U));
}

static __noinline void round_end(struct sock *sk, struct dcmplus *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct rate_ca r = rate_ca(f->round_srtt, tp->srtt_us, rate_min_permille, rate_max_permille);

	f->rate_q16 = r.rate_q16;
	f->inverse_q16 = r.inverse_q16;
	f->round_srtt = tp->srtt_us;
	f->queue = round_has_queue(f);
	f->round_least_us = 0;
	f->round_samples = 0;
	if (f->tracking || tp->app_limited || !tcp_may_grow(sk) || !f->queue)
		return;
	f->tracking = 1;
	tp->snd_ssthresh = westwood_window(sk, bandwidth_q8(f), f->base_us);
	tp->snd_cwnd = min(tp->snd_cwnd, tp->snd_ssthresh);
	growth_restart(f);
}

SEC("struct_ops") void BPF_PROG(dcmplus_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dcmplus *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	account_open(sk, &f->account);
	sample_restart(tp, f);
	f->bandwidth.first_q8 = f->bandwidth.second_q8 = learned_take_bandwidth_q8(sk);
	base_restart(sk, &f->base_us, &f->base_seen_us);
	f->rate_q16 = f->inverse_q16 = RATE_CA_ONE_Q16;
	f->round_end = tp->snd_nxt;
}

SEC("struct_ops") void BPF_PROG(dcmplus_release, struct sock *sk)
{
	struct dcmplus *f = flow_state(sk);

	learned_put(sk, bandwidth_q8(f), f->base_us);
	account_close(sk, &f->account);
}

SEC("struct_ops") void BPF_PROG(dcmplus_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dcmplus *f = flow_state(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - f->sample_start_us;

	base_lower(tp, &f->base_us, &f->base_seen_us, sample->rtt_us);
	/* until the end of the loss state, the queue from before the timeout may remain */
	if (base_aged(tp->tcp_mstamp, f->base_seen_us) && tcp_ca_state(sk) != TCP_CA_Loss)
		base_replace(tp->tcp_mstamp, &f->base_us, &f->base_seen_us, sample->rtt_us);
	least_rtt(&f->round_least_us, sample->rtt_us);
	if (westwoodp_sample_due(elapsed_us, min_sample_us, sample->rtt_us))
		sample_end(sk, f, elapsed_us);
	if (!f->tracking)
		slow_start_pause(sk, f);
	if (round_over(tp, &f->round_end))
		round_end(sk, f);
}

/* Eq 7. */
SEC("struct_ops") void BPF_PROG(dcmplus_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dcmplus *f = flow_state(sk);
	u32 window = tp->snd_cwnd, ssthresh = tp->snd_ssthresh;

	if (!tcp_is_limited_by(tp, window, ssthresh))
		return;
	if (window < ssthresh)
		slow_start_grow(tp, window, ssthresh, &f->slow_start, f->rate_q16 * slow_start_permille * acked);
	else
		avoidance_grow(tp, window, &f->avoidance, growth_credit(f->inverse_q16 * avoidance_permille, acked),
			       SEGMENT_Q16_PERMILLE);
}

SEC("struct_ops") u32 BPF_PROG(dcmplus_ssthresh, struct sock *sk)
{
	struct dcmplus *f = flow_state(sk);

	f->tracking = 1;
	growth_restart(f);
	return westwood_ssthresh(sk, &f->loss_ssthresh, westwood_window(sk, bandwidth_q8(f), f->base_us));
}

SEC("struct_ops") void BPF_PROG(dcmplus_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct dcmplus *f = flow_state(sk);

	if (event == CA_EVENT_LOSS)
		f->tracking = 1;
	westwood_event(sk, &f->loss_ssthresh, event, bandwidth_q8(f), f->base_us, &f->base_seen_us);
}

SEC("struct_ops") void BPF_PROG(dcmplus_set_state, struct sock *sk, u8 new_state)
{
	struct dcmplus *f = flow_state(sk);

	if (new_state == TCP_CA_Recovery) {
		account_loss(sk, &f->account);
	} else if (new_state == TCP_CA_Loss) {
		growth_restart(f); /* the kernel does not call ssthresh() for a timeout within a recovery */
		westwood_loss_state(sk, &f->loss_ssthresh, bandwidth_q8(f), f->base_us, &f->base_seen_us);
		account_timeout(sk, &f->account);
	}
}

SEC("struct_ops") u32 BPF_PROG(dcmplus_undo_cwnd, struct sock *sk)
{
	struct dcmplus *f = flow_state(sk);

	if (tcp_ca_state(sk) == TCP_CA_Loss) /* a delay, not a loss: the path is the same */
		f->base_seen_us = tcp_sk(sk)->tcp_mstamp;
	return westwood_undo(sk, &f->loss_ssthresh);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc dcmplus ALGORITHM("Westwood+ whose window tracks bandwidth times least RTT",
						    "Hamamreh 2020: DCM+, section III, eqs 4-7") = {
	.init = (void *)dcmplus_init,
	.release = (void *)dcmplus_release,
	.pkts_acked = (void *)dcmplus_pkts_acked,
	.cong_avoid = (void *)dcmplus_cong_avoid,
	.ssthresh = (void *)dcmplus_ssthresh,
	.cwnd_event = (void *)dcmplus_cwnd_event,
	.set_state = (void *)dcmplus_set_state,
	.undo_cwnd = (void *)dcmplus_undo_cwnd,
	.name = "dcmplus",
	.flags = TCP_CONG_NON_RESTRICTED,
};
