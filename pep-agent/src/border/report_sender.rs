//! Takes reports out of the kernel's ring and hands them to the transport, grouped by server.

use crate::border::ring::Ring;
use crate::report::{FlowReport, Transport};
use hotcc_abi::clock::monotonic_ns;
use hotcc_host::error::Result;
use nix::poll::PollTimeout;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Maximum number of reports per batch, so that a steady stream cannot delay the first of them forever.
const BATCH: usize = 1024;
/// Switch to polling after this many consecutive batches, and back to wake-ups after as many empty polls.
const IN_A_ROW: u32 = 4;
/// Maximum time until the thread notices that it must stop.
const WAIT_MS: u16 = 100;

/// Counters of what was handed over so far.
#[derive(Debug)]
pub struct Delivered {
    /// Reports.
    pub reports: AtomicU64,
    /// Reports replaced by a newer one of the same flow before they were sent.
    pub superseded: AtomicU64,
    /// Datagrams, as the transport counts them.
    pub datagrams: AtomicU64,
    /// Polls for reports.
    pub polls: AtomicU64,
    /// Seconds from the first segment that no earlier report covers until the report was sent or dropped.
    pub delay: Histogram,
}

impl Default for Delivered {
    fn default() -> Self {
        let delay = Histogram::new(exponential_buckets(31.25e-6, 2.0, 14));
        let [reports, superseded, datagrams, polls] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { reports, superseded, datagrams, polls, delay }
    }
}

/// Hands over the reports in the ring until `stop` is set. After each batch, it leaves the ring alone for a while:
/// reports that arrive meanwhile cause no wake-up and leave together. On a busy router, wake-ups cost more than
/// reports.
///
/// # Errors
/// The kernel refuses to run one of the ring's programs.
pub fn run(ring: &mut Ring, transport: &mut dyn Transport, delivered: &Delivered, stop: &AtomicBool) -> Result<()> {
    let mut batch: Vec<(FlowReport, u64)> = Vec::with_capacity(BATCH);
    let (mut is_polling, mut in_a_row) = (false, 0);
    while !stop.load(Relaxed) {
        let began = Instant::now();
        if is_polling {
            ring.poll()?;
            delivered.polls.fetch_add(1, Relaxed);
        }
        batch.extend(std::iter::from_fn(|| ring.take()).take(BATCH));
        let found = !batch.is_empty();
        if found {
            deliver(&mut batch, transport, delivered);
        }
        in_a_row = if found == is_polling { 0 } else { in_a_row + 1 };
        if in_a_row == IN_A_ROW {
            (is_polling, in_a_row) = (!is_polling, 0);
            if !is_polling {
                ring.end_poll()?;
            }
        }
        if found || is_polling {
            // sleep at least as long as the work took, so that half of a processor is left to others
            std::thread::sleep(ring.gather.max(began.elapsed()));
        } else {
            ring.wait(PollTimeout::from(WAIT_MS));
        }
    }
    Ok(())
}

fn deliver(batch: &mut Vec<(FlowReport, u64)>, transport: &mut dyn Transport, delivered: &Delivered) {
    let taken = batch.len();
    let now_ns = monotonic_ns();
    let (mut reports, since): (Vec<FlowReport>, Vec<u64>) = batch.drain(..).unzip();
    keep_newest(&mut reports);
    delivered.superseded.fetch_add((taken - reports.len()) as u64, Relaxed);
    delivered.reports.fetch_add(reports.len() as u64, Relaxed);
    for group in reports.chunk_by(|a, b| a.key.server.ip() == b.key.server.ip()) {
        delivered.datagrams.fetch_add(transport.send(group, now_ns / 1000) as u64, Relaxed);
    }
    let left_ns = monotonic_ns(); // when the last one left
    for since_ns in since {
        delivered.delay.observe(left_ns.saturating_sub(since_ns) as f64 / 1e9);
    }
}

/// Sorts by server, then flow, and keeps only the newest report of each flow, which includes what the others say.
fn keep_newest(reports: &mut Vec<FlowReport>) {
    reports.reverse(); // of two reports with the same time, keep the later one
    reports.sort_by_key(|r| (r.key.server.ip(), r.key.server.port(), r.key.client, Reverse(r.seen_at_us)));
    reports.dedup_by_key(|r| r.key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::FlowKey;

    #[test]
    fn one_report_per_flow_goes_together_with_its_servers() {
        let report = |server: &str, client: &str, segments, seen_at_us| FlowReport {
            key: FlowKey { server: server.parse().unwrap(), client: client.parse().unwrap() },
            in_order: segments,
            ranges: Vec::new(),
            segments,
            seen_at_us,
        };
        #[derive(Default)]
        struct Kept(Vec<Vec<FlowReport>>);
        impl Transport for Kept {
            fn send(&mut self, reports: &[FlowReport], _now_us: u64) -> usize {
                self.0.push(reports.to_vec());
                1
            }
        }
        let sent = [
            report("192.0.2.2:80", "10.0.0.1:5000", 1, 5),
            report("192.0.2.1:443", "10.0.0.1:5000", 2, 5),
            report("192.0.2.2:443", "10.0.0.1:5001", 3, 6),
            report("192.0.2.2:80", "10.0.0.1:5000", 4, 5),
            report("192.0.2.2:443", "10.0.0.1:5001", 2, 5), // a newer report overtook it
        ];
        let mut batch = sent.iter().map(|r| (r.clone(), 0)).collect();
        let (mut kept, delivered) = (Kept::default(), Delivered::default());
        deliver(&mut batch, &mut kept, &delivered);
        assert_eq!(kept.0, [vec![sent[1].clone()], vec![sent[3].clone(), sent[2].clone()]]);
        assert_eq!((delivered.superseded.load(Relaxed), delivered.datagrams.load(Relaxed)), (2, 2));
    }
}
