//! Scenarios in the simulator: which it can run, and a run.

use crate::analyse::Measured;
use crate::planner::Planned;
use crate::scenario::Scenario;
use anyhow::Result;
use hotcc_simulator::play::{Outcome, simulate};

/// What manifests and reports call it.
pub const BACKEND: &str = "simulator";
/// Seconds of real time that a second of a usual scenario takes, for estimates.
pub const WALL_S_PER_S: f64 = 0.01;

/// Whether the simulator can run a case.
pub(crate) fn check(_case: String, _scenario: &Scenario) -> Result<()> {
    Ok(())
}

/// Simulates a run.
pub(crate) fn run(planned: &Planned) -> Result<Measured> {
    let Outcome { played, packets, acks } = simulate(&planned.plan)?;
    Ok(Measured { played, packets, acks })
}
