/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Maps and socket storage on the host. A map contains its entries; the harness and the tests write them there:
 *
 *   array            its first two slots
 *   hash, trie       at most one entry, which every key finds: `value` points to it, or is NULL
 *   LRU hash         the same, but only the harness adds an entry, in memory that several libraries share
 *   socket storage   at most one storage, which all sockets of a library share
 */
#pragma once
#include <hotcc/types.h>

#define HOST_SLOTS 2
#define __uint(name, val) int (*name)[val]
#define __type(name, val) __typeof__(val) *name, host_##name[HOST_SLOTS]

#define host_map_type(map) (sizeof(*(map)->type) / sizeof(int))
#define host_is_array(map) \
	(host_map_type(map) == BPF_MAP_TYPE_ARRAY || host_map_type(map) == BPF_MAP_TYPE_PERCPU_ARRAY)

static inline void *host_slot(void *slots, unsigned long size, u32 index)
{
	return index < HOST_SLOTS ? slots + index * size : NULL;
}

#define bpf_map_lookup_elem(map, key)                                                                        \
	(host_is_array(map) ? host_slot((map)->host_value, sizeof(*(map)->value), *(const u32 *)(key)) : \
			      (void *)(map)->value)

#define bpf_map_update_elem(map, key, from, flags)                                \
	({                                                                        \
		long refused_ = host_map_type(map) == BPF_MAP_TYPE_LRU_HASH;      \
		if (!refused_) {                                                  \
			(map)->host_value[0] = *(from);                           \
			(map)->value = (map)->host_value;                         \
		}                                                                 \
		(void)(key);                                                      \
		refused_;                                                         \
	})

#define bpf_map_delete_elem(map, key) ((void)(key), (map)->value = NULL)

static void *host_storage; /* NULL: the sockets have no storage */

static inline void *host_storage_get(void *room, unsigned long size, u64 flags)
{
	if (!host_storage && flags & BPF_SK_STORAGE_GET_F_CREATE) {
		__builtin_memset(room, 0, size);
		host_storage = room;
	}
	return host_storage;
}

#define bpf_sk_storage_get(map, sk, initial, flags) \
	((void)(sk), host_storage_get((map)->host_value, sizeof(*(map)->value), flags))
#define bpf_sk_storage_delete(map, sk) ((void)(sk), host_storage = NULL)
