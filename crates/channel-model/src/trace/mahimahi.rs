//! Mahimahi packet-delivery traces: each line is a millisecond at which one packet of 1500 bytes could leave. They
//! show what the link could carry, but not its SINR.

use super::cells::{Malformed, lines};
use super::sample::Sample;
use std::time::Duration;

/// Interval over which delivery opportunities are summed.
pub(super) const BIN: Duration = Duration::from_millis(100);
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// Maximum time: a week of bins is 6 million samples, and a longer trace is a wrong file.
const MAX_DURATION_MS: u64 = 7 * 24 * 3600 * 1000;

pub(super) fn parse(text: &str) -> Result<Vec<Sample>, Malformed> {
    let bin_ms = BIN.as_millis() as u64;
    let mut bins: Vec<u32> = Vec::new();
    let mut last_ms = 0;
    for (line, row) in lines(text) {
        let malformed = |what| Malformed::new(line, what);
        let ms: u64 = row.parse().map_err(|_| {
            let shown: String = row.chars().take(40).collect();
            malformed(format!("'{shown}' is not a whole number of milliseconds"))
        })?;
        if ms < last_ms {
            return Err(malformed(format!("time goes backwards: {ms} after {last_ms}")));
        }
        if ms > MAX_DURATION_MS {
            return Err(malformed(format!("{ms} ms is more than seven days")));
        }
        last_ms = ms;
        let bin = (ms / bin_ms) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += 1;
    }
    // The trace ends within its last bin, so this bin's capacity is too low. It is dropped unless it is the only one.
    if bins.len() > 1 {
        bins.pop();
    }
    let samples = bins.into_iter().enumerate().map(|(i, packets)| Sample {
        at: BIN * i as u32,
        capacity_bps: Some(f64::from(packets) * PACKET_BITS / BIN.as_secs_f64()),
        ..Sample::default()
    });
    Ok(samples.collect())
}
