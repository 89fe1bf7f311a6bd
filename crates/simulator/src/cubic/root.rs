//! The kernel's cube root: an estimate from the leading bits, then one step of Newton's method. Its results are not the
//! exact roots (0.2 % off on average), and K (RFC 9438, section 4.2) is computed with it.

/// By how much the kernel's estimate for leading bits `8 + i` is below 64 times their cube root, rounded down: what its
/// authors tuned for the least error after the Newton step (`cubic_root`).
const ESTIMATE_BELOW_ROOT: [u8; 56] = [
    5, 4, 3, 4, 3, 3, 3, 1, 4, 3, 3, 2, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 2, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 2, 1, 2,
    2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0,
];

/// Least argument. A smaller one does not occur: a segment below the plateau is 2^40 / 410 already.
const LEAST: u64 = 64;

/// The cube root of a number of at least 64.
pub fn cube_root(cube: u64) -> u32 {
    debug_assert!(cube >= LEAST, "{cube} is below the range of the estimate");
    // A third of the bits, rounded down, without the leading three to six.
    let digits = (((64 - cube.leading_zeros()) * 84) >> 8) - 1;
    let leading = cube >> (3 * digits);
    let below = u64::from(ESTIMATE_BELOW_ROOT[leading as usize - 8]);
    let estimate = ((exact_root(leading << 18) - below + 10) << digits) >> 6;
    // Newton: (2 x + cube / x²) / 3; the kernel's x² is x (x - 1), and its third is 341/1024.
    let three_roots = 2 * estimate + cube / (estimate * (estimate - 1));
    ((three_roots * 341) >> 10) as u32
}

/// Largest number of which the cube is not above `cube`; for numbers below 2^24.
fn exact_root(cube: u64) -> u64 {
    (0..8).rev().fold(0, |root: u64, bit| {
        let larger = root | 1 << bit;
        if larger.pow(3) <= cube { larger } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::super::INVERSE_C;
    use super::*;

    /// From the kernel's steps by hand. For 2^30, the leading bits are 001000 and nine digits follow (31 x 84 / 256 = 10,
    /// less one): the estimate is (123 + 10) x 512 / 64 = 1064; 2^30 / (1064 x 1063) = 949; (2128 + 949) x 341 / 1024 =
    /// 1024.
    #[test]
    fn roots_are_those_of_the_kernel() {
        assert_eq!(cube_root(1 << 30), 1024);
        // 10^9 has 30 bits, so eight digits and leading bits 59: (248 + 10) x 256 / 64 = 1032, 10^9 / (1032 x 1031) =
        // 939, 3003 x 341 / 1024 = 1000.
        assert_eq!(cube_root(1_000_000_000), 1000);
        // W_max - cwnd = 30: 80452070310 has 37 bits, so 11 digits, of which 3 x 11 bits leave 9: (129 + 10) x 2048 / 64
        // = 4448; / (4448 x 4447) = 4067; 12963 x 341 / 1024 = 4316. The exact root is 4316.97.
        assert_eq!(cube_root(INVERSE_C * 30), 4316);
    }

    #[test]
    fn roots_are_within_half_a_percent_of_exact_ones() {
        let mut sum = 0.0;
        for segments in 1..20_000_u64 {
            let cube = INVERSE_C * segments;
            let error = (f64::from(cube_root(cube)) / (cube as f64).cbrt() - 1.0).abs();
            assert!(error < 0.0065, "root of {cube}: off by {error}");
            sum += error;
        }
        assert!(sum / 20_000.0 < 0.002, "average error {}", sum / 20_000.0);
    }

    #[test]
    fn every_number_of_segments_is_within_the_estimate() {
        for shift in 0..20 {
            for segments in [1, 3, 5, 7, 9, 15] {
                cube_root(INVERSE_C * (segments << shift));
            }
        }
    }

    #[test]
    fn exact_roots_are_exact() {
        for root in 1..256_u64 {
            assert_eq!((exact_root(root.pow(3)), exact_root(root.pow(3) - 1)), (root, root - 1));
        }
    }
}
