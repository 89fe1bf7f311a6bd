// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes how many sockets have an entry in a socket storage map. It reads the map's own lists: a kernel can refuse
 * iter/bpf_sk_storage_map, and iter/tcp shows neither other network namespaces nor closed sockets that still exist.
 */
#include "progs/sockets.h"

#define MAX_ENTRIES (1 << 20)

char _license[] SEC("license") = "GPL";

struct bpf_iter__bpf_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
} __core;

struct hlist_node {
	struct hlist_node *next;
} __core;

struct hlist_head {
	struct hlist_node *first;
} __core;

struct bpf_local_storage_map_bucket {
	struct hlist_head list;
} __core;

struct bpf_local_storage_map {
	struct bpf_map map;
	struct bpf_local_storage_map_bucket *buckets;
	u32 bucket_log;
} __core;

struct count {
	u32 of_map_id; /* set before the program is loaded */
	u32 entries;
	u64 bucket; /* address of the next list */
	u64 entry;  /* address of the next entry; 0 at the end of a list */
} count SEC(".data") = {};

static long count_entry(u32 index, void *unused)
{
	if (!count.entry)
		return 1;
	count.entries++;
	count.entry = read_word(count.entry + core_field_offset(struct hlist_node, next));
	return 0;
}

static long count_bucket(u32 index, void *unused)
{
	count.entry = read_word(count.bucket + core_field_offset(struct bpf_local_storage_map_bucket, list) +
				core_field_offset(struct hlist_head, first));
	count.bucket += core_type_size(struct bpf_local_storage_map_bucket, list);
	bpf_loop(MAX_ENTRIES, count_entry, NULL, 0);
	return 0;
}

SEC("iter/bpf_map") int count_storage(struct bpf_iter__bpf_map *ctx)
{
	u64 map = (u64)ctx->map;
	u32 lists_log2;

	if (!map || (u32)read_word(map + core_field_offset(struct bpf_map, id)) != count.of_map_id)
		return 0;
	count.bucket = read_word(map + core_field_offset(struct bpf_local_storage_map, buckets));
	lists_log2 = read_word(map + core_field_offset(struct bpf_local_storage_map, bucket_log));
	bpf_loop(1U << (lists_log2 & 31), count_bucket, NULL, 0);
	bpf_seq_write(ctx->meta->seq, &count.entries, sizeof(count.entries));
	return 0;
}
