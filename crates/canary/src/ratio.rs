//! Bounds for the ratio of the canary's value to the control's, from the bounds of each.

/// A cohort's value, and where its true value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// `None` if it may be anything below `value`.
    pub low: Option<f64>,
    /// `None` if it may be anything above `value`.
    pub high: Option<f64>,
}

/// Where a ratio may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    pub low: f64,
    /// `None` if there is no bound.
    pub high: Option<f64>,
}

/// Returns the bounds for two means, which have symmetric bounds: all `r` for which `canary - r * control` may be 0
/// (Fieller).
pub fn of_means(canary: &Estimate, control: &Estimate) -> Bounds {
    let half = |e: &Estimate| e.high.map_or(f64::INFINITY, |high| high - e.value);
    let (a, b) = (half(canary).powi(2), half(control).powi(2));
    // the roots of quadratic * r^2 - 2 * product * r + constant
    let quadratic = control.value.powi(2) - b;
    let constant = canary.value.powi(2) - a;
    let product = canary.value * control.value;
    let sum = product + (product * product - quadratic * constant).max(0.0).sqrt();
    Bounds { low: if constant > 0.0 { constant / sum } else { 0.0 }, high: (quadratic > 0.0).then(|| sum / quadratic) }
}

/// Returns the bounds for two percentiles above 0: their logarithms' distances from the bounds, squared, add up (Zou &
/// Donner).
pub fn of_percentiles(canary: &Estimate, control: &Estimate) -> Bounds {
    let log = |above: Option<f64>, below: Option<f64>| Some((above? / below?).ln());
    let below = |e: &Estimate| log(Some(e.value), e.low);
    let above = |e: &Estimate| log(e.high, Some(e.value));
    let both = |a: Option<f64>, b: Option<f64>| Some(a?.hypot(b?));
    let ratio = canary.value / control.value;
    Bounds {
        low: both(below(canary), above(control)).map_or(0.0, |distance| ratio * (-distance).exp()),
        high: both(above(canary), below(control)).map(|distance| ratio * distance.exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low: (low > 0.0).then_some(low), high: Some(high) }
    }

    #[test]
    fn bounds_enclose_the_ratio_and_are_those_of_the_canary_if_the_control_is_known() {
        let known = estimate(2.0, 2.0, 2.0);
        for of in [of_means, of_percentiles] {
            let Bounds { low, high } = of(&estimate(3.0, 2.5, 3.5), &known);
            assert!((low - 1.25).abs() < 1e-9 && (high.unwrap() - 1.75).abs() < 1e-9, "{low} {high:?}");
            let Bounds { low, high } = of(&estimate(3.0, 2.5, 3.5), &estimate(2.0, 1.8, 2.2));
            assert!(low < 1.25 && low > 1.0 && high.unwrap() > 1.75 && high.unwrap() < 2.1, "{low} {high:?}");
        }
    }

    #[test]
    fn a_control_that_may_be_zero_bounds_nothing_from_above() {
        let zero = estimate(0.0, 0.0, 0.1);
        assert_eq!(of_means(&estimate(0.0, 0.0, 0.1), &zero), Bounds { low: 0.0, high: None });
        let Bounds { low, high } = of_means(&estimate(1.0, 0.8, 1.2), &zero);
        assert!(low > 5.0 && high.is_none(), "{low}");
    }

    #[test]
    fn a_missing_bound_is_passed_on() {
        let open = Estimate { value: 1.0, low: None, high: None };
        let closed = estimate(1.0, 0.9, 1.1);
        assert_eq!(of_percentiles(&open, &closed), Bounds { low: 0.0, high: None });
        assert_eq!(of_percentiles(&closed, &open), Bounds { low: 0.0, high: None });
    }
}
