//! Carries out steps, and undoes them in reverse order if one fails.

use super::plan::{Action, Step, Work};
use super::wanted::Declared;
use crate::failpoint;
use crate::object::Source;
use crate::ops::{self, Tunables, tune};
use crate::registry::files::{Files, object_of};
use crate::registry::{self, Algo, Held};
use crate::tunables::present::{Changed, Value};
use crate::{policy, rx, sysctl};
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result};
use hotcc_host::netns::{self, NetNs};

/// Reads the files that undoing a step may need: undoing an unload loads the algorithm again, and so does undoing a swap if
/// there is no struct_ops link. Call it without holding the lock.
pub(super) fn read_files(declared: &Declared) -> Result<Files> {
    let loaded_again = |algo: &Algo| !declared.has_algorithm(&algo.name) || !algo.link_path().exists();
    let serving: Result<Vec<_>> = Algo::all()?.iter().filter(|algo| loaded_again(algo)).map(Algo::current).collect();
    Ok(Files::read(serving?.into_iter().flatten()))
}

/// Carries out all steps, or undoes those that were done. Returns warnings. Call it with the lock held.
pub(super) fn carry_out(steps: &[Step], mut files: Files) -> Result<Vec<String>> {
    let (mut done, mut warnings) = (Vec::new(), Vec::new());
    for (n, step) in steps.iter().enumerate() {
        let place = format!("step{n}");
        failpoint::kill(&place);
        match failpoint::fail(&place).and_then(|()| carry_out_one(step, &mut files, &mut warnings)) {
            Ok(undo) => done.push((step, undo)),
            Err(error) => return Err(undo_all(done, files, error, &format!("cannot {}", what(step)))),
        }
    }
    failpoint::kill("applied");
    Ok(warnings)
}

/// Undoes the steps, the last one first. If one cannot be undone, the others are still undone.
fn undo_all(done: Vec<(&Step, Undo<'_>)>, mut files: Files, error: Error, tried: &str) -> Error {
    let (mut left, mut warnings) = (Vec::new(), Vec::new());
    for (step, undo) in done.into_iter().rev() {
        failpoint::kill("undo");
        match undo.carry_out(&mut files) {
            Ok(more) => warnings.extend(more.into_iter().map(|warning| format!("undoing {}: {warning}", what(step)))),
            Err(why) => left.push(format!("{} ({why:#})", what(step))),
        }
    }
    let error = if left.is_empty() {
        error.during(&format!("{tried}; the steps before it were undone"))
    } else {
        error.during(tried).and(&format!("these steps could not be undone: {}; see: hotcc diff", left.join(", ")))
    };
    warnings.iter().fold(error, |error, warning| error.and(warning))
}

fn what(step: &Step) -> String {
    let action = match step.action {
        Action::Repair => "repair",
        Action::Load => "load",
        Action::Swap => "swap",
        Action::Set => "set",
        Action::Unload => "unload",
    };
    match &step.work {
        Work::Default { netns, new, .. } => format!("set the default of network namespace {} to {new}", netns.label()),
        Work::Policy(_) | Work::RemovePolicy => format!("{action} the policy rules"),
        Work::LoadReceiver(_) | Work::UnloadReceiver(_) | Work::RepairReceiver(_) => {
            format!("{action} the receiver {}", step.name)
        }
        _ => format!("{action} {}", step.name),
    }
}

/// How to undo a step.
enum Undo<'a> {
    Nothing,
    Unload(&'a str),
    /// Whose swap to undo, and its previous version before the swap.
    Rollback(&'a str, Option<Held>),
    Set(&'a str, Vec<String>),
    Default(&'a NetNs, &'a str),
    /// What is needed to load the algorithm again, the network namespaces whose default it was, and its previous
    /// version.
    Load(Result<(ops::Request, Source)>, Vec<u64>, Option<Held>),
    UnloadReceiver(rx::Method),
    LoadReceiver(rx::Request),
    Policy(policy::Replaced),
    RemovedPolicy(policy::Removed),
}

fn carry_out_one<'a>(step: &'a Step, files: &mut Files, warnings: &mut Vec<String>) -> Result<Undo<'a>> {
    let name = &step.name;
    match &step.work {
        Work::Repair(algo) => algo.gc().map(|()| Undo::Nothing),
        Work::RepairReceiver(method) => rx::finish(*method).map(|()| Undo::Nothing),
        Work::Load(request, source) => {
            warnings.extend(ops::load_and_count(request, Ok(source.clone()), false)?.warnings);
            Ok(Undo::Unload(name))
        }
        Work::Swap(request, source) => {
            let previous = previous_of(&Algo::named(name))?; // the swap removes it
            warnings
                .extend(ops::swap_and_count(name, request, Ok(source.clone()), Tunables::FromRequest, false)?.warnings);
            Ok(Undo::Rollback(name, previous))
        }
        Work::Set => {
            let values = |of: fn(&Changed) -> &String| -> Vec<String> {
                step.changes.iter().map(|change| format!("{}={}", change.name, of(change))).collect()
            };
            warnings.extend(tune::set_locked(name, &values(|change| &change.new))?.warnings);
            Ok(Undo::Set(name, values(|change| &change.old)))
        }
        Work::Default { netns, old, new } => {
            sysctl::set_default_in(netns, new)?;
            Ok(Undo::Default(netns, old))
        }
        Work::Unload(algo) => {
            let (request, previous) = (request_of(algo, files), previous_of(algo)?);
            let of_namespace = |ns: &NetNs| Ok((sysctl::default()? == *name).then_some(ns.inode));
            let namespaces = netns::in_each(of_namespace)?.into_iter().flatten().collect();
            let unloaded = ops::unload_locked(name, None)?;
            warnings.extend(unloaded.warnings);
            if let Some(listeners) = unloaded.listeners_left.filter(|listeners| *listeners > 0) {
                warnings.push(format!(
                    "{listeners} listening socket(s) pass {name} on to the connections that they accept, until their \
                     programs listen again"
                ));
            }
            Ok(Undo::Load(request, namespaces, previous))
        }
        Work::LoadReceiver(request) => {
            rx::load_locked(request)?;
            Ok(Undo::UnloadReceiver(request.method))
        }
        Work::Policy(rules) => Ok(Undo::Policy(policy::install(rules)?)),
        Work::RemovePolicy => Ok(policy::remove()?.map_or(Undo::Nothing, Undo::RemovedPolicy)),
        Work::UnloadReceiver(receiver) => {
            rx::unload_locked(receiver.method)?;
            let rx::Receiver { method, cgroup, tunables } = receiver.clone();
            if cgroup.is_none() {
                // it applied to no socket, because its cgroup was removed; but a request without one is for all sockets
                return Ok(Undo::Nothing);
            }
            let profile = "default".to_owned();
            Ok(Undo::LoadReceiver(rx::Request { method, cgroup, profile, set: assignments(tunables) }))
        }
    }
}

impl Undo<'_> {
    /// Returns warnings.
    fn carry_out(self, files: &mut Files) -> Result<Vec<String>> {
        match self {
            Undo::Nothing => {}
            Undo::Unload(name) => match &ops::unload_locked(name, None)?.warnings[..] {
                [] => {}
                // e.g. another process holds the link, so the name is still registered
                warnings => return Err(Error::failed(warnings.join("; "))),
            },
            Undo::Rollback(name, previous) => {
                let warnings = ops::rollback_and_count(name, false, files)?.warnings;
                // after a rollback, the previous version is the one that was rolled back
                let undone = Algo::named(name).previous()?;
                previous.map_or(Ok(()), |previous| previous.pin_again())?;
                undone.map_or(Ok(()), |undone| registry::remove_tree(&undone.dir))?;
                return Ok(warnings);
            }
            Undo::Set(name, values) => return Ok(tune::set_locked(name, &values)?.warnings),
            Undo::Default(netns, name) => sysctl::set_default_in(netns, name)?,
            Undo::Load(request, namespaces, previous) => {
                let (request, source) = request?;
                let ops::Outcome { name, warnings, .. } = ops::load_and_count(&request, Ok(source), false)?;
                previous.map_or(Ok(()), |previous| previous.pin_again())?;
                let again = |ns: &NetNs| {
                    if namespaces.contains(&ns.inode) { sysctl::set_default(&name) } else { Ok(()) }
                };
                netns::in_each(again)?;
                return Ok(warnings);
            }
            Undo::UnloadReceiver(method) => drop(rx::unload_locked(method)?),
            Undo::Policy(replaced) => replaced.put_back()?,
            Undo::RemovedPolicy(removed) => removed.put_back()?,
            Undo::LoadReceiver(request) => drop(rx::load_locked(&request)?),
        }
        Ok(Vec::new())
    }
}

/// Opens the version that a rollback would restore.
fn previous_of(algo: &Algo) -> Result<Option<Held>> {
    algo.previous()?.map(|version| Held::open(&version)).transpose()
}

/// Returns the request and the object that load the serving version again.
fn request_of(algo: &Algo, files: &mut Files) -> Result<(ops::Request, Source)> {
    let (_, serving) = Algo::serving(&algo.name)?;
    let source = files.take(&algo.name, &serving)?;
    let meta = serving.meta()?;
    let (object, profile) = (object_of(&meta), text(&meta.profile));
    let set = assignments(serving.settings()?.into_iter().map(Value::from).collect());
    Ok((ops::Request { object, cc_name: Some(algo.name.clone()), profile, set }, source))
}

fn assignments(values: Vec<Value>) -> Vec<String> {
    values.into_iter().map(|value| format!("{}={}", value.name, value.value)).collect()
}
