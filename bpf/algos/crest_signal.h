/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The radio signal and its weight. For `crest`.
 *
 *   e = log2 of the link's capacity if that is known, else of the spectral efficiency of the SINR
 *   level = mean of log2(rate) - e: what the flow gets of a capacity, or makes of an efficiency
 *   forecast = level + e
 *   weight = E0^2 / (E0^2 + E1^2), with the mean squares E of the errors of two forecasts of the rate that the link has
 *            just shown, as they were when its packets left: the forecast above (E1), and no change (E0)
 *
 * Capacity and SINR each have a level and an error. If one replaces the other, its own values are restored, and
 * learning resumes after a round trip. A slice is a quarter of a round trip. On average, its packets were served two
 * slices ago, and left four slices ago. A forecast that is too low would keep the queue empty and never prove wrong.
 * Therefore, if a link without a queue delivers more than the forecast, this raises the level and counts as an error;
 * and a signal does not lower the rate of a link that had no queue for a round trip.
 */
#pragma once
#include <hotcc/log2.h>
#include <hotcc/path.h>
#include <hotcc/radio.h>
#include <hotcc/tags.h>

#include "shannon.h"

#define SIGNAL_SLICES 4
#define CAPACITY_ONE_LOG (20 * LOG2_ONE) /* of kbit/s: keeps the level above 0, because a rate's logarithm is larger */
#define LEARN_SHIFT 6	      /* errors and level are averaged over 64 slices */
#define ERROR_LIMIT_Q10 2000  /* an error of a factor of four counts as the worst */
#define ERROR_FIRST 1000
#define FORECAST_RAISE_Q10 1024 /* at most a factor of 2 up, */
#define FORECAST_LOWER_Q10 4096 /* and of 16 down */

struct crest_signal {
	u16 rates[SIGNAL_SLICES] FIELD("log2(1/16 segment/s) / 1024",
				       "rates of the last slices, the newest first; 0: none");
	s16 readings[SIGNAL_SLICES] FIELD("1/1024", "log2 of the capacity in 2^20 kbit/s, or of the efficiency in "
						    "bit/s/Hz, at their ends, likewise; -32768: none");
	struct radio_ref radio;
	u16 level FIELD("log2(1/16 segment/s) / 1024", "rate over reading, averaged; 0: not known yet")
		EXPORT_FORECAST(readings[0]);
	u16 error_with FIELD("1/8192", "mean square of log2 of the rate over the signal's forecast") EXPORT_SUM;
	u16 error_without FIELD("1/8192", "mean square of log2 of the rate over the last rate") EXPORT_SUM;
	u16 other_level FIELD("log2(1/16 segment/s) / 1024",
			      "of the other kind of signal, as it was when that was used");
	u16 other_error FIELD("1/8192", "likewise");
	u8 weight FIELD("1/256", "how far the signal's forecast is believed") EXPORT_SUM;
	u8 busy FIELD("", "bit map of the last eight slices: whether there was a queue, the newest in bit 0");
	/* not the signal's, but the alignment of this struct would leave these bytes unused */
	struct path_ref path;
	u8 reverse_sure FIELD("slices", "in which reverse_least hardly moved, at most 8; then it is believed");
	u16 reverse_least FIELD("64 us", "least time from an ACK's stamp to its arrival, by both clocks, modulo 65536");
};

/* Switches to the other kind of signal, with its own level and error. */
static __always_inline void signal_turn(struct crest_signal *s, u8 kind)
{
	u16 level = s->level, error = s->error_with;

	if (s->radio.kind != RADIO_NONE) {
		s->level = s->other_level;
		s->error_with = s->other_error;
		s->other_level = level;
		s->other_error = error;
		for (int i = 0; i < SIGNAL_SLICES; i++)
			s->readings[i] = NO_READING;
	}
	s->radio.kind = kind;
}

/*
 * The link; none if `on`, which is 0 or 1, says that the radio is not read any more. Then its cell and level no longer
 * count, either. The verifier follows products once, but branches twice.
 */
static __always_inline u32 signal_link(struct crest_signal *s, u32 on)
{
	s->radio.generation *= on;
	s->radio.slot *= on;
	s->radio.cell *= on;
	s->level *= on;
	return s->radio.slot;
}

/* The logarithm of the best available signal. */
static __always_inline s32 signal_read(struct sock *sk, struct crest_signal *s)
{
	union radio_line *line = radio_line_of(sk, &s->radio);
	s32 sinr_q8, average_q8, reading;
	u32 kbit_per_s;
	u8 kind;

	if (!line)
		return NO_READING;
	kbit_per_s = radio_capacity(sk, line);
	if (kbit_per_s) {
		kind = RADIO_CAPACITY;
		reading = (s32)log2_q10(kbit_per_s) - CAPACITY_ONE_LOG;
	} else {
		if (radio_sinr(sk, line, &sinr_q8, &average_q8) != RADIO_FRESH)
			return NO_READING;
		kind = RADIO_SINR;
		reading = (s32)log2_q10(shannon_efficiency_q20(sinr_q8)) - SHANNON_SHIFT * LOG2_ONE;
	}
	if (s->radio.kind != kind)
		signal_turn(s, kind);
	return reading;
}

static __always_inline void signal_weigh(struct crest_signal *s)
{
	u64 with = (u64)s->error_with * s->error_with, without = (u64)s->error_without * s->error_without;

	s->weight = without * 255 / (with + without + 1);
}

static __always_inline void error_mean(u16 *mean, s32 error_q10)
{
	u32 square;

	error_q10 = max(min(error_q10, ERROR_LIMIT_Q10), -ERROR_LIMIT_Q10);
	square = (u32)(error_q10 * error_q10) >> 7;
	*mean += (square >> LEARN_SHIFT) - (*mean >> LEARN_SHIFT);
}

static __always_inline void signal_learn(struct crest_signal *s, s32 rate)
{
	s32 served = s->readings[1], left = s->readings[SIGNAL_SLICES - 1], before = s->rates[SIGNAL_SLICES - 1];
	s32 level = rate - served;
	bool busy = (s->busy & 0x11) == 0x11;

	if (!before || served == NO_READING || left == NO_READING)
		return;
	if (!s->level) {
		if (!busy || level <= 0)
			return;
		s->level = level;
		s->error_with = ERROR_FIRST;
		s->error_without = s->error_without ?: ERROR_FIRST;
	}
	if (!busy && level <= s->level)
		return;
	error_mean(&s->error_with, rate - (s->level + left));
	if (busy)
		error_mean(&s->error_without, rate - before);
	s->level += (level - s->level) >> (busy ? LEARN_SHIFT : 2);
}

/* Learns from a slice in which the link delivered at `rate`, a logarithm. Returns the signal's forecast, or 0. */
static __always_inline u32 signal_slice(struct sock *sk, struct crest_signal *s, u32 rate, bool queued)
{
	s32 now = signal_read(sk, s);

	s->busy = s->busy << 1 | queued;
	if (now != NO_READING)
		signal_learn(s, rate);
	__builtin_memmove(s->rates + 1, s->rates, sizeof(s->rates) - sizeof(s->rates[0]));
	__builtin_memmove(s->readings + 1, s->readings, sizeof(s->readings) - sizeof(s->readings[0]));
	s->rates[0] = min(rate, 65535U);
	s->readings[0] = now;
	if (now == NO_READING || !s->level)
		return 0;
	signal_weigh(s);
	return max(s->level + now, 1);
}

/* The expected rate, given a measured one. */
static __always_inline u64 signal_expect(const struct crest_signal *s, u64 rate, u32 forecast, bool may_lower)
{
	s32 change;

	if (!forecast)
		return rate;
	change = (s32)forecast - (s32)log2_q10(rate);
	change = max(min(change, FORECAST_RAISE_Q10), may_lower ? -FORECAST_LOWER_Q10 : 0) * s->weight >> 8;
	return rate * exp2_q10(20 * LOG2_ONE + change) >> 20;
}
