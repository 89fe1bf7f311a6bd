// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the sockets of one cgroup a congestion control: when they are connected, and when they listen (what a listener
 * accepts inherits it). Looks at connected ones again when they close, and counts those that have another by then.
 */
#include "sock_ops.h"

char _license[] SEC("license") = "GPL";

/* Read and written by the loader as it stands. */
struct choose_job {
	char cc_name[16];
	u64 chosen;
	u64 refused;
	u64 changed; /* of those chosen */
};

struct choose_job job SEC(".data") = {};

static bool runs_another(struct bpf_sock_ops *ctx)
{
	char name[sizeof(job.cc_name)] = {};

	if (bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return false;
	for (int i = 0; i < (int)sizeof(name); i++) {
		if (name[i] != job.cc_name[i])
			return true;
		if (!name[i])
			break;
	}
	return false;
}

SEC("sockops") int choose_cc(struct bpf_sock_ops *ctx)
{
	if (ctx->op == BPF_SOCK_OPS_STATE_CB) {
		if (ctx->args[0] == BPF_TCP_ESTABLISHED && runs_another(ctx))
			__sync_fetch_and_add(&job.changed, 1);
		return 1;
	}
	/* not at TCP_CONNECT_CB: it would start before the kernel knows window and segment size */
	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, job.cc_name, sizeof(job.cc_name))) {
		__sync_fetch_and_add(&job.refused, 1);
		return 1;
	}
	__sync_fetch_and_add(&job.chosen, 1);
	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB) /* what a listener accepts would inherit it */
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	return 1;
}
