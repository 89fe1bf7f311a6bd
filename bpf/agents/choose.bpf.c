// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the sockets of one cgroup a congestion control: when they are connected, and when they listen (what a listener
 * accepts inherits it).
 */
#include "bpf.h"

char _license[] SEC("license") = "GPL";

#define SOL_TCP 6
#define TCP_CONGESTION 13

/* Not TCP_CONNECT_CB: the congestion control would start before the kernel knows window and segment size. */
enum { BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4, BPF_SOCK_OPS_TCP_LISTEN_CB = 11 };

struct bpf_sock_ops {
	u32 op; /* first in the kernel's ABI; nothing else is used */
};

/* Read and written by the loader as it stands. */
struct choose_job {
	char cc_name[16];
	u64 chosen;
	u64 refused;
};

struct choose_job job SEC(".data") = {};

SEC("sockops") int choose_cc(struct bpf_sock_ops *ctx)
{
	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, job.cc_name, sizeof(job.cc_name)))
		__sync_fetch_and_add(&job.refused, 1);
	else
		__sync_fetch_and_add(&job.chosen, 1);
	return 1;
}
