// SPDX-License-Identifier: GPL-2.0-only
/*
 * DCM (`dcm`): Westwood whose growth is weighted by the change of the RTT, and which restarts when the network layer
 * finds another path.
 *
 * Paper: R. Hamamreh, "Congestion Control Protocol for Future Networks (DCM+)", SCIREA J. Electrical Engineering 5(5),
 * 2020, section II, equations 1 to 4, after R. Hamamreh and M. Bawatna, 2015.
 *
 *   rate_CA           RTT_old / RTT_new                              (the factor of eqs 1 and 2; eq 5 names it)
 *   on ACK (eq 2)     W < ssthresh: W += 0.9 rate_CA;  else W += RTT_new / (W RTT_old)
 *   on loss, timeout  ssthresh = max(2, BWE * RTTmin / segment size), BWE as Westwood's        (eqs 3, 4)
 *   on a new path     a new ssthresh, W = RTT_old / RTT_new * ssthresh * 0.8                    (eq 1)
 *
 * Hooks: `cong_avoid` (so that the kernel keeps PRR and its pacing rate); `pkts_acked` for the estimator and the
 * rounds, because it also runs during recovery; `ssthresh` once per recovery; `set_state` for what a timeout ends.
 *
 * Deviations from the paper, and why:
 *  - rate_CA is computed once per round, from the smoothed RTTs at the ends of the last two rounds; before the second
 *    round it is 1. `default` keeps it between 0.5 and 2: a single jump of the RTT must not multiply the growth of a
 *    whole round.
 *  - Slow start ends at ssthresh: eq 2's step of 0.9 rate_CA could jump past it.
 *  - In DCM the transport requests another path from the routing protocol when it detects congestion. Here the routing
 *    table shows a new path: a monitor of the kernel's routes (`hotcc paths watch`) publishes a generation per
 *    destination, which is read once per round. Without the monitor, only Case 2, eq 2, applies.
 *  - On the new path RTTmin and BWE restart, and eq 1 is applied after one round there: earlier there is neither
 *    RTT_new nor an ssthresh. That is the second round after the change was seen: the first one also acknowledges
 *    what was sent on the old path. RTT_new is the least RTT of the round, because the smoothed RTT still includes the old
 *    path. RTT_old is the smoothed RTT at the end of the round before the change was seen. A round without an RTT
 *    sample does not count. During a recovery, eq 1 is skipped: the recovery sets ssthresh from the new BWE.
 *  - Loss and timeout as in `westwood_bpf`: W = min(W, ssthresh); before the first sample, Reno's half. After a
 *    timeout, W is the kernel's.
 *  - The first sample of BWE, on each path, spans a round: it has its full weight, and the time between two ACKs says
 *    little.
 *  - RTTmin starts and ages as in `westwood_bpf`, and an application's silence is excluded as there.
 * Fractions of a segment accumulate to whole segments; a loss or timeout drops them. ECN: a CE mark counts as a loss. A
 * window that the application does not fill does not grow. Idle restart and undo: the kernel's.
 */
#include <hotcc/growth.h>
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include <hotcc/path.h>
#include "rate_ca.h"
#include <hotcc/round.h>
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>
#include "westwood.h"

char _license[] SEC("license") = "GPL";

TUNABLE(u32, tau_ms, 500, 500, 10, 10000, "ms", "time constant of the bandwidth filter");
TUNABLE(u32, slow_start_permille, 900, 900, 1, 10000, "permille",
	"growth per segment acknowledged below ssthresh, eq 2");
TUNABLE(u32, path_permille, 800, 800, 1, 1000, "permille", "share of ssthresh that W gets on a new path, eq 1");
TUNABLE(u32, rate_min_permille, 500, 0, 0, 1000, "permille", "lower limit of rate_CA, 0: none");
TUNABLE(u32, rate_max_permille, 2000, 1000000, 1000, 1000000, "permille", "upper limit of rate_CA");

struct dcm {
	struct flow_account account;
	u64 bandwidth_q8 FIELD("byte/s / 256", "BWE, the filtered bandwidth; 0: no sample yet");
	struct ack_rate acks;
	u64 rate_q16 FIELD("1/65536", "rate_CA");
	u64 inverse_q16 FIELD("1/65536", "1 / rate_CA");
	u64 avoidance FIELD("segments^2 / 65536", "growth credit of congestion avoidance: W makes one segment");
	u32 slow_start FIELD("segments / 65536000", "growth credit of slow start");
	u32 base_us FIELD("us", "RTTmin, 0: none yet");
	u32 base_seen_us FIELD("us", "when it was last seen");
	u32 loss_ssthresh FIELD("segments", "ssthresh to set when the recovery ends, 0: none");
	u32 round_end FIELD("", "sequence number that ends the round");
	u32 round_srtt FIELD("us / 8", "smoothed RTT at the end of the last round, 0: none yet");
	struct path_ref path;
	u32 old_path_srtt FIELD("us / 8", "smoothed RTT on the path before");
	u8 measuring FIELD("", "1: a new path is being measured, and base_us has its least RTT so far; "
			       "2: the change was just seen, and segments sent before it are still acknowledged");
};
enum measuring { PATH_KNOWN, PATH_MEASURED, PATH_SEEN };
FLOW_STATE(struct dcm);

static __always_inline void rate_restart(struct dcm *f)
{
	f->rate_q16 = f->inverse_q16 = RATE_CA_ONE_Q16;
	f->round_srtt = 0;
}

static __always_inline void growth_restart(struct dcm *f)
{
	f->avoidance = 0;
	f->slow_start = 0;
}

/*
 * Discards what was learnt about the old path: when the change is seen, and after the next round, whose segments may have
 * been sent on the old path. After several changes, RTT_old remains that of the path before the first one.
 */
static __always_inline void path_forget(struct tcp_sock *tp, struct dcm *f, enum measuring next)
{
	if (!f->measuring)
		f->old_path_srtt = f->round_srtt;
	f->measuring = next;
	f->base_us = 0;
	f->bandwidth_q8 = 0;
	ack_rate_restart(tp, &f->acks);
}

/* Eq 1, after the first round on a new path. */
static __noinline void path_measured(struct sock *sk, struct dcm *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 window = westwood_window(sk, f->bandwidth_q8, f->base_us);
	struct rate_ca r = rate_ca(f->old_path_srtt, (u64)f->base_us << 3, rate_min_permille, rate_max_permille);
	u64 share = mul_shift(r.rate_q16 * path_permille, window, 16) / 1000;

	tp->snd_ssthresh = window;
	tp->snd_cwnd = min(max(share, 2ULL), (u64)tp->snd_cwnd_clamp);
	growth_restart(f);
	rate_restart(f);
}

static __noinline void round_end(struct sock *sk, struct dcm *f, s32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt = tp->srtt_us;
	struct rate_ca r;

	if (base_aged(tp->tcp_mstamp, f->base_seen_us))
		base_replace(tp->tcp_mstamp, &f->base_us, &f->base_seen_us, rtt_us);
	if (path_changed(sk, &f->path)) {
		path_forget(tp, f, PATH_SEEN);
	} else if (f->measuring == PATH_SEEN) {
		path_forget(tp, f, PATH_MEASURED);
	} else if (f->measuring && f->base_us) {
		f->measuring = PATH_KNOWN;
		if (tcp_may_grow(sk)) {
			path_measured(sk, f);
			return;
		}
	}
	r = rate_ca(f->round_srtt, srtt, rate_min_permille, rate_max_permille);
	f->rate_q16 = r.rate_q16;
	f->inverse_q16 = r.inverse_q16;
	f->round_srtt = srtt;
}

/* Separate from the other hooks, which then need not save registers across a call. */
static __noinline void extraordinary_ack(struct sock *sk, struct dcm *f, s32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool over = round_over(tp, &f->round_end);

	if (f->bandwidth_q8 || over) /* the first sample spans a round */
		ack_rate_any(tp, &f->acks, &f->bandwidth_q8, tau_ms);
	if (over)
		round_end(sk, f, rtt_us);
}

SEC("struct_ops") void BPF_PROG(dcm_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dcm *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	account_open(sk, &f->account);
	ack_rate_restart(tp, &f->acks);
	f->bandwidth_q8 = learned_take_bandwidth_q8(sk);
	base_restart(sk, &f->base_us, &f->base_seen_us);
	rate_restart(f);
	f->round_end = tp->snd_nxt;
}

SEC("struct_ops") void BPF_PROG(dcm_release, struct sock *sk)
{
	struct dcm *f = flow_state(sk);

	learned_put(sk, f->bandwidth_q8, f->base_us);
	account_close(sk, &f->account);
}

SEC("struct_ops") void BPF_PROG(dcm_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dcm *f = flow_state(sk);
	s32 rtt_us = sample->rtt_us;

	base_lower(tp, &f->base_us, &f->base_seen_us, rtt_us);
	if (unlikely(!ack_rate_add(tp, &f->acks, &f->bandwidth_q8, tau_ms)))
		extraordinary_ack(sk, f, rtt_us);
	else if (round_over(tp, &f->round_end))
		round_end(sk, f, rtt_us);
}

/* Eq 2. */
SEC("struct_ops") void BPF_PROG(dcm_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dcm *f = flow_state(sk);
	u32 window = tp->snd_cwnd, ssthresh = tp->snd_ssthresh;

	if (!tcp_is_limited_by(tp, window, ssthresh))
		return;
	if (window < ssthresh)
		slow_start_grow(tp, window, ssthresh, &f->slow_start, f->rate_q16 * slow_start_permille * acked);
	else
		avoidance_grow(tp, window, &f->avoidance, f->inverse_q16 * acked, SEGMENT_Q16);
}

SEC("struct_ops") u32 BPF_PROG(dcm_ssthresh, struct sock *sk)
{
	struct dcm *f = flow_state(sk);

	growth_restart(f);
	return westwood_ssthresh(sk, &f->loss_ssthresh, westwood_window(sk, f->bandwidth_q8, f->base_us));
}

SEC("struct_ops") void BPF_PROG(dcm_tx_start, struct sock *sk)
{
	ack_rate_resume(sk, &flow_state(sk)->acks);
}

SEC("struct_ops") void BPF_PROG(dcm_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct dcm *f = flow_state(sk);

	if (event == CA_EVENT_TX_START)
		ack_rate_resume(sk, &f->acks);
	westwood_event(sk, &f->loss_ssthresh, event, f->bandwidth_q8, f->base_us, &f->base_seen_us);
}

SEC("struct_ops") void BPF_PROG(dcm_set_state, struct sock *sk, u8 new_state)
{
	struct dcm *f = flow_state(sk);

	if (new_state == TCP_CA_Recovery) {
		account_loss(sk, &f->account);
	} else if (new_state == TCP_CA_Loss) {
		growth_restart(f); /* the kernel does not call ssthresh() for a timeout within a recovery */
		westwood_loss_state(sk, &f->loss_ssthresh, f->bandwidth_q8, f->base_us, &f->base_seen_us);
		account_timeout(sk, &f->account);
	}
}

SEC("struct_ops") u32 BPF_PROG(dcm_undo_cwnd, struct sock *sk)
{
	return westwood_undo(sk, &flow_state(sk)->loss_ssthresh);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc dcm ALGORITHM("Westwood weighted by the RTT's trend; new paths restart it",
						"Hamamreh 2020: DCM+, section II, eqs 1-4") = {
	.init = (void *)dcm_init,
	.release = (void *)dcm_release,
	.pkts_acked = (void *)dcm_pkts_acked,
	.cong_avoid = (void *)dcm_cong_avoid,
	.ssthresh = (void *)dcm_ssthresh,
	.cwnd_event = (void *)dcm_cwnd_event,
	.cwnd_event_tx_start = (void *)dcm_tx_start,
	.set_state = (void *)dcm_set_state,
	.undo_cwnd = (void *)dcm_undo_cwnd,
	.name = "dcm",
	.flags = TCP_CONG_NON_RESTRICTED,
};
