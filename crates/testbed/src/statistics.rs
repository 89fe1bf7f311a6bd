//! What repeated measurements say: medians, and means with a confidence interval.

/// 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// 97.5 % quantile of Student's t: half a two-sided 95 % interval in standard errors. `None` for 0 degrees of freedom.
///
/// Above 30 degrees by the expansion around the normal quantile (Abramowitz & Stegun 26.7.5), good to four digits there.
#[must_use]
pub fn student_t_975(degrees: usize) -> Option<f64> {
    if let Some(tabled) = T_975.get(degrees.checked_sub(1)?) {
        return Some(*tabled);
    }
    let (z, v) = (1.959_964_f64, degrees as f64);
    let (first, second) = ((z.powi(3) + z) / 4.0, (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0);
    Some(z + first / v + second / (v * v))
}

/// The middle one, or the mean of both middle ones. `None` of nothing, or where a value is no number.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quartiles(values).map(|[_, median, _]| median)
}

/// Lower quartile, median, upper quartile, interpolated. `None` of nothing, or where a value is no number.
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

/// Geometric mean of ratios, with Student's t on their logarithms (so that a ratio and its inverse weigh the same).
/// `None` with fewer than two, or where one is not positive.
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
        for (degrees, tabled) in [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (31, 2.0395), (40, 2.0211)] {
            let ours = student_t_975(degrees).unwrap();
            assert!((ours - tabled).abs() < 1e-4, "{degrees}: {ours}");
        }
        for (degrees, tabled) in [(60, 2.0003), (120, 1.9799), (1_000_000, 1.95996)] {
            let ours = student_t_975(degrees).unwrap();
            assert!((ours - tabled).abs() < 1e-4, "{degrees}: {ours}");
        }
    }

    #[test]
    fn interval_of_ratios() {
        assert_eq!(mean_ratio(&[1.0]), None);
        assert_eq!(mean_ratio(&[1.0, 0.0]), None);
        let even = mean_ratio(&[0.5, 2.0]).unwrap();
        assert!((even.mean - 1.0).abs() < 1e-12);
        // logs -ln 2 and ln 2: deviation ln 2 * sqrt 2, error ln 2, t(1) = 12.706
        assert!((even.high - (12.706 * 2f64.ln()).exp()).abs() < 1e-6 * even.high);
        let same = mean_ratio(&[1.1; 20]).unwrap();
        assert!((same.low - 1.1).abs() < 1e-9 && (same.high - 1.1).abs() < 1e-9);
    }
}
