//! FB-TCP's Tables 1 to 6 as pure functions: which row fires, and what it makes of the window.

use hotcc_cc_tests::steps::{FbtcpTables, ONE_Q16};
use hotcc_host_algo::HostAlgo;

/// Returns `permille` in Q16, and the next smaller Q16 number.
fn at_and_under(permille: u32) -> (u32, u32) {
    let at = (permille * ONE_Q16).div_ceil(1000);
    (at, at - 1)
}

#[test]
fn convergence_rows_are_those_of_tables_1_and_3() {
    let algo = HostAlgo::load("fbtcp");
    let tables = FbtcpTables::of(&algo);
    let row = |csi, diff, cad| tables.row(csi, diff, cad, 100, 100); // W <= maxCwnd (eq 5)
    let ((full, below_full), (high, below_high)) = (at_and_under(980), at_and_under(950));
    let ((mid, below_mid), (low, below_low)) = (at_and_under(700), at_and_under(300));
    let (poor, below_poor) = at_and_under(50);
    for csi in [ONE_Q16, full] {
        for (diff, want) in [(0, 1), (10, 1), (11, 2), (15, 2), (16, 3), (20, 3), (21, 4), (30, 4), (31, 5), (99, 5)] {
            assert_eq!(row(csi, diff, ONE_Q16), want, "CSI {csi} Diff {diff}");
            assert_eq!(row(csi, diff, 0), want, "CSI {csi} Diff {diff}");
        }
    }
    // CSI, row where CAD >= 0.95, row below
    for (csi, near, far) in [
        (below_full, 6, 7),
        (high, 6, 7),
        (below_high, 8, 9),
        (mid, 8, 9),
        (below_mid, 10, 10),
        (low, 10, 10),
        (below_low, 11, 12),
        (poor, 11, 12),
        (below_poor, 13, 14),
        (0, 13, 14),
    ] {
        for diff in [0, 31] {
            assert_eq!((row(csi, diff, ONE_Q16), row(csi, diff, high)), (near, near), "CSI {csi}");
            assert_eq!((row(csi, diff, below_high), row(csi, diff, 0)), (far, far), "CSI {csi}");
        }
    }
}

#[test]
fn divergence_rows_are_those_of_table_5() {
    let algo = HostAlgo::load("fbtcp");
    let tables = FbtcpTables::of(&algo);
    let row = |csi, cad| tables.row(csi, 0, cad, 101, 100);
    let ((probe, below_probe), (mid, below_mid)) = (at_and_under(990), at_and_under(700));
    let ((low, below_low), (poor, below_poor)) = (at_and_under(300), at_and_under(50));
    let (high, below_high) = at_and_under(950);
    for (csi, near, far) in [
        (ONE_Q16, 21, 21),
        (probe, 21, 21),
        (below_probe, 22, 23),
        (mid, 22, 23),
        (below_mid, 24, 24),
        (low, 24, 24),
        (below_low, 25, 25),
        (poor, 25, 25),
        (below_poor, 26, 26),
        (0, 26, 26),
    ] {
        assert_eq!((row(csi, high), row(csi, below_high)), (near, far), "CSI {csi}");
    }
}

#[test]
fn windows_are_those_of_tables_2_4_and_6() {
    let algo = HostAlgo::load("fbtcp");
    let tables = FbtcpTables::of(&algo);
    for (row, once, again) in [
        (1, 1121, 1121),
        (2, 1101, 1101),
        (3, 1071, 1071),
        (4, 1061, 1061),
        (5, 1051, 1051),
        (6, 1041, 1041),
        (7, 1031, 1031),
        (8, 1026, 1026),
        (9, 1021, 1021),
        (10, 1001, 900), // 0.9 * 1001 = 900.9
        (11, 991, 981),
        (12, 976, 951),
        (13, 750, 500), // 0.75 * 1001 = 750.75; 1001 / 2
        (14, 400, 333), // 0.4 * 1001; 1001 / 3
        (21, 1002, 1002),
        (22, 1002, 1002),
        (23, 1001, 900),
        (24, 1001, 900),
        (25, 750, 500),
        (26, 500, 250),
    ] {
        assert_eq!((tables.window(row, false, 1001), tables.window(row, true, 1001)), (once, again), "row {row}");
    }
    // a subtraction ends at 0, a divisor of 0 leaves W unchanged
    assert_eq!((tables.window(12, false, 24), tables.window(12, true, 24)), (0, 0));
    algo.set_tunable("c14b_divisor", 0);
    assert_eq!(tables.window(14, true, 1001), 1001);
}

/// A target rounded down makes CAD <= CSI, so CAD >= 0.95 and CSI < 0.95 exclude one another.
#[test]
fn c8_c11_and_c13_never_fire_through_the_computed_target() {
    let algo = HostAlgo::load("fbtcp");
    let tables = FbtcpTables::of(&algo);
    let mut fired = [0u32; 15];
    let mut try_at = |csi, cwnd| fired[tables.row_at(csi, cwnd, u32::MAX) as usize] += 1;
    // every CSI at windows of every size; every window up to 2000 at CSIs of every size and around each threshold
    let windows = (2..64).chain((6..32).flat_map(|bit| [1u32 << bit, (1 << bit) - 1, (1 << bit) + 1, 3 << (bit - 1)]));
    for cwnd in windows {
        (0..=ONE_Q16).for_each(|csi| try_at(csi, cwnd));
    }
    let about = [50, 300, 700, 950, 980, 990].map(at_and_under).into_iter().flat_map(|(at, under)| [at + 1, at, under]);
    for csi in (0..=ONE_Q16).step_by(64).chain(about) {
        (2..=2000).for_each(|cwnd| try_at(csi, cwnd));
    }
    assert_eq!((fired[8], fired[11], fired[13]), (0, 0, 0));
    for row in [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 14] {
        assert!(fired[row] > 0, "C{row} never fired");
    }
    // the rows exist: with another CAD they fire
    let cad = at_and_under(950).0;
    assert_eq!(
        [(900, 8), (200, 11), (10, 13)].map(|(csi, row)| tables.row(at_and_under(csi).0, 0, cad, 100, 100) == row),
        [true; 3]
    );
}

/// Truncation of the target takes CAD under 0.95 while CSI is above: at W = 19 and CSI = 0.96, 18.24 becomes 18.
#[test]
fn c7_fires_at_small_windows_only() {
    let algo = HostAlgo::load("fbtcp");
    let tables = FbtcpTables::of(&algo);
    assert_eq!(tables.row_at(at_and_under(960).0, 19, 100), 7);
    assert_eq!(tables.row_at(at_and_under(960).0, 200, 200), 6);
}

/// The largest windows plus the largest step.
#[test]
fn windows_do_not_overflow() {
    let algo = HostAlgo::load("fbtcp");
    let tables = FbtcpTables::of(&algo);
    for row in (1..=14).chain(21..=26) {
        let window = tables.window(row, false, 0x7fff_ffff);
        assert!(window <= 0x7fff_ffff + 120, "row {row}: {window}");
    }
    algo.set_tunable("c1_add", 1_000_000);
    assert_eq!(tables.window(1, false, u32::MAX), u64::from(u32::MAX) + 1_000_000);
}
