/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ARWA's receiver: derives hints for the sender from delay and size of received packets. For rx_arwa.
 *
 * Paper: N. D. Adesh, A. Renuka, "Adaptive Receiver-Window Adjustment for Delay Reduction in LTE Networks", Journal of
 * Computer Networks and Communications, 2019, sections 3.2 and 3.3, Algorithm 1.
 *
 * Deviations from the paper, and why:
 *  - The paper's delay needs synchronised clocks. Here D is half the least RTT, or one tick of the sender's clock if
 *    that is longer, plus the packet's delay beyond the least delay.
 *  - `default` looks for the least delay in a window: clocks that differ by 50 ppm add an apparent 3 ms per minute.
 *  - A radio that retransmits a lost block holds up the blocks after it, for 8 ms in LTE. On a path of 10 ms, 3.1 ms
 *    would shrink the window, so `default` subtracts `jitter_us` from the mean delay beyond the least delay.
 *  - Segments shorter than a full one are ignored: their rate says nothing. A packet merged by GRO counts as its
 *    segments.
 *  - A difference of 20 to 30 % gives no hint, nor does one that would come to 0.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/hint.h>
#include "one_way.h"
#include <hotcc/tags.h>

TUNABLE(u32, period_us, 30000, 30000, 1000, 1000000, "us", "estimate after this time");
TUNABLE(u32, period_packets, 16, 16, 2, 1000, "packets", "or after so many packets, if they come sooner");
TUNABLE(u32, limit_high_percent, 90, 90, 2, 100, "percent",
	"loss of data rate from which on hints shrink the window most");
TUNABLE(u32, limit_low_percent, 30, 30, 1, 99, "percent", "loss of data rate from which on hints shrink the window");
TUNABLE(u32, lowest_percent, 20, 20, 0, 20, "percent", "loss of data rate under which hints grow the window");
TUNABLE(u32, least_window_ms, 10000, 0, 0, 600000, "ms",
	"where the least delay is looked for; 0: in the whole connection");
TUNABLE(u32, jitter_us, 4000, 0, 0, 100000, "us",
	"mean delay beyond the least delay that is attributed to the radio, not to a queue");
TUNABLE(u32, base_delay_us, 0, 0, 0, 1000000, "us", "delay of an empty path; 0: half the least RTT");

#define BASIS_POINTS 10000ULL /* per whole: 100 to the percent */
/* more than any path's; keeps the products below within 64 bits */
#define DELAY_MAX_US (1ULL << 22)

/* A segment, or several of one size that GRO merged. */
struct arwa_segments {
	u64 now_us;
	u32 tsval;
	u32 size; /* bytes each */
	u32 count;
	u32 least_rtt_us; /* 0: not known */
};

struct arwa_receiver {
	struct one_way path;
	u64 estimated_us; /* time of the last estimate */
	u64 excess_us;	  /* since then: sum of the delays beyond the least ... */
	u64 bytes;
	u32 packets;
	u32 least_size; /* size of a packet with the least delay, bytes */
	u8 old_hint;
};

/*
 * Returns by how much the data rate falls short of the best: 1 - (bytes / delay) / (least_size / least), in 1/10000.
 * `delay_us` is the sum over all packets.
 */
static __always_inline u32 arwa_loss_bp(u64 bytes, u64 delay_us, u32 least_size, u64 least_us)
{
	u64 best = delay_us * least_size;
	u64 rate_bp = best ? bytes * least_us * BASIS_POINTS / best : BASIS_POINTS;

	return BASIS_POINTS - min(rate_bp, BASIS_POINTS);
}

/* Lines 23 to 29. */
static __always_inline u32 arwa_hint_of(u32 loss_bp)
{
	u32 high = limit_high_percent * 100, low = limit_low_percent * 100, lowest = lowest_percent * 100;
	u32 over = loss_bp - low, hint = 0;

	if (loss_bp >= high && loss_bp >= low)
		hint = over / 100;
	else if (loss_bp >= low)
		hint = (u64)over * over / (high - low) / 100;
	else if (loss_bp < lowest)
		return min(100 + (lowest - loss_bp + 99) / 100, (u32)HINT_GROW_MAX);
	return min(hint, (u32)HINT_SHRINK_MAX);
}

/* Lines 30 to 40: of two estimates within a period, the second one shrinks only by what the first did not. */
static __always_inline u32 arwa_soften(u32 hint, u8 *old_hint, bool early)
{
	if (!early || hint >= 100) {
		*old_hint = 0;
		return hint;
	}
	if (hint > *old_hint)
		hint -= *old_hint;
	*old_hint = hint;
	return hint;
}

/* Lines 5 to 43. Returns true if an estimate was made; `hint` is 0 if it gave none. */
static __always_inline bool arwa_receive(struct arwa_receiver *r, const struct arwa_segments *s, u8 *hint)
{
	u64 elapsed_us, excess_us = 0, least_us;
	bool is_least = false;

	if (!one_way_excess(&r->path, s->now_us, s->tsval, least_window_ms * 1000ULL, &excess_us, &is_least))
		return false;
	if (is_least || !r->least_size)
		r->least_size = s->size;
	r->excess_us += min(excess_us, DELAY_MAX_US) * s->count;
	r->bytes += (u64)s->size * s->count;
	r->packets += s->count;
	elapsed_us = s->now_us - r->estimated_us;
	if (elapsed_us <= period_us && r->packets < period_packets)
		return false;
	least_us = min(base_delay_us ?: max(s->least_rtt_us / 2, r->path.tick_us), (u32)DELAY_MAX_US);
	*hint = 0;
	if (base_delay_us || s->least_rtt_us) {
		u64 jitter_sum_us = min((u64)jitter_us * r->packets, r->excess_us);
		u64 delay_us = least_us * r->packets + r->excess_us - jitter_sum_us;
		u32 loss_bp = arwa_loss_bp(r->bytes, delay_us, r->least_size, least_us);

		*hint = arwa_soften(arwa_hint_of(loss_bp), &r->old_hint, elapsed_us < period_us);
	}
	r->estimated_us = s->now_us;
	r->excess_us = 0;
	r->bytes = 0;
	r->packets = 0;
	return true;
}
