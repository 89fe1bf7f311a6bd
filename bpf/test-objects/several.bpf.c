// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several congestion controls in one object, as in the kernel's own self-tests: two that load, and one with a program
 * that the verifier rejects. A map asks to be pinned by its name.
 */
#include <hotcc/kernel.h>
#include <hotcc/struct_ops.h>

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, u64);
} several_acks SEC(".maps");

SEC("struct_ops") void BPF_PROG(several_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	u32 key = 0;
	u64 *acks = bpf_map_lookup_elem(&several_acks, &key);

	if (acks)
		__sync_fetch_and_add(acks, 1);
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops") u32 BPF_PROG(several_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops") u32 BPF_PROG(several_wrong_ssthresh, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd_clamp = 1; /* a field that it may not write */
	return 2;
}

/* in no ops table */
SEC("struct_ops") u32 BPF_PROG(several_unused, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd_clamp = 1;
	return 2;
}

SEC("struct_ops") u32 BPF_PROG(several_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc several_first = {
	.cong_avoid = (void *)several_cong_avoid,
	.ssthresh = (void *)several_ssthresh,
	.undo_cwnd = (void *)several_undo_cwnd,
	.name = "cc_several_1",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc several_second = {
	.cong_avoid = (void *)several_cong_avoid,
	.ssthresh = (void *)several_ssthresh,
	.undo_cwnd = (void *)several_undo_cwnd,
	.name = "cc_several_2",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops___hotcc several_wrong = {
	.cong_avoid = (void *)several_cong_avoid,
	.ssthresh = (void *)several_wrong_ssthresh,
	.undo_cwnd = (void *)several_undo_cwnd,
	.name = "cc_wrong",
};
