/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Decides which losses FB-TCP treats as random, and computes W after other losses. Has no state. Used by `fbtcp`, whose
 * comment gives the reasons.
 */
#pragma once
#include "domains.h"
#include <hotcc/kernel.h>
#include <hotcc/tags.h>

TUNABLE(u32, loss_cap_permille, 20, 0, 0, 1000, "permille",
	"losses of a round that are clearly more lower W; 0: never");
TUNABLE(u32, access_loss_cap_permille, 300, 0, 0, 1000, "permille",
	"loss_cap_permille of a round whose losses the PEP says are the access network's");

#define LOSS_SPAN 100U

/* Returns whether a PEP saw all missing segments; with `first`, they begin at snd_una. */
static __always_inline bool lost_behind_pep(struct sock *sk, bool first)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pep_seen seen;

	return pep_is_possible(sk) && pep_read(sk, PEP_MAX_AGE_MS, &seen) == PEP_FRESH &&
	       (!first || pep_saw_first(tp, &seen)) && pep_saw_holes(tp, &seen);
}

/* Returns whether losses exceed independent random losses of `cap_permille` by more than two standard deviations. */
static __always_inline bool loses_more(u64 lost, u64 sent, u32 cap_permille)
{
	s64 excess = lost * 1000 - cap_permille * sent;

	return excess > 0 && (excess >> 30 || (u64)(excess * excess) > 4000 * cap_permille * sent);
}

/*
 * Returns the W that remains if the losses are not random, else 0. W falls by twice the lost share, so that a policer
 * drops nothing for half of the time until W has grown back, but at most to half of what arrived.
 */
static __always_inline u32 window_after_losses(u32 cwnd, u64 lost, u64 arrived, u32 cap_permille)
{
	u64 sent = lost + arrived;

	if (!cap_permille || !loses_more(lost, sent, cap_permille))
		return 0;
	return max(cwnd * max(arrived - min(lost, arrived), arrived / 2) / sent, 2ULL);
}
