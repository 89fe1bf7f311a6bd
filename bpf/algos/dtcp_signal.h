/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the radio tells `dtcp`: its readings, S as the paper prints it, and how far a forecast was right.
 */
#pragma once
#include "dtcp_rules.h"
#include "dtcp_state.h"
#include "shannon.h"

static __always_inline void signal_account(struct dtcp *f)
{
	struct hotcc_stats_v2 *s = stats_here();

	if (!s)
		return;
	STAT_ADD(s, signal_fresh, f->epochs_fresh);
	STAT_ADD(s, signal_stale, f->epochs_stale);
	STAT_ADD(s, signal_absent, f->epochs_absent);
	f->epochs_fresh = f->epochs_stale = f->epochs_absent = 0;
}

/* Looks the SINR up, and counts the lookup. */
static __always_inline enum radio_answer signal_read(struct sock *sk, struct dtcp *f, s32 *sinr_q8, s32 *average_q8)
{
	enum radio_answer answer = radio_read(sk, &f->radio, sinr_q8, average_q8);
	u16 count;

	if (answer == RADIO_FRESH)
		count = ++f->epochs_fresh;
	else if (answer == RADIO_STALE)
		count = ++f->epochs_stale;
	else
		count = ++f->epochs_absent;
	if (count == 65535)
		signal_account(f);
	return answer;
}

/*
 * Whether the signal is in use and fresh; then returns the SINR and the feeder's average of it. It is not inline,
 * because the verifier then has fewer states to follow.
 */
static __noinline bool signal_fresh(struct sock *sk, s32 *sinr_q8, s32 *average_q8)
{
	struct dtcp *f = flow_state(sk);

	if (sinr_term == SINR_OFF)
		return false;
	if (signal_read(sk, f, sinr_q8, average_q8) == RADIO_FRESH)
		return true;
	link_rate_restart(&f->link);
	return false;
}

/* S as printed, in bytes/s: dB taken for kbit/s, within +-B_I. */
static __always_inline s64 literal_term_bytes_per_s(s32 sinr_q8, s32 average_q8, s64 filtered)
{
	s64 term = div_s64((s64)(sinr_q8 - average_q8) * sinr_gain_kbps * 125, 256);

	return max(min(term, filtered), -filtered);
}

/* S in bytes/s: what this SINR promises over the feeder's average one, within +-B_I. */
static __always_inline s64 relative_term_bytes_per_s(s32 sinr_q8, s32 average_q8, s64 filtered)
{
	s64 average_efficiency = shannon_efficiency_q20(average_q8);
	s64 difference = shannon_efficiency_q20(sinr_q8) - average_efficiency;
	/* no overflow up to 4.2 Tbit/s, as the difference is at most 17416485; the divisor is never 0 */
	s64 term = div_s64(filtered * difference, average_efficiency);

	return max(min(term, filtered), -filtered);
}

/* Eqs 6 and 7 with S = 0: the bandwidth that the next epoch is expected to have without a signal. */
static __always_inline s64 expected_bytes_per_s(struct dtcp *f)
{
	s64 filtered = f->bandwidth_q8 >> 8;

	return filtered + div_s64(((s64)f->sample_rate - filtered) * (s64)g_permille, 1000);
}

/* Compares the last epoch's prediction by the signal with this epoch's delivery. Runs before the filter's step. */
static __always_inline void signal_judge(struct dtcp *f, s32 forecast, u64 sample, s64 by_least)
{
	s64 expected = expected_bytes_per_s(f);

	if (expected <= 0)
		return;
	weight_judge(&f->weight, div_s64(((s64)min(sample, 2ULL * expected) - expected) * 1024, expected), forecast,
		     by_least >= alpha_of(alpha_permille) / 4);
}
