// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives the sockets of one cgroup a congestion control: when they are connected, and when they listen (accepted
 * connections inherit it). When a connected socket closes, counts it if it runs another congestion control by then, and
 * adds up its traffic.
 */
#include "policy_mark.h"
#include "sock_ops.h"

char _license[] SEC("license") = "GPL";

/* Read and written by the loader in this layout. */
struct choose_job {
	char cc_name[16];
	u64 chosen;
	u64 refused;
	u64 changed;  /* of those chosen: ran another one when they closed */
	u64 began_ns; /* when the first connection was established */
	u64 ended_ns; /* when the last of their data was acknowledged, as far as is known */
	u64 acked_bytes;
	u64 sent_segments; /* with data, retransmissions included */
	u64 retransmitted_segments;
	u64 srtt_us_bytes; /* the sum of smoothed RTT x bytes acknowledged */
};

/* The part of a connection's traffic that is already added up. */
struct counted {
	u64 acked_bytes;
	u32 sent_segments;
	u32 retransmitted_segments;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct counted);
} counted SEC(".maps");

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

/* Adds a connection's traffic since the last call. Closing takes several states; data may be acknowledged in each. */
static void add_up(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct counted *before;
	u64 acked_bytes;

	before = sk ? bpf_sk_storage_get(&counted, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE) : NULL;
	if (!before)
		return;
	acked_bytes = ctx->bytes_acked - before->acked_bytes;
	if (acked_bytes)
		job.ended_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&job.acked_bytes, acked_bytes);
	__sync_fetch_and_add(&job.sent_segments, ctx->data_segs_out - before->sent_segments);
	__sync_fetch_and_add(&job.retransmitted_segments, ctx->total_retrans - before->retransmitted_segments);
	__sync_fetch_and_add(&job.srtt_us_bytes, (ctx->srtt_us >> 3) * acked_bytes);
	before->acked_bytes = ctx->bytes_acked;
	before->sent_segments = ctx->data_segs_out;
	before->retransmitted_segments = ctx->total_retrans;
}

SEC("sockops") int choose_cc(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (ctx->op == BPF_SOCK_OPS_STATE_CB) {
		if (ctx->args[0] == BPF_TCP_ESTABLISHED && runs_another(ctx))
			__sync_fetch_and_add(&job.changed, 1);
		add_up(ctx);
		return 1;
	}
	/* not at TCP_CONNECT_CB: the algorithm would start before the kernel knows window and segment size */
	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, job.cc_name, sizeof(job.cc_name))) {
		__sync_fetch_and_add(&job.refused, 1);
		return 1;
	}
	__sync_fetch_and_add(&job.chosen, 1);
	if (sk)
		policy_put_mark(sk, POLICY_BY_RUN, job.cc_name);
	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB) { /* accepted ones would inherit the flag */
		job.began_ns = job.began_ns ?: bpf_ktime_get_ns();
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	}
	return 1;
}
