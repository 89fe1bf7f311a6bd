//! Calls pure step functions of algorithms by themselves, also with inputs that no connection leads to.

use crate::library::symbol;

use hotcc_host_algo::HostAlgo;

/// One in Q16.
pub const ONE_Q16: u32 = 1 << 16;

/// FB-TCP's tables, with the tunables of the algorithm they were taken from.
#[derive(Clone, Copy)]
pub struct FbtcpTables<'a> {
    algo: &'a HostAlgo,
    row: unsafe extern "C" fn(u32, u32, u32, u32, u32) -> u32,
    row_at: unsafe extern "C" fn(u32, u32, u32) -> u32,
    window: unsafe extern "C" fn(u32, u32, u64) -> u64,
}

impl<'a> FbtcpTables<'a> {
    /// Returns the tables of `algo`, which must be `fbtcp`.
    #[must_use]
    pub fn of(algo: &'a HostAlgo) -> Self {
        let library = algo.library();
        Self {
            algo,
            row: symbol(library, "fbtcp_row"),
            row_at: symbol(library, "fbtcp_row_at"),
            window: symbol(library, "fbtcp_window"),
        }
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algo(&self) -> &'a HostAlgo {
        self.algo
    }

    /// Returns the row that fires (1 to 14: C1 to C14, 21 to 26: D1 to D6), for memberships given one by one.
    #[must_use]
    pub fn row(&self, csi_q16: u32, diff: u32, cad_q16: u32, cwnd: u32, max_cwnd: u32) -> u32 {
        // SAFETY: reads its arguments and the tunables; the library lives as long as the algorithm.
        unsafe { (self.row)(csi_q16, diff, cad_q16, cwnd, max_cwnd) }
    }

    /// Returns the row that fires; Diff and CAD follow from CSI and W by eqs 2, 3 and 6.
    #[must_use]
    pub fn row_at(&self, csi_q16: u32, cwnd: u32, max_cwnd: u32) -> u32 {
        // SAFETY: as for `row`.
        unsafe { (self.row_at)(csi_q16, cwnd, max_cwnd) }
    }

    /// Returns W after a row, in segments; `again`: its b row, or eqs 7 and 9.
    #[must_use]
    pub fn window(&self, row: u32, again: bool, cwnd: u32) -> u64 {
        // SAFETY: as for `row`.
        unsafe { (self.window)(row, u32::from(again), u64::from(cwnd)) }
    }
}
