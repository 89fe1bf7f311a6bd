/* SPDX-License-Identifier: GPL-2.0-only */
/* A flow's state, its units, and the law's constants. For `crest`. */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/tags.h>

#include "crest_signal.h"

#define SEGMENT 256U /* W is in 1/256 segments */
#define W_MIN (4 * SEGMENT)
#define W_MAX (1U << 30)
#define W_MAX_LOG (30 * LOG2_ONE)
#define RATE_UNIT (16 * USEC_PER_SEC) /* rates are in 1/16 segments per second */
#define RATE_MAX 0xffffffffULL
#define SLICE_MIN_US 8000
#define SLICE_SEGMENTS 4
#define DELAYED_ACK_US 30000 /* a receiver delays an ACK by 40 ms; such an ACK says nothing about the path */
#define ACKED_MAX (1U << 16) /* keeps W plus what an ACK adds below 2^32 */
#define ROOM_ONE 255
#define ROOM_LOSSES 3 /* what losses leave at least; only marks take more */
#define FEW_LOSSES 2 /* permille; an average does not fall below, because of its rounding */
#define FALL_LOSSES 90 /* permille; if no more are lost, what arrives varies by chance */
#define START_PACING_PERMILLE 5000
#define PACING_PERMILLE 1250
#define YOUNG_PROBES 4 /* a newcomer's least RTT includes the others' queue, so it probes sooner */
#define YOUNG_WINDOW_MS 300U
#define STAND_ROUNDS 25
#define PEAK_UNKNOWN (30 * LOG2_ONE)
#define RTT_TICK_SHIFT 6

enum phase { START, CRUISE, PROBE, REFILL, COMPETE, RECHECK, MOVED };

struct crest {
	struct crest_signal signal;
	u32 base_us FIELD("us", "least RTT of the path; 0: none yet");
	u32 base_seen_ms FIELD("ms", "when an RTT near it was last seen, or looked for");
	u32 slice_start_us FIELD("us", "start of the slice");
	u32 slice_delivered FIELD("segments", "delivered at its start");
	u32 slice_rtt_us FIELD("us", "least RTT of the slice; 0: none yet");
	u32 last_delivered FIELD("segments", "delivered in the slice before");
	u32 round_delivered FIELD("segments",
				  "delivered before the round, which ends when a segment sent in it arrives");
	u32 round_rtt_us FIELD("us", "least RTT of the round; 0: none yet");
	u32 window FIELD("segments / 256", "W");
	u16 last_time FIELD("64 us", "length of the slice before");
	u16 wait FIELD("64 us", "time that ACKs wait in a queue on the way back, at its recent most");
	u16 resume FIELD("log2(segments / 256) / 1024",
			 "W before the probe; in CRUISE, the limit for losses without a queue, or W at same_rtt");
	u16 peak FIELD("log2(segments / 256) / 1024", "W at its recent best; in COMPETE, before the last loss");
	u16 probe_rtt FIELD("64 us", "RTT before the probe");
	u16 same_rtt FIELD("64 us", "RTT that W had no effect on; in COMPETE, before the probe that led to it");
	u16 round_lost FIELD("segments", "lost before the round, modulo 65536");
	u8 round_lost_high FIELD("65536 segments", "lost before the round in addition, modulo 256");
	u8 burst FIELD("percent", "share of the least RTT that is added to the queue wanted");
	u8 phase FIELD("", "0 START, 1 CRUISE, 2 PROBE, 3 REFILL, 4 COMPETE, 5 RECHECK, 6 MOVED")
		EXPORT_COUNTS("START,CRUISE,PROBE,REFILL,COMPETE,RECHECK,MOVED");
	u8 empty FIELD("RTT / 8", "time without a queue");
	u8 rounds FIELD("rounds", "of a queue that others may own; in other phases, since their start");
	u8 stood FIELD("rounds",
		       "of such a queue before the probe; in CRUISE, at same_rtt; in COMPETE, since the last loss");
	u8 probes FIELD("", "probes since the start, at most 4; more: times on end that a smaller W saw the same RTT");
	u8 rivals FIELD("", "probes on end that found a queue of others");
	u8 loss FIELD("permille", "share of segments lost, averaged over four rounds");
	u8 room FIELD("1/255", "share of the queue wanted that losses and marks leave");
	u8 filled FIELD("", "whether a loss showed that the queue was full");
	u8 doubt FIELD("", "times on end that COMPETE saw no such loss, at most 3");
	u8 policed FIELD("rounds",
			 "since a limit for losses without a queue, plus 51 for each on end; from 204: random");
	u8 counted FIELD("", "last epoch in which the group counted this flow, modulo 256");
};

/* The segments that were lost before the round, modulo 2^24. */
static __always_inline u32 lost_before(const struct crest *f)
{
	return f->round_lost | (u32)f->round_lost_high << 16;
}

static __always_inline void set_lost_before(struct crest *f, u32 lost)
{
	f->round_lost = lost;
	f->round_lost_high = lost >> 16;
}

/* The segments that were lost since the round began. */
static __always_inline u32 round_losses(const struct tcp_sock *tp, const struct crest *f)
{
	return (tp->lost - lost_before(f)) & 0xffffff;
}

static __always_inline void slice_begin(const struct tcp_sock *tp, struct crest *f)
{
	f->slice_start_us = tp->tcp_mstamp;
	f->slice_delivered = tp->delivered;
	f->slice_rtt_us = 0;
}

/*
 * Data leaves, and nothing is in flight: the time before says nothing about the link's rate. After a pause, this flow's
 * queue has gone, as in a probe. A timeout is no pause, nor is the time between two segments if W is one segment: flows
 * that share a very short queue would never probe.
 */
static __always_inline void idle_end(struct sock *sk, struct crest *f)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 two_rtts_us = tp->srtt_us >> 2;

	if (tcp_ca_state(sk) != TCP_CA_Loss && (u32)tp->tcp_mstamp - f->slice_start_us > two_rtts_us)
		f->base_seen_ms = tp->tcp_mstamp / 1000;
	slice_begin(tp, f);
}
