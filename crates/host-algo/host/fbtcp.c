// SPDX-License-Identifier: GPL-2.0-only
/*
 * FB-TCP in the harness, and its pure step functions beside it.
 */
#include "harness.c"

/* The row for these memberships, as in the state's `rule`. */
HOTCC_EXPORT u32 fbtcp_row(u32 csi_q16, u32 diff, u32 cad_q16, u32 cwnd, u32 max_cwnd)
{
	return row_of(csi_q16, diff, cad_q16, cwnd, max_cwnd);
}

/* The row at this CSI, with Diff and CAD as they follow from it. */
HOTCC_EXPORT u32 fbtcp_row_at(u32 csi_q16, u32 cwnd, u32 max_cwnd)
{
	return row_at(csi_q16, cwnd, max_cwnd);
}

/* W by a row before any limit; `again`: by its b row, or eqs 7 and 9. */
HOTCC_EXPORT u64 fbtcp_window(u32 row, u32 again, u64 cwnd)
{
	return window_by(row, again, cwnd);
}
