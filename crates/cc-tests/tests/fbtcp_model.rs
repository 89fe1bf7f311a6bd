//! FB-TCP's model by itself: its tables, and whole connections over a bottleneck in virtual time.

#[path = "fbtcp_model/bottleneck.rs"]
mod bottleneck;

use bottleneck::{Bottleneck, Report};
use hotcc_cc_tests::models::fbtcp::rows::{self, Action};
use hotcc_cc_tests::models::fbtcp::{Fbtcp, Tunables};

const ROWS: [u32; 20] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 21, 22, 23, 24, 25, 26];

/// Visits every CSI in whole permille and around the thresholds, with every W for which the target's truncation
/// matters.
fn rounds(mut visit: impl FnMut(f64, u32)) {
    for window in (2..300).chain([900, 1499, 3000, 100_000]) {
        for csi in 0..=8000 {
            visit(f64::from(csi) / 8000.0, window);
        }
    }
}

fn row_of(convergence: bool, csi: f64, window: u32) -> u32 {
    let window = f64::from(window);
    let target = (window * csi).floor();
    rows::row(&Tunables::PAPER, convergence, csi, window - target, target / window)
}

/// CAD is target / W and the target W * CSI, so no round has a CAD of 0.95 under a CSI of less.
#[test]
fn three_rows_are_never_reached_and_all_others_are() {
    let mut reached = [0u64; 27];
    rounds(|csi, window| {
        reached[row_of(true, csi, window) as usize] += 1;
        reached[row_of(false, csi, window) as usize] += 1;
    });
    for row in ROWS {
        let unreachable = [8, 11, 13].contains(&row);
        assert_eq!(reached[row as usize] == 0, unreachable, "row {row}: {reached:?}");
    }
}

/// C6 and C8 overlap at 0.95 to 0.98, and so do C7 and C9; at 0.98 C6 overlaps with C1.
#[test]
fn the_first_row_that_matches_wins() {
    let row = |csi: f64, diff: f64, cad: f64| rows::row(&Tunables::PAPER, true, csi, diff, cad);
    assert_eq!(row(0.96, 40.0, 0.96), 6);
    assert_eq!(row(0.96, 1.0, 0.94), 7);
    assert_eq!(row(0.98, 1.0, 0.98), 1);
    // rows that no connection reaches, through the pure function
    assert_eq!(row(0.94, 1.0, 0.95), 8);
    assert_eq!(row(0.29, 1.0, 0.95), 11);
    assert_eq!(row(0.04, 1.0, 0.95), 13);
    let act = |row: u32, severe: bool| rows::action(&Tunables::PAPER, row, severe);
    assert_eq!(act(8, false), Action::More(25));
    assert_eq!([act(11, false), act(11, true)], [Action::Less(10), Action::Less(20)]);
    assert_eq!([act(13, false), act(13, true)], [Action::Times(750), Action::Over(2)]);
}

/// Figure 1: the better the network, the more W grows, and the phase under the upper bound grows faster.
#[test]
fn a_shorter_queue_never_means_less() {
    let order = |convergence: bool| {
        let mut actions = Vec::new();
        for permille in (0..=1000).rev() {
            let row = row_of(convergence, f64::from(permille) / 1000.0, 1000);
            let after = |action: Action| match action {
                Action::More(segments) => 1000 + segments,
                Action::Keep => 1000,
                Action::Less(segments) => 1000 - segments,
                Action::Times(permille) => permille,
                Action::Over(divisor) => 1000 / divisor,
            };
            actions.push(after(rows::action(&Tunables::PAPER, row, false)));
        }
        actions
    };
    let (convergence, divergence) = (order(true), order(false));
    assert!(convergence.is_sorted_by(|a, b| a >= b), "{convergence:?}");
    assert!(divergence.is_sorted_by(|a, b| a >= b), "{divergence:?}");
    assert!(convergence[..50].iter().zip(&divergence).all(|(c, d)| c > d));
}

const PROFILES: [Tunables; 2] = [Tunables::DEFAULT, Tunables::PAPER];

/// Runs a transfer of 20 s over a path of `rate` segments a second; `buffer` is in bandwidth-delay products.
fn run(tunables: Tunables, rate: f64, base_us: u32, buffer: f64, loss: f64) -> Report {
    let bdp = rate * f64::from(base_us) / 1e6;
    let path = Bottleneck { rate, base_us, buffer: buffer * bdp, loss };
    let report = bottleneck::run(Fbtcp::new(tunables), path, 20.0);
    println!("{path:?}: {report:?}");
    report
}

#[test]
fn fills_the_pipe_and_leaves_slow_start() {
    for tunables in PROFILES {
        for (rate, base_us, buffer) in [
            (500.0, 20_000, 4.0),
            (5000.0, 40_000, 1.0),
            (5000.0, 40_000, 20.0),
            (2000.0, 300_000, 2.0),
            (20_000.0, 100_000, 1.0),
        ] {
            let report = run(tunables, rate, base_us, buffer, 0.0);
            assert!(report.utilisation > 0.95, "{report:?}");
            // ten segments are doubled seven times, and two more rounds pass until the queue shows
            let slow_start_s = report.slow_start_s.unwrap();
            assert!(slow_start_s < 15.0 * f64::from(base_us) / 1e6, "{report:?}");
            assert!(report.window >= report.ssthresh, "{report:?}");
        }
    }
}

/// If no buffer overflows, W settles near the bandwidth-delay product.
#[test]
fn keeps_the_queue_short() {
    for tunables in PROFILES {
        for (rate, base_us) in [(5000.0, 40_000), (20_000.0, 100_000)] {
            let report = run(tunables, rate, base_us, 20.0, 0.0);
            assert!(report.stretch < 1.2, "{report:?}");
        }
    }
}

/// "Immune to random packet losses": NewReno would use a fifth of this path at a loss of 0.1 %, a sixteenth at 1 %.
#[test]
fn fills_the_pipe_through_random_losses() {
    for tunables in PROFILES {
        for loss in [1e-4, 1e-3, 1e-2] {
            let report = run(tunables, 5000.0, 40_000, 20.0, loss);
            assert!(report.utilisation > 0.98 && report.stretch < 1.5, "{report:?}");
            assert!(report.recoveries > 5, "{report:?}");
        }
    }
}

/// A queue of a tenth of a bandwidth-delay product never makes CSI so low that rows lower W; the losses must lower it.
#[test]
fn a_short_buffer_drops_little() {
    let report = run(Tunables::DEFAULT, 5000.0, 40_000, 0.1, 0.0);
    assert!(report.lost < 0.03 && report.utilisation > 0.9, "{report:?}");
    let report = run(Tunables::PAPER, 5000.0, 40_000, 0.1, 0.0);
    assert!(report.lost > 0.1, "{report:?}");
}
