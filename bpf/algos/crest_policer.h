/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policer drops what exceeds its rate, and has no queue: losses without a queue. For `crest`.
 *
 * W then is at most what arrives, for 50 rounds; after them, 2 % more per round, until losses come again. If they do not end
 * although W is what arrives, they are random: after three such limits on end, there is none for 50 rounds
 * of fewer losses.
 */
#pragma once
#include <hotcc/kernel.h>

#include "crest_log2.h"
#include "crest_state.h"

#define POLICED_AFTER 32 /* RTT / 8 without a queue */
#define POLICED_SETTLE 8 /* rounds, in which the average still holds losses of before */
#define POLICED_HOLD 50
#define POLICED_RANDOM 4
#define POLICED_GROWTH 29 /* 2 %, in log2 / 1024 */
#define POLICED_LESS 95	 /* 1/16: where few segments are in flight, what arrives is known to one in ten */
#define POLICED_TRY 51	  /* f->policed holds the tries in units of it, and the rounds below */

static __always_inline bool policer_limits(const struct crest *f)
{
	return f->policed >= POLICED_TRY && f->policed < POLICED_RANDOM * POLICED_TRY;
}

/*
 * After a round of CRUISE. `arrives`: what the path delivers per least RTT, in 1/256 segments; `lost`: the round's losses, and
 * `ignored` those that are, per mille; `queue`: the round saw one. The average outlives a queue that was full.
 *
 * Below a limit, half as many losses are too many. What is sent again leaves when the loss is seen, one RTT after it, and so
 * may find the bucket empty each time: with 2 % of losses, nothing arrived in order for half a minute.
 */
static __always_inline void policer_round(struct crest *f, u64 arrives, u32 lost, u32 ignored, bool queue)
{
	u32 tries = f->policed / POLICED_TRY, rounds = min(f->policed % POLICED_TRY + 1U, POLICED_TRY - 1);
	bool lossy = min(lost, (u32)f->loss) > (policer_limits(f) ? ignored / 2 : ignored);

	if (queue || (tries == POLICED_RANDOM && rounds >= POLICED_HOLD)) {
		f->policed = 0;
	} else if (lossy && f->empty >= POLICED_AFTER && tries < POLICED_RANDOM &&
		   (!tries || rounds >= POLICED_SETTLE)) {
		u32 limit = log2_q10(max(arrives, (u64)W_MIN));

		if (!tries || rounds >= POLICED_HOLD) {
			tries = 1;
		} else {
			tries++;
			limit = min(limit, f->resume - POLICED_LESS);
		}
		f->policed = tries * POLICED_TRY;
		f->resume = limit;
	} else if (tries && !(lossy && tries == POLICED_RANDOM)) {
		f->policed = tries * POLICED_TRY + rounds;
		if (rounds >= POLICED_HOLD && tries < POLICED_RANDOM)
			f->resume = min(f->resume + POLICED_GROWTH, W_MAX_LOG);
	}
}
