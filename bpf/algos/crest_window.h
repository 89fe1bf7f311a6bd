/* SPDX-License-Identifier: GPL-2.0-only */
/* The window that a rate asks for, the queue in it, and its growth while no queue is seen. For `crest`. */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/log2.h>
#include <hotcc/tags.h>

#include "crest_compete.h"
#include "crest_losses.h"
#include "crest_state.h"

TUNABLE(u32, target_us, 5000, 5000, 0, 1000000, "us", "queueing delay wanted, at least");
TUNABLE(u32, target_permille, 125, 125, 0, 2000, "permille", "queueing delay wanted, as a share of the least RTT");
TUNABLE(u32, burst_permille, 500, 500, 0, 2000, "permille",
	"most that links served in bursts add to the queueing delay wanted, of the least RTT");
TUNABLE(u32, extra_segments, 3, 3, 0, 100, "segments",
	"own segments in the queue beyond the queueing delay wanted, at least: make shares even");

static __always_inline u32 least_target_us(const struct crest *f)
{
	return max((u64)target_us, (u64)f->base_us * target_permille / 1000);
}

static __always_inline u32 queue_target_us(const struct crest *f)
{
	return least_target_us(f) + (u64)f->base_us * f->burst / 100;
}

/*
 * The flow's own segments in the queue, in 1/256. The larger W is, the smaller is their share of it, so that the flows'
 * shares become even.
 */
static __always_inline u64 extra_of(u32 window_log)
{
	return max((u64)extra_segments * SEGMENT, exp2_q10(window_log / 2) * 20); /* 20 / 16 sqrt(W) */
}

/* What arrives in this time at this rate, in 1/256 segments. */
static __always_inline u64 segments_of(u64 rate, u32 time_us)
{
	return rate * min(time_us, RTT_MAX_US) / (RATE_UNIT / SEGMENT);
}

/*
 * The rate of a flight: that of the segment just acknowledged. Where segments arrive in bunches, this one may have left
 * when few were in flight. So if the queue is not too long, a full flight counts, up to what arrived in two slices.
 */
static __always_inline u64 flight_rate(const struct tcp_sock *tp, u64 acked, u64 recent, u32 rtt_us, u32 q_us,
				       u32 target)
{
	if (q_us > target || acked >= recent)
		return acked;
	return max(acked, min(recent, tp->max_packets_out * (u64)RATE_UNIT / rtt_us));
}

/*
 * W of the model, and W's growth beyond it while no queue is seen. After losses, what is in flight varies within an RTT,
 * and W would follow its lowest; so then, W also falls by no more than a quarter per RTT. `path_us` is the least RTT plus
 * the time that ACKs wait.
 */
static __always_inline u64 model_window(const struct tcp_sock *tp, struct crest *f, u64 rate, u32 q_us, u32 low,
					u32 target, u32 elapsed_us, u32 path_us)
{
	u64 least = segments_of(rate, path_us), queue, w, grow;
	u32 span = min(elapsed_us * 1000ULL / max(path_us, 1U), 1000ULL);

	if (f->phase >= PROBE)
		target = f->filled ? f->base_us * 6 : max(target, trial_queue_us(f));
	queue = (segments_of(rate, target) + extra_of(log2_q10(f->window))) * f->room / ROOM_ONE;
	w = max(least + queue, least * 11 / 10 + SEGMENT);
	if (f->room < ROOM_LOSSES)
		w = least * (15 + f->room) / 16 + SEGMENT;
	if (q_us > low)
		f->empty = 0;
	if (f->phase == CRUISE) {
		if (q_us <= low) {
			if (f->empty > 4 && f->window < 2ULL * SEGMENT * tp->max_packets_out &&
			    f->loss <= losses_ignored(f)) {
				grow = min(250U + f->empty * 250U / 8, 500U) * f->room / ROOM_ONE;
				w = max(w, min(f->window + f->window * grow * span / 1000000, 2 * w));
			}
			if (f->loss > FEW_LOSSES && f->loss <= FALL_LOSSES && f->room >= ROOM_LOSSES)
				w = max(w, f->window - ((u64)f->window * span >> 12));
		}
		if (policer_limits(f))
			w = min(w, exp2_q10(f->resume));
	}
	if (q_us <= low)
		f->empty = min(f->empty + span / 125, 255U);
	return min(max(w, (u64)W_MIN), (u64)W_MAX);
}
