/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hints on the wire: an experimental TCP option (RFC 6994). docs/guide/receiver.md describes it in full. For rx_arwa
 * and the test objects that forge the option.
 */
#pragma once
#include <hotcc/bpf.h>

#define TCPOPT_EXPERIMENT 254
#define HINT_EXID 0xa27a
#define PERMIT_SIZE 4 /* in a SYN: its sender supports hints */
#define HINT_SIZE 6   /* on an ACK */

struct hint_option {
	u8 kind;
	u8 size;
	u8 exid[2]; /* network order */
	u8 hint;
	u8 sequence; /* differs from the previous hint's */
};

/* Time in units of 2^20 ns, about a millisecond: 32 bits hold 52 days. */
static __always_inline u32 hint_time(u64 ns)
{
	return ns >> 20;
}

/* if no data arrived for this long, the hint is outdated */
#define HINT_AGE_MAX hint_time(200 * 1000000ULL)
/* a clock that is quick to read may be a few milliseconds behind the one by which the hint was made */
#define HINT_CLOCK_BEHIND hint_time(20 * 1000000ULL)

static __always_inline bool hint_is_current(u32 made, u32 now)
{
	return now + HINT_CLOCK_BEHIND - made <= HINT_AGE_MAX + HINT_CLOCK_BEHIND;
}

/* The sequence of the next hint; 0 means that none was made yet. */
static __always_inline u8 hint_sequence_after(u8 sequence)
{
	return (u8)(sequence + 1) ?: 1;
}

#define HINT_OPTION(of_size) { TCPOPT_EXPERIMENT, of_size, { HINT_EXID >> 8, HINT_EXID & 0xff }, 0, 0 }
