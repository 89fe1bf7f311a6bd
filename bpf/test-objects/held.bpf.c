// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno, whose window may be held at two segments, or halved each second: for tests that compare it with Reno.
 */
#include <hotcc/fixed.h>
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

char _license[] SEC("license") = "GPL";

TUNABLE(u32, hold, 0, 0, 0, 1, "", "1: hold the window at two segments");
TUNABLE(u32, halve, 0, 0, 0, 1, "", "1: halve the window each second");

struct held {
	u64 halved_us FIELD("us", "time of the last halving, CLOCK_MONOTONIC");
};
FLOW_STATE(struct held);

SEC("struct_ops") void BPF_PROG(held_init, struct sock *sk)
{
	flow_state(sk)->halved_us = tcp_sk(sk)->tcp_mstamp;
	if (hold)
		tcp_sk(sk)->snd_cwnd = 2;
}

SEC("struct_ops") void BPF_PROG(held_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (halve && tp->tcp_mstamp - flow_state(sk)->halved_us >= USEC_PER_SEC) {
		flow_state(sk)->halved_us = tp->tcp_mstamp;
		tp->snd_cwnd = max(tp->snd_cwnd / 2, 2U);
		tp->snd_ssthresh = tp->snd_cwnd;
		return;
	}
	if (!hold)
		tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops") u32 BPF_PROG(held_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops") u32 BPF_PROG(held_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc held = {
	.init = (void *)held_init,
	.cong_avoid = (void *)held_cong_avoid,
	.ssthresh = (void *)held_ssthresh,
	.undo_cwnd = (void *)held_undo_cwnd,
	.name = "held",
	.flags = TCP_CONG_NON_RESTRICTED,
};
