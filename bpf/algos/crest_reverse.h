/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The queue on the way back, in which ACKs wait. For `crest`.
 *
 * A receiver writes the time of its own clock into each ACK (RFC 7323). The time at which the ACK arrives, less that
 * time, is its delay plus the unknown difference between the clocks. What exceeds the least such value is a queue on the
 * way back: it makes the path longer, and says nothing about the queue in which the data wait.
 *
 * An ACK's queue is part of the round trip's, so the least value rises until the two agree. Thus it follows clocks of
 * slightly different speed. A clock that does not count milliseconds moves it all the time; then nothing is believed.
 */
#pragma once
#include <hotcc/kernel.h>

#include "crest_state.h"

#define STAMP_TICKS 16 /* 1 ms, the unit of the receivers' clocks; a tick is 64 us */
#define REVERSE_SURE 8 /* slices in which the least value hardly moved */

/* From an ACK's stamp to its arrival, in ticks, plus a constant. Both clocks wrap around; 1 ms has 125/8 ticks. */
static __always_inline u16 reverse_way(const struct tcp_sock *tp)
{
	return (u16)(tp->tcp_mstamp >> RTT_TICK_SHIFT) - (u16)(tp->rx_opt.rcv_tsval * 125 >> 3);
}

/* For each ACK that lowers base_us, so that the least value is not of an ACK that waited longer. */
static __always_inline void reverse_note(const struct tcp_sock *tp, struct crest *f)
{
	u16 way = reverse_way(tp);

	if ((s16)(way - f->signal.reverse_least) < 0)
		f->signal.reverse_least = way;
}

/* Of the time by which an ACK was late, in ticks, what it waited: at most `queue`, that of its whole round trip. */
static __always_inline u32 reverse_waited(s32 late, u32 queue)
{
	return late > STAMP_TICKS ? min((u32)late - STAMP_TICKS, queue) : 0;
}

/*
 * The RTT of an ACK, without the time that it waited. For the first ACK of a slice, and for those whose whole RTT is
 * less than that: for each ACK it would cost a sixth of the law's instructions.
 */
static __always_inline u32 reverse_rtt(const struct tcp_sock *tp, const struct crest *f, u32 rtt_us)
{
	u32 queue_us = rtt_us > f->base_us ? rtt_us - f->base_us : 0;
	s32 late;

	if (f->wait <= STAMP_TICKS || f->signal.reverse_sure < REVERSE_SURE)
		return rtt_us;
	late = (s16)(reverse_way(tp) - f->signal.reverse_least);
	return rtt_us - (reverse_waited(late, queue_us >> RTT_TICK_SHIFT) << RTT_TICK_SHIFT);
}

/* For the last ACK of a slice: follows the least value, and returns the time that the ACK waited, likewise. */
static __always_inline u32 reverse_queue(const struct tcp_sock *tp, struct crest *f, u32 queue, u32 elapsed_us)
{
	u16 way = reverse_way(tp);
	s32 late = (s16)(way - f->signal.reverse_least), most = queue + 2 * STAMP_TICKS;
	s32 inside = max(min(late, most), 0), moved = late - inside;

	if (max(moved, -moved) > (s32)(elapsed_us >> (RTT_TICK_SHIFT + 2))) {
		f->signal.reverse_least = way;
		f->signal.reverse_sure = 0;
		return 0;
	}
	f->signal.reverse_least += moved;
	if (f->signal.reverse_sure < REVERSE_SURE) {
		/*
		 * Never sure without timestamps, because time itself then looks like a queue. With a branch, the
		 * verifier follows 1,500 instructions more.
		 */
		f->signal.reverse_sure += (tp->rx_opt.rcv_tsval | -tp->rx_opt.rcv_tsval) >> 31;
		return 0;
	}
	return reverse_waited(inside, queue);
}
