// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives connections a window that no congestion control may exceed.
 */
#include "progs/sock_ops.h"

char _license[] SEC("license") = "GPL";

#define TCP_BPF_SNDCWND_CLAMP 1002

SEC("sockops") int clamp(struct bpf_sock_ops *ctx)
{
	u32 segments = 1000;

	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB)
		bpf_setsockopt(ctx, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &segments, sizeof(segments));
	return 1;
}
