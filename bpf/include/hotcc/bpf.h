/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The BPF side of the kernel's contract, as far as this project uses it: sections, CO-RE, map definitions, helpers,
 * programs. No header of the host or of libbpf is needed to build. Every other header includes it. Host builds replace
 * it with crates/host-algo/host/hotcc/bpf.h.
 */
#pragma once
#include <hotcc/types.h>

#define SEC(name) __attribute__((section(name), used))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))
/* Relocated by the loader to the running kernel's layout. */
#define __core __attribute__((preserve_access_index))
#define core_field_exists(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
#define core_field_offset(type, field) __builtin_preserve_field_info(((type *)0)->field, 0)
#define core_type_id(type) __builtin_btf_type_id(*(type *)0, 1) /* in the running kernel */
#define core_type_matches(type) __builtin_preserve_type_info(*(type *)0, 2)
/* The size of the kernel's type of that name that has that field, because another type may have the same name. */
#define core_type_size(type, field)                                \
	(__builtin_preserve_field_info(((type *)0)[1].field, 0) - \
	 __builtin_preserve_field_info(((type *)0)[0].field, 0))

/*
 * A bit field's place and width differ between kernels; the loader fills in all four numbers. Here, the field's top bit
 * is bit 63.
 */
#define core_bitfield_at_top(p, field)                                                                \
	({                                                                                       \
		const void *at_ = (const void *)(p) + __builtin_preserve_field_info((p)->field, 0); \
		u64 v_;                                                                          \
		asm volatile("" : "=r"(at_) : "0"(at_)); /* keep the sum one relocated addend */  \
		switch (__builtin_preserve_field_info((p)->field, 1)) {                          \
		case 1: v_ = *(const u8 *)at_; break;                                            \
		case 2: v_ = *(const u16 *)at_; break;                                           \
		case 4: v_ = *(const u32 *)at_; break;                                           \
		default: v_ = *(const u64 *)at_; break;                                          \
		}                                                                                \
		v_ << __builtin_preserve_field_info((p)->field, 4);                              \
	})
#define core_bitfield(p, field) (core_bitfield_at_top(p, field) >> __builtin_preserve_field_info((p)->field, 5))
#define core_flag(p, field) ((s64)core_bitfield_at_top(p, field) < 0) /* a bit field of one bit */

/* a / b for hot paths: with a in r0, the JIT for x86 need not save other registers. */
static __always_inline u64 quotient(u64 a, u64 b)
{
	register u64 in_r0 asm("r0") = a;

	asm("%0 /= %1" : "+r"(in_r0) : "r"(b));
	return in_r0;
}

/*
 * Lets the verifier forget what it knows of a value, so that it follows the rest once, not for each branch before. Needed
 * in large programs, most of all up to Linux 6.2, whose verifier compares all values of two states if a program calls
 * functions.
 */
static __always_inline u64 forgotten(u64 value)
{
	asm volatile("%0 = le64 %0" : "+r"(value)); /* no instruction on a little-endian machine */
	return value;
}

/* The tags already list the tunables. */
#define LIST_TUNABLE(name, initial, lowest, highest, choices)

/* Map definitions in BTF (".maps" section). */
#define __uint(name, val) int (*name)[val]
#define __type(name, val) __typeof__(val) *name

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
