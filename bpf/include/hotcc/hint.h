/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the receiver of a flow asks of its sender, as it came with an ACK into the sender's socket storage. Layout and
 * meaning: crates/abi/src/hint.rs, which a test compares with this. Nothing in here is trusted. For algorithms that
 * follow such hints, and for the receiver that gives them.
 */
#pragma once
#include <hotcc/kernel.h>

/* 1..70: shrink by that many percent; 101..120: grow by what is above 100; the others say nothing. */
#define HINT_SHRINK_MAX 70
#define HINT_GROW_MIN 101
#define HINT_GROW_MAX 120
/* a hint may be written this long after the socket's stamp was taken */
#define HINT_CLOCK_SLACK_MS 10

/* In one cache line: where many connections get one ACK each, that is what it costs. */
struct arwa_hint_v2 {
	u64 time_ns;  /* CLOCK_MONOTONIC */
	u32 sequence; /* 0: never written; else moves with each hint, after the rest is in place */
	u8 hint;
	u8 wire_sequence; /* its number in the option */
	u8 pad[2];
	u64 bytes_acked; /* of the connection, when it came */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, 1);
	__type(key, int);
	__type(value, struct arwa_hint_v2);
} arwa_hint SEC(".maps");

static __always_inline bool hint_is_valid(u8 hint)
{
	return hint && hint <= HINT_GROW_MAX && (hint <= HINT_SHRINK_MAX || hint >= HINT_GROW_MIN);
}

static __always_inline struct arwa_hint_v2 *hint_of(struct sock *sk)
{
	/* one look instead of a call, for sockets that nobody keeps anything with */
	return sk->sk_bpf_storage ? bpf_sk_storage_get(&arwa_hint, sk, NULL, 0) : NULL;
}

/*
 * The hint that came since `*sequence`, which moves on; 0 where there is none, or one that is too old, comes from the
 * future, or says nothing.
 */
static __always_inline u8 hint_take(struct sock *sk, u32 *sequence, u32 max_age_ms)
{
	struct arwa_hint_v2 *stored = hint_of(sk);
	s64 age_us;
	u32 latest;
	u8 hint;

	if (!stored)
		return 0;
	latest = READ_ONCE(stored->sequence);
	if (!latest || latest == *sequence)
		return 0;
	/* an addition of nothing is the load that the others cannot pass, on any machine */
	*sequence = __sync_fetch_and_add(&stored->sequence, 0);
	hint = READ_ONCE(stored->hint);
	age_us = tcp_sk(sk)->tcp_mstamp - READ_ONCE(stored->time_ns) / 1000;
	if (age_us < -HINT_CLOCK_SLACK_MS * 1000LL || age_us > max_age_ms * 1000LL)
		return 0;
	return hint_is_valid(hint) ? hint : 0;
}
