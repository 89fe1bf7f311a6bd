//! Calls the pure functions of the algorithms' headers.

use crate::library::{open, symbol};
use hotcc_abi::histogram::Unit;
use libloading::Library;

/// The functions, in a library of their own; see `bpf/include/hotcc/{fixed,filter,growth,histogram}.h` and
/// `bpf/algos/{rate_ca,shannon}.h`.
pub struct Units {
    rate_bytes_per_s: unsafe extern "C" fn(u64, u64) -> u64,
    segments_in: unsafe extern "C" fn(u64, u32, u32) -> u64,
    div_s64: unsafe extern "C" fn(i64, u64) -> i64,
    mul_shift: unsafe extern "C" fn(u64, u64, u32) -> u64,
    mul_div: unsafe extern "C" fn(u64, u64, u64) -> u64,
    log2_bucket: unsafe extern "C" fn(u64) -> u32,
    histogram_bucket_us: unsafe extern "C" fn(u32) -> u32,
    histogram_bucket_ms: unsafe extern "C" fn(u32) -> u32,
    histogram_bucket_kbps: unsafe extern "C" fn(u32) -> u32,
    ewma_q8: unsafe extern "C" fn(u64, u64, u32) -> u64,
    westwood_filter_add: unsafe extern "C" fn(*mut u64, u64),
    tustin_q8: unsafe extern "C" fn(u64, u64, u64, u32, u64) -> u64,
    rate_ca: unsafe extern "C" fn(*mut u64, u64, u64, u32, u32),
    growth_credit: unsafe extern "C" fn(u64, u32) -> u64,
    shannon_efficiency_q20: unsafe extern "C" fn(i32) -> u32,
    _library: Library,
}

impl Units {
    /// Loads the functions.
    #[must_use]
    pub fn load() -> Self {
        let library = open(include_bytes!(concat!(env!("OUT_DIR"), "/units.so")));
        Self {
            rate_bytes_per_s: symbol(&library, "unit_rate_bytes_per_s"),
            segments_in: symbol(&library, "unit_segments_in"),
            div_s64: symbol(&library, "unit_div_s64"),
            mul_shift: symbol(&library, "unit_mul_shift"),
            mul_div: symbol(&library, "unit_mul_div"),
            log2_bucket: symbol(&library, "unit_log2_bucket"),
            histogram_bucket_us: symbol(&library, "unit_histogram_bucket_us"),
            histogram_bucket_ms: symbol(&library, "unit_histogram_bucket_ms"),
            histogram_bucket_kbps: symbol(&library, "unit_histogram_bucket_kbps"),
            ewma_q8: symbol(&library, "unit_ewma_q8"),
            westwood_filter_add: symbol(&library, "unit_westwood_filter_add"),
            tustin_q8: symbol(&library, "unit_tustin_q8"),
            rate_ca: symbol(&library, "unit_rate_ca"),
            growth_credit: symbol(&library, "unit_growth_credit"),
            shannon_efficiency_q20: symbol(&library, "unit_shannon_efficiency_q20"),
            _library: library,
        }
    }

    /// Returns a rate in bytes/s from bytes and microseconds.
    #[must_use]
    pub fn rate_bytes_per_s(&self, bytes: u64, elapsed_us: u64) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.rate_bytes_per_s)(bytes, elapsed_us) }
    }

    /// Returns the whole segments of `mss` bytes that a rate in bytes/s fills in a time in microseconds.
    #[must_use]
    pub fn segments_in(&self, rate: u64, time_us: u32, mss: u32) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.segments_in)(rate, time_us, mss) }
    }

    /// Returns `a / b`, rounded towards zero; `b` is not 0.
    #[must_use]
    pub fn div_s64(&self, a: i64, b: u64) -> i64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.div_s64)(a, b) }
    }

    /// Returns `x * factor >> shift`, saturating; `factor < 2^32`, `shift <= 32`.
    #[must_use]
    pub fn mul_shift(&self, x: u64, factor: u64, shift: u32) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.mul_shift)(x, factor, shift) }
    }

    /// Returns `x * factor / divisor`, rounded down; `factor <= 2^24`, `divisor <= 2^40` and not 0.
    #[must_use]
    pub fn mul_div(&self, x: u64, factor: u64, divisor: u64) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.mul_div)(x, factor, divisor) }
    }

    /// Returns the smallest i with `v <= 2^i`.
    #[must_use]
    pub fn log2_bucket(&self, v: u64) -> u32 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.log2_bucket)(v) }
    }

    /// Returns the bucket of a value in a `struct histogram`.
    #[must_use]
    pub fn histogram_bucket(&self, unit: Unit, v: u32) -> usize {
        let bucket = match unit {
            Unit::Us => self.histogram_bucket_us,
            Unit::Ms => self.histogram_bucket_ms,
            Unit::Kbps => self.histogram_bucket_kbps,
        };
        // SAFETY: a pure function of its arguments.
        unsafe { bucket(v) as usize }
    }

    /// Returns the weighted mean of two rates in 1/256 byte/s; the old one's weight is in permille.
    #[must_use]
    pub fn ewma_q8(&self, old_q8: u64, sample_q8: u64, weight_permille: u32) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.ewma_q8)(old_q8, sample_q8, weight_permille) }
    }

    /// Adds a sample in bytes/s to the filter's two stages in 1/256 byte/s.
    pub fn westwood_filter_add(&self, stages: &mut [u64; 2], sample: u64) {
        // SAFETY: reads and writes the two words only.
        unsafe { (self.westwood_filter_add)(stages.as_mut_ptr(), sample) }
    }

    /// Returns Westwood's filter after a sample over `d_us`; rates in 1/256 byte/s.
    #[must_use]
    pub fn tustin_q8(&self, old_q8: u64, sample_q8: u64, previous_q8: u64, d_us: u32, tau_us: u64) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.tustin_q8)(old_q8, sample_q8, previous_q8, d_us, tau_us) }
    }

    /// Returns `old / new` in 1/65536, clamped to limits in permille (0: no limit), and its inverse.
    #[must_use]
    pub fn rate_ca(&self, old: u64, new: u64, min_permille: u32, max_permille: u32) -> [u64; 2] {
        let mut into = [0; 2];
        // SAFETY: writes the two words only.
        unsafe { (self.rate_ca)(into.as_mut_ptr(), old, new, min_permille, max_permille) }
        into
    }

    /// Returns `gain * acked`, saturating at 2^63 for 2^14 segments and more; for fewer segments, `gain <= 2^50`.
    #[must_use]
    pub fn growth_credit(&self, gain: u64, acked: u32) -> u64 {
        // SAFETY: a pure function of its arguments.
        unsafe { (self.growth_credit)(gain, acked) }
    }

    /// Returns `log2(1 + s)` in 2^-20 bit/s/Hz, for an s in 1/256 dB.
    #[must_use]
    pub fn shannon_efficiency_q20(&self, db_q8: i32) -> u32 {
        // SAFETY: a pure function of its argument; the table index is clamped.
        unsafe { (self.shannon_efficiency_q20)(db_q8) }
    }
}
