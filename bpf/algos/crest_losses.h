/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Losses and marks, and what they leave of the queue wanted. For `crest`.
 *
 * A policer drops what exceeds its rate, and has no queue. When segments are lost without one, there is a limit: for 50
 * rounds, W is at most what arrives; then it grows by 2 % per round, until segments are lost again. If losses continue
 * although W is what arrives, the limit falls, and later grows by up to 6 % per round, the more the longer the RTT.
 * After three such limits in a row, losses are random: there is no limit, and three times as many losses are ignored,
 * until 50 rounds with few losses have passed, or more are lost than that.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/log2.h>

#include "account_map.h"
#include "crest_state.h"

TUNABLE(u32, loss_permille, 30, 30, 4, 200, "permille", "share of lost segments that is ignored");

#define POLICED_AFTER 32 /* RTT / 8 without a queue */
#define POLICED_SETTLE 8 /* rounds in which the average still includes earlier losses */
#define POLICED_HOLD 50
#define POLICED_RANDOM 4 /* the try from which on losses count as random */
#define POLICED_GROWTH 29 /* 2 %, in log2 / 1024 */
#define POLICED_REGROWTH_US 4096 /* of the least RTT: 1/1024 more once the limit fell; rounds may be long */
#define POLICED_REGROWTH_MOST 58U /* 4 % */
#define POLICED_FALL_LEAST 95 /* 1/16: with few segments in flight, the rate of arrival is known to one in ten */
#define POLICED_FALL_MOST 425 /* a quarter: with few segments in flight, a round may seem to bring almost nothing */
#define RANDOM_MORE 3	 /* times as many random losses are ignored */
#define POLICED_TRY 51	  /* f->policed counts tries in this unit, and rounds below it */

static __always_inline bool policer_limits(const struct crest *f)
{
	return f->policed >= POLICED_TRY && f->policed < POLICED_RANDOM * POLICED_TRY;
}

/* The losses to ignore, in permille. */
static __always_inline u32 losses_ignored(const struct crest *f)
{
	return f->policed < POLICED_RANDOM * POLICED_TRY ? loss_permille : RANDOM_MORE * loss_permille;
}

/* The round's losses, in permille, at most 255. */
static __always_inline u32 losses_add(struct sock *sk, struct crest *f, u32 ignored)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 segments = round_losses(tp, f);
	u32 sent = tp->delivered - f->round_delivered + segments;
	u32 lost = min(segments * 1000ULL / (sent + 1), 255ULL);

	if (tcp_ca_state(sk) == TCP_CA_Loss) /* an outage's losses */
		lost = 0;
	f->loss = (3 * f->loss + lost + 2) / 4;
	if (f->loss > ignored)
		f->room -= f->room / 4;
	else if (f->room >= ROOM_LOSSES)
		f->room = min(f->room + 8, ROOM_ONE);
	else
		f->room += !segments;
	return lost;
}

/*
 * Runs after a round of CRUISE. `arrives` is what arrives in the time of the path, in 1/256 segments. `lost` is the
 * round's losses, in permille. `queue` is whether the queue is longer than the least one that is wanted. The average,
 * f->loss, still includes the losses of an earlier full queue, so `lost` counts as well.
 *
 * Under a limit, half as many losses are too many. A retransmission leaves when the loss is detected, one RTT after it,
 * and may find the policer's bucket empty each time: with 2 % of losses, nothing arrived in order for half a minute.
 * Losses that are random scatter; they stay so until their average is as low.
 */
static __always_inline void policer_round(struct crest *f, u64 arrives, u32 lost, bool queue)
{
	u32 tries = f->policed / POLICED_TRY, rounds = min(f->policed % POLICED_TRY + 1U, POLICED_TRY - 1);

	if (tries == POLICED_RANDOM) {
		if (f->loss > RANDOM_MORE * loss_permille)
			f->policed = 0;
		else if (f->loss <= loss_permille / 2)
			f->policed = rounds < POLICED_HOLD ? POLICED_RANDOM * POLICED_TRY + rounds : 0;
		return;
	}
	if (queue) {
		f->policed = 0;
	} else if (min(lost, (u32)f->loss) > (tries ? loss_permille / 2 : loss_permille) && f->empty >= POLICED_AFTER &&
		   (!tries || rounds >= POLICED_SETTLE)) {
		u32 limit = log2_q10(max(arrives, (u64)W_MIN));

		if (!tries || rounds >= POLICED_HOLD) {
			tries = 1;
		} else {
			tries++;
			limit = max(min(limit, f->resume - POLICED_FALL_LEAST), f->resume - POLICED_FALL_MOST);
		}
		f->policed = tries * POLICED_TRY;
		f->resume = limit;
	} else if (tries) {
		u32 more = tries > 1 ? min(f->base_us / POLICED_REGROWTH_US, POLICED_REGROWTH_MOST) : 0;

		f->policed = tries * POLICED_TRY + rounds;
		if (rounds >= POLICED_HOLD)
			f->resume = min(f->resume + POLICED_GROWTH + more, W_MAX_LOG);
	}
}

/*
 * At a timeout, TCP marks all segments in flight as lost, although an outage often only delays them. With the long RTT of
 * an outage, they would look like a rival's full queue, so the round's losses do not count. In START they count, because a
 * policer may have dropped most of a window.
 */
static __always_inline void timeout_seen(struct sock *sk, struct crest *f)
{
	mapped_account_timeout(sk);
	if (f->phase != START)
		set_lost_before(f, tcp_sk(sk)->lost);
}

/*
 * TCP reduces its window for a mark (RFC 3168), at most once per round trip; rarely also for a loss that a tail loss
 * probe repaired, or for a full queue of this host. A mark is never random: there is a queue. It also counts as one
 * lost segment of this round.
 */
static __always_inline void mark_seen(struct crest *f)
{
	f->room -= min(f->room, (u8)(f->room / 4 + 16));
	f->empty = 0;
	set_lost_before(f, lost_before(f) - 1);
	if (f->phase == START)
		f->phase = CRUISE;
}
