//! Random numbers that are the same on every machine, in independent streams.

use sha2::{Digest, Sha256};

/// One stream of random numbers: xoshiro256++ 1.0 (Blackman and Vigna, 2019). Its state is the SHA-256 of the seed, the
/// radio's name and the purpose, so the number of draws for one purpose does not change any other stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: [u64; 4],
    /// The second of a pair of normal numbers.
    spare: Option<f64>,
}

impl Stream {
    /// Creates the stream for one purpose ("shadowing, line of sight") of the radio `name`.
    pub(crate) fn new(seed: u64, name: &str, purpose: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"hotcc radio 1\0");
        hash.update(seed.to_le_bytes());
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(purpose);
        let digest = hash.finalize();
        let mut state = [0u64; 4];
        for (word, bytes) in state.iter_mut().zip(digest.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Self { state, spare: None }
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a uniform number in (0, 1], in steps of 2^-53. It is never 0, so its logarithm is finite.
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns a normal number with mean 0 and variance 1 (Box and Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = (-2.0 * libm::log(self.uniform())).sqrt();
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * self.uniform());
        self.spare = Some(radius * sin);
        radius * cos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generator_is_xoshiro256_plus_plus() {
        // First outputs of the authors' xoshiro256plusplus.c from the state 1, 2, 3, 4.
        let mut stream = Stream { state: [1, 2, 3, 4], spare: None };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!(std::array::from_fn(|_| stream.next()), expected);
    }

    #[test]
    fn normal_numbers_are_normal() {
        let mut stream = Stream::new(1, "a", "p");
        let n = 100_000;
        let all: Vec<f64> = (0..n).map(|_| stream.normal()).collect();
        let mean = all.iter().sum::<f64>() / f64::from(n);
        let variance = all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n);
        let within = all.iter().filter(|v| v.abs() < 1.0).count() as f64 / f64::from(n);
        // Four standard errors each: 1/sqrt(n), sqrt(2/n), sqrt(0.683 * 0.317 / n).
        assert!(mean.abs() < 0.0127, "{mean}");
        assert!((variance - 1.0).abs() < 0.0179, "{variance}");
        assert!((within - 0.6827).abs() < 0.0059, "{within}");
    }

    #[test]
    fn seed_name_and_purpose_all_count() {
        let first = |seed, name, purpose| Stream::new(seed, name, purpose).next();
        let all = [first(1, "a", "p"), first(2, "a", "p"), first(1, "b", "p"), first(1, "a", "q"), first(1, "ap", "")];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b), "{i}");
        }
        assert_eq!(first(1, "a", "p"), all[0]);
    }
}
