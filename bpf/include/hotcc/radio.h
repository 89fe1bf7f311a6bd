/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The radio signal as a feeder publishes it. crates/abi/src/radio.rs has the layout and meaning; a test compares the
 * two. Nothing is trusted: readers bound ages, clamp ranges, and work without a signal. For algorithms that know the
 * radio link.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/peer.h>
#include <hotcc/tags.h>

#define RADIO_VERSION 2
#define RADIO_SLOTS 65536
#define RADIO_INDEX_ENTRIES 65536
#define RADIO_FULL_PREFIX_LEN 144
#define RADIO_DEFAULT_MAX_AGE_MS 500
#define RADIO_MAX_AGE_LIMIT_MS 30000
/* a packet may be queued this long between its time stamp and its ACK processing */
#define RADIO_CLOCK_SLACK_MS 10
#define RADIO_SINR_MIN_Q8 (-20 * 256)
#define RADIO_SINR_MAX_Q8 (50 * 256)
#define RADIO_CAPACITY_DERIVED (1U << 31) /* computed from the SINR, so without further information */

struct radio_key {
	u32 prefix_len;
	u8 addr[16]; /* IPv4 as ::ffff:a.b.c.d */
	u8 port[2];  /* network order */
	u8 pad[2];
};

/* One 64-byte line per link; line 0 is a radio_header. */
struct radio_slot {
	u64 sinr; /* s16 SINR, s16 average (both 1/256 dB), u32 monotonic ms; 0: never written */
	u64 updates;
	u64 capacity; /* u32 kbit/s, with RADIO_CAPACITY_DERIVED, and u32 monotonic ms; without a rate: not known */
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
	u8 reserved[3];
	u32 cell; /* generation of the serving cell: changes with the cell */
	u32 owner_start;
};

struct radio_header {
	u32 magic;
	u32 version;
	u32 generation; /* changes with the index; flows then look their slot up again */
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

static __always_inline union radio_line *radio_at(u32 index)
{
	return bpf_map_lookup_elem(&radio_slots, &index); /* array: inlined by the JIT */
}

static __always_inline u32 *radio_find(struct radio_key *key)
{
	return bpf_map_lookup_elem(&radio_index, key);
}

enum radio_answer { RADIO_FRESH, RADIO_STALE, RADIO_ABSENT };

/* A flow's link, looked up once, and again after the index has changed. All zeros: not looked up yet. */
struct radio_ref {
	u16 generation FIELD("", "index generation of the look-up, modulo 65535, plus one");
	u16 slot FIELD("", "line in radio_slots, 0: none");
	u8 cell FIELD("", "generation of the cell, modulo 256, as far as the flow followed it");
	u8 kind FIELD("", "latest signal used: 0 none, 1 SINR, 2 capacity") EXPORT_COUNTS("none,sinr,capacity");
};

enum radio_kind { RADIO_NONE, RADIO_SINR, RADIO_CAPACITY };

static __always_inline u32 radio_lookup(struct sock *sk)
{
	struct radio_key key = { .prefix_len = RADIO_FULL_PREFIX_LEN };
	u16 port = sk->__sk_common.skc_dport;
	u32 *slot;

	peer_address(sk, key.addr);
	key.port[0] = port; /* already in network order */
	key.port[1] = port >> 8;
	slot = radio_find(&key);
	return slot && *slot < RADIO_SLOTS ? *slot : 0;
}

/* The line of the link to the flow's peer, or NULL. Call per epoch, not per ACK. */
static __always_inline union radio_line *radio_line_of(struct sock *sk, struct radio_ref *ref)
{
	union radio_line *header = radio_at(0), *line;
	u16 generation;
	u32 slot;

	if (!header || header->header.version != RADIO_VERSION)
		return NULL;
	generation = READ_ONCE(header->header.generation) % 65535 + 1;
	if (ref->generation != generation) {
		slot = radio_lookup(sk);
		line = slot ? radio_at(slot) : NULL;
		if (slot != ref->slot)
			ref->cell = line ? READ_ONCE(line->slot.cell) : 0;
		ref->slot = slot;
		ref->generation = generation;
	}
	return ref->slot ? radio_at(ref->slot) : NULL;
}

/* Whether a reading of `time_ms` is young enough. */
static __always_inline bool radio_is_fresh(struct sock *sk, const union radio_line *line, u32 time_ms)
{
	u32 max_age_ms = READ_ONCE(line->slot.max_age_ms) ?: RADIO_DEFAULT_MAX_AGE_MS;
	/* a time in the future wraps to a large age */
	u32 age_ms = (u32)(tcp_sk(sk)->tcp_mstamp / 1000) - time_ms;

	/* the socket's time stamp is slightly old, so a reading may seem to come from the future */
	return age_ms <= min(max_age_ms, (u32)RADIO_MAX_AGE_LIMIT_MS) || age_ms >= (u32)-RADIO_CLOCK_SLACK_MS;
}

/*
 * Reads a line's latest SINR and its running average, both in 1/256 dB. Writes the outputs only if it returns
 * RADIO_FRESH.
 */
static __always_inline enum radio_answer radio_sinr(struct sock *sk, const union radio_line *line, s32 *sinr_q8,
						    s32 *average_q8)
{
	u64 word = READ_ONCE(line->slot.sinr);

	if (!word)
		return RADIO_ABSENT;
	if (!radio_is_fresh(sk, line, word >> 32))
		return RADIO_STALE;
	*sinr_q8 = max(min((s32)(s16)word, RADIO_SINR_MAX_Q8), RADIO_SINR_MIN_Q8);
	*average_q8 = max(min((s32)(s16)(word >> 16), RADIO_SINR_MAX_Q8), RADIO_SINR_MIN_Q8);
	return RADIO_FRESH;
}

/* radio_sinr() of the flow's link. */
static __always_inline enum radio_answer radio_read(struct sock *sk, struct radio_ref *ref, s32 *sinr_q8,
						    s32 *average_q8)
{
	union radio_line *line = radio_line_of(sk, ref);
	enum radio_answer answer = line ? radio_sinr(sk, line, sinr_q8, average_q8) : RADIO_ABSENT;

	if (answer == RADIO_FRESH)
		ref->kind = RADIO_SINR;
	return answer;
}

/*
 * The latest measured capacity of a line, in kbit/s. 0 if there is none, or if it is too old or computed from the SINR;
 * callers then read the SINR.
 */
static __always_inline u32 radio_capacity(struct sock *sk, const union radio_line *line)
{
	u64 word = READ_ONCE(line->slot.capacity);
	u32 kbit_per_s = word;

	if (!kbit_per_s || kbit_per_s & RADIO_CAPACITY_DERIVED || !radio_is_fresh(sk, line, word >> 32))
		return 0;
	return kbit_per_s;
}

/* Whether the flow's serving cell changed since the last call; never before a line was read. */
static __always_inline bool radio_cell_changed(struct radio_ref *ref)
{
	union radio_line *line = ref->slot ? radio_at(ref->slot) : NULL;
	u8 now = line ? READ_ONCE(line->slot.cell) : 0;
	bool changed = now != ref->cell;

	ref->cell = now;
	return changed;
}
