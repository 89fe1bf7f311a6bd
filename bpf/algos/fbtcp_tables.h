/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tables 1 to 6 of FB-TCP: which row fires, and how it changes W. Has no state. Used by `fbtcp`, which names the paper.
 */
#pragma once
#include <hotcc/kernel.h>
#include <hotcc/tags.h>

/* A constant of Tables 2, 4 and 6, named after its row; `was` is the name it had before, after the paper's letter. */
#define CONSTANT(name, was, value, lowest, highest, unit, help_text) \
	FORMERLY(name, was);                                         \
	TUNABLE(u32, name, value, value, lowest, highest, unit, help_text)

CONSTANT(c1_add, "a", 120, 0, 1000000, "segments", "C1: W grows by this in a round (a in the paper)");
CONSTANT(c2_add, "b", 100, 0, 1000000, "segments", "C2: W grows by this (b in the paper)");
CONSTANT(c3_add, "c", 70, 0, 1000000, "segments", "C3: W grows by this (c in the paper)");
CONSTANT(c4_add, "d", 60, 0, 1000000, "segments", "C4: W grows by this (d in the paper)");
CONSTANT(c5_add, "e", 50, 0, 1000000, "segments", "C5: W grows by this (e in the paper)");
CONSTANT(c6_add, "f", 40, 0, 1000000, "segments", "C6: W grows by this (f in the paper)");
CONSTANT(c7_add, "g", 30, 0, 1000000, "segments", "C7: W grows by this (g in the paper)");
CONSTANT(c8_add, "h", 25, 0, 1000000, "segments", "C8: W grows by this (h in the paper)");
CONSTANT(c9_add, "i", 20, 0, 1000000, "segments", "C9: W grows by this (i in the paper)");
CONSTANT(c11_subtract, "j", 10, 0, 1000000, "segments", "C11: W shrinks by this (j in the paper)");
CONSTANT(c11b_subtract, "k", 20, 0, 1000000, "segments", "C11.b: W shrinks by this (k in the paper)");
CONSTANT(c12_subtract, "l", 25, 0, 1000000, "segments", "C12: W shrinks by this (l in the paper)");
CONSTANT(c12b_subtract, "m", 50, 0, 1000000, "segments", "C12.b: W shrinks by this (m in the paper)");
CONSTANT(c13_keep_permille, "n_permille", 750, 0, 1000, "permille", "C13: share of W that stays (n in the paper)");
CONSTANT(c13b_divisor, "o", 2, 1, 1000, "", "C13.b: divisor of W (o in the paper)");
CONSTANT(c14_keep_permille, "p_permille", 400, 0, 1000, "permille", "C14: share of W that stays (p in the paper)");
CONSTANT(c14b_divisor, "q", 3, 1, 1000, "", "C14.b: divisor of W (q in the paper)");
CONSTANT(d1_add, "r", 1, 0, 1000000, "segments", "D1: W grows by this (r in the paper)");
CONSTANT(d2_add, "s", 1, 0, 1000000, "segments", "D2: W grows by this (s in the paper)");
CONSTANT(d5_keep_permille, "t_permille", 750, 0, 1000, "permille", "D5: share of W that stays (t in the paper)");
CONSTANT(d5b_divisor, "u", 2, 1, 1000, "", "D5.b: divisor of W (u in the paper)");
CONSTANT(d6_divisor, "v", 2, 1, 1000, "", "D6: divisor of W (v in the paper)");
CONSTANT(d6b_divisor, "w", 4, 1, 1000, "", "D6.b: divisor of W (w in the paper)");

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
 * Tables 1 to 6. A row fires if CSI is at least its second column, its third holds, and no row above it fires; the
 * upper ends of the printed ranges follow from that. `near`: CAD >= cad_high. The fourth column is the new W, and the
 * fifth the new W if the row fires for the third time running (C10, D3, D4: the 31st).
 */
#define CONVERGENCE(ROW)                                                                                        \
	ROW(C1,  csi_full,  diff <= diff_1, cwnd + c1_add,                   cwnd + c1_add)                     \
	ROW(C2,  csi_full,  diff <= diff_2, cwnd + c2_add,                   cwnd + c2_add)                     \
	ROW(C3,  csi_full,  diff <= diff_3, cwnd + c3_add,                   cwnd + c3_add)                     \
	ROW(C4,  csi_full,  diff <= diff_4, cwnd + c4_add,                   cwnd + c4_add)                     \
	ROW(C5,  csi_full,  true,           cwnd + c5_add,                   cwnd + c5_add)                     \
	ROW(C6,  csi_high,  near,           cwnd + c6_add,                   cwnd + c6_add)                     \
	ROW(C7,  csi_high,  true,           cwnd + c7_add,                   cwnd + c7_add)                     \
	ROW(C8,  csi_mid,   near,           cwnd + c8_add,                   cwnd + c8_add)                     \
	ROW(C9,  csi_mid,   true,           cwnd + c9_add,                   cwnd + c9_add)                     \
	ROW(C10, csi_low,   true,           cwnd,                            share(cwnd, alpha_permille))       \
	ROW(C11, csi_poor,  near,           less(cwnd, c11_subtract),        less(cwnd, c11b_subtract))         \
	ROW(C12, csi_poor,  true,           less(cwnd, c12_subtract),        less(cwnd, c12b_subtract))         \
	ROW(C13, 0,         near,           share(cwnd, c13_keep_permille),  part(cwnd, c13b_divisor))          \
	ROW(C14, 0,         true,           share(cwnd, c14_keep_permille),  part(cwnd, c14b_divisor))

#define DIVERGENCE(ROW)                                                                                         \
	ROW(D1,  csi_probe, true,           cwnd + d1_add,                   cwnd + d1_add)                     \
	ROW(D2,  csi_mid,   near,           cwnd + d2_add,                   cwnd + d2_add)                     \
	ROW(D3,  csi_mid,   true,           cwnd,                            share(cwnd, gamma_permille))       \
	ROW(D4,  csi_low,   true,           cwnd,                            share(cwnd, gamma_permille))       \
	ROW(D5,  csi_poor,  true,           share(cwnd, d5_keep_permille),   part(cwnd, d5b_divisor))           \
	ROW(D6,  0,         true,           part(cwnd, d6_divisor),          part(cwnd, d6b_divisor))

static __always_inline bool at_least(u32 ratio_q16, u32 permille)
{
	return (u64)ratio_q16 * 1000 >= (u64)permille << 16;
}

/* Returns the row that fires. */
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

/* Returns the row for Diff and CAD by eqs 2, 3 and 6. */
static __always_inline u32 row_at(u32 csi_q16, u32 cwnd, u32 max_cwnd)
{
	u32 target = (u64)cwnd * csi_q16 >> 16;
	u32 cad_q16 = cwnd ? ((u64)target << 16) / cwnd : 0;

	return row_of(csi_q16, cwnd - target, cad_q16, cwnd, max_cwnd);
}

/* Returns the W that a row sets; with `again`, the W by its b row, or by eqs 7 and 9. */
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
