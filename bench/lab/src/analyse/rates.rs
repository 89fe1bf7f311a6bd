//! Capacity and rates over time.

use hotcc_lab_proto::plan::PlannedLink;
use hotcc_lab_proto::records::AckRecord;

/// A link's capacity over time, with the bits that it could carry before the start of each step.
#[derive(Debug)]
pub(super) struct Capacity {
    step_ns: u64,
    rates_bps: Vec<u64>,
    bits_before: Vec<f64>,
}

impl Capacity {
    pub fn of(link: &PlannedLink) -> Self {
        let rates_bps: Vec<u64> = link.rates_by_step().collect();
        let step_s = link.step_ns as f64 / 1e9;
        let mut bits = 0.0;
        let mut bits_before = Vec::with_capacity(rates_bps.len() + 1);
        for rate in &rates_bps {
            bits_before.push(bits);
            bits += *rate as f64 * step_s;
        }
        bits_before.push(bits);
        Self { step_ns: link.step_ns, rates_bps, bits_before }
    }

    /// Returns when this many bits have been served. `None` if the link has no rate, or if they are never served
    /// because the last rate is 0.
    pub fn ns_at(&self, bits: f64) -> Option<f64> {
        let last = self.rates_bps.len().checked_sub(1)?;
        let step = self.bits_before[1..].partition_point(|served| *served < bits).min(last);
        let left = (bits - self.bits_before[step]).max(0.0);
        let within_ns = if left > 0.0 { left / self.rates_bps[step] as f64 * 1e9 } else { 0.0 };
        within_ns.is_finite().then_some(step as f64 * self.step_ns as f64 + within_ns)
    }

    /// Returns the bits that could be served until `at_ns`. `None` if the link has no rate.
    pub fn bits_until(&self, at_ns: u64) -> Option<f64> {
        let last = self.rates_bps.len().checked_sub(1)?;
        let step = ((at_ns / self.step_ns) as usize).min(last);
        let into_s = (at_ns - step as u64 * self.step_ns) as f64 / 1e9;
        Some(self.bits_before[step] + self.rates_bps[step] as f64 * into_s)
    }

    /// Returns the rate at `at_ns`. `None` if the link has no rate.
    pub fn bps_at(&self, at_ns: u64) -> Option<f64> {
        let last = self.rates_bps.len().checked_sub(1)?;
        Some(self.rates_bps[((at_ns / self.step_ns) as usize).min(last)] as f64)
    }

    /// Returns how long `bytes` take at the rate at `at_ns`; 0 if the link has no rate, or if that rate is 0.
    pub fn service_ns(&self, at_ns: u64, bytes: u32) -> u64 {
        let step = ((at_ns / self.step_ns.max(1)) as usize).min(self.rates_bps.len().saturating_sub(1));
        let rate_bps = self.rates_bps.get(step).copied().unwrap_or_default();
        (u64::from(bytes) * 8_000_000_000).checked_div(rate_bps).unwrap_or_default()
    }

    /// Returns the mean capacity over an interval. `None` if the link has no rate, or if the interval is empty.
    pub fn mean_bps(&self, from_ns: u64, until_ns: u64) -> Option<f64> {
        if until_ns <= from_ns {
            return None;
        }
        Some((self.bits_until(until_ns)? - self.bits_until(from_ns)?) / ((until_ns - from_ns) as f64 / 1e9))
    }
}

/// The number of acknowledged bytes over time.
#[derive(Debug)]
pub(super) struct Progress<'a>(pub &'a [AckRecord]);

impl Progress<'_> {
    /// Returns the bytes that were acknowledged until `at_ns`.
    pub fn bytes_at(&self, at_ns: u64) -> u64 {
        let known = self.0.partition_point(|r| r.time_ns <= at_ns);
        self.0[..known].last().map_or(0, |r| r.bytes_acked)
    }

    /// Returns the mean rate over an interval.
    pub fn bps(&self, from_ns: u64, until_ns: u64) -> f64 {
        let bytes = self.bytes_at(until_ns).saturating_sub(self.bytes_at(from_ns));
        bytes as f64 * 8e9 / (until_ns - from_ns).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_the_area_under_the_rate() {
        let link = PlannedLink { step_ns: 100_000_000, rates: vec![(2, 1000), (1, 4000)], ..PlannedLink::default() };
        let capacity = Capacity::of(&link);
        assert_eq!(capacity.mean_bps(0, 300_000_000), Some(2000.0));
        assert_eq!(capacity.mean_bps(150_000_000, 250_000_000), Some(2500.0));
        assert_eq!((capacity.service_ns(0, 1), capacity.service_ns(250_000_000, 1)), (8_000_000, 2_000_000));
        // the last rate continues
        assert_eq!(capacity.mean_bps(300_000_000, 500_000_000), Some(4000.0));
        assert_eq!(Capacity::of(&PlannedLink { step_ns: 1, ..PlannedLink::default() }).mean_bps(0, 1), None);
    }
}
