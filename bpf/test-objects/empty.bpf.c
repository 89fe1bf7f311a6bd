// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that do nothing, in the hooks that dtcp and westwoodp use: what the trampolines and BPF statistics
 * themselves cost, to be subtracted from any figure per ACK. Growth is left out, so it only runs where a window of
 * ten segments is enough.
 */
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops") void BPF_PROG(empty_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
}
SEC("struct_ops") void BPF_PROG(empty_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
}
SEC("struct_ops") void BPF_PROG(empty_set_state, struct sock *sk, u8 new_state)
{
}
SEC("struct_ops") void BPF_PROG(empty_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
}
SEC("struct_ops") u32 BPF_PROG(empty_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}
SEC("struct_ops") u32 BPF_PROG(empty_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc empty_cc = {
	.pkts_acked = (void *)empty_pkts_acked,
	.cong_avoid = (void *)empty_cong_avoid,
	.set_state = (void *)empty_set_state,
	.cwnd_event = (void *)empty_cwnd_event,
	.ssthresh = (void *)empty_ssthresh,
	.undo_cwnd = (void *)empty_undo_cwnd,
	.name = "empty_cc",
	.flags = TCP_CONG_NON_RESTRICTED,
};
