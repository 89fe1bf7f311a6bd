// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads, but no kernel registers it: it has a flag that no kernel knows.
 */
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops") u32 BPF_PROG(unregistrable_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops") u32 BPF_PROG(unregistrable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops") void BPF_PROG(unregistrable_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc unregistrable = {
	.ssthresh = (void *)unregistrable_ssthresh,
	.undo_cwnd = (void *)unregistrable_undo_cwnd,
	.cong_avoid = (void *)unregistrable_cong_avoid,
	.name = "unregistrable",
	.flags = 1U << 31,
};
