/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Probes, and competition with flows that fill the buffer until they lose segments: the path's least RTT, the question
 * whose queue it is, and W's growth against other flows. For `crest`.
 *
 * Flows of crest that share a link also leave a queue. COMPETE is a trial until a loss shows that the queue was full.
 * Until then W grows by an eighth per round, but the queue at most by half. After three tests without such a loss, the
 * flow concludes that flows of crest caused the queue, and the next trial needs a queue that stands twice as long.
 * After the first loss, W keeps growing at that rate, and shrinks by a tenth per loss, until a probe shows that a
 * quarter of the queue is this flow's. Then it follows CUBIC. Otherwise a newcomer would need minutes to get its share
 * from a CUBIC flow.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/log2.h>

#include "crest_losses.h"
#include "crest_state.h"

#define CUBE_SHIFT 20
#define CUBE_GAIN 110 /* RFC 9438's C = 0.4 segments/s^3, for milliseconds, 1/256 segments and this shift */
#define CUBE_TIME_MAX_MS 150000LL /* more than K of the largest W */
#define RENO_STEP 294 /* 1.15 segments */
#define SAME_RTT 32 /* RTTs are the same if they differ by less than this part */
#define LONGER_FALL 425 /* a quarter, in log2 / 1024, */
#define LONGER_ROUNDS 10 /* within so many rounds */
#define LONGER_SIGNS 3

/* W for a test: if the whole queue is this flow's, the queue halves. */
static __always_inline u32 test_window(u32 window, u32 rtt_us, u32 base_us)
{
	u32 q_us = rtt_us > base_us ? rtt_us - base_us : 0;

	return window - (u64)window * q_us / (2ULL * max(rtt_us, 1U));
}

/*
 * A probe made W smaller. If the whole queue is this flow's, RTT falls with W, by half of the queue; three quarters of
 * that are enough. If other flows keep their windows, RTT falls by half of this flow's share of the queue.
 */
static __always_inline bool queue_is_own(u32 before_us, u32 now_us, u32 base_us)
{
	u32 q_us = before_us > base_us ? before_us - base_us : 0;

	return now_us < before_us && (before_us - now_us) * 8ULL >= q_us * 3ULL;
}

/*
 * W (1/256 segments) after a round: RFC 9438's curve through the plateau, or Reno's line; W grows by at most an eighth.
 */
static __always_inline u32 compete_grow(u32 window, u32 plateau, u32 since_loss_ms)
{
	/* K = cbrt(0.3 plateau / 0.4), in seconds and segments; the plateau has 8 binary digits after the point */
	u32 k_log = log2_q10(((u64)plateau * 3) >> 2) / 3;
	s64 k_ms = (exp2_q10(k_log + 20 * LOG2_ONE - 8 * LOG2_ONE / 3) * 1000) >> 20;
	s64 t_ms = max(min((s64)since_loss_ms - k_ms, CUBE_TIME_MAX_MS), -CUBE_TIME_MAX_MS);
	s64 curve = (s64)plateau + (((t_ms * t_ms) >> 10) * t_ms * CUBE_GAIN >> CUBE_SHIFT);

	return max((s64)window + RENO_STEP, min(curve, (s64)window + (window >> 3)));
}

static __always_inline u16 rtt_ticks(u32 rtt_us)
{
	return min(rtt_us >> RTT_TICK_SHIFT, 65535U);
}

static __always_inline u32 rtt_of(u16 ticks)
{
	return (u32)ticks << RTT_TICK_SHIFT;
}

/*
 * The longest queue of a trial: half more than the queue before it, or the least RTT if that is less; but never less
 * than the queue before it.
 */
static __always_inline u32 trial_queue_us(const struct crest *f)
{
	u32 rtt_us = rtt_of(f->same_rtt), before_us = rtt_us > f->base_us ? rtt_us - f->base_us : 0;

	return max(before_us, min(before_us / 2 * 3, f->base_us));
}

/* W with which the queue goes: 7/8 of what arrives in the least RTT. */
static __always_inline u64 drained_window(const struct crest *f)
{
	u64 flight = (u64)f->last_delivered * SEGMENT * f->base_us / max(rtt_of(f->last_time), 1U);

	return flight * 7 / 8;
}

/* `least` is W of a probe. */
static __always_inline void probe_begin(struct crest *f, u32 least)
{
	if (f->phase == COMPETE) {
		f->phase = RECHECK;
	} else {
		f->phase = PROBE;
		f->stood = f->rounds;
	}
	f->rounds = 0;
	if (!policer_limits(f)) /* otherwise it is the limit, which W then returns to */
		f->resume = log2_q10(f->window);
	f->probe_rtt = rtt_ticks(f->round_rtt_us);
	if (f->phase == RECHECK || f->stood >= STAND_ROUNDS)
		f->window = max(test_window(f->window, f->round_rtt_us, f->base_us), least);
	else
		f->window = max(min(f->window / 2ULL, drained_window(f)), (u64)least);
}

static __always_inline void probe_refill(struct crest *f, u32 window)
{
	f->phase = REFILL;
	f->window = max(window, W_MIN);
	f->rounds = 0;
}

/*
 * The RTTs of two rounds. While ACKs wait, their part of the RTT is known to the millisecond that the receiver's clock
 * counts.
 */
static __always_inline bool is_same_rtt(const struct crest *f, u32 a_us, u32 b_us)
{
	u32 apart_us = max(a_us, b_us) - min(a_us, b_us);

	return apart_us <= a_us / SAME_RTT + (f->wait ? 1000 : 0);
}

/* A smaller W saw the same RTT. A queue of this flow would have become shorter, and a queue of other flows varies. */
static __always_inline void longer_sign(struct crest *f)
{
	f->probes = max(f->probes, (u8)YOUNG_PROBES) + 1;
}

/* After a probe: whether the path is longer. */
static __always_inline bool path_is_longer(struct crest *f, u32 before_us, u32 rtt_us)
{
	if (is_same_rtt(f, rtt_us, before_us) && is_same_rtt(f, rtt_us, rtt_of(f->same_rtt)))
		longer_sign(f);
	else
		f->probes = min(f->probes, (u8)YOUNG_PROBES);
	f->same_rtt = rtt_ticks(rtt_us);
	if (f->probes < YOUNG_PROBES + LONGER_SIGNS)
		return false;
	f->probes = YOUNG_PROBES;
	return true;
}

/*
 * After a round of CRUISE. On a longer path, W falls with each round, because what the path holds looks like a queue.
 * Each fall by a quarter at the same RTT is a sign. Not inline, so that the verifier does not follow the rest for each
 * branch of it.
 */
static __noinline void longer_round(struct crest *f, u32 window_log, bool queue)
{
	bool same = queue && is_same_rtt(f, f->round_rtt_us, rtt_of(f->same_rtt));

	if (policer_limits(f)) /* f->resume is the limit */
		return;
	if (!same || window_log >= f->resume || ++f->stood > LONGER_ROUNDS) {
		if (!same)
			f->probes = min(f->probes, (u8)YOUNG_PROBES);
		f->same_rtt = queue ? rtt_ticks(f->round_rtt_us) : 0;
	} else if (window_log + LONGER_FALL <= f->resume) {
		longer_sign(f);
	} else {
		return;
	}
	f->stood = 0;
	f->resume = window_log;
}

static __always_inline void probe_end(const struct tcp_sock *tp, struct crest *f)
{
	u32 rtt = f->round_rtt_us, resume = exp2_q10(f->resume), before = rtt_of(f->probe_rtt);
	bool competed = f->phase == RECHECK, tested = competed || f->stood >= STAND_ROUNDS;

	f->base_seen_ms = tp->tcp_mstamp / 1000;
	if (!tested && path_is_longer(f, before, rtt))
		f->base_us = rtt;
	if (rtt <= f->base_us + f->base_us / 32 || queue_is_own(before, rtt, f->base_us)) {
		f->peak = f->resume;
		f->rivals = f->stood = f->filled = 0;
		probe_refill(f, resume);
		return;
	}
	if (tested)
		f->rivals = min(f->rivals + 1, 5);
	if (!competed && f->rivals < 2) { /* look again */
		probe_refill(f, resume);
		return;
	}
	if (!competed) {
		f->peak = PEAK_UNKNOWN;
		f->same_rtt = f->probe_rtt;
	} else if (!f->filled && f->rivals == 5) { /* a queue that is never full */
		f->peak = f->resume;
		f->rivals = f->stood = 0;
		f->doubt = min(f->doubt + 1, 3);
		probe_refill(f, resume);
		return;
	} else if (f->filled && f->peak == PEAK_UNKNOWN &&
		   (f->rivals == 5 || (before - min(rtt, before)) * 8ULL >= before - f->base_us)) {
		f->peak = f->resume; /* a quarter of the queue is this flow's */
	}
	f->stood = competed ? f->stood : 0;
	f->phase = COMPETE;
	f->policed = 0;
	f->rounds = 0;
	f->window = max(resume, W_MIN);
}

static __always_inline void compete_round(const struct tcp_sock *tp, struct crest *f, u32 q_us, u32 target_us,
					  bool lost, u32 least)
{
	u32 rtt_us = min(tp->srtt_us >> 3, 8 * f->base_us), before = rtt_of(f->probe_rtt);
	u32 patience = f->peak == PEAK_UNKNOWN ? STAND_ROUNDS / 2 : STAND_ROUNDS << min(f->rivals - 2, 3);

	if (lost && q_us > target_us * 3 / 2) {
		f->filled = true;
		f->doubt = 0;
	}
	f->stood = min(f->stood + 1, 255);
	f->rounds = min(f->rounds + 1, 255);
	if (!tp->app_limited)
		f->window = min(compete_grow(f->window, exp2_q10(f->peak), (u64)f->stood * rtt_us / 1000), W_MAX);
	if (f->empty > 128) {
		f->phase = CRUISE;
		f->rivals = f->rounds = f->filled = 0;
		f->peak = log2_q10(f->window);
	} else if (q_us > 2ULL * (before - min(before, f->base_us)) + target_us ||
		   f->rounds >= min(2 * patience, 255U) ||
		   (f->rounds >= patience && f->stood >= 4 && f->stood < 12)) { /* not shortly before the next loss */
		probe_begin(f, least);
	}
}
