// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno, whose window may be held at two segments: for tests that compare it with Reno.
 */
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>
#include <hotcc/tags.h>

char _license[] SEC("license") = "GPL";

TUNABLE(u32, hold, 0, 0, 0, 1, "", "1: hold the window at two segments");

SEC("struct_ops") void BPF_PROG(held_init, struct sock *sk)
{
	if (hold)
		tcp_sk(sk)->snd_cwnd = 2;
}

SEC("struct_ops") void BPF_PROG(held_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
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
