/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ranges of the bytes in flight, as offsets from snd_una. They are reported by another party, so they are cut to the
 * flight, whatever the report says.
 *
 * No branch depends on the ranges: the verifier would go through every possible order of them. For pep.h, and for what
 * the border has seen (progs/seen.h).
 */
#pragma once
#include <hotcc/bpf.h>

#define SEQ_RANGES 4

struct seq_range {
	u32 start;
	u32 end; /* the first byte after it; at or below start: empty */
};

/* All bits set if a < b, else none; both within 62 bits. */
static __always_inline u64 seq_less(s64 a, s64 b)
{
	s64 difference = a - b;

	asm volatile("" : "+r"(difference)); /* else the compiler makes a branch of it */
	return difference >> 63;
}

static __always_inline u64 seq_min(u64 a, u64 b)
{
	return b ^ ((a ^ b) & seq_less(a, b));
}

static __always_inline u64 seq_max(u64 a, u64 b)
{
	return a ^ ((a ^ b) & seq_less(a, b));
}

/* Cuts a distance from snd_una to the flight. */
static __always_inline u32 seq_within(s64 offset, u32 flight)
{
	return seq_min(offset & ~seq_less(offset, 0), flight);
}

/* Returns the part of start..end that is in flight; 0..0 if there is none, or if the end comes before the start. */
static __always_inline struct seq_range seq_cut(u32 start, u32 end, u32 snd_una, u32 flight)
{
	s64 from = (s32)(start - snd_una), length = (s32)(end - start);
	u32 first = seq_within(from, flight), behind = seq_within(from + length, flight);
	u64 something = seq_less(0, length) & seq_less(first, behind);

	return (struct seq_range){ .start = first & something, .end = behind & something };
}

static __always_inline void seq_order(struct seq_range *a, struct seq_range *b)
{
	u64 swap = seq_less(b->start, a->start);
	u32 start = (a->start ^ b->start) & swap, end = (a->end ^ b->end) & swap;

	a->start ^= start;
	b->start ^= start;
	a->end ^= end;
	b->end ^= end;
}

/* Sorts by start. */
static __always_inline void seq_sort(struct seq_range ranges[SEQ_RANGES])
{
	seq_order(&ranges[0], &ranges[1]);
	seq_order(&ranges[2], &ranges[3]);
	seq_order(&ranges[0], &ranges[2]);
	seq_order(&ranges[1], &ranges[3]);
	seq_order(&ranges[1], &ranges[2]);
}

/* Returns how many bytes from `from` on are in sorted ranges; a byte in two of them counts once. */
static __always_inline u32 seq_bytes(const struct seq_range ranges[SEQ_RANGES], u32 from)
{
	u64 at = from, bytes = 0;

	for (int i = 0; i < SEQ_RANGES; i++) {
		u64 start = seq_max(at, ranges[i].start);

		at = seq_max(start, ranges[i].end);
		bytes += at - start;
	}
	return bytes;
}

/* Returns the first byte from `from` on that is not in sorted ranges. */
static __always_inline u32 seq_reach(const struct seq_range ranges[SEQ_RANGES], u32 from)
{
	u64 at = from;

	for (int i = 0; i < SEQ_RANGES; i++)
		at = seq_max(at, ranges[i].end & seq_less(ranges[i].start, at + 1));
	return at;
}
