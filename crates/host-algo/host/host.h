/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Stands in for the BPF side of hotcc/bpf.h, which includes it, when an algorithm is compiled for the host, where tests
 * drive its hooks one event at a time. Programs become plain functions, tunables plain globals, maps and helpers the
 * test's own.
 */
#pragma once

#define HOTCC_EXPORT __attribute__((visibility("default"), used))
#define SEC(name) __attribute__((used))
#define BPF_PROG(name, args...) name(args)
#define __uint(name, val) int (*name)[val]
#define __type(name, val) __typeof__(val) *name
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_SK_STORAGE = 24,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_MMAPABLE = 1024 };

/* The tunables of an algorithm, for tests that set any of them. */
struct host_tunable {
	u32 *value;
	u32 initial;
	u32 lowest;
	u32 highest;
	const char *choices; /* separated by commas; NULL: a number from lowest to highest */
};

#define HOST_TUNABLE(name, initial, lowest, highest, choices)                                                 \
	extern u32 name;                                                                                 \
	static const struct host_tunable host_tunable_##name                                             \
		__attribute__((section("host_tunables"), used)) = { &name, initial, lowest, highest, choices };

/* 64 bytes, first of zeros, that flows of one host to one receiver share; NULL: a flow is alone. */
static void *host_group;

/* The test's clock. */
extern u64 host_now_ns;
static inline u64 bpf_ktime_get_ns(void)
{
	return host_now_ns;
}
