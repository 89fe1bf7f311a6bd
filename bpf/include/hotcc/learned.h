/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an algorithm has learned about a connection's path, handed over when hotcc moves the open connection to another
 * algorithm, or to another version of the same one. For algorithms that keep such an estimate, and for the programs
 * that move sockets.
 *
 * The kernel calls the old algorithm's `release`, clears icsk_ca_priv, and calls the new one's `init`, all while the
 * program that moves the socket waits. That program names the socket in this processor's record before, and clears it
 * after. `release` writes there what it knows, and `init` takes what it can use. Each field has one unit: an algorithm
 * that keeps a value in another unit converts it, or leaves the field alone. If two moves interleave on one processor,
 * the record names another socket, and nothing is handed over.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/kernel.h>

enum hotcc_learned_field { LEARNED_BANDWIDTH = 1, LEARNED_BASE = 2, LEARNED_N = 4 };

/* 0: not known. */
struct hotcc_learned_v1 {
	u64 socket;	  /* address of the socket that moves; 0: none */
	u64 bandwidth_q8; /* byte/s / 256 */
	u64 n_q16;	  /* segments by which W grows per RTT, / 65536 */
	u32 base_us;	  /* least RTT of the path, us */
	u32 taken;	  /* by `init`: bits, enum hotcc_learned_field */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, struct hotcc_learned_v1);
} hotcc_learned SEC(".maps");

static __always_inline struct hotcc_learned_v1 *learned_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&hotcc_learned, &zero);
}

/* For `release` and `init`. NULL: hotcc is not moving the socket, which is the usual case. */
static __always_inline struct hotcc_learned_v1 *learned_of(const struct sock *sk)
{
	struct hotcc_learned_v1 *learned = learned_here();

	return learned && learned->socket == (u64)sk ? learned : NULL;
}

static __always_inline void learned_put(const struct sock *sk, u64 bandwidth_q8, u32 base_us)
{
	struct hotcc_learned_v1 *learned = learned_of(sk);

	if (!learned)
		return;
	learned->bandwidth_q8 = bandwidth_q8;
	learned->base_us = base_us;
}

static __always_inline void learned_put_n(const struct sock *sk, u64 n_q16)
{
	struct hotcc_learned_v1 *learned = learned_of(sk);

	if (learned)
		learned->n_q16 = n_q16;
}

/* 0: none was handed over. */
static __always_inline u64 learned_take_bandwidth_q8(const struct sock *sk)
{
	struct hotcc_learned_v1 *learned = learned_of(sk);

	if (!learned || !learned->bandwidth_q8 || learned->bandwidth_q8 > RATE_MAX_BYTES_PER_S << 8)
		return 0;
	learned->taken |= LEARNED_BANDWIDTH;
	return learned->bandwidth_q8;
}

/* 0: none was handed over, or it exceeds the smoothed RTT, so the path must have changed. */
static __always_inline u32 learned_take_base_us(const struct sock *sk)
{
	u32 srtt_us = ((const struct tcp_sock *)sk)->srtt_us >> 3;
	struct hotcc_learned_v1 *learned = learned_of(sk);

	if (!learned || !learned->base_us || learned->base_us > min(srtt_us, RTT_MAX_US))
		return 0;
	learned->taken |= LEARNED_BASE;
	return learned->base_us;
}

/*
 * For `init`: the least RTT that was handed over, or else the kernel's, which it has measured if the connection is taken
 * over from any other congestion control. 0: none yet; the kernel then has ~0.
 */
static __always_inline u32 learned_base_us(const struct sock *sk)
{
	u32 least_us = ((const struct tcp_sock *)sk)->rtt_min.s[0].v;

	return learned_take_base_us(sk) ?: (least_us == ~0U ? 0 : least_us);
}

/* 0: none was handed over. */
static __always_inline u64 learned_take_n_q16(const struct sock *sk, u64 lowest_q16, u64 highest_q16)
{
	struct hotcc_learned_v1 *learned = learned_of(sk);

	if (!learned || learned->n_q16 < lowest_q16 || learned->n_q16 > highest_q16)
		return 0;
	learned->taken |= LEARNED_N;
	return learned->n_q16;
}
