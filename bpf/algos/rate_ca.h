/* SPDX-License-Identifier: GPL-2.0-only */
/* rate_CA = RTT_old / RTT_new, eq 5 of Hamamreh 2020: the weight of growth in DCM and DCM+. */
#pragma once
#include <hotcc/bpf.h>

#define RATE_CA_ONE_Q16 (1ULL << 16)
/* rate_CA is always within 2^-20 and 2^20 */
#define RATE_CA_LIMIT_SHIFT 20
#define RATE_CA_LIMIT_Q16 (RATE_CA_ONE_Q16 << RATE_CA_LIMIT_SHIFT)

/* The ratio and its inverse, each rounded down, at least 1/65536 and at most 2^20. */
struct rate_ca {
	u64 rate_q16;
	u64 inverse_q16;
};

/*
 * rate_CA of two RTTs in the same unit, each under 2^36, kept within the given limits; a limit of 0 means no limit. 1
 * while either RTT is unknown (0).
 */
static __always_inline struct rate_ca rate_ca(u64 old_rtt, u64 new_rtt, u32 min_permille, u32 max_permille)
{
	struct rate_ca r = { RATE_CA_ONE_Q16, RATE_CA_ONE_Q16 };
	u64 numerator = old_rtt, denominator = new_rtt;

	if (!old_rtt || !new_rtt)
		return r;
	if (min_permille && old_rtt * 1000 < new_rtt * min_permille) {
		numerator = min_permille;
		denominator = 1000;
	} else if (max_permille && old_rtt * 1000 > new_rtt * max_permille) {
		numerator = max_permille;
		denominator = 1000;
	}
	r.rate_q16 = max(min((numerator << 16) / denominator, RATE_CA_LIMIT_Q16), 1ULL);
	r.inverse_q16 = max(min((denominator << 16) / numerator, RATE_CA_LIMIT_Q16), 1ULL);
	return r;
}
