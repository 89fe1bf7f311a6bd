//! Mean and confidence interval of a figure over seeds.

use hotcc_testbed::statistics::student_t_975;
use serde::Serialize;

/// A sample's mean with its 95 % confidence interval (Student's t).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Number of values.
    pub n: usize,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation (n - 1); absent for one value.
    pub deviation: Option<f64>,
    /// Half the 95 % interval: `t(n - 1) * deviation / sqrt(n)`; absent for one value.
    pub half_width: Option<f64>,
}

impl Estimate {
    /// Estimates the mean of these values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let first = values[0];
        // the mean of equal values must be exactly that value; a plain sum divided by n can differ by rounding
        let mean = first + values.iter().map(|v| v - first).sum::<f64>() / n as f64;
        let spread = student_t_975(n - 1).map(|t| {
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
            (variance.sqrt(), t * (variance / n as f64).sqrt())
        });
        Some(Self { n, mean, deviation: spread.map(|s| s.0), half_width: spread.map(|s| s.1) })
    }

    /// Returns the estimate of the figure multiplied by a positive factor.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let [deviation, half_width] = [self.deviation, self.half_width].map(|spread| spread.map(|s| s * factor));
        Self { mean: self.mean * factor, deviation, half_width, ..*self }
    }

    /// Returns the ends of the interval; `None` for one value.
    #[must_use]
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.half_width.map(|half| (self.mean - half, self.mean + half))
    }

    /// Returns whether all values are the same, apart from rounding.
    fn has_no_spread(&self) -> bool {
        self.half_width.is_some_and(|half| half == 0.0 || half < self.mean.abs() * 1e-9)
    }

    /// Formats as `12.30 ± 0.45`, or only the mean for one value. Both numbers have the same decimals: the half width
    /// has two significant digits, or fewer if the mean would have more than five.
    #[must_use]
    pub fn text(&self) -> String {
        match self.half_width {
            None => number(self.mean),
            Some(_) if self.has_no_spread() => format!("{} ± 0", number(self.mean)),
            Some(half) => {
                let places =
                    if self.mean == 0.0 { decimals(half, 2) } else { decimals(half, 2).min(decimals(self.mean, 5)) };
                format!("{} ± {half:.places$}", unsigned_zero(&format!("{:.places$}", self.mean)))
            }
        }
    }
}

/// The number of decimals of all figures of a table's column: the median of what they need by themselves, but at least two
/// significant digits for the smallest, and at most one decimal more than gives the largest four digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places(usize);

impl Places {
    /// Chooses the number for these figures.
    #[must_use]
    pub fn of(figures: impl Iterator<Item = Estimate>) -> Self {
        let (mut needed, mut sizes) = (Vec::new(), Vec::new());
        for figure in figures.filter(|figure| figure.mean != 0.0) {
            let decimals_of = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            needed.push(figure.text().split(" ± ").map(decimals_of).max().unwrap_or(0));
            sizes.push(figure.mean.abs());
        }
        needed.sort_unstable();
        let Some(&most_needed) = needed.last() else { return Self(0) };
        let median = needed[needed.len() / 2];
        let extreme = |pick: fn(f64, f64) -> f64| sizes.iter().copied().reduce(pick).unwrap_or_default();
        let least = decimals(extreme(f64::min), 2).min(most_needed);
        let most = decimals(extreme(f64::max), 4) + 1;
        Self(median.max(least).min(most))
    }

    /// Chooses the number for these values.
    #[must_use]
    pub fn of_values(values: impl Iterator<Item = f64>) -> Self {
        Self::of(values.filter_map(|value| Estimate::of(&[value])))
    }

    /// Formats a value.
    #[must_use]
    pub fn number(self, value: f64) -> String {
        unsigned_zero(&format!("{value:.*}", self.0))
    }

    /// Formats as `12.30 ± 0.45`; or as `12.30 ± 0` for equal values, and only the mean for one value.
    #[must_use]
    pub fn estimate(self, estimate: &Estimate) -> String {
        let half = |half| if estimate.has_no_spread() { "0".to_owned() } else { self.number(half) };
        let spread = estimate.half_width.map_or(String::new(), |width| format!(" ± {}", half(width)));
        self.number(estimate.mean) + &spread
    }
}

/// Returns the number of decimals with which a value has this many significant digits.
fn decimals(value: f64, significant: i32) -> usize {
    let magnitude = value.abs().log10().floor();
    // the cast saturates, so neither 0 nor infinity leaves the bounds
    (significant - 1).saturating_sub(magnitude as i32).clamp(0, 7) as usize
}

/// Formats a figure with four significant digits.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value.abs() < 1e-5 || value.abs() >= 1e9 {
        format!("{value:.3e}")
    } else {
        let text = format!("{value:.*}", decimals(value, 4));
        // 25.00 is shortened to 25
        let short = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        unsigned_zero(short)
    }
}

/// Removes the sign of a text such as `-0.0`.
fn unsigned_zero(text: &str) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(Estimate::of(&[]), None);
        let one = Estimate::of(&[3.0]).unwrap();
        assert_eq!((one.n, one.mean, one.interval()), (1, 3.0, None));
        assert_eq!(one.text(), "3");
        // deviation 1, error 1/sqrt 3 = 0.57735, t(2) = 4.302653: 2.484138
        let three = Estimate::of(&[9.0, 10.0, 11.0]).unwrap();
        assert_eq!(three.deviation, Some(1.0));
        assert!((three.half_width.unwrap() - 2.484_138).abs() < 1e-5);
        assert_eq!(three.text(), "10.0 ± 2.5");
    }

    #[test]
    fn equal_values_have_no_spread() {
        let same = Estimate::of(&[0.1; 7]).unwrap();
        assert_eq!((same.mean, same.half_width), (0.1, Some(0.0)));
        assert_eq!(same.text(), "0.1 ± 0");
    }

    #[test]
    fn figures_of_a_column_have_equal_decimals() {
        let texts = |values: &[f64]| {
            let places = Places::of_values(values.iter().copied());
            values.iter().map(|value| places.number(*value)).collect::<Vec<_>>()
        };
        assert_eq!(texts(&[0.47, 9.876_54, 96.425]), ["0.47", "9.88", "96.42"]);
        assert_eq!(texts(&[1.234, 1469.3, 0.0]), ["1.2", "1469.3", "0.0"]);
        assert_eq!(texts(&[0.000_012, 22.0]), ["0.000", "22.000"]);
        assert_eq!(texts(&[3.0, 120.0, 0.0]), ["3", "120", "0"]);
        assert_eq!(texts(&[-0.001, -250.5]), ["0.00", "-250.50"]);
        let [wide, narrow] = [[9.0, 10.0, 11.0], [40.0; 3]].map(|values| Estimate::of(&values).unwrap());
        let places = Places::of([wide, narrow].into_iter());
        assert_eq!([wide, narrow].map(|figure| places.estimate(&figure)), ["10.0 ± 2.5", "40.0 ± 0"]);
    }

    #[test]
    fn figures_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (25.0, "25"),
            (12.3456, "12.35"),
            (123_456.0, "123456"),
            (0.000_123_46, "0.0001235"),
            (-1.5, "-1.5"),
            (1e-9, "1.000e-9"),
        ] {
            assert_eq!(number(value), text);
        }
        let narrow = Estimate { n: 3, mean: 96.425_126, deviation: Some(1e-7), half_width: Some(1.3e-6) };
        assert_eq!(narrow.text(), "96.425 ± 0.000");
        let wide = Estimate { n: 2, mean: -0.004, deviation: Some(1.0), half_width: Some(12.7) };
        assert_eq!(wide.text(), "0 ± 13");
    }
}
