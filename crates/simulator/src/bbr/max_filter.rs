//! A maximum over a sliding window in constant space. It keeps the three best samples, like the kernel's
//! `minmax_running_max` (Kathleen Nichols' algorithm). A new sample evicts every earlier one that is not larger.

/// The time of a measurement, and its value.
type Sample = (u32, u32);

/// The maximum over the last rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaxFilter {
    /// The samples, from the largest value to the smallest and from the earliest to the latest.
    best: [Sample; 3],
}

impl MaxFilter {
    /// Returns the maximum.
    pub fn get(&self) -> u32 {
        self.best[0].1
    }

    /// Adds a sample, and expires samples older than `window`.
    pub fn update(&mut self, window: u32, time: u32, value: u32) {
        let sample = (time, value);
        let age = |of: Sample| time.wrapping_sub(of.0);
        if value >= self.best[0].1 || age(self.best[2]) > window {
            self.best = [sample; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].1 {
            self.best[2] = sample;
        }
        if age(self.best[0]) > window {
            self.expire(sample);
            if age(self.best[0]) > window {
                self.expire(sample);
            }
        } else if self.best[1].0 == self.best[0].0 && age(self.best[0]) > window / 4 {
            // The second and third best are taken from later parts of the window, as candidates for when the best
            // expires.
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age(self.best[0]) > window / 2 {
            self.best[2] = sample;
        }
    }

    /// Drops the best sample, which has expired; the others move up.
    fn expire(&mut self, sample: Sample) {
        self.best = [self.best[1], self.best[2], sample];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(samples: &[Sample]) -> MaxFilter {
        let mut filter = MaxFilter::default();
        for &(time, value) in samples {
            filter.update(10, time, value);
        }
        filter
    }

    #[test]
    fn a_larger_sample_is_the_maximum_at_once() {
        assert_eq!(filter(&[(0, 5), (1, 3), (2, 7)]).best, [(2, 7); 3]);
    }

    #[test]
    fn the_maximum_expires_after_the_window() {
        let mut filter = filter(&[(0, 9), (3, 5), (6, 4)]);
        assert_eq!(filter.best, [(0, 9), (3, 5), (6, 4)]);
        filter.update(10, 10, 3);
        assert_eq!(filter.get(), 9);
        filter.update(10, 11, 3);
        assert_eq!(filter.best, [(3, 5), (6, 4), (11, 3)]);
        // In round 14, round 3 is more than ten rounds ago.
        filter.update(10, 14, 2);
        assert_eq!(filter.best, [(6, 4), (11, 3), (14, 2)]);
    }

    #[test]
    fn two_samples_may_expire_at_once() {
        let mut filter = filter(&[(0, 9), (3, 5), (6, 4)]);
        filter.update(10, 15, 1);
        assert_eq!(filter.best, [(6, 4), (15, 1), (15, 1)]);
    }

    #[test]
    fn after_a_pause_of_a_window_only_the_new_sample_counts() {
        let mut filter = filter(&[(0, 9), (3, 5), (6, 4)]);
        filter.update(10, 17, 1);
        assert_eq!(filter.best, [(17, 1); 3]);
    }

    #[test]
    fn candidates_come_from_later_parts_of_the_window() {
        // Round 2 is within the first quarter of ten rounds, round 3 is not, and round 6 is in the second half.
        let mut filter = filter(&[(0, 9), (2, 5)]);
        assert_eq!(filter.best, [(0, 9); 3]);
        filter.update(10, 3, 5);
        assert_eq!(filter.best, [(0, 9), (3, 5), (3, 5)]);
        filter.update(10, 6, 1);
        assert_eq!(filter.best, [(0, 9), (3, 5), (6, 1)]);
    }
}
