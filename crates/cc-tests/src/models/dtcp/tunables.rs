//! D-TCP's tunables and their values in both profiles.

use crate::models::named::tunables;

tunables! {
    /// Epoch, microseconds; 0: one smoothed RTT, at least 5 ms.
    epoch_us = 0 / 500_000;
    /// Filter of the bandwidth samples: 0: eq 5, 1: eq 4.
    filter = 0 / 0;
    /// Weight of the old estimate (kappa of eq 3), permille.
    filter_permille = 900 / 900;
    /// g of eq 7, permille.
    g_permille = 500 / 500;
    /// How the SINR enters eq 7: 0: as Shannon capacities, 1: as dB in kbit/s, 2: not at all.
    sinr_term = 0 / 1;
    /// kbit/s per dB if `sinr_term` is 1.
    sinr_gain_kbps = 1 / 1;
    /// Rule for N: 0: eq 10 with the signal as room, 1: Algorithm 1, 2: eq 10 as printed.
    n_rule = 0 / 2;
    /// alpha of eq 10, permille.
    alpha_permille = 200 / 200;
    /// Q of eq 10, 0: from bandwidths (eq 11), 1: from RTTs, 2: the larger one.
    queue = 2 / 0;
    /// Upper limit of N; 0: only W limits it.
    n_max = 0 / 0;
    /// Share of lost segments above which a loss halves N, permille; 0: never.
    loss_permille = 15 / 0;
    /// Initial windows that a new connection starts with.
    initial_windows = 1 / 2;
    /// End of slow start: 0: by HyStart++, 1: only by a loss.
    slow_start = 0 / 1;
    /// Time for which the least RTT is valid, s; 0: the connection's lifetime.
    base_window_s = 10 / 0;
    /// eta of eq 16.
    eta = 2 / 2;
    /// First ssthresh of a new connection, bytes; 0: the kernel's.
    initial_ssthresh_bytes = 0 / 65_535;
    /// ssthresh after a timeout, 0: by the kernel's rule, 1: unchanged (Algorithm 1 lines 11 to 13).
    rto_ssthresh = 0 / 1;
}
