// SPDX-License-Identifier: GPL-2.0-only
/*
 * FB-TCP in the harness, together with its pure step functions.
 */
#include "harness.c"

/* Returns the row for these memberships, numbered as in the state's `rule`. */
HOTCC_EXPORT u32 fbtcp_row(u32 csi_q16, u32 diff, u32 cad_q16, u32 cwnd, u32 max_cwnd)
{
	return row_of(csi_q16, diff, cad_q16, cwnd, max_cwnd);
}

/* Returns the row at this CSI, with the Diff and CAD that follow from it. */
HOTCC_EXPORT u32 fbtcp_row_at(u32 csi_q16, u32 cwnd, u32 max_cwnd)
{
	return row_at(csi_q16, cwnd, max_cwnd);
}

/* Returns the W that a row sets before any limit; with `again`, the W by its b row, or by eqs 7 and 9. */
HOTCC_EXPORT u64 fbtcp_window(u32 row, u32 again, u64 cwnd)
{
	return window_by(row, again, cwnd);
}
