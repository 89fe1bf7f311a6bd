//! A summary of a trace: extent, means, and how well its SINR predicts its capacity.

use super::{Sample, Trace};
use std::time::Duration;

/// The minimum and maximum of a column, and its mean over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// Minimum.
    pub min: f64,
    /// Mean over time: each value holds until the next.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
}

/// How well the SINR predicts the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correlation {
    /// How much older the SINR is than the capacity.
    pub lag: Duration,
    /// Pearson's coefficient of the pairs, -1 to 1.
    pub coefficient: f64,
    /// Number of pairs.
    pub pairs: usize,
}

/// Minimum number of pairs: a coefficient of fewer pairs is due to chance.
const MIN_PAIRS: usize = 10;
/// Number of periods after which a SINR is too old for a pair.
const PERIODS: u32 = 3;

/// A function that returns a value of a sample.
pub type Column = fn(&Sample) -> Option<f64>;

impl Trace {
    /// Returns the extent of a column; `None` if no sample has a value.
    #[must_use]
    pub fn extent(&self, column: Column) -> Option<Extent> {
        let values: Vec<f64> = self.samples().iter().filter_map(column).collect();
        let (min, max) = (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some(Extent { min, mean: self.means(column, 1).first().map_or(min, |(_, mean)| *mean), max })
    }

    /// Returns the means of a column over `count` equal parts of the trace: for each part, its middle in s, and the
    /// mean. Each value holds until the next; the first also holds before it. Empty if no sample has a value.
    #[must_use]
    pub fn means(&self, column: Column, count: usize) -> Vec<(f64, f64)> {
        let points: Vec<(f64, f64)> =
            self.samples().iter().filter_map(|s| column(s).map(|v| (s.at.as_secs_f64(), v))).collect();
        if points.is_empty() || count == 0 {
            return Vec::new();
        }
        let duration_s = self.duration().as_secs_f64();
        let width_s = duration_s / count as f64;
        let mut sums = vec![0.0; count];
        for (i, (at_s, value)) in points.iter().enumerate() {
            let mut from_s = if i == 0 { 0.0 } else { *at_s };
            let until_s = points.get(i + 1).map_or(duration_s, |next| next.0);
            // The parts are counted up rather than computed from `from_s` each time, because rounding might place
            // `from_s` before the boundary that was just reached.
            let first = ((from_s / width_s) as usize).min(count - 1);
            for (part, sum) in sums.iter_mut().enumerate().skip(first) {
                // The last part ends at the end of the trace, despite rounding.
                let end_s = if part + 1 == count { until_s } else { until_s.min((part + 1) as f64 * width_s) };
                *sum += value * (end_s - from_s).max(0.0);
                from_s = from_s.max(end_s);
                if from_s >= until_s {
                    break;
                }
            }
        }
        sums.iter().enumerate().map(|(part, sum)| ((part as f64 + 0.5) * width_s, sum / width_s)).collect()
    }

    /// Returns how the capacity correlates with the SINR at the same time, and with older ones. A sample without
    /// capacity (for example, without a download) makes no pair. A lag is left out if it has too few pairs, or if
    /// either value does not vary.
    #[must_use]
    pub fn correlations(&self, lags: &[Duration]) -> Vec<Correlation> {
        let column = |column: Column| -> Vec<(Duration, f64)> {
            self.samples().iter().filter_map(|s| column(s).map(|v| (s.at, v))).collect()
        };
        let (sinr, capacity) = (column(|s| s.sinr_db), column(|s| s.capacity_bps));
        let oldest = self.period().unwrap_or_default().max(Duration::from_millis(100)) * PERIODS;
        let of = |lag: &Duration| {
            let pairs: Vec<(f64, f64)> = capacity
                .iter()
                .filter_map(|(at, bps)| {
                    let moment = at.checked_sub(*lag)?;
                    let (read, db) = sinr.get(sinr.partition_point(|(at, _)| *at <= moment).checked_sub(1)?)?;
                    (moment - *read <= oldest).then_some((*db, *bps))
                })
                .collect();
            let coefficient = pearson(&pairs).filter(|_| pairs.len() >= MIN_PAIRS)?;
            Some(Correlation { lag: *lag, coefficient, pairs: pairs.len() })
        };
        lags.iter().filter_map(of).collect()
    }
}

/// Returns Pearson's coefficient; `None` if either value does not vary.
fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let first = pairs.first()?;
    // Because of rounding, the means would make equal values vary a little.
    if pairs.iter().all(|pair| pair.0 == first.0) || pairs.iter().all(|pair| pair.1 == first.1) {
        return None;
    }
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), pair| (x + pair.0 / n, y + pair.1 / n));
    let [xx, yy, xy] = pairs.iter().fold([0.0; 3], |[xx, yy, xy], pair| {
        let (dx, dy) = (pair.0 - x, pair.1 - y);
        [xx + dx * dx, yy + dy * dy, xy + dx * dy]
    });
    let coefficient = xy / (xx * yy).sqrt();
    coefficient.is_finite().then_some(coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn trace(rows: &str) -> Trace {
        Trace::parse(Path::new("t"), format!("time_s,sinr_db,capacity_bps\n{rows}").as_bytes()).unwrap()
    }

    #[test]
    fn means_are_over_time() {
        let trace = trace("0,,10\n1,,20\n3,,\n4,,0\n");
        let capacity: Column = |s| s.capacity_bps;
        // 10 for 1 s, 20 for 3 s, 0 for 1 s.
        assert_eq!(trace.extent(capacity), Some(Extent { min: 0.0, mean: 14.0, max: 20.0 }));
        assert_eq!(trace.means(capacity, 5), [(0.5, 10.0), (1.5, 20.0), (2.5, 20.0), (3.5, 20.0), (4.5, 0.0)]);
        assert_eq!(trace.extent(|s| s.sinr_db), None);
        assert!(trace.means(|s| s.sinr_db, 3).is_empty() && trace.means(capacity, 0).is_empty());
    }

    #[test]
    fn a_constant_has_constant_means() {
        for tenths in (5..8000).step_by(7) {
            let rows: String = (0..=tenths).map(|t| format!("{}.{},,12\n", t / 10, t % 10)).collect();
            let trace = trace(&rows);
            for count in [1, 72, 960] {
                let means = trace.means(|s| s.capacity_bps, count);
                assert!(means.iter().all(|(_, mean)| (mean - 12.0).abs() < 1e-6), "{tenths} tenths in {count} parts");
            }
        }
    }

    #[test]
    fn a_capacity_that_follows_the_sinr_correlates_at_its_lag() {
        let level = |second: u64| (second * 7 % 13) as f64;
        let rows = |late: u64| -> String {
            (0..60u64).map(|s| format!("{s},{},{}\n", level(s), 1e6 * level(s.saturating_sub(late)))).collect()
        };
        let lags = [0, 1, 2].map(Duration::from_secs);
        let at_once = trace(&rows(0)).correlations(&lags);
        assert!((at_once[0].coefficient - 1.0).abs() < 1e-9 && at_once[0].pairs == 60);
        assert!(at_once[1].coefficient < 0.5);
        let later = trace(&rows(2)).correlations(&lags);
        assert!(later[0].coefficient < 0.7 && later[2].coefficient > 0.999, "{later:?}");
    }

    #[test]
    fn what_does_not_vary_or_is_too_short_does_not_correlate() {
        let flat: String = (0..60).map(|s| format!("{s},5,{s}\n")).collect();
        let short: String = (0..9).map(|s| format!("{s},{s},{s}\n")).collect();
        // The SINR ends before the capacity begins.
        let apart: String =
            (0..60).map(|s| if s < 20 { format!("{s},{s},\n") } else { format!("{s},,{s}\n") }).collect();
        for rows in [flat, short, apart] {
            assert!(trace(&rows).correlations(&[Duration::ZERO]).is_empty());
        }
    }
}
