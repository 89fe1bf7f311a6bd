//! Scenarios in the simulator: checks whether it supports them, and runs them.

use crate::algorithms::description;
use crate::analyse::Measured;
use crate::planner::Planned;
use crate::scenario::{Case, Place, Scenario, Source};
use crate::selection::Selection;
use anyhow::{Context, Result};
use hotcc::tunables::{Setting, values};
use hotcc_lab_proto::plan::RxMethod;
use hotcc_simulator::algorithms;
use hotcc_simulator::exec::{Outcome, SYSCTLS, simulate};

/// Seconds of real time per second of a typical scenario, for estimates.
pub const WALL_S_PER_S: f64 = 0.01;

/// Checks whether the simulator supports the selected cases. The error names the line that needs something that it
/// lacks.
pub fn check_runs(source: &Source, selection: &Selection) -> Result<()> {
    let cases = source.cases()?;
    let runs = selection.runs(source, &cases)?;
    let is_selected = |case: &Case| runs.iter().any(|one| one.case.values == case.values);
    Ok(source.check_some_cases(is_selected, |scenario, _, _| check(scenario))?)
}

fn check(scenario: &Scenario) -> Result<()> {
    let refuse = |place: Place, why: String| {
        let why = format!("{why}; use --lab vm, or select other cases with --case");
        Err(anyhow::Error::msg(why).context(place))
    };
    for host in &scenario.host {
        if Option::<RxMethod>::from(*host.rx.get_ref()).is_some() {
            let place = Place::of(&host.rx, format!("host `{}`", host.name.get_ref()));
            return refuse(place, "the simulator has no receiver programs".to_owned());
        }
    }
    if let Some((key, value)) = scenario.sysctls().find(|(key, _)| !SYSCTLS.contains(&key.as_str())) {
        let why = format!("of sysctls, the simulator has only {}", SYSCTLS.join(" and "));
        return refuse(Place::of(value, format!("sysctl `{key}`")), why);
    }
    if let Some(file) = scenario.object_files().next() {
        let why = "the simulator runs built-in algorithms only, not object files".to_owned();
        return refuse(Place::of(file, format!("object file `{}`", file.get_ref())), why);
    }
    let swapped = scenario.event.iter().filter_map(|event| event.swap.as_ref()).map(|swap| &swap.new);
    for cc in scenario.flow.iter().filter_map(|flow| flow.cc.as_ref()).chain(swapped) {
        if let Err(why) = algorithms::check(cc.get_ref()) {
            return refuse(Place::of(cc, format!("congestion control `{}`", cc.get_ref())), why);
        }
    }
    Ok(())
}

/// Simulates a run.
pub(crate) fn run(planned: &Planned) -> Result<Measured> {
    let Outcome { record, packets, acks } = simulate(&planned.plan, &settings)?;
    Ok(Measured { record, packets, acks })
}

/// Returns the values of an algorithm's tunables in a profile, followed by the values of the `tunable=value`
/// assignments.
fn settings(object: &str, profile: &str, set: &[String]) -> Result<Vec<(String, u32)>> {
    let tunables = description(object)?.tunables;
    let mut settings = values::profile(&tunables, profile)?;
    for one in set {
        settings.push(values::parse(&tunables, one)?);
    }
    let pair = |setting: Setting| {
        let Setting { tunable, value } = setting;
        let value = u32::try_from(value).with_context(|| format!("{}: {value} is no 32-bit number", tunable.name))?;
        Ok((tunable.name, value))
    };
    settings.into_iter().map(pair).collect()
}
