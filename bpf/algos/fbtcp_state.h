/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of a flow. Used by `fbtcp`.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/stats.h>
#include <hotcc/tags.h>

/* Values of `rule` besides the tables' rows; AGAIN is added if a b row, or eqs 7-10, acted. */
enum { RENO_STEP = 30, AGAIN = 100 };

/* `flags` */
#define DP_LIMITED 1U	   /* the application or a drain held the interval of DP back at its start */
#define DRAINED 2U	   /* all that is in flight was sent after the drain had begun */
#define LOST_BEFORE_PEP 4U /* a segment is missing in this span that no PEP saw */

struct fbtcp {
	struct flow_account account;
	u32 round_end FIELD("", "sequence number whose acknowledgement ends the running round");
	u32 max_cwnd FIELD("segments", "maxCwnd, 0: none yet");
	u32 max_time_us FIELD("us", "when an estimate last reached it");
	u32 base_us FIELD("us", "baseRtt, 0: none yet");
	u32 base_time_us FIELD("us", "when it was last seen, or looked for");
	u32 drain_cwnd FIELD("segments", "W to go back to after the drain that looks for baseRtt, 0: no drain");
	u32 round_min_us FIELD("us", "minRtt, the least RTT of the running round, 0: none yet");
	u32 csi_q16 FIELD("1/65536", "CSI of the last round that had one");
	u32 repeat FIELD("rounds", "how often in a row it was this row");
	u32 step FIELD("segments", "what this round adds to W");
	u32 step_left FIELD("segments", "how much of that is not yet paid out");
	u32 step_price FIELD("segments", "W when the round began: what must be acknowledged for the whole step");
	u32 growth FIELD("segments^2", "growth earned, not yet paid out; step_price makes a segment");
	u32 dp_start_us FIELD("us", "when the running interval of DP began");
	u32 dp_delivered FIELD("segments", "delivered at that time");
	u32 span_delivered FIELD("segments", "delivered when the span began over which losses are counted");
	u32 span_lost FIELD("segments", "lost when it began");
	u32 loss_hold FIELD("rounds", "rounds to come in which W grows as in Divergence, after one over the loss cap");
	u32 restore_cwnd FIELD("segments", "W to go back to after the recovery, 0: none");
	u32 restore_ssthresh FIELD("segments", "ssthresh to go back to then");
	u16 samples FIELD("", "RTT samples in the running round, 65535 at most");
	u8 rule FIELD("", "row of the last round: 1-14 C1-C14, 21-26 D1-D6, 30 Reno's step, 0 none; +100: the b row");
	u8 flags FIELD("", "1: interval of DP limited, 2: drained, 4: a loss that no PEP saw in this round");
};
FLOW_STATE(struct fbtcp);

static __always_inline void step_set(struct fbtcp *flow, u32 segments)
{
	flow->step = segments;
	flow->step_left = segments;
}
