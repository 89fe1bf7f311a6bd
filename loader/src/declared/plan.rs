//! Plans the steps from what runs to what is declared.

use super::wanted::{Algorithm, Declared, NamespaceDefault, Receiver, in_file};
use crate::object::Source;
use crate::policy::{self, Policy};
use crate::registry::{Algo, runs};
use crate::tunables::present::{self, Changed, Value};
use crate::tunables::{Section, Setting};
use crate::{ops, rx, sysctl};
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result};
use hotcc_host::netns::NetNs;
use serde::Serialize;

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Finish or remove what a killed command left.
    Repair,
    /// Load something declared.
    Load,
    /// Replace the program behind a name: by another object, or by the same one with other constants.
    Swap,
    /// Change values in place.
    Set,
    /// Unload something that is not declared.
    Unload,
}

/// What a step changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// An algorithm.
    Algorithm,
    /// The default of a network namespace.
    Default,
    /// A receiver.
    Receiver,
    /// The policy rules.
    Policy,
}

/// A step.
#[derive(Debug, Serialize)]
pub struct Step {
    /// The kind of change.
    pub action: Action,
    /// The kind of thing that changes.
    pub subject: Subject,
    /// Name of the congestion control, network namespace or receiver.
    pub name: String,
    /// Values that the step changes. `old` is empty if the step loads something.
    pub changes: Vec<Changed>,
    #[serde(skip)]
    pub(super) work: Work,
}

/// The work of a step, with what it needs.
#[derive(Debug)]
pub(super) enum Work {
    Repair(Algo),
    RepairReceiver(rx::Method),
    Load(ops::Request, Source),
    Swap(ops::Request, Source),
    Set,
    Default { netns: NetNs, old: String, new: String },
    Unload(Algo),
    LoadReceiver(rx::Request),
    UnloadReceiver(rx::Receiver),
    Policy(Policy),
    RemovePolicy,
}

/// Compares what is declared with the kernel.
///
/// Algorithms are loaded before defaults refer to them. Unloading comes last, because it cannot always be undone.
pub(super) fn plan(declared: Declared) -> Result<Vec<Step>> {
    let all = Algo::all()?;
    let mut ours = Vec::new();
    for algo in &all {
        // a running `hotcc run` keeps its algorithm; the algorithm of a killed one is treated as any other
        if runs::is_held(algo)? != Some(true) {
            ours.push(algo);
        }
    }
    let mut steps = Vec::new();
    for &algo in &ours {
        if !algo.is_clean()? {
            steps.push(step(Action::Repair, Subject::Algorithm, &algo.name, Vec::new(), Work::Repair(algo.clone())));
        }
    }
    for method in rx::left_over() {
        steps.push(step(Action::Repair, Subject::Receiver, method.name(), Vec::new(), Work::RepairReceiver(method)));
    }
    let available = sysctl::available()?;
    for algorithm in &declared.algorithms {
        steps.extend(algorithm_step(algorithm, &available)?);
    }
    let undeclared: Vec<&Algo> = ours.into_iter().filter(|algo| !declared.has_algorithm(&algo.name)).collect();
    let mut usable: Vec<String> = declared.algorithms.iter().map(|a| a.name.clone()).collect();
    usable.extend(available.into_iter().filter(|name| all.iter().all(|algo| algo.name != *name)));
    receiver_steps(declared.receivers, &mut steps)?;
    for default in declared.defaults {
        let name = default.congestion_control.clone();
        steps.extend(default_step(default, &usable)?);
        usable.push(name); // setting a default loads the kernel's module
    }
    steps.extend(policy_step(declared.policy, &declared.rule_places, &usable)?);
    for algo in undeclared {
        if algo.current()?.is_some() {
            steps.push(step(Action::Unload, Subject::Algorithm, &algo.name, Vec::new(), Work::Unload(algo.clone())));
        }
    }
    Ok(steps)
}

fn step(action: Action, subject: Subject, name: &str, changes: Vec<Changed>, work: Work) -> Step {
    Step { action, subject, name: name.to_owned(), changes, work }
}

fn algorithm_step(wanted: &Algorithm, available: &[String]) -> Result<Option<Step>> {
    let Algorithm { name, source, request, values, .. } = wanted;
    let origin = &source.origin;
    let make = |action, changes, work| Ok(Some(step(action, Subject::Algorithm, name, changes, work)));
    let algo = Algo::named(name);
    let for_runs = runs::is_for_runs(&algo);
    let serving = if for_runs { None } else { algo.current()? };
    let Some(serving) = serving else {
        if available.contains(name) && !for_runs {
            let message = format!("`{name}` is registered, but not by hotcc; declare another name: name = \"…\"");
            return Err(in_file(&wanted.place, Error::failed(message)));
        }
        let changes = loaded(("object", origin), &request.profile, &request.set);
        return make(Action::Load, changes, Work::Load(request.clone(), source.clone()));
    };
    let meta = serving.meta()?;
    let mut changes = present::changed(&serving.settings()?, values);
    if !source.is_of(&meta) {
        let old = text(&meta.object);
        let new = if *origin == old { format!("{origin} (changed)") } else { origin.clone() };
        changes.insert(0, Changed { name: "object".to_owned(), old, new });
        return make(Action::Swap, changes, Work::Swap(request.clone(), source.clone()));
    }
    if changes.is_empty() {
        return Ok(None);
    }
    let is_constant =
        |change: &Changed| values.iter().any(|s| s.tunable.name == change.name && s.tunable.section == Section::Rodata);
    if changes.iter().any(is_constant) {
        return make(Action::Swap, changes, Work::Swap(request.clone(), source.clone()));
    }
    make(Action::Set, changes, Work::Set)
}

/// Returns the changes that a load makes: the object or cgroup, the profile, and the tunables that are set.
fn loaded((key, value): (&str, &str), profile: &str, set: &[String]) -> Vec<Changed> {
    let change = |name: &str, new: &str| Changed { name: name.to_owned(), old: String::new(), new: new.to_owned() };
    let set = set.iter().filter_map(|text| text.split_once('=')).map(|(name, value)| change(name, value));
    [change(key, value), change("profile", profile)].into_iter().chain(set).collect()
}

fn default_step(wanted: NamespaceDefault, usable: &[String]) -> Result<Option<Step>> {
    let NamespaceDefault { place, netns, congestion_control: new } = wanted;
    if !usable.contains(&new) && !sysctl::has_module(&new) {
        let mut error = Error::failed(sysctl::unregistered(&new, usable));
        if hotcc_bpf::algo(&new).is_some() {
            error = error.and(&format!("to load the built-in algorithm, declare it: [[algorithm]] object = \"{new}\""));
        }
        return Err(in_file(&place, error));
    }
    let old = sysctl::default_in(&netns)?;
    if old == new {
        return Ok(None);
    }
    let changes = vec![Changed { name: "congestion_control".to_owned(), old: old.clone(), new: new.clone() }];
    let name = netns.label();
    Ok(Some(step(Action::Set, Subject::Default, &name, changes, Work::Default { netns, old, new })))
}

/// Plans the step for the policy rules, if any differ. The step replaces all rules at once.
fn policy_step(wanted: Policy, places: &[String], usable: &[String]) -> Result<Option<Step>> {
    for ((rule, _), place) in wanted.entries.iter().zip(places) {
        let name = text(&rule.cc_name);
        if !usable.contains(&name) {
            let mut error = Error::failed(sysctl::unregistered(&name, usable));
            if hotcc_bpf::algo(&name).is_some() {
                error = error
                    .and(&format!("to load the built-in algorithm, declare it: [[algorithm]] object = \"{name}\""));
            } else if sysctl::has_module(&name) {
                error = error.and(&format!("the kernel loads no module for a rule; first run: modprobe tcp_{name}"));
            }
            return Err(in_file(place, error));
        }
    }
    let running = policy::running()?;
    if running.as_ref() == Some(&wanted.entries) {
        return Ok(None);
    }
    let are_none = running.as_ref().is_some_and(Vec::is_empty);
    let running = running.unwrap_or_default();
    let changes = (0..wanted.entries.len().max(running.len())).filter_map(|n| {
        let (old, new) = (running.get(n), wanted.entries.get(n));
        let line =
            |rule: Option<&(_, policy::layout::TextEntry)>| rule.map_or_else(String::new, |(_, text)| text.line());
        (old != new).then(|| Changed { name: format!("rule {}", n + 1), old: line(old), new: line(new) })
    });
    let changes = changes.collect();
    let (action, work) = match (are_none, wanted.entries.is_empty()) {
        (true, _) => (Action::Load, Work::Policy(wanted)),
        (false, false) => (Action::Swap, Work::Policy(wanted)),
        (false, true) => (Action::Unload, Work::RemovePolicy),
    };
    Ok(Some(step(action, Subject::Policy, "rules", changes, work)))
}

/// Plans the steps for receivers. A receiver's tunables are fixed while it is loaded, so any change is an unload and a
/// load.
fn receiver_steps(wanted: Vec<Receiver>, steps: &mut Vec<Step>) -> Result<()> {
    let mut running = rx::loaded()?;
    let missing: Vec<Receiver> = wanted
        .into_iter()
        .filter(|wanted| {
            let at = running.iter().position(|running| is_as_declared(running, wanted));
            at.map(|at| running.swap_remove(at)).is_none()
        })
        .collect();
    for receiver in running {
        let work = Work::UnloadReceiver(receiver.clone());
        steps.push(step(Action::Unload, Subject::Receiver, receiver.method.name(), Vec::new(), work));
    }
    for Receiver { cgroup, request, .. } in missing {
        let changes = loaded(("cgroup", &cgroup.display().to_string()), &request.profile, &request.set);
        let name = request.method.name();
        steps.push(step(Action::Load, Subject::Receiver, name, changes, Work::LoadReceiver(request)));
    }
    Ok(())
}

fn is_as_declared(running: &rx::Receiver, wanted: &Receiver) -> bool {
    let has = |setting: &Setting| {
        let Value { name, value, .. } = setting.clone().into();
        running.tunables.iter().any(|t| t.name == name && t.value == value)
    };
    running.method == wanted.request.method
        && running.cgroup.as_ref() == Some(&wanted.cgroup)
        && wanted.values.iter().all(has)
}
