/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one-way delay of what a TCP receives, from the sender's time stamps (RFC 7323). The stamps begin anywhere and tick
 * at the sender's own pace, so that the tick is found out first, and only differences between delays mean anything. For
 * arwa_receiver.h.
 */
#pragma once
#include <hotcc/bpf.h>

#define TCPOPT_EOL 0
#define TCPOPT_NOP 1
#define TCPOPT_TIMESTAMP 8
#define TCPOLEN_TIMESTAMP 10
#define TCP_OPTIONS_MAX 40
#define STAMP_ALIGNED 12 /* behind two NOPs, as RFC 7323, appendix A, has it */

/* what almost all senders have; delays are kept by it until another one is found */
#define TICK_USUAL_US 1000
/* the tick is looked at first after this time, and again each time the connection is a quarter older; once it is known, twice as old */
#define TICK_FIRST_LOOK_MS 20
#define TICK_LEAST_COUNT 4
/* a longer one than thought is believed from this age on */
#define TICK_LONGER_US 500000
/* much later stamps might have wrapped: 2^31 ticks of the shortest kind are 36 minutes */
#define STAMP_GAP_MAX_US 600000000ULL

/* Stamps on their way from one sender. */
struct one_way {
	u64 first_us;	 /* our time at the first packet; 0: none yet */
	u64 last_us;	 /* ... and at the last one */
	u64 ticks;	 /* of the sender's clock since the first packet; may be less than none */
	s64 least_us;	 /* least delay since `window_us` ... */
	s64 previous_us; /* ... and in the window before */
	u64 window_us;
	u32 tsval;	/* last stamp */
	u32 tick_us;	/* 0: of no kind that is known */
	u32 look_ms;	/* age of the connection at the last look at the tick; 0: there was none */
	u32 look_ticks; /* ... and its ticks, the lower bits */
	u32 next_look_ms;
	bool is_known; /* the tick; before, it is a guess */
	u8 longer_ms;  /* tick that showed at the last look; NO_LONGER: none but what was thought */
};

#define NO_LONGER 255
#define NO_DELAY ((s64)(~0ULL >> 1))

static __always_inline u32 tsval_of(const u8 *option)
{
	return (u32)option[2] << 24 | (u32)option[3] << 16 | (u32)option[4] << 8 | option[5];
}

/* The time stamp where nearly every sender has it; false: look for it. */
static __always_inline bool tcp_aligned_timestamp(const u8 options[STAMP_ALIGNED], u32 length, u32 *tsval)
{
	if (length < STAMP_ALIGNED || options[0] != TCPOPT_NOP || options[1] != TCPOPT_NOP ||
	    options[2] != TCPOPT_TIMESTAMP || options[3] != TCPOLEN_TIMESTAMP)
		return false;
	*tsval = tsval_of(options + 2);
	return true;
}

/* The time stamp in a header's options; false: it has none. */
static __always_inline bool tcp_timestamp(const u8 options[TCP_OPTIONS_MAX], u32 length, u32 *tsval)
{
	u32 at = 0;

	for (int i = 0; i < TCP_OPTIONS_MAX && at + TCPOLEN_TIMESTAMP <= length && length <= TCP_OPTIONS_MAX; i++) {
		const u8 *option;

		/* as the loop has it; older verifiers only see the mask, which must not be optimised away */
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

/* The kind of clock that a measured tick stands for; 0: none. */
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

/* The first packet's delay is 0 by any tick, and there is none with less that is known. */
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
 * A queue that fills makes ticks look longer. What a connection sends before its first ACK is sent at once and comes at
 * the link's pace, so that a tick may look ten times as long; then each packet that came lets two more leave, and it may
 * look twice as long. So a longer one must show for a while, and in the time since the last look, too. A link that stalls makes both
 * look longer, but only once: it must show at two looks. A queue that empties makes ticks look shorter, but there is none at the
 * beginning: a shorter one since then is one.
 */
static __always_inline void one_way_look(struct one_way *w, u64 now_us)
{
	u64 elapsed_us = now_us - w->first_us;
	s32 recent = (u32)w->ticks - w->look_ticks;
	u32 tick_us, recent_us = ~0U;
	u8 longer_ms = NO_LONGER;

	if ((s64)w->ticks < TICK_LEAST_COUNT || recent < TICK_LEAST_COUNT)
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
 * How much longer than the least delay this packet was on its way; false: that cannot be said. A stamp is up to one
 * tick older than its packet, of which the half is taken off. `window_us` 0: least of all, else of the last one to two
 * windows. `is_least` says whether it had the least delay.
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
		/* nothing for two windows: both are over */
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
