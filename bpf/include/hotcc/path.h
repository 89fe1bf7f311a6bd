/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Path changes: whether the route to a flow's peer changed. crates/abi/src/path.rs has the layout and meaning; a test
 * compares the two. Nothing is trusted: generations are only compared, and normally no program watches the routes. For
 * algorithms that keep estimates of a path.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/peer.h>
#include <hotcc/tags.h>

#define PATH_ENTRIES 16384
#define PATH_FULL_PREFIX_LEN 128

struct path_key {
	u32 prefix_len;
	u8 addr[16]; /* IPv4 as ::ffff:a.b.c.d */
};

/* Maps a destination to its generation; an unknown destination has generation 0. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, PATH_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, 1);
	__type(key, struct path_key);
	__type(value, u32);
} path_gen SEC(".maps");

/* Changes after each change of path_gen; flows then look the generation up again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, u32);
} path_clock SEC(".maps");

static __always_inline u32 *path_clock_at(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&path_clock, &zero); /* array: inlined by the JIT */
}

static __always_inline u32 *path_find(struct path_key *key)
{
	return bpf_map_lookup_elem(&path_gen, key);
}

/* What a flow remembers of its path. All zeros: nothing was read yet. Packed, because a flow has few bytes. */
struct path_ref {
	u16 clock FIELD("", "clock of the latest look-up, modulo 65535, plus one");
	u8 generation FIELD("", "generation of the path at that time, modulo 256");
} __attribute__((packed));

static __noinline u32 path_generation(const struct sock *sk)
{
	struct path_key key = { .prefix_len = PATH_FULL_PREFIX_LEN };
	u32 *found;

	peer_address(sk, key.addr);
	found = path_find(&key);
	return found ? *found : 0;
}

/*
 * Whether the path to the flow's peer has changed since the last call; the first call only stores it. Call it per
 * round, not per ACK: it looks the address up whenever the clock has changed.
 */
static __always_inline bool path_changed(const struct sock *sk, struct path_ref *ref)
{
	u32 *at = path_clock_at();
	u16 clock;
	u8 generation;
	bool changed;

	if (!at)
		return false;
	clock = READ_ONCE(*at) % 65535 +
		1; /* read before the lookup: a later change of the path changes the clock again */
	if (likely(ref->clock == clock))
		return false;
	generation = path_generation(sk);
	changed = ref->clock && ref->generation != generation;
	ref->clock = clock;
	ref->generation = generation;
	return changed;
}
