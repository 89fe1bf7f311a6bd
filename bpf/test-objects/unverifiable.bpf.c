// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compiles, but no verifier accepts it: it writes a field that congestion controls may not write.
 */
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops") u32 BPF_PROG(unverifiable_ssthresh, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd_clamp = 1;
	return 2;
}

SEC("struct_ops") u32 BPF_PROG(unverifiable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops") void BPF_PROG(unverifiable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc unverifiable = {
	.ssthresh = (void *)unverifiable_ssthresh,
	.undo_cwnd = (void *)unverifiable_undo_cwnd,
	.cong_avoid = (void *)unverifiable_cong_avoid,
	.name = "unverifiable",
};
