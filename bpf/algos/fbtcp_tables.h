/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables 1 to 6 of FB-TCP: which row fires, and what it makes of W. No state, no socket. For `fbtcp`; the paper is named
 * there.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/tags.h>

/* Tables 2, 4 and 6; the paper's names. */
TUNABLE(u32, a, 120, 120, 0, 1000000, "segments", "C1: W grows by, in a round");
TUNABLE(u32, b, 100, 100, 0, 1000000, "segments", "C2: W grows by");
TUNABLE(u32, c, 70, 70, 0, 1000000, "segments", "C3: W grows by");
TUNABLE(u32, d, 60, 60, 0, 1000000, "segments", "C4: W grows by");
TUNABLE(u32, e, 50, 50, 0, 1000000, "segments", "C5: W grows by");
TUNABLE(u32, f, 40, 40, 0, 1000000, "segments", "C6: W grows by");
TUNABLE(u32, g, 30, 30, 0, 1000000, "segments", "C7: W grows by");
TUNABLE(u32, h, 25, 25, 0, 1000000, "segments", "C8: W grows by");
TUNABLE(u32, i, 20, 20, 0, 1000000, "segments", "C9: W grows by");
TUNABLE(u32, j, 10, 10, 0, 1000000, "segments", "C11: W shrinks by");
TUNABLE(u32, k, 20, 20, 0, 1000000, "segments", "C11.b: W shrinks by");
TUNABLE(u32, l, 25, 25, 0, 1000000, "segments", "C12: W shrinks by");
TUNABLE(u32, m, 50, 50, 0, 1000000, "segments", "C12.b: W shrinks by");
TUNABLE(u32, n_permille, 750, 750, 0, 1000, "permille", "C13: share of W that stays");
TUNABLE(u32, o, 2, 2, 1, 1000, "", "C13.b: divisor of W");
TUNABLE(u32, p_permille, 400, 400, 0, 1000, "permille", "C14: share of W that stays");
TUNABLE(u32, q, 3, 3, 1, 1000, "", "C14.b: divisor of W");
TUNABLE(u32, r, 1, 1, 0, 1000000, "segments", "D1: W grows by");
TUNABLE(u32, s, 1, 1, 0, 1000000, "segments", "D2: W grows by");
TUNABLE(u32, t_permille, 750, 750, 0, 1000, "permille", "D5: share of W that stays");
TUNABLE(u32, u, 2, 2, 1, 1000, "", "D5.b: divisor of W");
TUNABLE(u32, v, 2, 2, 1, 1000, "", "D6: divisor of W");
TUNABLE(u32, w, 4, 4, 1, 1000, "", "D6.b: divisor of W");

TUNABLE(u32, alpha_permille, 900, 900, 0, 1000, "permille", "eq 7: share of W that stays after hold_rounds in C10");
TUNABLE(u32, beta_permille, 900, 900, 0, 1000, "permille", "eq 8: share of maxCwnd that stays then");
TUNABLE(u32, gamma_permille, 900, 900, 0, 1000, "permille", "eq 9: share of W that stays after them in D3 or D4");
TUNABLE(u32, theta_permille, 900, 900, 0, 1000, "permille", "eq 10: share of maxCwnd that stays then");

/* Where one membership ends and the next begins. */
TUNABLE(u32, csi_full, 980, 980, 0, 1000, "permille", "C1..C5: least CSI");
TUNABLE(u32, csi_high, 950, 950, 0, 1000, "permille", "C6, C7: least CSI; under it there is a queue");
TUNABLE(u32, csi_mid, 700, 700, 0, 1000, "permille", "C8, C9, D2, D3: least CSI");
TUNABLE(u32, csi_low, 300, 300, 0, 1000, "permille", "C10, D4: least CSI");
TUNABLE(u32, csi_poor, 50, 50, 0, 1000, "permille", "C11, C12, D5: least CSI");
TUNABLE(u32, csi_probe, 990, 990, 0, 1000, "permille", "D1: least CSI");
TUNABLE(u32, cad_high, 950, 950, 0, 1000, "permille",
	"C6, C8, C11, C13, D2: least CAD; C8 needs it under csi_high, C11 and C13 further down");
TUNABLE(u32, diff_1, 10, 10, 0, 1000000, "segments", "C1: greatest Diff");
TUNABLE(u32, diff_2, 15, 15, 0, 1000000, "segments", "C2: greatest Diff");
TUNABLE(u32, diff_3, 20, 20, 0, 1000000, "segments", "C3: greatest Diff");
TUNABLE(u32, diff_4, 30, 30, 0, 1000000, "segments", "C4: greatest Diff");

TUNABLE(u32, repeat_rounds, 3, 3, 1, 1000, "rounds", "the b rows act in this round of a row");
TUNABLE(u32, hold_rounds, 31, 31, 1, 100000, "rounds", "eqs 7-10 act in this round of C10, D3 or D4");

enum { C1 = 1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14 };
enum { D1 = 21, D2, D3, D4, D5, D6 };

static __always_inline u64 less(u64 cwnd, u32 by)
{
	return cwnd > by ? cwnd - by : 0;
}

static __always_inline u64 share(u64 cwnd, u32 permille)
{
	return cwnd * permille / 1000;
}

static __always_inline u64 part(u64 cwnd, u32 divisor)
{
	return cwnd / (divisor ?: 1);
}

/*
 * Tables 1 to 6. A row fires if CSI is at least its second column, its third holds, and none above it fires; the upper
 * ends of the printed ranges follow from that. `near`: CAD >= cad_high. Then what W becomes, and what it becomes when
 * the row fires for the third time running (C10, D3, D4: the 31st).
 */
#define CONVERGENCE(ROW)                                                                            \
	ROW(C1,  csi_full, diff <= diff_1, cwnd + a,                cwnd + a)                       \
	ROW(C2,  csi_full, diff <= diff_2, cwnd + b,                cwnd + b)                       \
	ROW(C3,  csi_full, diff <= diff_3, cwnd + c,                cwnd + c)                       \
	ROW(C4,  csi_full, diff <= diff_4, cwnd + d,                cwnd + d)                       \
	ROW(C5,  csi_full, true,           cwnd + e,                cwnd + e)                       \
	ROW(C6,  csi_high, near,           cwnd + f,                cwnd + f)                       \
	ROW(C7,  csi_high, true,           cwnd + g,                cwnd + g)                       \
	ROW(C8,  csi_mid,  near,           cwnd + h,                cwnd + h)                       \
	ROW(C9,  csi_mid,  true,           cwnd + i,                cwnd + i)                       \
	ROW(C10, csi_low,  true,           cwnd,                    share(cwnd, alpha_permille))    \
	ROW(C11, csi_poor, near,           less(cwnd, j),           less(cwnd, k))                  \
	ROW(C12, csi_poor, true,           less(cwnd, l),           less(cwnd, m))                  \
	ROW(C13, 0,        near,           share(cwnd, n_permille), part(cwnd, o))                  \
	ROW(C14, 0,        true,           share(cwnd, p_permille), part(cwnd, q))

#define DIVERGENCE(ROW)                                                                             \
	ROW(D1,  csi_probe, true,          cwnd + r,                cwnd + r)                       \
	ROW(D2,  csi_mid,  near,           cwnd + s,                cwnd + s)                       \
	ROW(D3,  csi_mid,  true,           cwnd,                    share(cwnd, gamma_permille))    \
	ROW(D4,  csi_low,  true,           cwnd,                    share(cwnd, gamma_permille))    \
	ROW(D5,  csi_poor, true,           share(cwnd, t_permille), part(cwnd, u))                  \
	ROW(D6,  0,        true,           part(cwnd, v),           part(cwnd, w))

static __always_inline bool at_least(u32 ratio_q16, u32 permille)
{
	return (u64)ratio_q16 * 1000 >= (u64)permille << 16;
}

/* The row that fires. */
static __always_inline u32 row_of(u32 csi_q16, u32 diff, u32 cad_q16, u32 cwnd, u32 max_cwnd)
{
	bool near = at_least(cad_q16, cad_high);

#define FIRES(row, csi, condition, ...)                   \
	if (at_least(csi_q16, csi) && (condition))        \
		return row;
	if (cwnd <= max_cwnd) { /* eq 5 */
		CONVERGENCE(FIRES)
	}
	DIVERGENCE(FIRES)
#undef FIRES
	return D6;
}

/* Eqs 2, 3 and 6, and the row that they lead to. */
static __always_inline u32 row_at(u32 csi_q16, u32 cwnd, u32 max_cwnd)
{
	u32 target = (u64)cwnd * csi_q16 >> 16;
	u32 cad_q16 = cwnd ? ((u64)target << 16) / cwnd : 0;

	return row_of(csi_q16, cwnd - target, cad_q16, cwnd, max_cwnd);
}

/* W by a row; `again`: by its b row, or by eqs 7 and 9. */
static __always_inline u64 window_by(u32 row, bool again, u64 cwnd)
{
#define BECOMES(row, csi, condition, window, window_again)  \
	case row:                                           \
		return again ? (window_again) : (window);
	switch (row) {
		CONVERGENCE(BECOMES)
		DIVERGENCE(BECOMES)
	}
#undef BECOMES
	return cwnd;
}

static __always_inline bool row_raises(u32 row)
{
	return row <= C9 || row == D1 || row == D2;
}

static __always_inline bool row_holds(u32 row)
{
	return row == C10 || row == D3 || row == D4;
}
