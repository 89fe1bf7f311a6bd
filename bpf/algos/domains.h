/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * On which side of the PEP bytes are, by the PEP's record and the SACK blocks of the client's last ACK. Domain 1 is
 * from the sender to the PEP, domain 2 from the PEP to the client. For `mdcubic`, `fbtcp` and `crest`.
 */
#pragma once
#include "abi/pep.h"

/* For `fbtcp` and `crest`; `mdcubic` has a tunable. */
#define PEP_MAX_AGE_MS 1000

/* One of the last ACK's SACK blocks: bytes that the client has. */
static __always_inline struct seq_range client_block(const struct tcp_sock *tp, int i)
{
	return seq_cut(tp->recv_sack_cache[i].start_seq, tp->recv_sack_cache[i].end_seq, tp->snd_una,
		       tp->snd_nxt - tp->snd_una);
}

/* All of these blocks, in order. */
static __always_inline void client_has(const struct tcp_sock *tp, struct seq_range blocks[SACK_BLOCKS])
{
	_Static_assert(SACK_BLOCKS == SEQ_RANGES, "seq_sort takes that many");
	for (int i = 0; i < SACK_BLOCKS; i++)
		blocks[i] = client_block(tp, i);
	seq_sort(blocks);
}

/* Whether the PEP saw all that the client misses below its SACK blocks. */
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

/*
 * Whether the PEP saw the byte at snd_una. It is missing at the start of a recovery; at the ACK that ends one, it may
 * still be on its way to the PEP.
 */
static __always_inline bool pep_saw_first(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	return tp->snd_nxt != tp->snd_una && pep_saw_to(seen, 0);
}

/* The end of the client's last SACK block; 0: it has none. */
static __always_inline u32 client_has_to(const struct tcp_sock *tp)
{
	u32 has = 0;

	for (int i = 0; i < SACK_BLOCKS; i++)
		has = seq_max(has, client_block(tp, i).end);
	return has;
}

/*
 * The segments in domain 2: the PEP saw them above the client's last SACK block. What is below it arrived or was lost.
 */
static __always_inline u32 domain2_segments(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	u32 has = client_has_to(tp), in_order;

	in_order = seq_max(has, seen->in_order);
	return (in_order - has + seq_bytes(seen->ranges, in_order)) / (tp->mss_cache ?: 1);
}

/* The time that domain 2 takes without a queue: the least RTT less the least RTT to the PEP. */
static __always_inline u32 domain2_empty_us(const struct tcp_sock *tp, const struct pep_seen *seen)
{
	u32 least_us = tp->rtt_min.s[0].v;

	return least_us - min(seen->rtt_us, least_us);
}

/*
 * The segments of a window that wait in domain 2. By Little's law, segments spend D2's share of the RTT there; the time
 * that an empty domain 2 takes is not waiting. 0 if they wait for less than that many sixteenths of the RTT.
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

#define MAX_SEGMENTS (1U << 29) /* keeps products within 64 bits */

/*
 * The most that domain 2 should hold: what it delivers in one and a half times the time that it takes without a queue,
 * at the rate of the last sample; or `least` segments while that is unknown or small.
 */
static __always_inline u32 domain2_limit(const struct tcp_sock *tp, const struct pep_seen *seen, u32 least)
{
	u64 held = (u64)tp->rate_delivered * domain2_empty_us(tp, seen) / (tp->rate_interval_us ?: ~0U);

	held = min(held, (u64)MAX_SEGMENTS);
	return max(held + held / 2, (u64)min(least, MAX_SEGMENTS));
}

/*
 * Twice what domain 1 holds without a queue at the rate that fills `limit`. If the RTT to the PEP is not known, as with
 * reports in-band, both domains count as the whole path.
 */
static __always_inline u32 domain1_limit(const struct tcp_sock *tp, const struct pep_seen *seen, u32 limit)
{
	u64 empty_us = domain2_empty_us(tp, seen);

	if (!empty_us)
		return MAX_SEGMENTS;
	return max(min((u64)limit * (seen->rtt_us ?: empty_us) * 4 / (3 * empty_us), (u64)MAX_SEGMENTS), 2ULL);
}
