//! Time that `hotcc apply` takes if the kernel is already in the declared state, as at most boots and in every check.

use super::load_guard::LoadGuard;
use super::options::Options;
use super::report::{Bound, Finding, significant};
use anyhow::{Context, Result, ensure};
use hotcc::{declared, status};
use hotcc_testbed::netlab::check;
use hotcc_testbed::statistics::median;
use std::time::Instant;

/// Name of the measure for `--only`.
pub const NAME: &str = "apply";
const BOUND_MS: f64 = 50.0;
const CC: &str = "b_apply";

/// Runs the measure.
pub fn run(options: &Options) -> Result<Vec<Finding>> {
    let times = if options.quick { 5 } else { 40 };
    let files = tempfile::tempdir().context("cannot create a temporary directory")?;
    let file = files.path().join("hotcc.toml");
    std::fs::write(&file, format!("[[algorithm]]\nobject = \"dtcp\"\nname = \"{CC}\"\ntunables.eta = 3\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    let steps = declared::apply(&file)?.steps;
    let _loaded = LoadGuard::adopt(CC);
    ensure!(steps.len() == 1, "{} steps for one algorithm, expected 1", steps.len());
    let (mut unchanged, mut statuses) = (Vec::new(), Vec::new());
    for _ in 0..times {
        check()?;
        let started = Instant::now();
        let steps = declared::apply(&file)?.steps;
        unchanged.push(ms(started));
        ensure!(steps.is_empty(), "a step for an unchanged file: {steps:?}");
        let started = Instant::now();
        status::status()?;
        statuses.push(ms(started));
    }
    let middle = |values: &[f64]| median(values).map_or("-".to_owned(), significant);
    let bound = Bound::AtMost(BOUND_MS);
    let finding = Finding::new(NAME, "a file that changes nothing", "median ms", median(&unchanged), bound);
    Ok(vec![
        finding
            .figure(format!("median {} ms, {times} samples", middle(&unchanged)))
            .figure(format!("`hotcc status`, by turns with it: median {} ms", middle(&statuses))),
    ])
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
