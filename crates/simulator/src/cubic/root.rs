//! The cube root for K (RFC 9438, section 4.2): exact, and rounded down.
//!
//! The kernel's cube root is an approximation with an error of 0.2 % on average, so K differs from the kernel's by that
//! much. If K is 10 s, the kernel reaches the plateau 20 ms earlier or later. Windows differ by up to 3 x 0.2 % of the
//! distance between the plateau and the window that the loss left, because that distance is C K^3.

/// Bits of the largest root of a 64-bit number: 2642245 cubed is the last cube below 2^64.
const ROOT_BITS: u32 = 22;

/// Returns the largest number whose cube is at most `cube`.
pub fn cube_root(cube: u64) -> u32 {
    (0..ROOT_BITS).rev().fold(0, |root: u32, bit| {
        let larger = root | 1 << bit;
        if u64::from(larger).checked_pow(3).is_some_and(|power| power <= cube) { larger } else { root }
    })
}

#[cfg(test)]
mod tests {
    use super::super::INVERSE_C;
    use super::*;

    #[test]
    fn roots_are_exact_and_rounded_down() {
        for root in (1..2000).chain([2_642_244, 2_642_245]) {
            let cube = u64::from(root).pow(3);
            assert_eq!((cube_root(cube - 1), cube_root(cube), cube_root(cube + 1)), (root - 1, root, root));
        }
        assert_eq!((cube_root(0), cube_root(u64::MAX)), (0, 2_642_245));
    }

    /// W_max - cwnd = 30: K is cbrt(30 / 0.4) = 4.217 s, and C of 410 / 1024 makes it 4316.97 / 1024 s.
    #[test]
    fn the_root_of_a_distance_is_the_time_to_the_plateau() {
        assert_eq!(cube_root(INVERSE_C * 30), 4316);
    }
}
