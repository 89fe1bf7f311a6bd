/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Losses without a queue: a policer drops what exceeds its rate, and has no queue. For `crest`.
 *
 * For 50 rounds, W is at most what arrives; then it grows by 2 % per round, until segments are lost again. If losses
 * continue although W is what arrives, they are random: after three such limits in a row, there is no limit, and three
 * times as many losses are ignored, until 50 rounds with few losses have passed, or more are lost than that.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/log2.h>

#include "crest_state.h"

#define POLICED_AFTER 32 /* RTT / 8 without a queue */
#define POLICED_SETTLE 8 /* rounds in which the average still includes earlier losses */
#define POLICED_HOLD 50
#define POLICED_RANDOM 4
#define POLICED_GROWTH 29 /* 2 %, in log2 / 1024 */
#define POLICED_LESS 95	 /* 1/16: with few segments in flight, the rate of arrival is known to one in ten */
#define POLICED_LEAST 425 /* a quarter: so few may say that almost nothing arrives */
#define RANDOM_MORE 3	 /* times as many random losses are ignored */
#define POLICED_TRY 51	  /* f->policed counts tries in this unit, and rounds below it */

static __always_inline bool policer_limits(const struct crest *f)
{
	return f->policed >= POLICED_TRY && f->policed < POLICED_RANDOM * POLICED_TRY;
}

/* The losses to ignore, in permille. */
static __always_inline u32 losses_ignored(const struct crest *f, u32 permille)
{
	return f->policed < POLICED_RANDOM * POLICED_TRY ? permille : RANDOM_MORE * permille;
}

/*
 * Runs after a round of CRUISE. `arrives` is what the path delivers per least RTT, in 1/256 segments. `lost` is the
 * round's losses and `ignored` the losses to ignore, both in permille. `queue` is whether the round saw a queue. The
 * average, f->loss, still includes the losses of an earlier full queue, so `lost` counts as well.
 *
 * Under a limit, half as many losses are too many. A retransmission leaves when the loss is detected, one RTT after it,
 * and may find the policer's bucket empty each time: with 2 % of losses, nothing arrived in order for half a minute.
 * Losses that are random scatter; they stay so until their average is as low.
 */
static __always_inline void policer_round(struct crest *f, u64 arrives, u32 lost, u32 ignored, bool queue)
{
	u32 tries = f->policed / POLICED_TRY, rounds = min(f->policed % POLICED_TRY + 1U, POLICED_TRY - 1);

	if (tries == POLICED_RANDOM) {
		if (f->loss > RANDOM_MORE * ignored)
			f->policed = 0;
		else if (f->loss <= ignored / 2)
			f->policed = rounds < POLICED_HOLD ? POLICED_RANDOM * POLICED_TRY + rounds : 0;
		return;
	}
	if (queue) {
		f->policed = 0;
	} else if (min(lost, (u32)f->loss) > (tries ? ignored / 2 : ignored) && f->empty >= POLICED_AFTER &&
		   (!tries || rounds >= POLICED_SETTLE)) {
		u32 limit = log2_q10(max(arrives, (u64)W_MIN));

		if (!tries || rounds >= POLICED_HOLD) {
			tries = 1;
		} else {
			tries++;
			limit = max(min(limit, f->resume - POLICED_LESS), f->resume - POLICED_LEAST);
		}
		f->policed = tries * POLICED_TRY;
		f->resume = limit;
	} else if (tries) {
		f->policed = tries * POLICED_TRY + rounds;
		if (rounds >= POLICED_HOLD)
			f->resume = min(f->resume + POLICED_GROWTH, W_MAX_LOG);
	}
}
