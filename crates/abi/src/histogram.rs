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
    /// kbit/s; the base unit is the byte per second.
    Kbps,
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
            Self::Kbps => 48, // 2^(48/8) bytes/s = 0.51 kbit/s
        }
    }

    /// Returns how many of these units are one base unit.
    const fn per_base(self) -> f64 {
        match self {
            Self::Us => 1e6,
            Self::Ms => 1e3,
            Self::Kbps => 8e-3,
        }
    }

    /// Returns the index of the schema's bucket that has the values of this bucket of a [`Histogram`], which is not 0.
    /// The last bucket of a power of two and the first of the next are the same bucket of the schema.
    const fn index(self, bucket: usize) -> i32 {
        let (power, place) = (bucket / BUCKETS_PER_POWER, bucket % BUCKETS_PER_POWER);
        self.first_index() + (power * (BUCKETS_PER_POWER - 1) + place) as i32
    }

    /// Returns the least and the largest value in this bucket of a [`Histogram`], which is neither 0 nor always empty.
    fn limits(self, bucket: usize) -> (f64, f64) {
        let bound = |index: i32| (f64::from(index) / 8.0).exp2() * self.per_base();
        let (index, power) = (self.index(bucket), ((bucket / BUCKETS_PER_POWER) as f64).exp2());
        (bound(index - 1).max(power / 2.0).floor() + 1.0, bound(index).min(power).floor())
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

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the value that this share of the values does not exceed, or `None` if there are no values. It is
    /// interpolated within its bucket, which is at most 9 % wide.
    #[must_use]
    pub fn quantile(&self, unit: Unit, share: f64) -> Option<f64> {
        let wanted = share * self.count() as f64;
        let mut below = 0.0;
        for (bucket, count) in self.buckets.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let count = count as f64;
            if below + count >= wanted {
                let (least, largest) = if bucket == 0 { (0.0, 0.0) } else { unit.limits(bucket) };
                return Some(least + (largest - least) * (wanted - below) / count);
            }
            below += count;
        }
        None
    }

    /// Converts to Prometheus' [`NATIVE_SCHEMA`], in the base unit.
    #[must_use]
    pub fn native(&self, unit: Unit) -> Native {
        let mut buckets: Vec<(i32, u64)> = Vec::new();
        for (bucket, count) in self.buckets.into_iter().enumerate().skip(1).filter(|(_, count)| *count > 0) {
            let index = unit.index(bucket);
            match buckets.last_mut() {
                Some((last, sum)) if *last == index => *sum += count,
                _ => buckets.push((index, count)),
            }
        }
        Native { zeros: self.buckets[0], buckets }
    }
}
