/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Common code of the Westwood family: RTTmin, the estimator of the original Westwood, eq 4 of Hamamreh 2020, and the
 * reaction to a loss. BWE is in 1/256 byte/s; 0: no sample yet. For `westwood_bpf`, `westwoodp`, `dcm` and `dcmplus`.
 */
#pragma once
#include <hotcc/filter.h>
#include <hotcc/kernel.h>
#include <hotcc/learned.h>
#include <hotcc/tags.h>

#ifndef BASE_WINDOW_US
#define BASE_WINDOW_US 10000000
#endif
TUNABLE(u32, base_window_us, BASE_WINDOW_US, 0, 0, 3600000000, "us",
	"time RTTmin is kept without being seen, a timeout ends it as well; 0: it is the connection's");

/* For `init`: the RTT that the connection already knows, perhaps under another algorithm. */
static __always_inline void base_restart(struct sock *sk, u32 *base_us, u32 *seen_us)
{
	*base_us = learned_base_us(sk);
	*seen_us = tcp_sk(sk)->tcp_mstamp;
}

static __always_inline bool base_aged(u32 now_us, u32 seen_us)
{
	return base_window_us && now_us - seen_us >= base_window_us;
}

/* The sample becomes RTTmin; one that is not positive is ignored. */
static __always_inline void base_replace(u32 now_us, u32 *base_us, u32 *seen_us, s32 rtt_us)
{
	asm("" : "+r"(rtt_us)); /* otherwise clang tests the sign before the callers' conditions, for each ACK */
	if (rtt_us <= 0)
		return;
	*base_us = rtt_us;
	*seen_us = now_us;
}

/* Lowers RTTmin to the sample, whatever RTTmin's age. Most samples are above it. */
static __always_inline void base_lower(const struct tcp_sock *tp, u32 *base_us, u32 *seen_us, s32 rtt_us)
{
	u32 now_us = tp->tcp_mstamp;

	if ((u32)rtt_us <= *base_us || !*base_us)
		base_replace(now_us, base_us, seen_us, rtt_us);
}

/* Lowers RTTmin to the sample, or replaces an aged RTTmin. */
static __always_inline void base_add(const struct tcp_sock *tp, u32 *base_us, u32 *seen_us, s32 rtt_us)
{
	u32 now_us = tp->tcp_mstamp;

	if ((u32)rtt_us <= *base_us || !*base_us || base_aged(now_us, *seen_us))
		base_replace(now_us, base_us, seen_us, rtt_us);
}

/* After a timeout the path may have changed, so the next sample replaces RTTmin, as in Linux's tcp_westwood. */
static __always_inline void base_expire(const struct tcp_sock *tp, u32 *seen_us)
{
	*seen_us = (u32)tp->tcp_mstamp - base_window_us;
}

#define VIRTUAL_SAMPLES_MAX 32

/*
 * The original's estimator: a sample for each ACK (eq 3), and a virtual sample of zero for each tau / 2 without an ACK.
 * ACKs with the same time stamp count as one.
 */
struct ack_rate {
	u64 previous FIELD("byte/s",
			   "the previous sample; the highest bit is set where the next one is no ordinary one");
	u32 last_us FIELD("us", "when the latest sample ended");
	u32 last_delivered FIELD("segments", "delivered at that time");
};

/* In `previous`: BWE is 0, or does not fit the ordinary arithmetic. */
#define EXTRAORDINARY (1ULL << 63)
/* The ordinary arithmetic's limit: 17 Gbit/s for BWE, and for two samples together. */
#define ORDINARY_BITS 31

static __always_inline void ack_rate_restart(const struct tcp_sock *tp, struct ack_rate *r)
{
	r->previous = EXTRAORDINARY;
	r->last_us = tp->tcp_mstamp;
	r->last_delivered = tp->delivered;
}

/*
 * The first transmission when nothing was in flight (CA_EVENT_TX_START). The application caused the silence before it,
 * which says nothing about the path; but in a recovery or after a timeout the path caused it. The filter averages two
 * samples in a row, and the sample before the silence does not count for the one after it.
 */
static __always_inline void ack_rate_resume(struct sock *sk, struct ack_rate *r)
{
	if (tcp_ca_state(sk) >= TCP_CA_Recovery) /* CWR goes on while the application is silent */
		return;
	r->last_us = tcp_sk(sk)->tcp_mstamp;
	r->last_delivered = tcp_sk(sk)->delivered;
	r->previous &= EXTRAORDINARY;
}

/*
 * Adds virtual samples for all of `*elapsed_us` but its last piece, of at most tau / 2. False if there would be too
 * many.
 */
static __always_inline bool virtual_samples(u64 *bandwidth_q8, struct ack_rate *r, u32 *elapsed_us, u64 half_tau_us)
{
	u64 count = (*elapsed_us - 1) / half_tau_us;

	if (count > VIRTUAL_SAMPLES_MAX)
		return false;
	for (u32 i = 0; i < VIRTUAL_SAMPLES_MAX && i < count; i++) {
		/* d = tau / 2 makes a = 3/5 */
		*bandwidth_q8 = (3 * *bandwidth_q8 + (r->previous << 8)) / 5;
		r->previous = 0;
	}
	*elapsed_us -= count * half_tau_us;
	return true;
}

/*
 * Whether the time since the last sample spans a round trip. The first sample must, because it is BWE with its full
 * weight, and the time between two ACKs says little. In a new connection, the first ACK does.
 */
static __always_inline bool ack_rate_spans_rtt(const struct tcp_sock *tp, const struct ack_rate *r)
{
	return (u32)tp->tcp_mstamp - r->last_us >= tp->srtt_us >> 3;
}

/* Any sample, including the first one, one after a silence, and one beyond the ordinary arithmetic. */
static __noinline void ack_rate_any(const struct tcp_sock *tp, struct ack_rate *r, u64 *bandwidth_q8, u32 tau_ms)
{
	u64 bytes = (u64)(u32)(tp->delivered - r->last_delivered) * tp->mss_cache, sample;
	u32 elapsed_us = (u32)tp->tcp_mstamp - r->last_us, half_tau_us = max(tau_ms, 1U) * 500;
	bool first = !*bandwidth_q8;

	r->last_us = tp->tcp_mstamp;
	r->last_delivered = tp->delivered;
	r->previous &= ~EXTRAORDINARY;
	if (!first && elapsed_us > half_tau_us)
		first = !virtual_samples(bandwidth_q8, r, &elapsed_us, half_tau_us);
	sample = rate_bytes_per_s(bytes, elapsed_us);
	if (first)
		*bandwidth_q8 = sample << 8;
	else
		*bandwidth_q8 = tustin_q8(*bandwidth_q8, sample << 8, r->previous << 8, elapsed_us, 2 * half_tau_us);
	r->previous = sample;
	if (!*bandwidth_q8 || *bandwidth_q8 >> (ORDINARY_BITS + 8))
		r->previous |= EXTRAORDINARY;
}

/*
 * BWE after an ordinary ACK. If it returns false, it did nothing, and the caller must call ack_rate_any(); a caller
 * that does so last saves no registers across the call, at a cost for each ACK. The two divisions are the sample's and
 * the filter's: with sum = sample + previous, BWE = ((2 tau - d) BWE + d sum) / (2 tau + d). All products are under
 * 2^64 for a tau of up to 10 s and an ACK of TCP's largest window, 1 Gbyte.
 */
static __always_inline bool ack_rate_add(const struct tcp_sock *tp, struct ack_rate *r, u64 *bandwidth_q8, u32 tau_ms)
{
	u64 elapsed_us = (u32)(tp->tcp_mstamp - r->last_us), half_tau_us = tau_ms * 500ULL;
	u64 bytes, sample, sum, two_tau_us;

	if (!elapsed_us)
		return true;
	bytes = (u64)(u32)(tp->delivered - r->last_delivered) * tp->mss_cache;
	sample = quotient(bytes * USEC_PER_SEC, elapsed_us);
	sum = sample + r->previous;
	asm("" : "+r"(half_tau_us)); /* otherwise tau takes two registers, one of which the program must save */
	if (sum >> ORDINARY_BITS || elapsed_us > half_tau_us)
		return false;
	r->previous = sample;
	r->last_us = tp->tcp_mstamp;
	r->last_delivered = tp->delivered;
	two_tau_us = half_tau_us * 4;
	*bandwidth_q8 = quotient(two_tau_us * *bandwidth_q8 + elapsed_us * ((sum << 8) - *bandwidth_q8),
				 two_tau_us + elapsed_us);
	return true;
}

/* max(2, BWE * RTTmin / segment size), eq 4; Reno's half while BWE or RTTmin is unknown. */
static __always_inline u32 westwood_window(struct sock *sk, u64 bandwidth_q8, u32 base_us)
{
	if (!bandwidth_q8 || !base_us)
		return tcp_reno_ssthresh(sk);
	return max(min(segments_in(bandwidth_q8 >> 8, base_us, tcp_sk(sk)->mss_cache), (u64)TCP_INFINITE_SSTHRESH),
		   2ULL);
}

/*
 * Starts a recovery or the loss state. The result controls PRR, so it must not exceed W; `window`, the result of eq 4,
 * becomes ssthresh at the end of the recovery.
 */
static __always_inline u32 westwood_ssthresh(struct sock *sk, u32 *loss_ssthresh, u32 window)
{
	*loss_ssthresh = window;
	return max(min(tcp_sk(sk)->snd_cwnd, window), 2U);
}

/*
 * The end of a recovery (CA_EVENT_COMPLETE_CWR), or a timeout (CA_EVENT_LOSS), for which eq 4 is evaluated again: while
 * BWE or RTTmin is unknown, the half of W before the loss remains.
 */
static __always_inline void westwood_event(struct sock *sk, u32 *loss_ssthresh, enum tcp_ca_event event,
					   u64 bandwidth_q8, u32 base_us, u32 *base_seen_us)
{
	if (event != CA_EVENT_COMPLETE_CWR && event != CA_EVENT_LOSS)
		return;
	if (event == CA_EVENT_LOSS) {
		if (!*loss_ssthresh || (bandwidth_q8 && base_us))
			*loss_ssthresh = westwood_window(sk, bandwidth_q8, base_us);
		base_expire(tcp_sk(sk), base_seen_us);
	}
	if (*loss_ssthresh)
		tcp_sk(sk)->snd_ssthresh = *loss_ssthresh;
	*loss_ssthresh = 0;
}

/* Enters the loss state. If a recovery runs, the kernel calls neither ssthresh() nor CA_EVENT_LOSS, and has set W. */
static __always_inline void westwood_loss_state(struct sock *sk, u32 *loss_ssthresh, u64 bandwidth_q8, u32 base_us,
						u32 *base_seen_us)
{
	if (*loss_ssthresh)
		westwood_event(sk, loss_ssthresh, CA_EVENT_LOSS, bandwidth_q8, base_us, base_seen_us);
}

/* The loss proved spurious. */
static __always_inline u32 westwood_undo(struct sock *sk, u32 *loss_ssthresh)
{
	*loss_ssthresh = 0;
	return tcp_reno_undo_cwnd(sk);
}

/* Westwood+ takes a bandwidth sample once per RTT, and at most once in `min_sample_us`. */
static __always_inline bool westwoodp_sample_due(u32 elapsed_us, u32 min_sample_us, s32 rtt_us)
{
	return elapsed_us >= min_sample_us && (rtt_us <= 0 || elapsed_us >= (u32)rtt_us);
}
