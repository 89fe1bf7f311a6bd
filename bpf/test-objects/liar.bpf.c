// SPDX-License-Identifier: GPL-2.0-only
/*
 * A receiver that lies: it announces support for hints, and puts a new one, of any value that a test sets, on every
 * ACK.
 */
#include "progs/hint_option.h"
#include "progs/sock_ops.h"

char _license[] SEC("license") = "GPL";

struct liar_job {
	u32 hint; /* 256: each value in turn */
	u32 told;
};

struct liar_job job SEC(".data") = {};

SEC("sockops") int lie(struct bpf_sock_ops *ctx)
{
	struct hint_option option = HINT_OPTION(HINT_SIZE);

	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		if (!ctx->args[0] && !ctx->skb_len)
			bpf_reserve_hdr_opt(ctx, ctx->skb_tcp_flags & TCPHDR_SYN ? PERMIT_SIZE : HINT_SIZE, 0);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		if (ctx->skb_tcp_flags & TCPHDR_SYN) {
			option.size = PERMIT_SIZE;
			bpf_store_hdr_opt(ctx, &option, PERMIT_SIZE, 0);
			break;
		}
		option.sequence = job.told++;
		option.hint = job.hint < 256 ? job.hint : option.sequence * 7;
		bpf_store_hdr_opt(ctx, &option, HINT_SIZE, 0);
		break;
	}
	return 1;
}
