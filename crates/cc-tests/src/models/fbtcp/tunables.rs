//! FB-TCP's tunables and their values in both profiles.

macro_rules! tunables {
    ($($(#[$doc:meta])* $name:ident = $default:literal;)*) => {
        /// The tunables, named as in the algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Tunables { $($(#[$doc])* pub $name: u32,)* }

        impl Tunables {
            /// Profile `default`.
            pub const DEFAULT: Self = Self { $($name: $default,)* };

            /// Returns names and values.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u32)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

tunables! {
    /// Step of C1, segments (C1 to C9: Table 2).
    c1_add = 120;
    /// Step of C2, segments.
    c2_add = 100;
    /// Step of C3, segments.
    c3_add = 70;
    /// Step of C4, segments.
    c4_add = 60;
    /// Step of C5, segments.
    c5_add = 50;
    /// Step of C6, segments.
    c6_add = 40;
    /// Step of C7, segments.
    c7_add = 30;
    /// Step of C8, segments.
    c8_add = 25;
    /// Step of C9, segments.
    c9_add = 20;
    /// Decrease of W in C11, segments (C11 to C14: Table 4).
    c11_subtract = 10;
    /// Decrease of W in C11.b, segments.
    c11b_subtract = 20;
    /// Decrease of W in C12, segments.
    c12_subtract = 25;
    /// Decrease of W in C12.b, segments.
    c12b_subtract = 50;
    /// Part of W kept in C13, permille.
    c13_keep_permille = 750;
    /// Divisor of W in C13.b.
    c13b_divisor = 2;
    /// Part of W kept in C14, permille.
    c14_keep_permille = 400;
    /// Divisor of W in C14.b.
    c14b_divisor = 3;
    /// Step of D1, segments (D1 to D6: Table 6).
    d1_add = 1;
    /// Step of D2, segments.
    d2_add = 1;
    /// Part of W kept in D5, permille.
    d5_keep_permille = 750;
    /// Divisor of W in D5.b.
    d5b_divisor = 2;
    /// Divisor of W in D6.
    d6_divisor = 2;
    /// Divisor of W in D6.b.
    d6b_divisor = 4;
    /// Part of W kept after a hold in C10 (eq 7), permille.
    alpha_permille = 900;
    /// Part of maxCwnd kept after a hold in C10 (eq 8), permille.
    beta_permille = 900;
    /// Part of W kept after a hold in D3 or D4 (eq 9), permille.
    gamma_permille = 900;
    /// Part of maxCwnd kept after a hold in D3 or D4 (eq 10), permille.
    theta_permille = 900;
    /// rho of eq 1, permille.
    rho_permille = 1050;
    /// Least CSI of C1 to C5, permille.
    csi_full = 980;
    /// Least CSI of C6 and C7, permille.
    csi_high = 950;
    /// Least CSI of C8, C9, D2 and D3, permille.
    csi_mid = 700;
    /// Least CSI of C10 and D4, permille.
    csi_low = 300;
    /// Least CSI of C11, C12 and D5, permille.
    csi_poor = 50;
    /// Least CSI of D1, permille.
    csi_probe = 990;
    /// Least CAD of C6, C8, C11, C13 and D2, permille.
    cad_high = 950;
    /// Largest Diff of C1, segments.
    diff_1 = 10;
    /// Largest Diff of C2, segments.
    diff_2 = 15;
    /// Largest Diff of C3, segments.
    diff_3 = 20;
    /// Largest Diff of C4, segments.
    diff_4 = 30;
    /// Number of the successive round in a row of the tables in which its `.b` form acts.
    repeat_rounds = 3;
    /// Number of the successive round in C10, D3 or D4 in which eqs 7 to 10 act.
    hold_rounds = 31;
    /// Least number of RTT samples of a round for a row to be applied.
    min_samples = 3;
    /// Interval of the delivery rate DP, microseconds.
    dp_interval_us = 100_000;
    /// W at which slow start ends, segments.
    slow_start_exit = 900;
    /// Whether steps of the convergence phase end at maxCwnd + 1.
    limit_step = 1;
    /// Whether slow start also ends if W is over maxCwnd and there is a queue.
    exit_on_queue = 1;
    /// Age of maxCwnd from which a smaller estimate replaces it, microseconds; 0: never.
    max_window_us = 10_000_000;
    /// Time without the base RTT seen after which a drain measures it again, microseconds; 0: never.
    base_window_us = 10_000_000;
    /// Part of a round that may be lost without lowering W, permille; 0: all of it.
    loss_cap_permille = 20;
    /// The same if a PEP saw all missing segments, permille.
    access_loss_cap_permille = 300;
    /// Part of W kept after an ECN mark, permille.
    ecn_permille = 500;
}

impl Tunables {
    /// Profile `paper`.
    pub const PAPER: Self = Self {
        limit_step: 0,
        exit_on_queue: 0,
        max_window_us: 0,
        base_window_us: 0,
        loss_cap_permille: 0,
        access_loss_cap_permille: 0,
        ..Self::DEFAULT
    };

    /// Returns whether the thresholds are the paper's, with which rows C8, C11 and C13 are unreachable.
    #[must_use]
    pub fn has_the_papers_thresholds(&self) -> bool {
        let thresholds = |t: &Self| [t.csi_full, t.csi_high, t.csi_mid, t.csi_low, t.csi_poor, t.csi_probe, t.cad_high];
        thresholds(self) == thresholds(&Self::PAPER)
    }
}
