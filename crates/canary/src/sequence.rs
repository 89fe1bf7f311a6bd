//! Confidence sequences: intervals that hold at all times at once, so that they may be looked at after each
//! observation.

use libm::lgamma;

/// The mixtures are tightest at about this many connections, and hardly wider from a tenth to a hundred times as many.
const TUNED_FOR: f64 = 1000.0;

/// Returns the half width, in standard errors, of the asymptotic confidence sequence after `count` observations
/// (Waudby-Smith et al. 2024, theorem 2.2). `alpha` is the probability that it ever misses, on either side.
pub fn half_width(count: u64, alpha: f64) -> f64 {
    let spread = count as f64 / observations_of_prior(alpha);
    ((spread + 1.0) / spread * 2.0 * ((spread + 1.0).sqrt() / alpha).ln()).sqrt()
}

/// Returns how many observations the mixture's prior weighs, so that the sequence is tightest at `TUNED_FOR`: the
/// approximation of Howard, Ramdas, McAuliffe & Sekhon, Annals of Statistics 49(2), 2021, section 3.5.
fn observations_of_prior(alpha: f64) -> f64 {
    let logs = -2.0 * alpha.ln();
    TUNED_FOR / (logs + (1.0 + logs).ln())
}

/// Returns the ranks, counted from 1, of the observations between which the true quantile `share` (0..1) lies; `None`
/// if it may lie below or above all of the `count` observations. `alpha` is the probability that they ever miss it.
///
/// The number of observations that do not exceed the quantile is binomial. Its likelihood under a Beta mixture of
/// success probabilities, over that under `share`, is a martingale, which ever exceeds `1 / alpha` with at most this
/// probability (Ville). The numbers at which it does not are an interval.
pub fn ranks(share: f64, count: u64, alpha: f64) -> (Option<u64>, Option<u64>) {
    let n = count as f64;
    let prior = observations_of_prior(alpha);
    let (a, b) = (prior * share, prior * (1.0 - share));
    let log_beta = |a: f64, b: f64| lgamma(a) + lgamma(b) - lgamma(a + b);
    let of_prior = log_beta(a, b);
    let accepted = |k: f64| {
        let log_martingale = log_beta(a + k, b + n - k) - of_prior - k * share.ln() - (n - k) * (1.0 - share).ln();
        log_martingale < -alpha.ln()
    };
    // the expected number is always accepted, and the logarithm is convex: one edge to each side
    let edge = |beyond: f64| {
        if accepted(beyond) {
            return beyond;
        }
        let (mut inside, mut outside) = (n * share, beyond);
        while (inside - outside).abs() > 0.5 {
            let middle = f64::midpoint(inside, outside);
            if accepted(middle) { inside = middle } else { outside = middle }
        }
        inside
    };
    let (low, high) = (edge(0.0).floor(), edge(n).ceil() + 1.0);
    ((low >= 1.0).then_some(low as u64), (high <= n).then_some(high as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_some_standard_errors_wide_and_never_much_wider() {
        for count in [100, 1000, 10_000, 100_000] {
            let width = half_width(count, 0.005);
            assert!((3.3..4.6).contains(&width), "{count}: {width}");
        }
        assert!(half_width(1000, 0.001) > half_width(1000, 0.05));
    }

    #[test]
    fn a_quantile_nearer_to_the_edge_has_bounds_later() {
        let first = |share| (1..).find(|count| matches!(ranks(share, *count, 0.05), (Some(_), Some(_))));
        assert_eq!([0.5, 0.95, 0.99].map(first), [Some(33), Some(191), Some(706)]);
    }

    #[test]
    fn ranks_enclose_the_quantile_and_close_in_on_it() {
        let (mut before_low, mut before_high) = (0.0, 1.0);
        for count in [1000, 10_000, 100_000, 1_000_000] {
            let (low, high) = ranks(0.95, count, 0.005);
            let (low, high) = (low.unwrap() as f64 / count as f64, high.unwrap() as f64 / count as f64);
            assert!(before_low < low && low < 0.95 && 0.95 < high && high < before_high, "{count}: {low} {high}");
            // as wide as the normal approximation
            let error = half_width(count, 0.005) * (0.95 * 0.05 / count as f64).sqrt();
            assert!(((high - low) / (2.0 * error) - 1.0).abs() < 0.1, "{count}: {low} {high} {error}");
            (before_low, before_high) = (low, high);
        }
        assert_eq!(ranks(0.95, 20, 0.005), (Some(ranks(0.95, 20, 0.005).0.unwrap()), None));
        assert_eq!(ranks(0.5, 1, 0.005), (None, None));
        assert_eq!(ranks(0.5, 0, 0.005), (None, None));
    }
}
