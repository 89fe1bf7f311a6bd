//! Interval arithmetic: bounds of a number if some of the steps to it are rounded.

use std::ops::{Add, Div, Mul, Sub};

/// Resolutions of fixed point with this many fraction bits.
pub(super) const Q16: f64 = 1.0 / 65_536.0;
pub(super) const Q22: f64 = 1.0 / (1 << 22) as f64;

/// Relative error of f64 itself.
const SLACK: f64 = 1e-12;

/// All numbers from `low` to `high`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Interval {
    pub low: f64,
    pub high: f64,
}

impl Interval {
    pub const ZERO: Self = Self::point(0.0);

    /// Returns the interval of a single number.
    pub const fn point(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Returns the interval after rounding down to a multiple of `step`.
    pub fn down(self, step: f64) -> Self {
        Self { low: self.low - step, high: self.high }
    }

    /// Returns the interval after rounding towards zero to a multiple of `step`.
    pub fn towards_zero(self, step: f64) -> Self {
        let low = if self.low > 0.0 { (self.low - step).max(0.0) } else { self.low };
        let high = if self.high < 0.0 { (self.high + step).min(0.0) } else { self.high };
        Self { low, high }
    }

    /// Returns the interval after rounding by up to `by`, up or down.
    pub fn about(self, by: f64) -> Self {
        Self { low: self.low - by, high: self.high + by }
    }

    /// Applies a function, which must not decrease, to each of its numbers.
    pub fn map(self, rising: impl Fn(f64) -> f64) -> Self {
        Self { low: rising(self.low), high: rising(self.high) }
    }

    pub fn max(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.max(other.high) }
    }

    pub fn min(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.min(other.high) }
    }

    /// Returns the squares of its numbers.
    pub fn squared(self) -> Self {
        let [a, b] = [self.low * self.low, self.high * self.high];
        let least = if self.low <= 0.0 && self.high >= 0.0 { 0.0 } else { a.min(b) };
        Self { low: least, high: a.max(b) }
    }

    pub fn contains(self, value: f64) -> bool {
        let slack = SLACK * value.abs();
        self.low - slack <= value && value <= self.high + slack
    }

    /// Returns whether it is below the other interval; `None`: rounding decides.
    pub fn is_below(self, other: Self) -> Option<bool> {
        let slack = SLACK * self.high.abs().max(other.high.abs());
        if self == other && self.low == self.high {
            Some(false)
        } else if self.high + slack < other.low {
            Some(true)
        } else if self.low - slack > other.high {
            Some(false)
        } else {
            None
        }
    }
}

impl Add for Interval {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { low: self.low + other.low, high: self.high + other.high }
    }
}

impl Sub for Interval {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }
}

impl Mul for Interval {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let products = [self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high];
        Self {
            low: products.into_iter().fold(f64::INFINITY, f64::min),
            high: products.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Mul<f64> for Interval {
    type Output = Self;
    fn mul(self, factor: f64) -> Self {
        self * Self::point(factor)
    }
}

/// Only for divisors above 0.
impl Div for Interval {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        self * Self { low: 1.0 / other.high, high: 1.0 / other.low.max(f64::MIN_POSITIVE) }
    }
}
