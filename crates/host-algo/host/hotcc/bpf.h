/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replaces bpf/include/hotcc/bpf.h when algorithms are compiled for the host: this directory is first on their include
 * path. Programs become plain functions, and tunables plain globals. maps.h has map lookups, array slots and socket
 * storage; kfuncs.h, which a harness includes after the algorithm, has the kernel's functions. Tests set the contents
 * of all of these, and call an algorithm's hooks one event at a time.
 */
#pragma once
#include <hotcc/types.h>

#define HOTCC_EXPORT __attribute__((visibility("default"), used))
#define SEC(name) __attribute__((used))
#define BPF_PROG(name, args...) name(args)
#define __ksym
#define __weak __attribute__((weak))

/* The kernel is the newest one: it has every type and field. Its layout is the one that this compiler chooses. */
#define __core
#define core_field_exists(type, field) true
#define core_type_matches(type) true
#define core_type_id(type) 0
#define core_type_size(type, field) 0 /* it fits anywhere */
#define core_bitfield(p, field) ((p)->field)
#define core_flag core_bitfield

static inline u64 quotient(u64 a, u64 b)
{
	return a / b;
}

static inline u64 forgotten(u64 value)
{
	return value;
}

/* The tunables of an algorithm, for tests that set any of them. */
struct host_tunable {
	u32 *value;
	u32 initial;
	u32 lowest;
	u32 highest;
	const char *choices; /* separated by commas; NULL: a number from lowest to highest */
};

#define LIST_TUNABLE(name, initial, lowest, highest, choices)                                                 \
	extern u32 name;                                                                                 \
	static const struct host_tunable host_tunable_##name                                             \
		__attribute__((section("host_tunables"), used)) = { &name, initial, lowest, highest, choices };

#include "../maps.h"

/* The test's clock. */
extern u64 host_now_ns;
static inline u64 bpf_ktime_get_ns(void)
{
	return host_now_ns;
}

static inline void *bpf_skc_to_tcp_sock(void *sk)
{
	return sk;
}
