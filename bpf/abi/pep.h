/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a flow's ACKing border PEP saw of it, as an agent writes it into the flow's socket storage. Layout and meaning:
 * crates/abi/src/pep.rs, which a test compares with this. Nothing in the record is trusted. For `mdcubic`, `fbtcp` and
 * `crest`, pep_server, which writes the record, and sock_flows, which shows it.
 */
#pragma once
#include <hotcc/kernel.h>
#include "seq.h"

#define PEP_RANGES SEQ_RANGES
/* a record may be this much newer than the socket's own timestamp (tcp_mstamp) */
#define PEP_CLOCK_SLACK_MS 10

struct pep_range {
	u32 start;
	u32 end;
};

struct pep_flow_v1 {
	u32 updates;  /* 0: never written; odd: being written; changes with each record */
	u32 in_order; /* next sequence number that the PEP expects */
	struct pep_range ranges[PEP_RANGES];
	u32 range_count;
	u32 rtt_us;
	u32 segments;
	u32 reserved;
	u64 time_ns; /* CLOCK_MONOTONIC */
};

#ifndef PEP_PINNING
#define PEP_PINNING 1 /* by name */
#endif

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, PEP_PINNING);
	__type(key, int);
	__type(value, struct pep_flow_v1);
} pep_flow SEC(".maps");

/* One load instead of a call, for sockets without any BPF storage. */
static __always_inline bool pep_is_possible(const struct sock *sk)
{
	return sk->sk_bpf_storage;
}

static __always_inline struct pep_flow_v1 *pep_of(struct sock *sk)
{
	return bpf_sk_storage_get(&pep_flow, sk, NULL, 0);
}

/* A record, cut to the bytes in flight: offsets from snd_una. */
struct pep_seen {
	u32 in_order;			     /* all below this was seen */
	struct seq_range ranges[PEP_RANGES]; /* sorted */
	u32 bytes;			     /* seen in all */
	u32 updates;
	u32 rtt_us;	/* least RTT to the PEP; 0: not known */
	bool is_behind; /* it saw nothing above snd_una, and not all below */
};

enum pep_answer { PEP_FRESH, PEP_STALE, PEP_ABSENT };

/* Atomic add of 0: a fully ordered load on every architecture. */
static __always_inline u32 pep_updates(struct pep_flow_v1 *record)
{
	return __sync_fetch_and_add(&record->updates, 0);
}

/* Copies a record; false if there is none, or it is being written. */
static __always_inline bool pep_copy(struct sock *sk, struct pep_flow_v1 *copy)
{
	struct pep_flow_v1 *record = pep_of(sk);

	if (!record)
		return false;
	copy->updates = pep_updates(record);
	if (!copy->updates || copy->updates & 1)
		return false;
	copy->in_order = READ_ONCE(record->in_order);
	copy->range_count = READ_ONCE(record->range_count);
	for (int i = 0; i < PEP_RANGES; i++) {
		copy->ranges[i].start = READ_ONCE(record->ranges[i].start);
		copy->ranges[i].end = READ_ONCE(record->ranges[i].end);
	}
	copy->rtt_us = READ_ONCE(record->rtt_us);
	copy->time_ns = READ_ONCE(record->time_ns);
	return pep_updates(record) == copy->updates;
}

static __always_inline bool pep_is_fresh(const struct tcp_sock *tp, u64 time_ns, u32 max_age_ms)
{
	s64 age_ns = tp->tcp_mstamp * 1000 - time_ns;

	return age_ns >= -PEP_CLOCK_SLACK_MS * 1000000LL && age_ns <= max_age_ms * 1000000LL;
}

/* Reads what the PEP saw of the bytes in flight; all is 0 if the answer is PEP_ABSENT. */
static __always_inline enum pep_answer pep_read(struct sock *sk, u32 max_age_ms, struct pep_seen *seen)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 snd_una = tp->snd_una, flight = tp->snd_nxt - snd_una;
	struct pep_flow_v1 record;

	__builtin_memset(seen, 0, sizeof(*seen));
	if (!pep_copy(sk, &record))
		return PEP_ABSENT;
	seen->updates = record.updates;
	seen->rtt_us = record.rtt_us;
	seen->in_order = seq_within((s32)(record.in_order - snd_una), flight);
	seen->bytes = seen->in_order;
	if (record.range_count) {
		for (int i = 0; i < PEP_RANGES; i++) {
			u32 start = record.ranges[i].start;
			u32 length = (record.ranges[i].end - start) & seq_less(i, record.range_count);

			seen->ranges[i] = seq_cut(start, start + length, snd_una, flight);
		}
		seq_sort(seen->ranges);
		seen->bytes += seq_bytes(seen->ranges, seen->in_order);
	}
	seen->is_behind = !seen->bytes && (s32)(record.in_order - snd_una) < 0;
	return pep_is_fresh(tp, record.time_ns, max_age_ms) ? PEP_FRESH : PEP_STALE;
}

/* Returns the first byte from `from` on that the PEP did not see. */
static __always_inline u32 pep_saw_to(const struct pep_seen *seen, u32 from)
{
	return seq_reach(seen->ranges, seq_max(from, seen->in_order));
}
