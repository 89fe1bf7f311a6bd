/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The weight of the SINR. The SINR predicts how much more or less the next epoch delivers. The epoch's delivery is
 * compared with that prediction, and with no prediction. The weight is (E0^2 - E1^2) / (E0^2 + E1^2), at least 0, with
 * the mean squares of the errors without (E0) and with the signal (E1). For `dtcp`.
 */
#pragma once
#include <hotcc/bpf.h>
#include <hotcc/tags.h>

#define FORECAST_ONE 64
#define FORECAST_MAX 64LL /* the rate that a forecast is compared with is held within twice the expected one */
#define FORECAST_MIN 6 /* less is the noise of readings */
#define WEIGHT_ONE 256
#define ERROR_SHIFT 5		/* errors are averaged over 32 epochs */
#define ERROR_FIRST 1024	/* a quarter of the bandwidth, for both */

struct sinr_weight {
	u16 error_without FIELD("1/16384", "mean square of what the rate differed from no forecast");
	u16 error_with FIELD("1/16384", "mean square of what it differed from the signal's");
};

static __always_inline void weight_restart(struct sinr_weight *w)
{
	w->error_without = w->error_with = ERROR_FIRST;
}

static __always_inline void error_add(u16 *mean, s64 error_q10)
{
	u32 square;

	error_q10 = max(min(error_q10, 2047LL), -2047LL);
	square = (u32)(error_q10 * error_q10) >> 6;
	*mean += (square >> ERROR_SHIFT) - (*mean >> ERROR_SHIFT);
}

/*
 * The rate changed by the share `change_q10`; the signal had predicted `forecast`. Without a queue, the sender may have
 * limited the rate: then it only shows that the link can deliver more than predicted.
 */
static __always_inline void weight_judge(struct sinr_weight *w, s64 change_q10, s32 forecast, bool busy)
{
	s64 beyond_q10 = change_q10 - forecast * 1024 / FORECAST_ONE;

	if (!busy && beyond_q10 <= 0)
		return;
	error_add(&w->error_with, beyond_q10);
	if (busy)
		error_add(&w->error_without, change_q10);
}

static __always_inline u32 weight_q8(const struct sinr_weight *w)
{
	u64 without = (u64)w->error_without * w->error_without, with = (u64)w->error_with * w->error_with;

	return without > with ? (without - with) * WEIGHT_ONE / (without + with + 1) : 0;
}
