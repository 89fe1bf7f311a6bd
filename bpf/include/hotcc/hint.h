/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The hint of a flow's receiver to its sender, which an ACK carries into the sender's socket storage.
 * crates/abi/src/hint.rs has the layout and meaning; a test compares the two. No field is trusted. For algorithms that
 * follow hints, and for the receiver that gives them.
 */
#pragma once
#include <hotcc/kernel.h>

/* 1..70: shrink by that many percent; 101..120: grow by the percentage above 100; other values are invalid */
#define HINT_SHRINK_MAX 70
#define HINT_GROW_MIN 101
#define HINT_GROW_MAX 120
/* a hint may be written this long after the socket's time stamp */
#define HINT_CLOCK_SLACK_MS 10

/* It fits one cache line, which is its cost when many connections get one ACK each. */
struct arwa_hint_v2 {
	u64 time_ns;  /* CLOCK_MONOTONIC */
	u32 sequence; /* 0: never written; otherwise changes with each hint, after the other fields */
	u8 hint;
	u8 wire_sequence; /* the hint's number in the TCP option */
	u8 pad[2];
	u64 bytes_acked; /* of the connection, when the hint arrived */
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
	/* one load instead of a call for sockets without any storage */
	return sk->sk_bpf_storage ? bpf_sk_storage_get(&arwa_hint, sk, NULL, 0) : NULL;
}

/*
 * Returns the hint that arrived since `*sequence`, and updates `*sequence`. Returns 0 if there is none, or if the hint
 * is too old, from the future, or invalid.
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
	/* an atomic add of 0 is a fully ordered load on every architecture */
	*sequence = __sync_fetch_and_add(&stored->sequence, 0);
	hint = READ_ONCE(stored->hint);
	age_us = tcp_sk(sk)->tcp_mstamp - READ_ONCE(stored->time_ns) / 1000;
	if (age_us < -HINT_CLOCK_SLACK_MS * 1000LL || age_us > max_age_ms * 1000LL)
		return 0;
	return hint_is_valid(hint) ? hint : 0;
}
