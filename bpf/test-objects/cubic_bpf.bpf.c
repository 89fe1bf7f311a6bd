// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's own CUBIC behind this project's struct_ops glue: the yardstick for what a hook may cost.
 */
#include "algos/cubic.h"
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops") void BPF_PROG(cubic_init, struct sock *sk)
{
	cubictcp_init(sk);
}
SEC("struct_ops") u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	return cubictcp_recalc_ssthresh(sk);
}
SEC("struct_ops") void BPF_PROG(cubic_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	cubictcp_cong_avoid(sk, ack, acked);
}
SEC("struct_ops") void BPF_PROG(cubic_set_state, struct sock *sk, u8 new_state)
{
	cubictcp_state(sk, new_state);
}
SEC("struct_ops") void BPF_PROG(cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	cubictcp_acked(sk, sample);
}
SEC("struct_ops") void BPF_PROG(cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (CUBIC_TAKES_EVENTS())
		cubictcp_cwnd_event(sk, event);
}
SEC("struct_ops") void BPF_PROG(cubic_tx_start, struct sock *sk)
{
	cubictcp_cwnd_event_tx_start(sk);
}
SEC("struct_ops") u32 BPF_PROG(cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc cubic_bpf = {
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_set_state,
	.pkts_acked = (void *)cubic_pkts_acked,
	.cwnd_event = (void *)cubic_cwnd_event,
	.cwnd_event_tx_start = (void *)cubic_tx_start,
	.undo_cwnd = (void *)cubic_undo_cwnd,
	.name = "cubic_bpf",
	.flags = TCP_CONG_NON_RESTRICTED,
};
