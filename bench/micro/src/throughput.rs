//! Throughput of a single flow between two hosts on a cable without a bottleneck. The processor is the limit, so the
//! cost of an algorithm, and any capacity that it leaves unused, reduces the throughput.

use super::load_guard::LoadGuard;
use super::options::Options;
use super::report::{Bound, Finding, significant, spread};
use super::wire::{Flow, Wire};
use anyhow::Result;
use hotcc_testbed::netlab::pause;
use hotcc_testbed::statistics::{mean_ratio, median};
use std::time::{Duration, Instant};

/// Name of the measure for `--only`.
pub const NAME: &str = "throughput";
const BOUND: f64 = 0.95;
const YARDSTICK: &str = "cubic";
/// The yardstick is also a subject: its own ratio shows the machine's noise.
const SUBJECTS: [&str; 3] = ["westwoodp", "dtcp", YARDSTICK];
/// Turns within a pair; their order spreads drift and intermittent load over both sides.
const TURNS: [usize; 8] = [0, 1, 1, 0, 1, 0, 0, 1];
const TURNS_EACH: u32 = 8;
const WARM_UP: Duration = Duration::from_millis(20);

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let (pairs, each) = if options.quick { (6, Duration::from_millis(500)) } else { (20, Duration::from_millis(2000)) };
    let wire = Wire::new()?;
    SUBJECTS.iter().map(|subject| compare(&wire, subject, pairs, each)).collect()
}

fn compare(wire: &Wire, subject: &'static str, pairs: usize, each: Duration) -> Result<Finding> {
    let is_control = subject == YARDSTICK;
    let name = if is_control { subject.to_owned() } else { format!("b_{subject}") }; // `subject` may be loaded already
    let _loaded = (!is_control).then(|| LoadGuard::load(subject, &name)).transpose()?;
    let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for pair in 0..pairs {
        let mut rate = [0.0; 2];
        // one connection that changes its congestion control: two connections would also differ in their memory's
        // addresses
        let flow = Flow::start(wire, YARDSTICK)?;
        for place in TURNS.iter().cycle().take(2 * TURNS_EACH as usize) {
            let which = (place + pair) % 2;
            let share = gbit_per_s(&flow, [name.as_str(), YARDSTICK][which], each / TURNS_EACH)?;
            rate[which] += share / f64::from(TURNS_EACH);
        }
        for (rates, rate) in rates.iter_mut().zip(rate) {
            rates.push(rate);
        }
        ratios.push(rate[0] / rate[1]);
        eprintln!(
            "  {subject}, pair {} of {pairs}: {:.2} Gbit/s, {YARDSTICK} {:.2} Gbit/s",
            pair + 1,
            rate[0],
            rate[1]
        );
    }
    let interval = mean_ratio(&ratios);
    let low = interval.map(|i| i.low);
    let bound = if is_control { Bound::None } else { Bound::AtLeast(BOUND) };
    let mut finding = Finding::new(NAME, subject, "ratio to cubic, 95 % low", low, bound);
    if let Some(i) = interval {
        finding = finding.figure(format!("{} of cubic's ({}), {pairs} pairs", significant(i.mean), spread(&i)));
    }
    let medians = rates.map(|r| median(&r).map_or("-".to_owned(), significant));
    Ok(finding.figure(format!("median Gbit/s: {}, cubic {}", medians[0], medians[1])))
}

fn gbit_per_s(flow: &Flow, cc: &str, turn: Duration) -> Result<f64> {
    flow.choose(cc)?;
    pause(WARM_UP)?;
    let (started, before) = (Instant::now(), flow.delivered());
    pause(turn)?;
    let (bytes, elapsed) = (flow.delivered() - before, started.elapsed());
    Ok(bytes as f64 * 8e-9 / elapsed.as_secs_f64())
}
