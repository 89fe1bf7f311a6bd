/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bandwidth that a radio link has at a spectral efficiency. It is learned from the flow's own bandwidth while the
 * flow fills the link. After a loss, or when the link has become faster, a flow uses only a part of it. For `dtcp`.
 */
#pragma once
#include <hotcc/bpf.h>
#include <hotcc/tags.h>

#define EFFICIENCY_SHIFT 12
#define PER_EFFICIENCY_SHIFT 4

struct link_rate {
	u32 per_efficiency FIELD("16 byte/s per bit/s/Hz",
				 "bandwidth of the full link by its spectral efficiency, 0: none yet");
	u32 average_q12 FIELD("bit/s/Hz / 4096", "spectral efficiency, filtered as B_I is; 0: none yet");
};

/* Forgets the link: a reading was missing, or the path is another one. */
static __always_inline void link_rate_restart(struct link_rate *l)
{
	l->per_efficiency = 0;
	l->average_q12 = 0;
}

/* `bandwidth` is B_I, below 2^39 bytes/s; an efficiency is at least that of -20 dB. */
static __always_inline u32 link_rate_ratio(u64 bandwidth, u32 average_q12)
{
	u64 ratio = (bandwidth << (EFFICIENCY_SHIFT - PER_EFFICIENCY_SHIFT)) / average_q12;

	return min(ratio, (u64)~0U);
}

/* The link is full: the flow gets no more of it than it has. */
static __always_inline void link_rate_settle(struct link_rate *l, u64 bandwidth)
{
	if (l->average_q12)
		l->per_efficiency = link_rate_ratio(bandwidth, l->average_q12);
}

/*
 * Returns the link's bandwidth at this spectral efficiency, in bytes/s, and adds the efficiency to the average. B_I and
 * the average are over about the same time. If the flow does not fill the link, their ratio can only raise the link's.
 */
static __always_inline s64 link_rate_at(struct link_rate *l, u64 bandwidth, u32 efficiency_q20, u32 filter_permille,
					bool full)
{
	u32 now_q12 = efficiency_q20 >> 8;
	u32 average_q12 = l->average_q12 ?: now_q12, ratio = link_rate_ratio(bandwidth, average_q12);

	l->per_efficiency = max(full ? 0 : l->per_efficiency, ratio);
	l->average_q12 = (average_q12 * filter_permille + now_q12 * (1000 - filter_permille)) / 1000;
	return (u64)l->per_efficiency * now_q12 >> (EFFICIENCY_SHIFT - PER_EFFICIENCY_SHIFT);
}
