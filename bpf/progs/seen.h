/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a router on the path has seen of a TCP flow: the next sequence number in order, and the ranges above it. It may
 * have started late, or miss packets that took another path. A range that it forgets counts as not seen. For
 * pep_border.
 */
#pragma once
#include "abi/seq.h"

/* No window is larger (RFC 7323): a sequence number further away is outdated, or from another flow. */
#define MAX_WINDOW (1 << 30)
#define NOTHING 0xffffffff

struct seen {
	u32 in_order;
	u32 range_count;
	struct seq_range ranges[SEQ_RANGES]; /* sequence numbers, ascending, not touching; unused ones: undefined */
};

/* Bits: the effects of a segment. */
enum seen_change {
	GAP_APPEARED = 1,
	GAP_CLOSED = 2,
	RANGE_FORGOTTEN = 4,
	LOST_SIGHT = 8, /* too far from what was known: tracking starts again here */
};

/*
 * Adds the range from..to, offsets from in_order below 2^31; a range from 0 extends what is in order. Returns
 * seen_change bits.
 */
static __always_inline u32 remember(struct seen *seen, u32 from, u32 to)
{
	struct seq_range r[SEQ_RANGES], added = { .start = from, .end = to };
	u32 touched = !from, change = 0, count = 0;

	/* unused ranges get offsets above all others */
	for (int i = 0; i < SEQ_RANGES; i++) {
		u32 unused = ~seq_less(i, seen->range_count);

		r[i].start = (seen->ranges[i].start - seen->in_order) | unused;
		r[i].end = (seen->ranges[i].end - seen->in_order) | unused;
	}
	/* ranges that the new one touches are merged into it */
	for (int i = 0; i < SEQ_RANGES; i++) {
		u32 touches = ~(seq_less(added.end, r[i].start) | seq_less(r[i].end, added.start));

		added.start ^= (added.start ^ seq_min(added.start, r[i].start)) & touches;
		added.end ^= (added.end ^ seq_max(added.end, r[i].end)) & touches;
		r[i].start |= touches;
		r[i].end |= touches;
		touched += touches & 1;
	}
	for (int i = 0; i < SEQ_RANGES; i++)
		seq_order(&r[i], &added); /* `added` ends up as the last of all */
	seq_sort(r);
	change = touched == 0 ? GAP_APPEARED : touched > 1 ? GAP_CLOSED : 0;
	/*
	 * The lowest range leaves if it is in order now, or if there are five: then it is forgotten, as the client's
	 * ACKs will cover that one first.
	 */
	to = r[0].start ? 0 : r[0].end;
	if (!r[0].start || added.start != NOTHING) {
		change |= r[0].start ? RANGE_FORGOTTEN : 0;
		r[0] = r[1];
		r[1] = r[2];
		r[2] = r[3];
		r[3] = added;
	}
	for (int i = 0; i < SEQ_RANGES; i++) {
		count += r[i].start != NOTHING;
		seen->ranges[i].start = r[i].start + seen->in_order;
		seen->ranges[i].end = r[i].end + seen->in_order;
	}
	seen->in_order += to;
	seen->range_count = count;
	return change;
}

/* Records a segment that takes `length` of sequence space from `seq` on. Returns seen_change bits. */
static __always_inline u32 seen_segment(struct seen *seen, u32 seq, u32 length)
{
	s32 from = seq - seen->in_order, to = from + length;

	if (from > MAX_WINDOW || from < -MAX_WINDOW) {
		seen->in_order = seq + length;
		seen->range_count = 0;
		return LOST_SIGHT;
	}
	if (to <= 0)
		return 0;
	if (from <= 0 && !seen->range_count) {
		seen->in_order += to;
		return 0;
	}
	return remember(seen, max(from, 0), to);
}

/*
 * Records that the client has everything below `ack`: acknowledged bytes passed, or will never be sent again. That
 * closes gaps, but only up to the highest byte seen here: beyond that, an ACK, which can be forged, is not trusted.
 */
static __always_inline void seen_acknowledged(struct seen *seen, u32 ack)
{
	s32 to = ack - seen->in_order, highest;

	if (!seen->range_count || seen->range_count > SEQ_RANGES)
		return;
	highest = seen->ranges[(seen->range_count - 1) & (SEQ_RANGES - 1)].end - seen->in_order;
	to = min(to, highest);
	if (to > 0)
		remember(seen, 0, to);
}
