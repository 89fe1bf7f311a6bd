/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF side of the kernel's contract, as far as this project uses it: fixed-width types, sections, helper numbers,
 * map definitions, CO-RE. No header of the host or of libbpf is needed to build. Every other header includes it.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline, unused)) /* unused: headers have such, too */
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define min(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b) ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ > b_ ? a_ : b_; })
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))

#ifndef HOTCC_HOST

#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
/* Relocated by the loader to the running kernel's layout. */
#define __core __attribute__((preserve_access_index))
#define core_field_exists(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define core_field_offset(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define core_type_id(type) __builtin_btf_type_id(*(type *)0, 1) /* in the running kernel */
#define core_type_matches(type) __builtin_preserve_type_info(*(type *)0, 2)
/* Size of the kernel's type of that name that has that field: another one may have the same name. */
#define core_type_size(type, field)                                \
	(__builtin_preserve_field_info(((type *)0)[1].field, 0) - \
	 __builtin_preserve_field_info(((type *)0)[0].field, 0))

/* Map definitions in BTF (".maps" section). */
#define __uint(name, val) int (*name)[val]
#define __type(name, val) __typeof__(val) *name
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_F_NO_PREALLOC = 1, BPF_F_CLONE = 512, BPF_F_MMAPABLE = 1024 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_RB_NO_WAKEUP = 1 }; /* of bpf_ringbuf_output: whoever reads comes by itself */
enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

/* Found by name in the BTF of a map's value. */
struct bpf_timer {
	u64 opaque[2];
};

/* Helpers by number (kernel ABI). */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_skb_store_bytes)(void *skb, u32 offset, const void *from, u32 len, u64 flags) = (void *)9;
static long (*const bpf_clone_redirect)(void *skb, u32 ifindex, u64 flags) = (void *)13;
static long (*const bpf_skb_load_bytes)(const void *skb, u32 offset, void *to, u32 len) = (void *)26;
static s64 (*const bpf_csum_diff)(void *from, u32 from_size, void *to, u32 to_size, u32 seed) = (void *)28;
static long (*const bpf_skb_change_tail)(void *skb, u32 len, u64 flags) = (void *)38;
static long (*const bpf_setsockopt)(void *sk, int level, int name, void *value, int size) = (void *)49;
static long (*const bpf_getsockopt)(void *sk, int level, int name, void *value, int size) = (void *)57;
static void *(*const bpf_sk_lookup_tcp)(void *ctx, void *tuple, u32 size, u64 netns, u64 flags) = (void *)84;
static long (*const bpf_sk_release)(void *sk) = (void *)86;
static long (*const bpf_map_push_elem)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*const bpf_map_peek_elem)(void *map, void *value) = (void *)89;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;
static long (*const bpf_sk_storage_delete)(void *map, void *sk) = (void *)108;
static long (*const bpf_probe_read_kernel)(void *dst, u32 size, const void *src) = (void *)113;
static long (*const bpf_seq_write)(void *seq, const void *data, u32 size) = (void *)127;
static long (*const bpf_ringbuf_output)(void *ring, const void *data, u64 size, u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ringbuf, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static void *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;
static u64 (*const bpf_ktime_get_coarse_ns)(void) = (void *)160;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, u64 flags) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, u64 in_ns, u64 flags) = (void *)171;
static long (*const bpf_loop)(u32 times, void *callback, void *context, u64 flags) = (void *)181;

/*
 * A program's arguments arrive as u64s. BPF_PROG(name, args...) declares a typed body and unpacks them.
 */
#define CTX_0()
#define CTX_1(a) (void *)ctx[0]
#define CTX_2(a, b) CTX_1(a), (void *)ctx[1]
#define CTX_3(a, b, c) CTX_2(a, b), (void *)ctx[2]
#define CTX_4(a, b, c, d) CTX_3(a, b, c), (void *)ctx[3]
#define CTX_N(_1, _2, _3, _4, N, ...) CTX_##N
#define CTX_ARGS(...) CTX_N(__VA_ARGS__, 4, 3, 2, 1)(__VA_ARGS__)
#define BPF_PROG(name, args...)                                                              \
	name(u64 *ctx);                                                                      \
	static __always_inline __typeof__(name(0)) body_##name(u64 *ctx, ##args);            \
	__typeof__(name(0)) name(u64 *ctx)                                                   \
	{                                                                                    \
		_Pragma("GCC diagnostic push")                                               \
		_Pragma("GCC diagnostic ignored \"-Wint-conversion\"")                       \
		return body_##name(ctx, CTX_ARGS(args));                                     \
		_Pragma("GCC diagnostic pop")                                                \
	}                                                                                    \
	static __always_inline __typeof__(name(0)) body_##name(u64 *ctx, ##args)

#else
#include "host.h" /* crates/host-algo/host */
#endif
