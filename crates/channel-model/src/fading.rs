//! The random parts of a path: shadowing, small-scale fading, and random line of sight.

use crate::random::Stream;
use crate::spec::Fading as FadingSpec;

/// A stationary Gaussian process with mean 0 and variance 1, sampled at uneven distances: x' = rho * x + sqrt(1 -
/// rho^2) * w, w normal. Each step draws one number, even if the user does not move.
#[derive(Debug, Clone)]
struct Gauss {
    stream: Stream,
    value: Option<f64>,
}

impl Gauss {
    fn new(stream: Stream) -> Self {
        Self { stream, value: None }
    }

    /// Returns the next value, which has correlation `rho` with the previous one.
    fn next(&mut self, rho: f64) -> f64 {
        let drawn = self.stream.normal();
        let value = self.value.map_or(drawn, |last| rho * last + (1.0 - rho * rho).max(0.0).sqrt() * drawn);
        self.value = Some(value);
        value
    }
}

/// Lognormal shadowing with autocorrelation exp(-distance / correlation distance) (Gudmundson, 1991; 3GPP TR 38.901
/// clause 7.4.4).
#[derive(Debug, Clone)]
pub(crate) struct Shadow {
    process: Gauss,
    sigma_db: f64,
    correlation_m: f64,
}

impl Shadow {
    /// Creates shadowing with this standard deviation in dB and correlation distance in m.
    pub(crate) fn new(stream: Stream, sigma_db: f64, correlation_m: f64) -> Self {
        Self { process: Gauss::new(stream), sigma_db, correlation_m }
    }

    /// Returns the loss in dB after the user has moved by another `moved_m`.
    pub(crate) fn next(&mut self, moved_m: f64) -> f64 {
        self.sigma_db * self.process.next(libm::exp(-moved_m / self.correlation_m))
    }
}

/// Small-scale fading: the mean power of `branches` complex Gaussian processes whose correlation from one step to the
/// next is that of Clarke's model, J0(2 pi f dt) with Doppler frequency f, around a steady part with line of sight. Its
/// mean is 1.
///
/// The processes are first-order filters, so over more than one step the correlation is a power of J0, not J0 itself. A
/// step is one sample, so fading that is faster than the steps (above 38 Hz, J0 is 0 at 10 ms) is an independent draw
/// in each step.
#[derive(Debug, Clone)]
pub(crate) struct Fading {
    branches: Vec<[Gauss; 2]>,
    /// Power of the steady part relative to the power of the rest, with line of sight.
    k: f64,
    least_doppler_hz: f64,
}

impl Fading {
    /// Creates fading from its description.
    pub(crate) fn new(seed: u64, name: &str, spec: &FadingSpec) -> Self {
        let part = |branch: u32, part: &str| Gauss::new(Stream::new(seed, name, &format!("fading {branch} {part}")));
        Self {
            branches: (0..spec.branches).map(|i| [part(i, "real"), part(i, "imaginary")]).collect(),
            k: libm::pow(10.0, spec.rician_k_db / 10.0),
            least_doppler_hz: spec.least_doppler_hz,
        }
    }

    /// Returns the gain in dB after another step of `dt_s`; it may be minus infinity.
    pub(crate) fn next(&mut self, doppler_hz: f64, dt_s: f64, line_of_sight: bool) -> f64 {
        let doppler_hz = doppler_hz.max(self.least_doppler_hz);
        let rho = libm::j0(std::f64::consts::TAU * doppler_hz * dt_s);
        let k = if line_of_sight { self.k } else { 0.0 };
        let steady = (k / (k + 1.0)).sqrt();
        // The real and the imaginary part have half of the power each.
        let scale = (0.5 / (k + 1.0)).sqrt();
        let mut power = 0.0;
        for [real, imaginary] in &mut self.branches {
            let (re, im) = (steady + scale * real.next(rho), scale * imaginary.next(rho));
            power += re * re + im * im;
        }
        10.0 * libm::log10(power / self.branches.len() as f64)
    }
}

/// A uniform number that depends on the distance walked and changes over some correlation distance, so that what it
/// decides is spatially consistent (3GPP TR 38.901 clause 7.6.3). Normal numbers one correlation distance apart are
/// interpolated so that the variance stays 1; the normal distribution then maps the result to a uniform number. The
/// number is smooth: unlike [`Shadow`], it does not cross a threshold many times in a row.
#[derive(Debug, Clone)]
pub(crate) struct Chance {
    stream: Stream,
    nodes: Vec<f64>,
    correlation_m: f64,
}

impl Chance {
    /// Creates a number that changes over `correlation_m` m.
    pub(crate) fn new(stream: Stream, correlation_m: f64) -> Self {
        Self { stream, nodes: Vec::new(), correlation_m }
    }

    /// Returns the number after `walked_m` m, in 0..=1.
    pub(crate) fn at(&mut self, walked_m: f64) -> f64 {
        let place = walked_m / self.correlation_m;
        let index = place.floor();
        let share = place - index;
        let index = index as usize;
        while self.nodes.len() < index + 2 {
            self.nodes.push(self.stream.normal());
        }
        let (before, after) = (1.0 - share, share);
        let mixed = before * self.nodes[index] + after * self.nodes[index + 1];
        let value = mixed / (before * before + after * after).sqrt();
        0.5 * libm::erfc(-value / std::f64::consts::SQRT_2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn correlation(values: &[f64], lag: usize) -> f64 {
        let n = (values.len() - lag) as f64;
        values.iter().zip(&values[lag..]).map(|(a, b)| a * b).sum::<f64>() / n
    }

    #[test]
    fn shadowing_has_its_sigma_and_correlation_distance() {
        let mut shadow = Shadow::new(Stream::new(3, "a", "p"), 4.0, 10.0);
        let all: Vec<f64> = (0..200_000).map(|_| shadow.next(1.0)).collect();
        let variance = correlation(&all, 0);
        assert!((variance - 16.0).abs() < 0.8, "{variance}");
        // One correlation distance: exp(-1) = 0.368.
        let rho = correlation(&all, 10) / variance;
        assert!((rho - 0.368).abs() < 0.03, "{rho}");
    }

    #[test]
    fn shadowing_stands_still_with_the_user() {
        let mut shadow = Shadow::new(Stream::new(3, "a", "p"), 4.0, 10.0);
        let first = shadow.next(0.0);
        assert!((0..100).all(|_| shadow.next(0.0) == first));
    }

    #[test]
    fn fading_has_mean_one_and_its_distribution() {
        let spec = FadingSpec { rician_k_db: 10.0, ..FadingSpec::default() };
        for (branches, line_of_sight, variance) in [
            // Rayleigh: exponential power, variance 1. Rician: (1 + 2 K) / (1 + K)^2 = 21/121 for K = 10.
            (1, false, 1.0),
            (1, true, 21.0 / 121.0),
            (4, false, 0.25),
        ] {
            let mut fading = Fading::new(1, "a", &FadingSpec { branches, ..spec });
            // f * dt of 0.38 is where J0 is about 0: independent steps.
            let power: Vec<f64> =
                (0..100_000).map(|_| libm::pow(10.0, fading.next(38.0, 0.01, line_of_sight) / 10.0)).collect();
            let mean = power.iter().sum::<f64>() / power.len() as f64;
            let spread = power.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / power.len() as f64;
            assert!((mean - 1.0).abs() < 0.015, "{branches} {line_of_sight} {mean}");
            assert!((spread - variance).abs() < 0.05 * variance, "{branches} {line_of_sight} {spread}");
        }
    }

    #[test]
    fn fading_follows_doppler() {
        let spec = FadingSpec::default();
        let mut still = Fading::new(1, "a", &spec);
        let first = still.next(0.0, 0.01, false);
        assert!((0..50).all(|_| still.next(0.0, 0.01, false) == first));
        let mut stirred = Fading::new(1, "a", &FadingSpec { least_doppler_hz: 5.0, ..spec });
        assert_eq!(stirred.next(0.0, 0.01, false), first);
        assert_ne!(stirred.next(0.0, 0.01, false), first);
        // The amplitude's correlation from step to step is J0(2 pi 10 Hz 10 ms) = J0(0.628) = 0.904 (tables).
        let mut process = Gauss::new(Stream::new(1, "a", "p"));
        let all: Vec<f64> = (0..100_000).map(|_| process.next(libm::j0(0.628_318))).collect();
        assert!((correlation(&all, 1) - 0.904).abs() < 0.03);
    }

    #[test]
    fn chance_is_uniform_and_smooth() {
        let mut chance = Chance::new(Stream::new(5, "a", "p"), 50.0);
        let all: Vec<f64> = (0..200_000).map(|i| chance.at(f64::from(i) * 5.0)).collect();
        for threshold in [0.1, 0.5, 0.8] {
            let below = all.iter().filter(|v| **v < threshold).count() as f64 / all.len() as f64;
            assert!((below - threshold).abs() < 0.02, "{threshold} {below}");
        }
        let mut again = Chance::new(Stream::new(5, "a", "p"), 50.0);
        let fine: Vec<f64> = (0..10_000).map(|i| again.at(f64::from(i) * 0.015)).collect();
        assert!(fine.windows(2).all(|w| (w[0] - w[1]).abs() < 0.005));
    }
}
