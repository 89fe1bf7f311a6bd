// SPDX-License-Identifier: GPL-2.0-only
/*
 * A congestion control in the style from before this project and before struct_ops links: it includes none of our
 * headers, uses the old section name, and declares all that it needs itself.
 */
typedef unsigned int __u32;
typedef unsigned long long __u64;

struct sock {
	__u32 sk_pacing_status;
} __attribute__((preserve_access_index));

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

extern __u32 tcp_reno_ssthresh(struct sock *sk) __attribute__((section(".ksyms")));
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __attribute__((section(".ksyms")));
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __attribute__((section(".ksyms")));

char _license[] __attribute__((section("license"), used)) = "GPL";

__attribute__((section("struct_ops/foreign_ssthresh"), used)) __u32 foreign_ssthresh(__u64 *ctx)
{
	return tcp_reno_ssthresh((struct sock *)ctx[0]);
}

__attribute__((section("struct_ops/foreign_undo_cwnd"), used)) __u32 foreign_undo_cwnd(__u64 *ctx)
{
	return tcp_reno_undo_cwnd((struct sock *)ctx[0]);
}

__attribute__((section("struct_ops/foreign_cong_avoid"), used)) int foreign_cong_avoid(__u64 *ctx)
{
	tcp_reno_cong_avoid((struct sock *)ctx[0], ctx[1], ctx[2]);
	return 0;
}

__attribute__((section(".struct_ops"), used)) struct tcp_congestion_ops foreign = {
	.ssthresh = (void *)foreign_ssthresh,
	.cong_avoid = (void *)foreign_cong_avoid,
	.undo_cwnd = (void *)foreign_undo_cwnd,
	.name = "foreign",
};
