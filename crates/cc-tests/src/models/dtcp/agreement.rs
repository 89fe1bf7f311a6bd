//! Bounds of the algorithm's distance from the model, and counts of large ones.

use super::*;

impl Dtcp {
    /// Compares N: it is the same whole number on both sides, unless rounding decides the branch.
    fn agree_on_branch(&mut self, n: f64) -> Result<(), String> {
        if n == self.n {
            return Ok(());
        }
        if !self.step.alternatives.contains(&n) {
            return Err(format!("N {n}; the model has {}, or {:?}", self.n, self.step.alternatives));
        }
        self.rounding.comparison_ties += 1;
        self.n = n;
        Ok(())
    }

    fn agree_on_n(&mut self, n: f64) -> Result<(), String> {
        // this one step, from the algorithm's own N: only its own rounding is allowed
        let (low, high) = self.step.range.unwrap_or((self.step.n, self.step.n));
        if n < low || n > high {
            return Err(format!("N {n}, after {} it may be {low} to {high}", self.step.n));
        }
        // all steps so far
        if !close(n, self.n, N_TOLERANCE, 0.0) {
            // Each step was within its own rounding. A negative queue multiplies N, and with it the error so far; tiny
            // alphas, BW_E near zero and rates of a few kbyte/s leave Q/W few digits. This is counted, and must be
            // rare.
            self.rounding.coarse_n += 1;
            self.n = n;
        }
        Ok(())
    }

    /// Compares W and the fraction of a segment that it gathered.
    fn agree_on_window(&mut self, want: &View, got: &View, growth: f64) -> Result<(), String> {
        let different = || format!("{}; the model has {}", show(got), show(want));
        let Some((window, acked)) = self.step.avoidance else {
            return if got.snd_cwnd == want.snd_cwnd && growth == self.step.growth {
                Ok(())
            } else {
                Err(format!("{} (growth {growth}, was {})", different(), self.step.growth))
            };
        };
        // this one step, from the algorithm's own N and fraction: exact
        let unit = f64::from(window);
        let gathered = self.step.growth + self.step.n * f64::from(acked);
        let whole = (gathered / unit).floor();
        let own = (unit + whole).min(f64::from(got.snd_cwnd_clamp)) as u32;
        if own != got.snd_cwnd || growth != gathered - whole * unit {
            return Err(format!("{} (growth {growth}; W from its own N and growth {own})", different()));
        }
        // all steps so far: whole segments and the fraction together
        let segments = f64::from(want.snd_cwnd) - f64::from(got.snd_cwnd);
        let mut off = segments + (self.growth - growth) / unit;
        if want.snd_cwnd == got.snd_cwnd_clamp && segments == 0.0 {
            // at the clamp, a segment more for one of them is dropped on both sides
            let cut = off.round();
            self.rounding.clamped_ties += u64::from(cut != 0.0);
            self.growth -= cut * unit;
            off -= cut;
        }
        if off.abs() > WINDOW_TOLERANCE {
            // N's 0.1 % over many segments, or a fraction that is larger than W since W shrank
            self.rounding.coarse_fractions += 1;
            self.growth = growth;
            self.window_off += off;
            if self.window_off.abs() > 1.0 {
                self.rounding.coarse_windows += 1;
                self.window_off = 0.0;
            }
        } else {
            self.rounding.window_ties += u64::from(segments != 0.0); // less than a segment, with the fraction
            self.growth += segments * unit;
        }
        Ok(())
    }

    pub(super) fn compare(&mut self, want: &View, got: &View, flow: &Flow<'_>) -> Result<(), String> {
        if want.snd_ssthresh != got.snd_ssthresh {
            return Err(format!("{}; the model has {}", show(got), show(want)));
        }
        let sample = flow.private("sample_rate") as f64;
        if let Some([ignored, filtered]) = self.step.app_limited {
            let [ignored_fits, filtered_fits] =
                [ignored, filtered].map(|f| (sample - f.previous_sample).abs() <= SAMPLE);
            let (other, own) = if self.previous_sample == filtered.previous_sample {
                (ignored, filtered_fits)
            } else {
                (filtered, ignored_fits)
            };
            if !own && (ignored_fits || filtered_fits) {
                self.rounding.sample_ties += 1;
                self.set_state_of_filter(other);
            }
        }
        let bandwidth = flow.private("bandwidth_q8") as f64 / 256.0;
        if !close(bandwidth, self.filtered, 1e-12, self.resolution) {
            return Err(format!("B_I {bandwidth} bytes/s, the model has {} +- {}", self.filtered, self.resolution));
        }
        let filtered = std::mem::take(&mut self.step.filtered);
        self.rounding.coarse_bandwidths +=
            u64::from(filtered && !close(bandwidth, self.filtered, BANDWIDTH_TOLERANCE, 0.0));
        let [n, growth] = ["n_q16", "growth_q16"].map(|name| flow.private(name) as f64 / 65_536.0);
        if !(1.0..=N_LIMIT).contains(&n) {
            return Err(format!("N {n} out of its range"));
        }
        if self.tunables.n_rule == 1 {
            self.agree_on_branch(n)?;
        } else {
            self.agree_on_n(n)?;
        }
        self.agree_on_window(want, got, growth)?;
        self.step = Step { n, growth, ..Step::default() };
        Ok(())
    }

    pub(super) fn compare_ssthresh(&mut self, want: u32, got: u32) -> Result<(), String> {
        if got == want {
            return Ok(());
        }
        // eq 16 rounds to whole parts: the two N may be on different sides of a step
        if got != self.own_ssthresh {
            return Err(format!("ssthresh() is {got}, the model's {want} or {}", self.own_ssthresh));
        }
        self.rounding.parts_ties += 1;
        Ok(())
    }
}
