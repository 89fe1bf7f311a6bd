// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes a byte for each socket that has an entry in a socket storage map.
 */
#include "progs/sockets.h"

char _license[] SEC("license") = "GPL";

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
} __core;

SEC("iter/bpf_sk_storage_map") int walk(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	char one = 1;

	if (ctx->sk)
		bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}
