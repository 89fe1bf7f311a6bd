//! Prints the results of `hotcc apply`, `hotcc diff`, `hotcc save` and `hotcc unload --all`.

use super::print::{print_json, say, warn};
use hotcc::declared::{Action, Difference, Emptied, Saved, Step, Subject};
use hotcc::tunables::present::Changed;
use hotcc_host::error::Result;

pub fn difference(difference: &Difference, json: bool) -> Result<()> {
    if json {
        return print_json(difference);
    }
    let file = difference.file.display();
    if difference.steps.is_empty() {
        say!("the kernel is as {file} declares");
        warn(&difference.warnings);
        return Ok(());
    }
    difference.steps.iter().for_each(print_step);
    let n = difference.steps.len();
    if difference.applied {
        say!("steps done: {n}; the kernel is as {file} declares");
    } else {
        say!("steps to do: {n}; to do them: hotcc apply {file}");
    }
    warn(&difference.warnings);
    Ok(())
}

fn print_step(step: &Step) {
    let (sign, verb) = match step.action {
        Action::Repair => ('!', "repair"),
        Action::Load => ('+', "load"),
        Action::Swap => ('~', "swap"),
        Action::Set => ('~', "set"),
        Action::Unload => ('-', "unload"),
    };
    let what = match step.subject {
        Subject::Algorithm => "algorithm",
        Subject::Default => "default of network namespace",
        Subject::Receiver => "receiver",
        Subject::Policy => "policy",
    };
    say!("{sign} {verb} {what} {}", step.name);
    for Changed { name, old, new } in &step.changes {
        if new.is_empty() {
            say!("    {name}: {old} -> none");
        } else if old.is_empty() {
            say!("    {name}: {new}");
        } else {
            say!("    {name}: {old} -> {new}");
        }
    }
}

pub fn emptied(emptied: &Emptied, json: bool) -> Result<()> {
    if json {
        return print_json(emptied);
    }
    emptied.steps.iter().for_each(print_step);
    let left = match &emptied.in_use[..] {
        [] => "nothing is loaded".to_owned(),
        names => format!("in use by `hotcc run`, and so still loaded: {}", names.join(", ")),
    };
    say!("steps done: {}; {left}", emptied.steps.len());
    warn(&emptied.warnings);
    Ok(())
}

pub fn saved(saved: &Saved, json: bool) -> Result<()> {
    warn(&saved.warnings);
    if json {
        return print_json(saved);
    }
    let Saved { file, algorithms, defaults, receivers, rules, .. } = saved;
    let counts = format!("{algorithms} algorithms, {defaults} defaults, {rules} policy rules, {receivers} receivers");
    say!("{} written: {counts}", file.display());
    Ok(())
}
