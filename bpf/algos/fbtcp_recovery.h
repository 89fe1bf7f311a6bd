/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FB-TCP's recovery, which must not move W: when it begins and ends, and what it changes. Used by `fbtcp`.
 *
 *   begins      with ssthresh(): W and ssthresh are saved for its end, and the running step ends. From here on PRR sets
 *               snd_cwnd, and leads it to W.
 *   meanwhile   rows, drains and the loss cap change the saved W, and with it PRR's target, at once. Slow start neither
 *               grows nor ends.
 *   ends        with CA_EVENT_COMPLETE_CWR, which restores W and ssthresh. ssthresh is limited to less than W, so slow
 *               start is over.
 *   is dropped  by a mark, a timeout or an undo, which set W and ssthresh themselves. The kernel calls ssthresh()
 *               before marks and timeouts, too.
 */
#pragma once
#include "fbtcp_state.h"
#include <hotcc/kernel.h>

static __always_inline void recovery_begin(const struct tcp_sock *tp, struct fbtcp *flow)
{
	flow->restore_cwnd = max(tp->snd_cwnd, 2U);
	flow->restore_ssthresh = tp->snd_ssthresh;
	step_set(flow, 0);
}

/* Returns false for a recovery that began before the switch to FB-TCP or was dropped: then PRR alone sets W. */
static __always_inline bool recovery_goes_on(const struct fbtcp *flow, u8 state)
{
	return state == TCP_CA_Recovery && flow->restore_cwnd;
}

/* Returns W or, in a recovery, the saved W. */
static __always_inline u32 window_kept(const struct tcp_sock *tp, const struct fbtcp *flow, bool recovering)
{
	return recovering ? flow->restore_cwnd : tp->snd_cwnd;
}

static __always_inline void recovery_aim(struct tcp_sock *tp, struct fbtcp *flow, u64 cwnd)
{
	flow->restore_cwnd = min(max(cwnd, 2ULL), (u64)tp->snd_cwnd_clamp);
	tp->snd_ssthresh = max(flow->restore_cwnd, 2U);
}

static __always_inline void recovery_drop(struct fbtcp *flow)
{
	flow->restore_cwnd = 0;
}

static __always_inline void recovery_end(struct tcp_sock *tp, struct fbtcp *flow)
{
	u32 cwnd;

	if (!flow->restore_cwnd)
		return;
	cwnd = min(max(tp->snd_cwnd, flow->restore_cwnd), tp->snd_cwnd_clamp);
	tp->snd_cwnd = cwnd;
	tp->snd_ssthresh = max(max(min(flow->restore_ssthresh, cwnd - 1), (u32)((u64)cwnd * 3 / 4)), 2U);
	recovery_drop(flow);
}
