/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On which side of the PEP something is: what the PEP says that it saw, and the SACK blocks of the client's last ACK.
 * Domain 1 is from the sender to the PEP, domain 2 from there to the client. For `mdcubic`.
 */
#pragma once
#include "abi/pep.h"

/* One of the last ACK's SACK blocks: what the client has. */
static __always_inline struct seq_range client_block(const struct tcp_sock *tp, int i)
{
	return seq_cut(tp->recv_sack_cache[i].start_seq, tp->recv_sack_cache[i].end_seq, tp->snd_una,
		       tp->snd_nxt - tp->snd_una);
}

/* All of them, in order. */
static __always_inline void client_has(const struct tcp_sock *tp, struct seq_range blocks[SACK_BLOCKS])
{
	_Static_assert(SACK_BLOCKS == SEQ_RANGES, "seq_sort takes that many");
	for (int i = 0; i < SACK_BLOCKS; i++)
		blocks[i] = client_block(tp, i);
	seq_sort(blocks);
}

/* Whether the PEP saw all that the client misses: what lies before a SACK block. */
static __always_inline bool pep_saw_holes(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	struct seq_range blocks[SACK_BLOCKS];
	u64 unseen = 0;
	u32 has = 0;

	client_has(tp, blocks);
	for (int i = 0; i < SACK_BLOCKS; i++) {
		unseen |= seq_less(pep_saw_to(seen, has), blocks[i].start);
		has = seq_max(has, blocks[i].end);
	}
	return !unseen;
}

/* The same of snd_una: missing as a recovery starts, but on the ACK that ends one it may be under way to the PEP. */
static __always_inline bool pep_saw_first(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	return tp->snd_nxt != tp->snd_una && pep_saw_to(seen, 0);
}

/*
 * How many segments are in domain 2: those that the PEP saw, behind the client's last SACK block. What is below that block
 * arrived, or was lost.
 */
static __always_inline u32 domain2_segments(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	u32 has = 0, in_order;

	for (int i = 0; i < SACK_BLOCKS; i++)
		has = seq_max(has, client_block(tp, i).end);
	in_order = seq_max(has, seen->in_order);
	return (in_order - has + seq_bytes(seen->ranges, in_order)) / (tp->mss_cache ?: 1);
}

/* What domain 2 takes without a queue: what the least RTT to the PEP leaves of the least RTT. */
static __always_inline u32 domain2_empty_us(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	u32 least_us = tp->rtt_min.s[0].v;

	return least_us - min(seen->rtt_us, least_us);
}

/*
 * Segments of a window that wait in domain 2: the time they spend there is D2's share of the RTT (Little's law), and what an
 * empty domain 2 takes is no waiting. 0 where that is less than so many sixteenths of the RTT.
 */
static __always_inline u32 domain2_queue(const struct tcp_sock *tp, u32 window, const struct pep_seen *seen,
					 u32 sixteenths)
{
	u64 rtt_us = tp->srtt_us >> 3, empty_us = domain2_empty_us(tp, seen),
	    here = domain2_segments(tp, seen) * rtt_us;

	if (!rtt_us || here < window * (empty_us + (sixteenths * rtt_us >> 4)))
		return 0;
	return (here - window * empty_us) / rtt_us;
}

#define MOST_SEGMENTS (1U << 29) /* keeps products within 64 bits */

/*
 * The most that domain 2 should hold: what it delivers in one and a half times the time it takes without a queue, at the
 * rate of the last sample, and `least` segments while that is unknown or small.
 */
static __always_inline u32 domain2_limit(const struct tcp_sock *tp, const struct pep_seen *seen, u32 least)
{
	u64 held = (u64)tp->rate_delivered * domain2_empty_us(tp, seen) / (tp->rate_interval_us ?: ~0U);

	held = min(held, (u64)MOST_SEGMENTS);
	return max(held + held / 2, (u64)min(least, MOST_SEGMENTS));
}

/* Twice what domain 1 holds without a queue at the rate that fills `limit`. */
static __always_inline u32 domain1_limit(const struct tcp_sock *tp, const struct pep_seen *seen, u32 limit)
{
	u64 empty_us = domain2_empty_us(tp, seen);

	if (!empty_us)
		return MOST_SEGMENTS;
	return max(min((u64)limit * seen->rtt_us * 4 / (3 * empty_us), (u64)MOST_SEGMENTS), 2ULL);
}
