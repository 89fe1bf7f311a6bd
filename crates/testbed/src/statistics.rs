//! Statistics of repeated measurements: medians, and means with a confidence interval.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// Beyond this number of degrees of freedom `statrs` loses digits, and the normal quantile is within 5e-5 of Student's.
const AS_GOOD_AS_NORMAL: usize = 50_000;

/// Returns the 97.5 % quantile of Student's t: half of a two-sided 95 % interval, in standard errors. `None` for 0
/// degrees of freedom.
///
/// Exact to 1e-6 up to 50,000 degrees, to 5e-5 beyond.
#[must_use]
pub fn student_t_975(degrees: usize) -> Option<f64> {
    if degrees > AS_GOOD_AS_NORMAL {
        return Some(Normal::standard().inverse_cdf(0.975));
    }
    Some(StudentsT::new(0.0, 1.0, degrees as f64).ok()?.inverse_cdf(0.975))
}

/// Returns the middle value, or the mean of the two middle values. `None` if there are no values, or if one is not a
/// number.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quartiles(values).map(|[_, median, _]| median)
}

/// Returns the lower quartile, the median and the upper quartile, interpolated. `None` if there are no values, or if
/// one is not a number.
#[must_use]
pub fn quartiles(values: &[f64]) -> Option<[f64; 3]> {
    if values.is_empty() || values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some([0.25, 0.5, 0.75].map(|share| {
        let place = share * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }))
}

/// A mean ratio and its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Geometric mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Returns the geometric mean of ratios, with Student's t on their logarithms (so that a ratio and its inverse weigh
/// the same). `None` for fewer than two ratios, or if one is not positive.
#[must_use]
pub fn mean_ratio(ratios: &[f64]) -> Option<Interval> {
    if ratios.len() < 2 || !ratios.iter().all(|r| *r > 0.0 && r.is_finite()) {
        return None;
    }
    let logs: Vec<f64> = ratios.iter().map(|r| r.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_t_975(logs.len() - 1)? * (variance / n).sqrt();
    Some(Interval { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(quartiles(&[5.0, 1.0, 3.0, 2.0, 4.0]), Some([2.0, 3.0, 4.0]));
    }

    #[test]
    fn quantiles_of_student_t() {
        assert_eq!(student_t_975(0), None);
        for (degrees, tabled) in [
            (1, 12.706_205),
            (2, 4.302_653),
            (9, 2.262_157),
            (30, 2.042_272),
            (31, 2.039_513),
            (40, 2.021_075),
            (60, 2.000_298),
            (120, 1.979_930),
            (20_000, 1.960_083),
        ] {
            let ours = student_t_975(degrees).unwrap();
            assert!((ours - tabled).abs() < 1e-6, "{degrees}: {ours}");
        }
        let many = student_t_975(1_000_000).unwrap();
        assert!((many - 1.959_966).abs() < 1e-4, "{many}");
    }

    #[test]
    fn interval_of_ratios() {
        assert_eq!(mean_ratio(&[1.0]), None);
        assert_eq!(mean_ratio(&[1.0, 0.0]), None);
        let even = mean_ratio(&[0.5, 2.0]).unwrap();
        assert!((even.mean - 1.0).abs() < 1e-12);
        // logs -ln 2 and ln 2: deviation ln 2 * sqrt 2, error ln 2, t(1) = 12.706205
        assert!((even.high - (12.706_205 * 2f64.ln()).exp()).abs() < 1e-6 * even.high);
        let same = mean_ratio(&[1.1; 20]).unwrap();
        assert!((same.low - 1.1).abs() < 1e-9 && (same.high - 1.1).abs() < 1e-9);
    }
}
