/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one-way delay of received TCP packets, from the sender's timestamps (RFC 7323). The timestamps begin at any
 * value, and their tick is up to the sender. So the tick is found out first, and only differences between delays have a
 * meaning. For arwa_receiver.h.
 */
#pragma once
#include <hotcc/bpf.h>

#define TCPOPT_EOL 0
#define TCPOPT_NOP 1
#define TCPOPT_TIMESTAMP 8
#define TCPOLEN_TIMESTAMP 10
#define TCP_OPTIONS_MAX 40
#define STAMP_ALIGNED 12 /* behind two NOPs, as in RFC 7323, appendix A */

/* the tick of almost all senders; delays are computed with it until another tick is found */
#define TICK_USUAL_US 1000
/* first check of the tick; then one whenever the connection is a quarter older, or, once it is known, twice as old */
#define TICK_FIRST_LOOK_MS 20
#define TICK_MIN_COUNT 4
/* a tick longer than the current one is accepted from this age of the connection on */
#define TICK_LONGER_US 500000
/* after a longer gap, timestamps may have wrapped: 2^31 ticks of the shortest kind are 36 minutes */
#define STAMP_GAP_MAX_US 600000000ULL

/* State of the timestamps from one sender. */
struct one_way {
	u64 first_us;	 /* our time at the first packet; 0: none yet */
	u64 last_us;	 /* ... and at the last one */
	u64 ticks;	 /* of the sender's clock since the first packet; may be negative */
	s64 least_us;	 /* least delay since `window_us` ... */
	s64 previous_us; /* ... and in the window before */
	u64 window_us;
	u32 tsval;	/* last timestamp */
	u32 tick_us;	/* 0: of no known kind */
	u32 look_ms;	/* age of the connection at the last check of the tick; 0: there was none */
	u32 look_ticks; /* ... and the lower bits of `ticks` then */
	u32 next_look_ms;
	bool is_known; /* `tick_us` is known; before, it is a guess */
	u8 longer_ms;  /* longer tick measured at the last check; NO_LONGER: none */
};

#define NO_LONGER 255
#define NO_DELAY ((s64)(~0ULL >> 1))

static __always_inline u32 tsval_of(const u8 *option)
{
	return (u32)option[2] << 24 | (u32)option[3] << 16 | (u32)option[4] << 8 | option[5];
}

/* Reads the timestamp from where nearly every sender has it; false: search for it. */
static __always_inline bool tcp_aligned_timestamp(const u8 options[STAMP_ALIGNED], u32 length, u32 *tsval)
{
	if (length < STAMP_ALIGNED || options[0] != TCPOPT_NOP || options[1] != TCPOPT_NOP ||
	    options[2] != TCPOPT_TIMESTAMP || options[3] != TCPOLEN_TIMESTAMP)
		return false;
	*tsval = tsval_of(options + 2);
	return true;
}

/* Reads the timestamp from a header's options; false: there is none. */
static __always_inline bool tcp_timestamp(const u8 options[TCP_OPTIONS_MAX], u32 length, u32 *tsval)
{
	u32 at = 0;

	for (int i = 0; i < TCP_OPTIONS_MAX && at + TCPOLEN_TIMESTAMP <= length && length <= TCP_OPTIONS_MAX; i++) {
		const u8 *option;

		/* The loop bounds it, too, but older verifiers need the mask, which must not be optimised away. */
		asm volatile("" : "+r"(at));
		at &= 31;
		option = &options[at];
		if (option[0] == TCPOPT_EOL)
			return false;
		if (option[0] == TCPOPT_NOP) {
			at++;
			continue;
		}
		if (option[0] == TCPOPT_TIMESTAMP && option[1] == TCPOLEN_TIMESTAMP) {
			*tsval = tsval_of(option);
			return true;
		}
		if (option[1] < 2)
			return false;
		at += option[1];
	}
	return false;
}

/* Returns the tick of the kind of clock that fits a measured tick; 0: none fits. */
static __always_inline u32 tick_kind_us(u64 elapsed_us, u64 ticks)
{
	u64 measured_ns = elapsed_us * 1000 / ticks;

	if (measured_ns >= 80000000)
		return measured_ns < 400000000 ? 100000 : 0;
	if (measured_ns >= 8000000)
		return measured_ns < 40000000 ? 10000 : 0;
	if (measured_ns >= 3200000)
		return 4000;
	if (measured_ns >= 800000)
		return 1000;
	return measured_ns >= 800 && measured_ns < 4000 ? 1 : 0;
}

/* The first packet's delay is 0 with any tick; no smaller delay is known. */
static __always_inline void one_way_set_tick(struct one_way *w, u64 now_us, u32 tick_us)
{
	w->tick_us = tick_us;
	w->least_us = w->previous_us = 0;
	w->window_us = now_us;
}

static __always_inline void one_way_restart(struct one_way *w, u64 now_us, u32 tsval)
{
	w->first_us = now_us;
	w->ticks = 0;
	w->look_ms = w->look_ticks = 0;
	w->next_look_ms = TICK_FIRST_LOOK_MS;
	w->tsval = tsval;
	w->is_known = false;
	w->longer_ms = NO_LONGER;
	one_way_set_tick(w, now_us, TICK_USUAL_US);
}

/*
 * Checks the tick. A queue that fills makes ticks look longer. A connection sends its first packets, before any ACK, at
 * once; they arrive at the link's pace, so a tick may look ten times as long. Later each packet that arrives lets two
 * more leave, so a tick may look twice as long. So a longer tick must show for a while, and also in the time since the
 * last check. A link that stalls makes both look longer, but only once: the longer tick must show at two checks. A
 * queue that empties makes ticks look shorter, but there is no queue at the beginning: a tick that looks shorter since
 * the beginning is shorter.
 */
static __always_inline void one_way_look(struct one_way *w, u64 now_us)
{
	u64 elapsed_us = now_us - w->first_us;
	s32 recent = (u32)w->ticks - w->look_ticks;
	u32 tick_us, recent_us = ~0U;
	u8 longer_ms = NO_LONGER;

	if ((s64)w->ticks < TICK_MIN_COUNT || recent < TICK_MIN_COUNT)
		return;
	tick_us = tick_kind_us(elapsed_us, w->ticks);
	if (w->look_ms)
		recent_us = tick_kind_us(elapsed_us - w->look_ms * 1000ULL, recent);
	if (tick_us != w->tick_us && tick_us == recent_us && elapsed_us >= TICK_LONGER_US)
		longer_ms = tick_us / 1000;
	if ((tick_us && tick_us < w->tick_us) || (longer_ms != NO_LONGER && longer_ms == w->longer_ms)) {
		one_way_set_tick(w, now_us, tick_us);
		w->is_known = true;
	} else if (tick_us == w->tick_us || recent_us == w->tick_us) {
		w->is_known = true;
	}
	w->longer_ms = longer_ms;
	w->look_ticks = w->ticks;
	w->look_ms = elapsed_us / 1000;
	w->next_look_ms = w->is_known ? 2 * w->look_ms : w->look_ms + w->look_ms / 4;
}

/*
 * Sets `excess_us` to how much longer than the least delay this packet took; false: the tick is not known. A timestamp
 * is up to one tick older than its packet, so half a tick is subtracted. `window_us` 0: the least delay is that of the
 * whole connection; else that of the last one to two windows. `is_least` is set to whether this packet had the least
 * delay.
 */
static __always_inline bool one_way_excess(struct one_way *w, u64 now_us, u32 tsval, u64 window_us, u64 *excess_us,
					   bool *is_least)
{
	s64 delay_us, over_us;

	if (!w->first_us || now_us - w->last_us > STAMP_GAP_MAX_US)
		one_way_restart(w, now_us, tsval);
	w->last_us = now_us;
	w->ticks += (u64)(s32)(tsval - w->tsval);
	w->tsval = tsval;
	if (now_us - w->first_us >= w->next_look_ms * 1000ULL)
		one_way_look(w, now_us);
	delay_us = now_us - w->first_us - w->ticks * w->tick_us;
	if (window_us && now_us - w->window_us >= window_us) {
		/* no packet for two windows: both have expired */
		w->previous_us = now_us - w->window_us < 2 * window_us ? w->least_us : NO_DELAY;
		w->least_us = NO_DELAY;
		w->window_us = now_us;
	}
	*is_least = delay_us < w->least_us && delay_us < w->previous_us;
	w->least_us = min(w->least_us, delay_us);
	over_us = (u64)delay_us - (u64)min(w->least_us, w->previous_us) - w->tick_us / 2;
	*excess_us = max(over_us, (s64)0);
	return w->is_known && w->tick_us;
}
