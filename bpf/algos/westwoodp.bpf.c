// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Westwood+ (`westwoodp`).
 *
 * Paper: R. Hamamreh, "Congestion Control Protocol for Future Networks (DCM+)", SCIREA J. Electrical Engineering 5(5),
 * 2020, Algorithm 1 and equations 3 and 4; the estimator is Grieco and Mascolo's, as in Linux's tcp_westwood.
 *
 *   on ACK            estimate the bandwidth; grow as NewReno                      (Algorithm 1, lines 1-4)
 *   on 3 dupACKs      ssthresh = max(2, BWE * RTTmin / segment size); W = ssthresh   (lines 5-9, eqs 3, 4)
 *   on timeout        same ssthresh; W = 1                                            (lines 10-14)
 *
 * One bandwidth sample per RTT, not per ACK: bytes delivered / elapsed time, taken once max(RTT, 50 ms) has passed.
 *
 * Hooks: `cong_avoid`, so that the kernel keeps PRR and its pacing rate; `pkts_acked` for the estimator, because it
 * also runs during recovery; `ssthresh` once per recovery.
 *
 * Deviations from the paper, and why:
 *  - W = min(W, ssthresh) at a loss: as printed, a loss could raise W. If ssthresh is above W, slow start raises W to
 *    it after the recovery.
 *  - If eq 4 is less than Reno's half, `default` reduces W to Reno's half during the recovery and to eq 4 at its end,
 *    as Linux's module does. An estimate from the first seconds may be a tenth of the link, and W would stay there
 *    until all losses of an overflow have been retransmitted.
 *  - The kernel's `delivered` counts delivered segments, and includes what SACK reports; the paper's ACK size must
 *    guess at duplicate ACKs.
 *  - Before the first bandwidth sample (the first max(RTT, 50 ms)), a loss halves the window as in Reno; the formula
 *    would give two segments.
 *  - After a timeout, W is what the kernel leaves in flight, plus one.
 *  - RTTmin: `default` discards it at a timeout, as Linux's module does, and if it was not seen for 10 s; otherwise a
 *    longer path would keep W small for ever. In a connection that is taken over, the first RTTmin is the former
 *    algorithm's, or else the kernel's; the first BWE is the former algorithm's, if it has one.
 *  - An application-limited sample, including one that spans an idle time, may raise BWE but never lower it: it
 *    measures what the application sent. Linux's module counts idle times.
 * ECN: a CE mark counts as three duplicate ACKs, as in Linux's module. Times are modulo 2^32 us (71 minutes).
 */
#include <hotcc/filter.h>
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include <hotcc/round.h>
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>
#include "westwood.h"

char _license[] SEC("license") = "GPL";

TUNABLE(u32, min_sample_us, 50000, 50000, 1000, 10000000, "us", "shortest time a bandwidth sample spans");
enum { RECOVERY_HALF, RECOVERY_EQ4 };
TUNABLE_CHOICE(recovery, RECOVERY_HALF, RECOVERY_EQ4, "half,eq4",
	       "W in a recovery: at least Reno's half and eq 4 at its end, or eq 4 at once");

struct westwoodp {
	struct flow_account account;
	struct westwood_filter bandwidth;
	u32 sample_start_us FIELD("us", "when the running sample began");
	u32 sample_delivered FIELD("segments", "delivered at that time");
	u32 base_us FIELD("us", "RTTmin, 0: none yet");
	u32 base_seen_us FIELD("us", "when it was last seen");
	u32 loss_ssthresh FIELD("segments", "ssthresh to set when the recovery ends, 0: none");
	u8 sample_app_limited FIELD("", "1: the application held the running sample back at its start");
};
FLOW_STATE(struct westwoodp);

static __always_inline void sample_restart(const struct tcp_sock *tp, struct westwoodp *f)
{
	f->sample_start_us = tp->tcp_mstamp;
	f->sample_delivered = tp->delivered;
	f->sample_app_limited = tp->app_limited != 0;
}

SEC("struct_ops") void BPF_PROG(westwoodp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwoodp *f = flow_state(sk);

	account_open(sk, &f->account);
	f->bandwidth.first_q8 = f->bandwidth.second_q8 = learned_take_bandwidth_q8(sk);
	sample_restart(tp, f);
	base_restart(sk, &f->base_us, &f->base_seen_us);
	f->loss_ssthresh = 0;
}

SEC("struct_ops") void BPF_PROG(westwoodp_release, struct sock *sk)
{
	struct westwoodp *f = flow_state(sk);

	learned_put(sk, f->bandwidth.second_q8, f->base_us);
	account_close(sk, &f->account);
}

SEC("struct_ops") void BPF_PROG(westwoodp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwoodp *f = flow_state(sk);
	u32 elapsed_us = (u32)tp->tcp_mstamp - f->sample_start_us;
	u64 bandwidth;
	u32 segments;
	bool app_limited;

	base_add(tp, &f->base_us, &f->base_seen_us, sample->rtt_us);
	if (!westwoodp_sample_due(elapsed_us, min_sample_us, sample->rtt_us))
		return;
	segments = tp->delivered - f->sample_delivered;
	bandwidth = rate_bytes_per_s((u64)segments * tp->mss_cache, elapsed_us);
	app_limited = f->sample_app_limited || tp->app_limited;
	sample_restart(tp, f);
	if (!app_limited || bandwidth << 8 >= f->bandwidth.second_q8)
		westwood_filter_add(&f->bandwidth, bandwidth);
}

SEC("struct_ops") void BPF_PROG(westwoodp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops") u32 BPF_PROG(westwoodp_ssthresh, struct sock *sk)
{
	struct westwoodp *f = flow_state(sk);

	u32 window = westwood_window(sk, f->bandwidth.second_q8, f->base_us);

	if (recovery == RECOVERY_HALF)
		window = max(window, tcp_reno_ssthresh(sk));
	return westwood_ssthresh(sk, &f->loss_ssthresh, window);
}

SEC("struct_ops") void BPF_PROG(westwoodp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct westwoodp *f = flow_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (event == CA_EVENT_COMPLETE_CWR && recovery == RECOVERY_HALF && f->loss_ssthresh && f->bandwidth.second_q8 &&
	    f->base_us) {
		f->loss_ssthresh = westwood_window(sk, f->bandwidth.second_q8, f->base_us);
		tp->snd_cwnd = min(tp->snd_cwnd, f->loss_ssthresh);
	}
	westwood_event(sk, &f->loss_ssthresh, event, f->bandwidth.second_q8, f->base_us, &f->base_seen_us);
}

SEC("struct_ops") void BPF_PROG(westwoodp_set_state, struct sock *sk, u8 new_state)
{
	struct westwoodp *f = flow_state(sk);

	if (new_state == TCP_CA_Recovery)
		account_loss(sk, &f->account);
	if (new_state != TCP_CA_Loss)
		return;
	westwood_loss_state(sk, &f->loss_ssthresh, f->bandwidth.second_q8, f->base_us, &f->base_seen_us);
	account_timeout(sk, &f->account);
}

SEC("struct_ops") u32 BPF_PROG(westwoodp_undo_cwnd, struct sock *sk)
{
	return westwood_undo(sk, &flow_state(sk)->loss_ssthresh);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc westwoodp ALGORITHM(
	"a loss sets the window to bandwidth (per RTT) x least RTT",
	"Grieco & Mascolo 2004: Westwood+; Hamamreh 2020 (DCM+), Algorithm 1, eqs 3-4") = {
	.init = (void *)westwoodp_init,
	.release = (void *)westwoodp_release,
	.pkts_acked = (void *)westwoodp_pkts_acked,
	.cong_avoid = (void *)westwoodp_cong_avoid,
	.ssthresh = (void *)westwoodp_ssthresh,
	.cwnd_event = (void *)westwoodp_cwnd_event,
	.set_state = (void *)westwoodp_set_state,
	.undo_cwnd = (void *)westwoodp_undo_cwnd,
	.name = "westwoodp",
	.flags = TCP_CONG_NON_RESTRICTED,
};
