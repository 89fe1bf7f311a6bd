//! Replaces the version behind a name by another one, or by the previous one.

use super::load::{Request, read};
use super::switch::{Counter, Outcome, Pending, counter, finish};
use crate::canary;
use crate::failpoint;
use crate::object::{Opened, Source};
use crate::registry::counters::count;
use crate::registry::files::Files;
use crate::registry::install::{self, pin_version, prepare};
use crate::registry::{self, Algo, Version, begin, need_bpffs};
use crate::tunables::{Section, Setting, present, values};
use hotcc_host::error::{Error, Result, need_root};
use std::time::Instant;

/// The values that a swap starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunables {
    /// Only those of the request: its profile and assignments.
    FromRequest,
    /// Those of the serving version, for tunables that the new version has too and whose range includes the value.
    /// Assignments of the request take precedence.
    Kept,
}

/// Replaces the version behind `name`. `live` moves the open sockets, too.
pub fn swap(name: &str, request: &Request, live: bool) -> Result<Outcome> {
    swap_tuned(name, request, Tunables::FromRequest, live)
}

/// Like [`swap`], but `tunables` selects the values to start from.
pub fn swap_tuned(name: &str, request: &Request, tunables: Tunables, live: bool) -> Result<Outcome> {
    let source = read("hotcc swap", request)?;
    let _lock = begin("hotcc swap")?;
    canary::refuse_while_comparing(name, "swap")?;
    swap_and_count(name, request, source, tunables, live)
}

/// Like [`swap_tuned`]. Call it with the lock held.
pub(crate) fn swap_and_count(
    name: &str,
    request: &Request,
    source: Result<Source>,
    tunables: Tunables,
    live: bool,
) -> Result<Outcome> {
    let counter = counter();
    let outcome = source.and_then(|source| swap_locked(name, request, source, tunables, live, counter));
    count(|c| match &outcome {
        Ok(outcome) => c.swaps += u64::from(!outcome.served_already),
        Err(_) => c.swap_failures += 1,
    });
    outcome
}

fn swap_locked(
    name: &str,
    request: &Request,
    source: Source,
    tunables: Tunables,
    live: bool,
    counter: Counter,
) -> Result<Outcome> {
    let mut opened = source.open()?;
    let (algo, old) = Algo::serving(name)?;
    algo.gc()?;
    let swaps = old.meta()?.swaps + 1;
    opened.rename(name)?;
    let before = match tunables {
        Tunables::Kept => old.settings()?,
        Tunables::FromRequest => values_for_comparison(&old),
    };
    let kept = if tunables == Tunables::Kept { &before[..] } else { &[] };
    opened.apply(&values::settings(&opened.description.tunables, &request.profile, kept, &request.set)?)?;
    let [data, rodata] = [Section::Data, Section::Rodata].map(|section| opened.initial_values(section));
    let after = present::read(&opened.description.tunables, data.as_deref(), rodata.as_deref());
    if serves_already(&old, &source, &opened)? {
        // a further version of the same object would only evict the version that a rollback restores
        let pending = Pending { started: Instant::now(), counter };
        return Ok(Outcome { served_already: true, ..finish(&algo, &old, None, live, pending) });
    }
    let mut loaded = prepare(opened)?;
    let new = pin_version(&algo, &mut loaded, &source, &request.profile)?;
    failpoint::kill("pinned");
    let started = Instant::now();
    if let Err(error) = install::replace(&algo, &old, &mut loaded) {
        let _ = registry::remove_tree(&new.dir);
        return Err(not_switched(&algo, &format!("cannot swap {name}"), "old", error));
    }
    let tunables_changed = present::changed(&before, &after);
    Ok(Outcome { tunables_changed, ..finish(&algo, &new, Some(swaps), live, Pending { started, counter }) })
}

/// Rolls `name` back to its previous version. A second rollback redoes the swap.
pub fn rollback(name: &str, live: bool) -> Result<Outcome> {
    need_root("hotcc rollback")?;
    need_bpffs()?;
    let algo = Algo::named(name);
    // with links, the kernel still has the previous version
    let loaded_again = if algo.link_path().exists() { None } else { algo.previous()? };
    let mut files = Files::read(loaded_again);
    let _lock = begin("hotcc rollback")?;
    canary::refuse_while_comparing(name, "roll back")?;
    rollback_and_count(name, live, &mut files)
}

/// Like [`rollback`]. Call it with the lock held.
pub(crate) fn rollback_and_count(name: &str, live: bool, files: &mut Files) -> Result<Outcome> {
    let outcome = rollback_locked(name, live, files, counter());
    count(|c| if outcome.is_ok() { c.rollbacks += 1 } else { c.rollback_failures += 1 });
    outcome
}

fn rollback_locked(name: &str, live: bool, files: &mut Files, counter: Counter) -> Result<Outcome> {
    let (algo, serving) = Algo::serving(name)?;
    algo.gc()?;
    let previous =
        algo.previous()?.ok_or_else(|| Error::failed(format!("cannot roll back `{name}`: it has not been swapped")))?;
    let swaps = serving.meta()?.swaps + 1;
    let tunables_changed = present::changed(&values_for_comparison(&serving), &values_for_comparison(&previous));
    previous.mark_pending()?;
    failpoint::kill("pinned");
    let started = Instant::now();
    let back = install::put_back(&algo, &serving, &previous, files)
        .map_err(|error| not_switched(&algo, &format!("cannot roll back {name}"), "current", error))?;
    Ok(Outcome { tunables_changed, ..finish(&algo, &back, Some(swaps), live, Pending { started, counter }) })
}

/// Adds to the error of a switch what was tried, and what serves now: without struct_ops links, it may be nothing.
fn not_switched(algo: &Algo, tried: &str, before: &str, error: Error) -> Error {
    match algo.current() {
        Ok(Some(_)) => error.during(&format!("{tried}; the {before} version continues to serve")),
        Ok(None) => {
            let advice = format!("load one: hotcc load OBJECT --as {}", algo.name);
            error.during(&format!("{tried}, and no version serves any more")).and(&advice)
        }
        Err(_) => error.during(tried),
    }
}

/// Returns a version's tunables, or none if they cannot be read: failing to list the changes does not fail the command.
fn values_for_comparison(version: &Version) -> Vec<Setting> {
    version.settings().inspect_err(|error| tracing::warn!("cannot compare the tunables: {error:#}")).unwrap_or_default()
}

/// Returns whether a version is identical to what loading `opened`, which came from `source`, would give.
fn serves_already(version: &Version, source: &Source, opened: &Opened) -> Result<bool> {
    Ok(source.is_of(&version.meta()?)
        && version.section(Section::Data)? == opened.initial_values(Section::Data)
        && version.section(Section::Rodata)? == opened.initial_values(Section::Rodata))
}
