//! Ellipse of a bivariate normal distribution that is fitted to points: where the point of another seed would lie.

/// Factor of the 1-sigma ellipse that holds 95 % of a bivariate normal distribution: `sqrt(-2 ln 0.05)`, the square root
/// of the quantile of chi-square with 2 degrees of freedom.
pub const SCALE_95: f64 = 2.447_746_830_680_816;

/// The 1-sigma ellipse: its centre is the mean; its half axes lie along the eigenvectors of the sample covariance
/// (n - 1), and their lengths are the square roots of its eigenvalues. Collinear points make a segment; a single or
/// repeated point makes a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ellipse {
    /// Mean.
    pub centre: (f64, f64),
    /// Greater half axis.
    pub major: f64,
    /// Smaller half axis; 0 if the points are collinear.
    pub minor: f64,
    /// Direction of the greater half axis, radians, in (-pi/2, pi/2].
    pub angle: f64,
}

impl Ellipse {
    /// Fits an ellipse to points. Returns `None` if there are no points, or if a coordinate is not finite.
    #[must_use]
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        if points.is_empty() || points.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
            return None;
        }
        let n = points.len() as f64;
        let (x0, y0) = points[0];
        let centre = (
            x0 + points.iter().map(|p| p.0 - x0).sum::<f64>() / n,
            y0 + points.iter().map(|p| p.1 - y0).sum::<f64>() / n,
        );
        if points.len() == 1 {
            return Some(Self { centre, major: 0.0, minor: 0.0, angle: 0.0 });
        }
        let covariance = |f: fn((f64, f64)) -> f64| {
            points.iter().map(|p| f((p.0 - centre.0, p.1 - centre.1))).sum::<f64>() / (n - 1.0)
        };
        let (xx, yy, xy) = (covariance(|d| d.0 * d.0), covariance(|d| d.1 * d.1), covariance(|d| d.0 * d.1));
        let middle = f64::midpoint(xx, yy);
        let radius = ((xx - yy) / 2.0).hypot(xy);
        // two points are exactly collinear; rounding must not make their eigenvalue negative or widen the ellipse
        let least = middle - radius;
        let minor = if least <= middle * 1e-12 { 0.0 } else { least.sqrt() };
        Some(Self { centre, major: (middle + radius).sqrt(), minor, angle: 0.5 * (2.0 * xy).atan2(xx - yy) })
    }

    /// Returns the outline, enlarged by `scale`: `count` points, and the first one again.
    #[must_use]
    pub fn outline(&self, scale: f64, count: usize) -> Vec<(f64, f64)> {
        let (sin, cos) = self.angle.sin_cos();
        (0..=count)
            .map(|k| {
                // the last point equals the first, bit for bit
                let turn = std::f64::consts::TAU * (k % count) as f64 / count as f64;
                let (along, across) = (scale * self.major * turn.cos(), scale * self.minor * turn.sin());
                (self.centre.0 + along * cos - across * sin, self.centre.1 + along * sin + across * cos)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn axes_of_a_known_covariance() {
        // covariance [[5/3, 1], [1, 5/3]] around (0, 0): eigenvalues 8/3 along the diagonal, 2/3 across
        let points = [(-1.5, -0.5), (-0.5, -1.5), (0.5, 1.5), (1.5, 0.5)];
        let ellipse = Ellipse::fit(&points).unwrap();
        assert!(close(ellipse.centre.0, 0.0) && close(ellipse.centre.1, 0.0));
        assert!(close(ellipse.major, (8.0f64 / 3.0).sqrt()), "{ellipse:?}");
        assert!(close(ellipse.minor, (2.0f64 / 3.0).sqrt()), "{ellipse:?}");
        assert!(close(ellipse.angle, std::f64::consts::FRAC_PI_4));
    }

    #[test]
    fn every_outline_point_is_at_the_same_mahalanobis_distance() {
        let points = [(1.0, 2.0), (2.0, 2.5), (3.0, 5.0), (4.0, 3.0), (6.0, 9.0)];
        let ellipse = Ellipse::fit(&points).unwrap();
        let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / 5.0;
        let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
        let cov = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| f(p.0 - mx, p.1 - my)).sum::<f64>() / 4.0;
        let (xx, yy, xy) = (cov(&|x, _| x * x), cov(&|_, y| y * y), cov(&|x, y| x * y));
        let det = xx * yy - xy * xy;
        for (x, y) in ellipse.outline(SCALE_95, 48) {
            let (dx, dy) = (x - mx, y - my);
            let distance = (yy * dx * dx - 2.0 * xy * dx * dy + xx * dy * dy) / det;
            assert!((distance - 5.991_464_547).abs() < 1e-6, "{distance}");
        }
    }

    #[test]
    fn degenerate_samples() {
        assert_eq!(Ellipse::fit(&[]), None);
        assert_eq!(Ellipse::fit(&[(1.0, f64::NAN)]), None);
        let one = Ellipse::fit(&[(3.0, 4.0)]).unwrap();
        assert_eq!((one.centre, one.major, one.minor), ((3.0, 4.0), 0.0, 0.0));
        let two = Ellipse::fit(&[(0.1, 0.1), (0.4, 0.5)]).unwrap();
        assert_eq!(two.minor, 0.0);
        assert!(close(two.major, 0.5 / 2f64.sqrt()), "{two:?}");
        assert!(close(two.angle, (4.0f64 / 3.0).atan()));
        let same = Ellipse::fit(&[(0.1, 7.3); 9]).unwrap();
        assert_eq!((same.centre, same.major, same.minor), ((0.1, 7.3), 0.0, 0.0));
        let upright = Ellipse::fit(&[(2.0, 1.0), (2.0, 3.0), (2.0, 8.0)]).unwrap();
        assert_eq!(upright.minor, 0.0);
        assert!(close(upright.angle, std::f64::consts::FRAC_PI_2));
        let outline = upright.outline(1.0, 16);
        assert_eq!((outline.len(), outline[0]), (17, outline[16]));
        assert!(outline.iter().all(|p| p.0.is_finite() && p.1.is_finite()));
    }
}
