//! The arithmetic of algorithms' headers against exact arithmetic.

use bytemuck::Zeroable;
use hotcc_abi::histogram::{Histogram, Unit};
use hotcc_cc_tests::models::close;
use hotcc_cc_tests::random::Random;
use hotcc_cc_tests::units::Units;

/// `RATE_MAX_BYTES_PER_S` of fixed.h.
const RATE_MAX: u128 = 1 << 39;
/// `RTT_MAX_US` of fixed.h.
const RTT_MAX: u128 = 1 << 24;
const ROUNDS: u32 = 100_000;

/// Returns a number; each number of bits is equally likely.
fn any(random: &mut Random, most_bits: u64) -> u64 {
    let bits = random.between(0, most_bits);
    if bits == 0 { 0 } else { random.bits() >> (64 - bits) }
}

#[test]
fn rates() {
    let (units, mut random) = (Units::load(), Random::new(1));
    let exact = |bytes: u64, us: u64| match us {
        0 => 0,
        _ => (u128::from(bytes) * 1_000_000 / u128::from(us)).min(RATE_MAX) as u64,
    };
    assert_eq!(units.rate_bytes_per_s(1448, 1), 1_448_000_000);
    assert_eq!(units.rate_bytes_per_s(u64::MAX, 1), 1 << 39);
    assert_eq!(units.rate_bytes_per_s(1448, 0), 0);
    for _ in 0..ROUNDS {
        let (bytes, us) = (any(&mut random, 43), any(&mut random, 48));
        assert_eq!(units.rate_bytes_per_s(bytes, us), exact(bytes, us), "{bytes} in {us}");
    }
    for _ in 0..ROUNDS {
        // at 2^43 bytes and more, whole bytes per microsecond are enough, if there are a few thousand of them
        let (bytes, us) = (any(&mut random, 64), any(&mut random, 30));
        let (got, want) = (units.rate_bytes_per_s(bytes, us), exact(bytes, us));
        assert!(close(got as f64, want as f64, 2e-4, 1.0), "{bytes} in {us}: {got} for {want}");
    }
}

#[test]
fn segments() {
    let (units, mut random) = (Units::load(), Random::new(2));
    assert_eq!(units.segments_in(125_000, 100_000, 1250), 10);
    assert_eq!(units.segments_in(50_000_000_000, 10_000_000, 1460), 342_465_753);
    assert_eq!(units.segments_in(1, 1, 0), 0);
    for _ in 0..ROUNDS {
        let (rate, us, mss) = (any(&mut random, 64), any(&mut random, 32) as u32, random.between(1, 65_535) as u32);
        let capped = u128::from(rate).min(RATE_MAX) * u128::from(us).min(RTT_MAX);
        let want = capped / 1_000_000 / u128::from(mss);
        assert_eq!(u128::from(units.segments_in(rate, us, mss)), want, "{rate} for {us} in {mss}");
    }
}

#[test]
fn signed_division() {
    let (units, mut random) = (Units::load(), Random::new(3));
    assert_eq!((units.div_s64(-7, 2), units.div_s64(7, 2), units.div_s64(-1, 2)), (-3, 3, 0));
    assert_eq!((units.div_s64(i64::MIN, 2), units.div_s64(i64::MIN, 1)), (i64::MIN / 2, i64::MIN));
    for _ in 0..ROUNDS {
        let (a, b) = (random.bits() as i64 >> random.between(0, 63), any(&mut random, 64).max(1));
        assert_eq!(i128::from(units.div_s64(a, b)), i128::from(a) / i128::from(b), "{a} / {b}");
    }
}

#[test]
fn products() {
    let (units, mut random) = (Units::load(), Random::new(4));
    let (mut saturated, mut exact) = (0, 0);
    let mut check = |x: u64, factor: u64, shift: u32| {
        let product = (u128::from(x) * u128::from(factor)) >> shift;
        let got = units.mul_shift(x, factor, shift);
        match u64::try_from(product) {
            Ok(want) => {
                exact += 1;
                assert_eq!(got, want, "{x} * {factor} >> {shift}");
            }
            Err(_) => {
                saturated += 1;
                assert_eq!(got, u64::MAX, "{x} * {factor} >> {shift}");
            }
        }
    };
    for (x, factor) in [(u64::MAX, 1 << 16), (u64::MAX, u64::from(u32::MAX)), (0, 5), (1 << 47, 1 << 16)] {
        for shift in 0..32 {
            check(x, factor, shift);
        }
    }
    for _ in 0..ROUNDS {
        check(any(&mut random, 64), any(&mut random, 32), random.between(0, 31) as u32);
    }
    assert!(saturated > 1000 && exact > 1000, "{saturated} {exact}");
}

#[test]
fn fractions() {
    let (units, mut random) = (Units::load(), Random::new(8));
    assert_eq!((units.mul_div(7, 3, 2), units.mul_div(u64::MAX, 5, 5), units.mul_div(0, 1, 1)), (10, u64::MAX, 0));
    for _ in 0..ROUNDS {
        let (x, divisor) = (any(&mut random, 64), any(&mut random, 40).max(1));
        let factor = any(&mut random, 24).min(divisor);
        let want = u128::from(x) * u128::from(factor) / u128::from(divisor);
        assert_eq!(u128::from(units.mul_div(x, factor, divisor)), want, "{x} * {factor} / {divisor}");
    }
}

#[test]
fn buckets() {
    let (units, mut random) = (Units::load(), Random::new(5));
    let exact = |v: u64| (0..=64).find(|&i| u128::from(v) <= 1u128 << i).unwrap();
    for bit in 0..64 {
        let power = 1u64 << bit;
        for v in [power - 1, power, power.saturating_add(1)] {
            assert_eq!(units.log2_bucket(v), exact(v), "{v}");
        }
    }
    for v in (0..5000).chain([u64::MAX]).chain((0..ROUNDS).map(|_| any(&mut random, 64))) {
        assert_eq!(units.log2_bucket(v), exact(v), "{v}");
    }
}

/// Both conversions of a histogram have each value in the bucket in which exact arithmetic has it.
#[test]
fn buckets_of_histograms() {
    let (units, mut random) = (Units::load(), Random::new(9));
    for (unit, per_base) in [(Unit::Us, 1e6), (Unit::Ms, 1e3), (Unit::Kbps, 8e-3)] {
        // next to each bound of both, and anywhere
        let powers = (0..32).map(|i| 1_u64 << i);
        let native = (-180..=320).map(|n: i32| (2_f64.powf(f64::from(n) / 8.0) * per_base) as u64);
        let near = powers.chain(native).flat_map(|bound| [bound.saturating_sub(1), bound, bound + 1]);
        let values: Vec<u32> =
            near.filter_map(|v| v.try_into().ok()).chain((0..ROUNDS).map(|_| any(&mut random, 32) as u32)).collect();
        for v in values.into_iter().chain([0, u32::MAX]) {
            let mut one = Histogram::zeroed();
            one.buckets[units.histogram_bucket(unit, v)] = 1;
            let median = one.quantile(unit, 0.5).unwrap();
            assert!((median - f64::from(v)).abs() <= 0.05 * f64::from(v), "{v} {unit:?}: {median}");
            let log2 = (0..31).find(|&i| v <= 1 << i).unwrap_or(31);
            assert_eq!(one.log2().buckets[log2], 1, "{v} {unit:?}");
            let native = one.native(unit);
            let Some((index, 1)) = native.buckets.first() else {
                assert_eq!((v, native.zeros), (0, 1), "{unit:?}");
                continue;
            };
            // a double is exact enough: a bound is an integer, or further from the next one than rounding errors
            let bound = |n: i32| 2_f64.powf(f64::from(n) / 8.0) * per_base;
            let value = f64::from(v);
            assert!(bound(index - 1) < value && value <= bound(*index), "{v} {unit:?} in {index}");
        }
    }
}

#[test]
fn weighted_means() {
    let (units, mut random) = (Units::load(), Random::new(6));
    assert_eq!(units.ewma_q8(1000 * 256, 2000 * 256, 900), 1100 * 256);
    for _ in 0..ROUNDS {
        // rates up to the largest there is
        let (old, sample) = (any(&mut random, 47), any(&mut random, 47));
        let weight = random.between(0, 1000) as u32;
        let want = (u128::from(old) * u128::from(weight) + u128::from(sample) * u128::from(1000 - weight)) / 1000;
        assert_eq!(u128::from(units.ewma_q8(old, sample, weight)), want, "{old} {sample} {weight}");
    }
}

#[test]
fn westwood_cascade() {
    let (units, mut random) = (Units::load(), Random::new(7));
    let mut q8 = [0; 2];
    units.westwood_filter_add(&mut q8, 1_000_000);
    assert_eq!(q8, [1_000_000 * 256; 2]);
    units.westwood_filter_add(&mut q8, 2_000_000);
    assert_eq!(q8, [1_125_000 * 256, 1_015_625 * 256]); // 7/8 + 2/8; 7/8 + 1/8 * 1.125
    let mut q8 = [0, 8 * 256]; // no sample for long: the filter does not start again
    units.westwood_filter_add(&mut q8, 0);
    assert_eq!(q8, [0, 7 * 256]);
    for high in [1e3, 1e6, 1e9, 5e10] {
        let mut q8 = [0; 2];
        let (mut first, mut second) = (0.0, 0.0);
        for i in 0..2000 {
            let sample = random.scale(high / 10.0, high) as u64;
            units.westwood_filter_add(&mut q8, sample);
            let sample = sample as f64;
            first = if i == 0 { sample } else { first * 0.875 + sample * 0.125 };
            second = if i == 0 { sample } else { second * 0.875 + first * 0.125 };
            for (got, want) in [(q8[0], first), (q8[1], second)] {
                assert!(close(got as f64 / 256.0, want, 1e-3, 0.0), "{q8:?}, exactly {first} {second}");
            }
        }
    }
}

#[test]
fn tustin_filter() {
    let (units, mut random) = (Units::load(), Random::new(9));
    // d = tau / 2: 3/5 of 1000, 1/5 of 2000, 1/5 of 4000
    assert_eq!(units.tustin_q8(1000 * 256, 4000 * 256, 2000 * 256, 250_000, 500_000), 1800 * 256);
    for _ in 0..ROUNDS {
        let tau = random.between(10, 10_000) * 1000;
        let d = random.between(1, tau / 2);
        let [old, sample, previous] = [0; 3].map(|_| any(&mut random, 47));
        let (t, i) = (2 * i128::from(tau), i128::from(d));
        let sum = i128::from(sample) + i128::from(previous);
        let want = ((t - i) as f64 * old as f64 + i as f64 * sum as f64) / (t + i) as f64;
        let got = units.tustin_q8(old, sample, previous, d as u32, tau);
        assert!(close(got as f64, want, 1e-14, 1.0), "{old} {sample} {previous} {d} {tau}: {got} for {want}");
        // between the old value and the new one, never beyond
        let exact = (i128::from(got) - i128::from(old)) * (t + i) - i * (sum - 2 * i128::from(old));
        let behind = if sum >= 2 * i128::from(old) { -exact } else { exact };
        assert!((0..t + i).contains(&behind), "{old} {sample} {previous} {d} {tau}: {got}");
    }
}

#[test]
fn rates_of_change() {
    let (units, mut random) = (Units::load(), Random::new(10));
    const ONE: u64 = 1 << 16;
    assert_eq!(units.rate_ca(100, 200, 0, 0), [ONE / 2, ONE * 2]);
    assert_eq!(units.rate_ca(100, 300, 500, 2000), [ONE / 2, ONE * 2]);
    assert_eq!(units.rate_ca(900, 300, 500, 2000), [ONE * 2, ONE / 2]);
    assert_eq!(units.rate_ca(900, 300, 500, 4000), [ONE * 3, ONE / 3]);
    assert_eq!((units.rate_ca(0, 300, 500, 2000), units.rate_ca(300, 0, 500, 2000)), ([ONE; 2], [ONE; 2]));
    assert_eq!(units.rate_ca(1, u64::from(u32::MAX), 0, 0), [1, ONE << 20]);
    assert_eq!(units.rate_ca(u64::from(u32::MAX), 1, 0, 0), [ONE << 20, 1]);
    for _ in 0..ROUNDS {
        let (old, new) = (any(&mut random, 35).max(1), any(&mut random, 35).max(1));
        let (lowest, highest) = (random.between(0, 1000) as u32, random.between(1000, 1_000_000) as u32);
        let least = (f64::from(lowest) / 1000.0).max(2f64.powi(-20));
        let rate = (old as f64 / new as f64).clamp(least, f64::from(highest) / 1000.0);
        for (got, want) in units.rate_ca(old, new, lowest, highest).into_iter().zip([rate, rate.recip()]) {
            let want = (want * ONE as f64).max(1.0);
            assert!((got as f64) <= want * (1.0 + 1e-12) && got as f64 > want * (1.0 - 1e-12) - 1.0, "{old} / {new}");
        }
    }
}

#[test]
fn earnings_saturate() {
    let (units, mut random) = (Units::load(), Random::new(11));
    for _ in 0..ROUNDS {
        let (gain, acked) = (any(&mut random, 50), any(&mut random, 32) as u32);
        let product = u128::from(gain) * u128::from(acked);
        let got = u128::from(units.growth_credit(gain, acked));
        assert!(got == product || product > 1 << 63 && got == 1 << 63, "{gain} * {acked}: {got}");
    }
}

#[test]
fn spectral_efficiency() {
    let units = Units::load();
    let mut worst = 0f64;
    for q8 in -20 * 256..=50 * 256 {
        let want = (1.0 + 10f64.powf(f64::from(q8) / 2560.0)).log2();
        let got = f64::from(units.shannon_efficiency_q20(q8)) / f64::from(1 << 20);
        let error = (got / want - 1.0).abs();
        worst = worst.max(error);
        if q8 % 64 == 0 {
            // a table entry: only rounding
            assert!((got - want).abs() <= 0.5001 / f64::from(1 << 20), "{q8}: {got} for {want}");
        }
    }
    assert!(worst < 5e-4, "{worst}"); // the D-TCP model's tolerance; the specification requires 0.5 %
    for (outside, edge) in [(i32::MIN, -5120), (-5121, -5120), (12_801, 12_800), (i32::MAX, 12_800)] {
        assert_eq!(units.shannon_efficiency_q20(outside), units.shannon_efficiency_q20(edge));
    }
    assert_eq!(units.shannon_efficiency_q20(0), 1 << 20); // 0 dB: log2(2)
}
