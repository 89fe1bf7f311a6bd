/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The radio signal as a feeder publishes it. Layout and meaning: crates/abi/src/radio.rs, which a test compares with
 * this. Nothing in here is trusted: ages are bounded, ranges clamped, and "no signal" is an ordinary answer. For
 * algorithms that know the radio link.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/peer.h>
#include <hotcc/tags.h>

#define RADIO_VERSION 1
#define RADIO_SLOTS 65536
#define RADIO_INDEX_ENTRIES 65536
#define RADIO_FULL_PREFIX_LEN 144
#define RADIO_DEFAULT_MAX_AGE_MS 500
#define RADIO_MAX_AGE_LIMIT_MS 30000
/* a packet may be queued this long between its time stamp and its ACK processing */
#define RADIO_CLOCK_SLACK_MS 10
#define RADIO_SINR_MIN_Q8 (-20 * 256)
#define RADIO_SINR_MAX_Q8 (50 * 256)

struct radio_key {
	u32 prefix_len;
	u8 addr[16]; /* IPv4 as ::ffff:a.b.c.d */
	u8 port[2];  /* network order */
	u8 pad[2];
};

/* One 64-byte line per link; line 0 is a radio_header. */
struct radio_slot {
	u64 decision; /* s16 SINR, s16 average (both 1/256 dB), u32 monotonic ms; 0: never written */
	u64 updates;
	u64 capacity_bps;
	s32 rsrp_q8_dbm;
	s32 rsrq_q8_db;
	u32 max_age_ms;
	u32 period_ms;
	u32 freed_ms;
	u32 owner_pid;
	u16 state;
	u8 cqi;
	u8 mcs;
	u8 source;
	u8 reserved[7];
	u32 owner_start;
};

struct radio_header {
	u32 magic;
	u32 version;
	u32 generation; /* moves when the index changes: look the slot up again */
	u32 reserved[13];
};

union radio_line {
	struct radio_header header;
	struct radio_slot slot;
};

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, RADIO_INDEX_ENTRIES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, 1);
	__type(key, struct radio_key);
	__type(value, u32);
} radio_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RADIO_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(pinning, 1);
	__type(key, u32);
	__type(value, union radio_line);
} radio_slots SEC(".maps");

#ifndef HOTCC_HOST
static __always_inline union radio_line *radio_at(u32 index)
{
	return bpf_map_lookup_elem(&radio_slots, &index); /* array: inlined by the JIT */
}

static __always_inline u32 *radio_find(struct radio_key *key)
{
	return bpf_map_lookup_elem(&radio_index, key);
}
#else
static union radio_line host_radio_lines[2];
static u32 host_radio_slot; /* 0: the index knows nobody */
static inline union radio_line *radio_at(u32 index)
{
	return index < 2 ? &host_radio_lines[index] : NULL;
}
static inline u32 *radio_find(struct radio_key *key)
{
	(void)key;
	return host_radio_slot ? &host_radio_slot : NULL;
}
#endif

enum radio_answer { RADIO_FRESH, RADIO_STALE, RADIO_ABSENT };

/* A flow's link, looked up once and again when the index changed. Zero: not looked up yet. */
struct radio_ref {
	u32 slot FIELD("", "line in radio_slots, 0: none");
	u32 generation FIELD("", "index generation of the look-up, plus one");
};

static __always_inline u32 radio_lookup(struct sock *sk)
{
	struct radio_key key = { .prefix_len = RADIO_FULL_PREFIX_LEN };
	u16 port = sk->__sk_common.skc_dport;
	u32 *slot;

	peer_address(sk, key.addr);
	key.port[0] = port; /* already in network order */
	key.port[1] = port >> 8;
	slot = radio_find(&key);
	return slot ? *slot : 0;
}

/*
 * The latest reading of the link to the flow's peer, and its running average, both 1/256 dB.
 * Call per epoch, not per ACK. Leaves the outputs alone unless it answers RADIO_FRESH.
 */
static __always_inline enum radio_answer radio_read(struct sock *sk, struct radio_ref *ref, s32 *sinr_q8,
						    s32 *average_q8)
{
	union radio_line *header = radio_at(0), *line;
	u32 generation, max_age_ms, age_ms;
	u64 word;

	if (!header || header->header.version != RADIO_VERSION)
		return RADIO_ABSENT;
	generation = READ_ONCE(header->header.generation) + 1;
	if (ref->generation != generation) {
		ref->slot = radio_lookup(sk);
		ref->generation = generation;
	}
	if (!ref->slot)
		return RADIO_ABSENT;
	line = radio_at(ref->slot);
	if (!line)
		return RADIO_ABSENT;
	word = READ_ONCE(line->slot.decision);
	if (!word)
		return RADIO_ABSENT;
	max_age_ms = READ_ONCE(line->slot.max_age_ms) ?: RADIO_DEFAULT_MAX_AGE_MS;
	/* a time in the future wraps to a great age */
	age_ms = (u32)(tcp_sk(sk)->tcp_mstamp / 1000) - (u32)(word >> 32);
	if (age_ms > min(max_age_ms, (u32)RADIO_MAX_AGE_LIMIT_MS)) {
		/* the socket's stamp is a little older than now, so a reading may seem to come from the future */
		if (age_ms < (u32)-RADIO_CLOCK_SLACK_MS)
			return RADIO_STALE;
	}
	*sinr_q8 = max(min((s32)(s16)word, RADIO_SINR_MAX_Q8), RADIO_SINR_MIN_Q8);
	*average_q8 = max(min((s32)(s16)(word >> 16), RADIO_SINR_MAX_Q8), RADIO_SINR_MIN_Q8);
	return RADIO_FRESH;
}
