// SPDX-License-Identifier: GPL-2.0-only
/*
 * TCP Westwood, the original (`westwood_bpf`). The kernel's module `westwood` is Westwood+, here `westwoodp`.
 *
 * Paper: R. Hamamreh, "Congestion Control Protocol for Future Networks (DCM+)", SCIREA J. Electrical Engineering 5(5),
 * 2020, Algorithm 1 and equations 3 and 4, which it shares with Westwood+. The filter is Westwood's own: C. Casetti, M.
 * Gerla, S. Mascolo, M. Y. Sanadidi, R. Wang, "TCP Westwood: End-to-End Congestion Control for Wired/Wireless
 * Networks", Wireless Networks 8, 2002.
 *
 *   on ACK            BWE from a sample b = ACK size / ACK interval D (eq 3), one for each ACK; grow as NewReno
 *   filter            BWE = a BWE + (1 - a) (b + previous b) / 2,  a = (2 tau - D) / (2 tau + D)
 *   silence           a virtual sample of zero for each tau / 2 in which no ACK comes
 *   on 3 dupACKs      ssthresh = max(2, BWE * RTTmin / segment size); W = ssthresh   (Algorithm 1, lines 5-9, eq 4)
 *   on timeout        same ssthresh; W = 1                                            (lines 10-14)
 *
 * It overestimates the bandwidth if ACKs arrive in bunches, which Westwood+ corrects. It is here for comparison, and as
 * a part of DCM.
 *
 * Hooks: `cong_avoid`, so that the kernel keeps PRR and its pacing rate; `pkts_acked` for the estimator, because it
 * also runs during recovery; `ssthresh` once per recovery.
 *
 * Deviations from the paper, and why:
 *  - W = min(W, ssthresh) at a loss: as printed, a loss could raise W. If ssthresh is above W, slow start raises W to
 *    it after the recovery.
 *  - ACKs with the same time stamp (microseconds) count as one, because eq 3 divides by the interval.
 *  - The kernel's `delivered` counts delivered segments, and includes what SACK reports: an ACK that only reports SACK
 *    blocks is a sample, too.
 *  - The first sample spans an RTT. It is BWE with its full weight, and the time between two ACKs says little.
 *  - Before the first bandwidth sample, a loss halves the window as in Reno; the formula would give two segments.
 *  - At most 32 virtual samples in a row, which leave 8e-8 of BWE: after a longer silence (16 tau) BWE restarts, with
 *    one sample over all of it.
 *  - After a timeout, W is what the kernel leaves in flight, plus one.
 *  - The application causes a silence with nothing in flight and nothing lost. It is not a sample: the next one starts
 *    with the first segment after it.
 *  - RTTmin: `default` discards it at a timeout, and if it was not seen for 10 s; otherwise a longer path would keep W
 *    small for ever. In a connection that is taken over, the first RTTmin is the former algorithm's, or else the
 *    kernel's; the first BWE is the former algorithm's, if it has one.
 * ECN: a CE mark counts as three duplicate ACKs. Application-limited times with data in flight lower BWE. Undo: the
 * kernel's, which restores W and ssthresh; BWE remains valid. Times are modulo 2^32 us (71 minutes). tau is the
 * authors'.
 */
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include <hotcc/round.h>
#include <hotcc/stats.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>
#include "westwood.h"

char _license[] SEC("license") = "GPL";

TUNABLE(u32, tau_ms, 500, 500, 10, 10000, "ms", "time constant of the bandwidth filter");

struct westwood_bpf {
	struct flow_account account;
	u64 bandwidth_q8 FIELD("byte/s / 256", "BWE, the filtered bandwidth; 0: no sample yet");
	struct ack_rate acks;
	u32 base_us FIELD("us", "RTTmin, 0: none yet");
	u32 base_seen_us FIELD("us", "when it was last seen");
	u32 loss_ssthresh FIELD("segments", "ssthresh to set when the recovery ends, 0: none");
};
FLOW_STATE(struct westwood_bpf);

SEC("struct_ops") void BPF_PROG(westwood_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood_bpf *f = flow_state(sk);

	__builtin_memset(f, 0, sizeof(*f));
	account_open(sk, &f->account);
	ack_rate_restart(tp, &f->acks);
	f->bandwidth_q8 = learned_take_bandwidth_q8(sk);
	base_restart(sk, &f->base_us, &f->base_seen_us);
}

SEC("struct_ops") void BPF_PROG(westwood_release, struct sock *sk)
{
	struct westwood_bpf *f = flow_state(sk);

	learned_put(sk, f->bandwidth_q8, f->base_us);
	account_close(sk, &f->account);
}

/* Separate from the hook, which then need not save registers across a call. */
static __noinline void extraordinary_ack(const struct tcp_sock *tp, struct westwood_bpf *f)
{
	if (f->bandwidth_q8 || ack_rate_spans_rtt(tp, &f->acks))
		ack_rate_any(tp, &f->acks, &f->bandwidth_q8, tau_ms);
}

SEC("struct_ops") void BPF_PROG(westwood_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood_bpf *f = flow_state(sk);

	base_add(tp, &f->base_us, &f->base_seen_us, sample->rtt_us);
	if (unlikely(!ack_rate_add(tp, &f->acks, &f->bandwidth_q8, tau_ms)))
		extraordinary_ack(tp, f);
}

SEC("struct_ops") void BPF_PROG(westwood_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops") u32 BPF_PROG(westwood_recalc_ssthresh, struct sock *sk)
{
	struct westwood_bpf *f = flow_state(sk);

	return westwood_ssthresh(sk, &f->loss_ssthresh, westwood_window(sk, f->bandwidth_q8, f->base_us));
}

SEC("struct_ops") void BPF_PROG(westwood_tx_start, struct sock *sk)
{
	ack_rate_resume(sk, &flow_state(sk)->acks);
}

SEC("struct_ops") void BPF_PROG(westwood_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct westwood_bpf *f = flow_state(sk);

	if (event == CA_EVENT_TX_START)
		ack_rate_resume(sk, &f->acks);
	westwood_event(sk, &f->loss_ssthresh, event, f->bandwidth_q8, f->base_us, &f->base_seen_us);
}

SEC("struct_ops") void BPF_PROG(westwood_set_state, struct sock *sk, u8 new_state)
{
	struct westwood_bpf *f = flow_state(sk);

	if (new_state == TCP_CA_Recovery)
		account_loss(sk, &f->account);
	if (new_state != TCP_CA_Loss)
		return;
	westwood_loss_state(sk, &f->loss_ssthresh, f->bandwidth_q8, f->base_us, &f->base_seen_us);
	account_timeout(sk, &f->account);
}

SEC("struct_ops") u32 BPF_PROG(westwood_undo_cwnd, struct sock *sk)
{
	return westwood_undo(sk, &flow_state(sk)->loss_ssthresh);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc westwood_bpf ALGORITHM(
	"a loss sets the window to bandwidth (per ACK) x least RTT",
	"Casetti et al. 2002: TCP Westwood, Wireless Networks; Hamamreh 2020 (DCM+), Algorithm 1, eqs 3-4") = {
	.init = (void *)westwood_init,
	.release = (void *)westwood_release,
	.pkts_acked = (void *)westwood_pkts_acked,
	.cong_avoid = (void *)westwood_cong_avoid,
	.ssthresh = (void *)westwood_recalc_ssthresh,
	.cwnd_event = (void *)westwood_cwnd_event,
	.cwnd_event_tx_start = (void *)westwood_tx_start,
	.set_state = (void *)westwood_set_state,
	.undo_cwnd = (void *)westwood_undo_cwnd,
	.name = "westwood_bpf",
	.flags = TCP_CONG_NON_RESTRICTED,
};
