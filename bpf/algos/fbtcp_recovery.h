/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FB-TCP's recovery, which must not move W: when it begins and ends, and what it changes. For `fbtcp`.
 *
 *   begins      with ssthresh(): W and ssthresh are kept for its end, and the running step ends. PRR, whose snd_cwnd is
 *               from here on, leads it to W.
 *   meanwhile   rows, drains and the loss cap move the W that is kept, and with it PRR's aim, at once. Slow start neither
 *               grows nor ends.
 *   ends        with CA_EVENT_COMPLETE_CWR: W is the one that was kept. So is ssthresh, but under W: slow start is over.
 *   is dropped  by a mark, a timeout or an undo, which set W and ssthresh themselves. ssthresh() also precedes marks and
 *               timeouts.
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

/* False for a recovery that began before the connection switched to FB-TCP or was dropped: PRR alone sets W then. */
static __always_inline bool recovery_goes_on(const struct fbtcp *flow, u8 state)
{
	return state == TCP_CA_Recovery && flow->restore_cwnd;
}

/* W; in a recovery, the one that is kept. */
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
