//! Time that a swap takes: from the first change of the serving version until new flows and defaults use the new
//! version.
//!
//! A network namespace has the swapped name as its default, so rewriting that default is part of the swap.

use super::load_guard::{LoadGuard, request};
use super::options::Options;
use super::report::{Bound, Finding, significant};
use anyhow::{Context, Result, ensure};
use hotcc::object::Source;
use hotcc::ops;
use hotcc::registry::{self, Algo};
use hotcc_testbed::netlab::{Lab, check};
use hotcc_testbed::statistics::median;
use std::os::fd::AsFd;
use std::time::Instant;

/// Name of the measure for `--only`.
pub const NAME: &str = "swap";
const BOUND_MS: f64 = 30.0;
const CC: &str = "b_swap";
const OBJECTS: [&str; 2] = ["dtcp", "westwoodp"];

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let swaps = if options.quick { 4 } else { 10 };
    let lab = Lab::new("hotcc-microbench")?;
    let host = lab.namespace("host")?;
    let _loaded = LoadGuard::load(OBJECTS[1], CC)?;
    host.sysctl("net.ipv4.tcp_congestion_control", CC)?;
    let (mut whole, mut switch, mut verifying, mut switching) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..swaps {
        check()?;
        let object = OBJECTS[round % 2];
        let started = Instant::now();
        let outcome = ops::swap(CC, &request(object, CC), false)?;
        whole.push(ms(started));
        switch.push(outcome.switched_in_us as f64 / 1e3);
        ensure!(
            outcome.object == format!("builtin:{object}"),
            "after the swap, `{}` is serving instead of `builtin:{object}`",
            outcome.object
        );
        ensure!(outcome.defaults_rewritten == 1, "{} defaults rewritten, expected 1", outcome.defaults_rewritten);
        verifying.push(verify(object)?);
        switching.extend(switch_there_and_back()?);
    }
    let text = |values: &[f64]| {
        let worst = values.iter().copied().fold(f64::NAN, f64::max);
        let middle = median(values).map_or("-".to_owned(), significant);
        format!("median {middle} ms, maximum {} ms, {} samples", significant(worst), values.len())
    };
    let bound = Bound::AtMost(BOUND_MS);
    let finding = Finding::new(NAME, "new flows and defaults use the new version", "median ms", median(&switch), bound);
    Ok(vec![
        finding
            .figure(format!("from the first change until the defaults are written: {}", text(&switch)))
            .figure(format!("the kernel's switch, included above: {}", text(&switching)))
            .figure(format!("opening and verifying, before the first change: {}", text(&verifying)))
            .figure(format!("the whole call, including counting the sockets: {}", text(&whole))),
    ])
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Measures the part of a swap before the first change, in ms.
fn verify(object: &str) -> Result<f64> {
    let started = Instant::now();
    let mut opened = Source::find(object)?.open()?;
    opened.rename(CC)?;
    let loaded = opened.load(hotcc::object::kernel::has_links())?;
    let elapsed = ms(started);
    drop(loaded);
    Ok(elapsed)
}

/// Measures the one system call of a swap after which new flows run the new version, in ms; empty without struct_ops
/// links.
fn switch_there_and_back() -> Result<Vec<f64>> {
    let (algo, serving) = Algo::serving(CC)?;
    let Some(link) = registry::open_link(&algo)? else { return Ok(Vec::new()) };
    let previous = algo.previous()?.with_context(|| format!("`{CC}` has no previous version"))?;
    let (serving, previous) = (serving.need_map("map")?, previous.need_map("map")?);
    let mut elapsed = Vec::new();
    for (old, new) in [(&serving, &previous), (&previous, &serving)] {
        let started = Instant::now();
        hotcc::sys::link_update(&link, new.as_fd(), old.as_fd())?;
        elapsed.push(ms(started));
    }
    Ok(elapsed)
}
