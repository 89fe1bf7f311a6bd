//! Histograms that programs keep, and their conversion to Prometheus' native histograms.

use bytemuck::{Pod, Zeroable};

/// Buckets of a [`Log2Histogram`].
pub const LOG2_BUCKETS: usize = 32;
/// Buckets of a [`Histogram`] in each power of two.
pub const BUCKETS_PER_POWER: usize = 9;
/// Buckets of a [`Histogram`].
pub const HISTOGRAM_BUCKETS: usize = 33 * BUCKETS_PER_POWER;
/// Prometheus' schema that a [`Histogram`] converts to: bucket `n` has values in `(2^((n-1)/8), 2^(n/8)]`.
pub const NATIVE_SCHEMA: i32 = 3;

/// Histogram over powers of two: bucket `i` counts values in `(2^(i-1), 2^i]`, bucket 0 counts values up to 1, and the
/// last bucket counts everything above.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Log2Histogram {
    /// Values per bucket.
    pub buckets: [u64; LOG2_BUCKETS],
    /// Sum of all values.
    pub sum: u64,
}

/// Histogram whose bounds are the powers of two in the kernel's unit, and those of [`NATIVE_SCHEMA`] in the base unit
/// (`struct histogram`). Bucket `9 * i + k` counts values in `(2^(i-1), 2^i]` that are above `k` of the schema's 8 bounds
/// there. Bucket 0 counts zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Histogram {
    /// Values per bucket.
    pub buckets: [u64; HISTOGRAM_BUCKETS],
    /// Sum of all values.
    pub sum: u64,
}

/// Unit of the values of a [`Histogram`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds; the base unit is the second.
    Us,
    /// Milliseconds; the base unit is the second.
    Ms,
}

/// Values per bucket of [`NATIVE_SCHEMA`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// Number of zeros.
    pub zeros: u64,
    /// Index and number of values of each bucket that has values, in the order of the indices.
    pub buckets: Vec<(i32, u64)>,
}

impl Unit {
    /// Returns the index of the schema's first bound above half a unit: bucket 0 reaches to there.
    const fn first_index(self) -> i32 {
        match self {
            Self::Us => -167, // 2^(-167/8) s = 0.52 us
            Self::Ms => -87,  // 2^(-87/8) s = 0.53 ms
        }
    }
}

impl Histogram {
    /// Converts to powers of two.
    #[must_use]
    pub fn log2(&self) -> Log2Histogram {
        let mut log2 = Log2Histogram { buckets: [0; LOG2_BUCKETS], sum: self.sum };
        for (power, buckets) in self.buckets.chunks(BUCKETS_PER_POWER).enumerate() {
            log2.buckets[power.min(LOG2_BUCKETS - 1)] += buckets.iter().sum::<u64>();
        }
        log2
    }

    /// Converts to Prometheus' [`NATIVE_SCHEMA`], in the base unit.
    #[must_use]
    pub fn native(&self, unit: Unit) -> Native {
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for (bucket, count) in (0..).zip(self.buckets).skip(1).filter(|(_, count)| *count > 0) {
            let per_power = BUCKETS_PER_POWER as i32;
            // the last bucket of a power of two and the first of the next are the same bucket of the schema
            let index = unit.first_index() + bucket / per_power * (per_power - 1) + bucket % per_power;
            match buckets.last_mut() {
                Some((last, sum)) if *last == index => *sum += count,
                _ => buckets.push((index, count)),
            }
        }
        Native { zeros: self.buckets[0], buckets }
    }
}
