//! Prints the results of `hotcc canary`.

use super::print::{print_json, row, table, warn};
use hotcc::canary::{Cohorts, Ended, Event, Occasion, Plan, State, Status};
use hotcc::policy::line;
use hotcc_host::error::Result;
use hotcc_host::printable::printable;
use std::io::Write;

pub fn status(status: &Status, json: bool) -> Result<()> {
    if json {
        return print_json(status);
    }
    let Status { state, from, to, .. } = status;
    if *state == State::None {
        say("no canary runs; to start one, see: hotcc canary start --help");
        return Ok(());
    }
    let mut rows = vec![row(["state", &state.name().replace('_', " ")]), row(["from", from]), row(["to", to])];
    if !status.conditions.is_empty() {
        rows.push(row(["conditions", &line(&status.conditions)]));
    }
    rows.push(row(["share of new connections", &format!("{} %", status.share_percent)]));
    if let Some(seconds) = status.expires_in_s {
        rows.push(row(["step", &format!("{} of {}", status.step, status.steps)]));
        rows.push(row(["expires, unless renewed", &format!("in {seconds:.0} s")]));
    }
    rows.push(row(["ended connections", &counts(status.connections)]));
    rows.push(row(["of these, not compared", &status.dropped_records.to_string()]));
    table(&rows);
    if *state == State::Expired {
        say(&format!("new connections get {from} again; to remove the canary's rules: hotcc canary abort"));
    }
    Ok(())
}

fn counts(Cohorts { canary, control }: Cohorts) -> String {
    format!("{canary} of the canary, {control} of the control")
}

pub fn plan(plan: &Plan, json: bool) -> Result<()> {
    warn(&plan.warnings);
    if json {
        return print_json(plan);
    }
    say(&planned(plan));
    Ok(())
}

fn planned(plan: &Plan) -> String {
    let Plan { from, to, conditions, shares_percent, guards, min_connections, for_s, .. } = plan;
    let which = if conditions.is_empty() { "all new connections".to_owned() } else { line(conditions) };
    let steps: Vec<String> = shares_percent.iter().map(|share| format!("{share} %")).collect();
    format!(
        "canary from {from} to {to}: {which}\nsteps: {}\nguards: {}\nat least {min_connections} connections of each \
         cohort in each step; at most {for_s} s",
        steps.join(", "),
        guards.join(", "),
    )
}

pub fn promoted(ended: &Ended, json: bool) -> Result<()> {
    if json {
        return print_json(ended);
    }
    say(&format!("promoted: all new connections that match get {}, until the next `hotcc apply`", ended.to));
    keep(&ended.policy);
    Ok(())
}

fn keep(policy: &str) {
    say(&format!("to keep it, add this before the other rules in {}:\n\n{}", hotcc::declared::FILE, policy.trim_end()));
}

pub fn aborted(ended: &Ended, json: bool) -> Result<()> {
    if json {
        return print_json(ended);
    }
    let why = if ended.was == State::Expired { "it had expired" } else { "it was running" };
    say(&format!("aborted ({why}): new connections get {} again", ended.from));
    Ok(())
}

/// Prints an event. A closed pipe does not end the canary.
pub fn event(event: &Event, json: bool) {
    if let Occasion::Start(plan) = &event.occasion {
        warn(&plan.warnings); // otherwise a condition that matches nothing shows only when the time is over
    }
    if json {
        if let Ok(line) = serde_json::to_string(event) {
            say(&line);
        }
        return;
    }
    match &event.occasion {
        Occasion::Start(plan) => say(&planned(plan)),
        Occasion::Step { step, share_percent } => {
            say(&format!("step {step}: {share_percent} % of the new connections"))
        }
        Occasion::Progress { step, connections } => {
            say(&format!("step {step}: {} ended", counts(*connections)));
        }
        Occasion::Verdict { step, verdict } => say(&format!("step {step}: {}", verdict.explain())),
        Occasion::Dropped { step, dropped_records } => {
            say(&format!("step {step}: began again, because {dropped_records} connections so far were not compared"));
        }
        Occasion::End { state, reason, policy, .. } => {
            say(&format!("{}: {reason}", state.name().replace('_', " ")));
            if !policy.is_empty() {
                keep(policy);
            }
        }
    }
}

/// Prints text; ignores errors, because the canary goes on without a reader.
fn say(text: &str) {
    let text: Vec<String> = text.lines().map(|line| printable(line).to_string()).collect();
    let _ = writeln!(std::io::stdout(), "{}", text.join("\n"));
}
