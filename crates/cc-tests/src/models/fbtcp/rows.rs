//! Which row of the tables a round matches, and what the row does to W.

use super::tunables::Tunables;

/// A step of one segment: the round had too few RTT samples for a CSI.
pub const RENO: u32 = 30;
/// Added to a row's number when its `.b` form, or the reduction after a hold, acted.
pub const SEVERE: u32 = 100;

/// What a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// W grows by this many segments, over a round.
    More(u32),
    /// W stays.
    Keep,
    /// W shrinks by this many segments, at once.
    Less(u32),
    /// W becomes this many permille of itself, at once.
    Times(u32),
    /// W is divided by this, at once.
    Over(u32),
}

/// Returns the first row that matches in Tables 1 and 3 (`convergence`) or 5. `csi` is eq 4's, `diff` eq 2's, `cad`
/// eq 6's.
///
/// # Panics
/// If no row matches. Whatever the thresholds, each table should cover all of its plane.
#[must_use]
pub fn row(t: &Tunables, convergence: bool, csi: f64, diff: f64, cad: f64) -> u32 {
    let csi_from = |permille: u32| csi * 1000.0 >= f64::from(permille);
    let csi_under = |permille: u32| !csi_from(permille);
    let near = cad * 1000.0 >= f64::from(t.cad_high);
    let diff_over = |segments: u32| diff > f64::from(segments);
    let diff_to = |segments: u32| !diff_over(segments);
    let full = csi_from(t.csi_full);
    let convergence_rows = || {
        [
            (1, full && diff_to(t.diff_1)),
            (2, full && diff_over(t.diff_1) && diff_to(t.diff_2)),
            (3, full && diff_over(t.diff_2) && diff_to(t.diff_3)),
            (4, full && diff_over(t.diff_3) && diff_to(t.diff_4)),
            (5, full && diff_over(t.diff_4)),
            (6, csi_from(t.csi_high) && csi * 1000.0 <= f64::from(t.csi_full) && near),
            (7, csi_from(t.csi_high) && csi * 1000.0 <= f64::from(t.csi_full) && !near),
            (8, csi_from(t.csi_mid) && csi_under(t.csi_full) && near),
            (9, csi_from(t.csi_mid) && csi_under(t.csi_full) && !near),
            (10, csi_from(t.csi_low) && csi_under(t.csi_mid)),
            (11, csi_from(t.csi_poor) && csi_under(t.csi_low) && near),
            (12, csi_from(t.csi_poor) && csi_under(t.csi_low) && !near),
            (13, csi_under(t.csi_poor) && near),
            (14, csi_under(t.csi_poor) && !near),
        ]
    };
    let divergence_rows = || {
        [
            (21, csi_from(t.csi_probe)),
            (22, csi_from(t.csi_mid) && csi_under(t.csi_probe) && near),
            (23, csi_from(t.csi_mid) && csi_under(t.csi_probe) && !near),
            (24, csi_from(t.csi_low) && csi_under(t.csi_mid)),
            (25, csi_from(t.csi_poor) && csi_under(t.csi_low)),
            (26, csi_under(t.csi_poor)),
        ]
    };
    let first = |rows: &[(u32, bool)]| rows.iter().find(|(_, matches)| *matches).map(|(number, _)| *number);
    let found = if convergence { first(&convergence_rows()) } else { first(&divergence_rows()) };
    match found {
        Some(number) => number,
        None => panic!("no row for CSI {csi}, Diff {diff}, CAD {cad}"),
    }
}

/// Returns the number of successive rounds in this row at which its severe form acts, or `None` if it has no such form.
#[must_use]
pub fn patience(t: &Tunables, row: u32) -> Option<u32> {
    match row {
        11..=14 | 25 | 26 => Some(t.repeat_rounds), // "for more than two RTTs"
        10 | 23 | 24 => Some(t.hold_rounds),        // "for thirty consecutive RTTs"
        _ => None,
    }
}

/// Returns what a row does: Tables 2, 4 and 6, and eqs 7 and 9.
///
/// # Panics
/// If the row is in no table.
#[must_use]
pub fn action(t: &Tunables, row: u32, severe: bool) -> Action {
    match (row, severe) {
        (1, _) => Action::More(t.c1_add),
        (2, _) => Action::More(t.c2_add),
        (3, _) => Action::More(t.c3_add),
        (4, _) => Action::More(t.c4_add),
        (5, _) => Action::More(t.c5_add),
        (6, _) => Action::More(t.c6_add),
        (7, _) => Action::More(t.c7_add),
        (8, _) => Action::More(t.c8_add),
        (9, _) => Action::More(t.c9_add),
        (10 | 23 | 24, false) => Action::Keep,
        (10, true) => Action::Times(t.alpha_permille),
        (11, false) => Action::Less(t.c11_subtract),
        (11, true) => Action::Less(t.c11b_subtract),
        (12, false) => Action::Less(t.c12_subtract),
        (12, true) => Action::Less(t.c12b_subtract),
        (13, false) => Action::Times(t.c13_keep_permille),
        (13, true) => Action::Over(t.c13b_divisor),
        (14, false) => Action::Times(t.c14_keep_permille),
        (14, true) => Action::Over(t.c14b_divisor),
        (21, _) => Action::More(t.d1_add),
        (22, _) => Action::More(t.d2_add),
        (23 | 24, true) => Action::Times(t.gamma_permille),
        (25, false) => Action::Times(t.d5_keep_permille),
        (25, true) => Action::Over(t.d5b_divisor),
        (26, false) => Action::Over(t.d6_divisor),
        (26, true) => Action::Over(t.d6b_divisor),
        _ => panic!("no row {row}"),
    }
}

/// Returns the part of maxCwnd that the reduction after a hold keeps (eqs 8 and 10), permille, or `None` if the row
/// holds nothing.
#[must_use]
pub fn upper_bound_kept(t: &Tunables, row: u32) -> Option<u32> {
    match row {
        10 => Some(t.beta_permille),
        23 | 24 => Some(t.theta_permille),
        _ => None,
    }
}

/// Returns a row's name, with `.b` if that form acted, or `reduced` if eqs 7 to 10 did.
///
/// # Panics
/// If no rule has this number.
#[must_use]
pub fn name(rule: u32) -> &'static str {
    match rule {
        1 => "C1",
        2 => "C2",
        3 => "C3",
        4 => "C4",
        5 => "C5",
        6 => "C6",
        7 => "C7",
        8 => "C8",
        9 => "C9",
        10 => "C10",
        11 => "C11",
        12 => "C12",
        13 => "C13",
        14 => "C14",
        21 => "D1",
        22 => "D2",
        23 => "D3",
        24 => "D4",
        25 => "D5",
        26 => "D6",
        RENO => "Reno steps",
        110 => "C10 reduced",
        111 => "C11.b",
        112 => "C12.b",
        113 => "C13.b",
        114 => "C14.b",
        123 => "D3 reduced",
        124 => "D4 reduced",
        125 => "D5.b",
        126 => "D6.b",
        _ => panic!("no rule {rule}"),
    }
}
