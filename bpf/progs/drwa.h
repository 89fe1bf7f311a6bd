/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * DRWA: the receiver grants a window that keeps the sender from filling a queue. For rx_drwa.
 *
 * Paper: H. Jiang, Y. Wang, K. Lee, I. Rhee, "Tackling Bufferbloat in 3G/4G Networks", IMC 2012, section 5.2; the ARWA
 * paper compares itself with it.
 *
 *   once per RTT:  W_est = alpha W_est + (1 - alpha) data received in it,  window = lambda (R_min / R) W_est
 *
 * Deviation: an interval in which the sender paused (longer than four RTTs) says nothing about its window, and is
 * ignored.
 */
#pragma once
#include <hotcc/fixed.h>
#include <hotcc/tags.h>

TUNABLE(u32, lambda_permille, 3000, 3000, 1000, 100000, "permille", "window over what the sender is taken to use");
TUNABLE(u32, alpha_permille, 875, 875, 0, 999, "permille", "weight of what was received in earlier RTTs");
TUNABLE(u32, floor_bytes, 3000, 3000, 3000, 1000000, "bytes", "least window");

#define DRWA_PAUSE_RTTS 4
#define DRWA_ESTIMATE_MAX (1ULL << 40)

struct drwa {
	u64 since_us; /* start of the interval; 0: none yet */
	u64 bytes;    /* received until then */
	u64 estimate; /* W_est, bytes; 0: none yet */
	u32 least_rtt_us;
	u32 window; /* bytes; 0: none yet */
};

/* `received` is the number of in-order bytes so far. Returns true if it updated the window. */
static __always_inline bool drwa_receive(struct drwa *d, u64 now_us, u64 received, u32 rtt_us)
{
	u64 elapsed_us = now_us - d->since_us, bytes = received - d->bytes, in_rtt, window;

	if (!rtt_us || (d->since_us && elapsed_us < rtt_us))
		return false;
	if (!d->least_rtt_us || rtt_us < d->least_rtt_us)
		d->least_rtt_us = rtt_us;
	d->bytes = received;
	if (!d->since_us || elapsed_us > (u64)rtt_us * DRWA_PAUSE_RTTS || !bytes) {
		d->since_us = now_us;
		return false;
	}
	d->since_us = now_us;
	in_rtt = min(mul_div(bytes, min(rtt_us, 1U << 24), elapsed_us), DRWA_ESTIMATE_MAX);
	d->estimate = d->estimate ? (d->estimate * alpha_permille + in_rtt * (1000 - alpha_permille)) / 1000 : in_rtt;
	window = mul_div(d->estimate * lambda_permille / 1000, min(d->least_rtt_us, 1U << 24), rtt_us);
	d->window = min(max(window, (u64)floor_bytes), 1ULL << 30);
	return true;
}
