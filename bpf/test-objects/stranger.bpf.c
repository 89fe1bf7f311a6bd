// SPDX-License-Identifier: GPL-2.0-only
/*
 * A typical third party's congestion control: no tags, a constant and a variable of its own, and `cong_control`, whose
 * arguments differ between kernels.
 */
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

char _license[] SEC("license") = "GPL";

const volatile u32 fixed_window = 40;
u32 extra_window = 2;
u64 acks = 0;

CONG_CONTROL(stranger_main, sk, ack, flag, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	__sync_fetch_and_add(&acks, 1);
	tp->snd_cwnd = fixed_window + extra_window;
	/* the kernel sets no pacing rate for a congestion control with cong_control */
	sk->sk_pacing_rate = ~0UL;
}

SEC("struct_ops") u32 BPF_PROG(stranger_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops") u32 BPF_PROG(stranger_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc stranger_ops = {
	.cong_control = (void *)stranger_main,
	.ssthresh = (void *)stranger_ssthresh,
	.undo_cwnd = (void *)stranger_undo_cwnd,
	.name = "stranger",
};
