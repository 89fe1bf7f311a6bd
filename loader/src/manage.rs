//! Load, unload, swap, roll back: everything that changes what serves.
//!
//! The new is loaded and verified before the old is touched. Once the kernel has switched, a command no longer fails: what
//! went wrong afterwards is told as a warning, and the next command repairs it.

use crate::cstr::text;
use crate::error::{Error, Result, Tried};
use crate::flows::{FlowCounter, Group};
use crate::killpoint::killpoint;
use crate::migrate::{self, Moved};
use crate::object::{Opened, Source, check_cc_name};
use crate::registry::counters::count;
use crate::registry::install::{self, pin_version, prepare, register};
use crate::registry::{self, Algo, Version, begin, runs};
use crate::sysctl;
use crate::tunables::present::{self, Changed};
use crate::tunables::{Section, Setting, values};
use serde::Serialize;
use std::thread::JoinHandle;
use std::time::Instant;

/// What to load, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// Built-in name, or path.
    pub object: String,
    /// Register under this name instead of the object's own.
    pub cc_name: Option<String>,
    /// `default` or `paper`.
    pub profile: String,
    /// `tunable=value`, on top of the profile.
    pub set: Vec<String>,
}

/// What serves now, and what became of the open sockets.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Congestion control.
    pub name: String,
    /// Object that serves.
    pub object: String,
    /// Profile it started from.
    pub profile: String,
    /// From the first touch of what served until new flows and defaults have the new version, microseconds. Loading and
    /// verifying come before it and disturb nothing.
    pub switched_in_us: u64,
    /// Network namespaces whose default names it, and was written again.
    pub defaults_rewritten: usize,
    /// Network namespaces whose default names it, and where the kernel refuses this version.
    pub defaults_refused: usize,
    /// Connections that run the serving version; `None` where sockets cannot be walked.
    pub connections_current: Option<u64>,
    /// Connections that still run an older one.
    pub connections_older: Option<u64>,
    /// Open sockets that were moved, if that was asked for.
    pub moved: Option<Moved>,
    /// Tunables that have another value than in the version before, where both have them.
    pub tunables_changed: Vec<Changed>,
    /// Whether it served before already, from the same object with the same tunables: then nothing was swapped, and what
    /// rolling back would bring is still that.
    pub served_already: bool,
    /// What went wrong after the kernel had switched.
    pub warnings: Vec<String>,
}

/// A socket counter on its way: loading one takes as long as loading an algorithm, so both go on at once.
type Counter = JoinHandle<Result<FlowCounter>>;

fn counter() -> Counter {
    std::thread::spawn(FlowCounter::new)
}

/// A switch under way.
struct Pending {
    /// Before the first touch of what served.
    started: Instant,
    counter: Counter,
}

/// Loads an object and registers it.
pub fn load(request: &Request) -> Result<Outcome> {
    let _lock = begin("hotcc load")?;
    let counter = counter();
    let outcome = load_locked(request, counter, false);
    count(|c| if outcome.is_ok() { c.loads += 1 } else { c.load_failures += 1 });
    outcome
}

/// Loads an object that is to go when no run uses it. Call with the lock held.
pub(crate) fn load_for_runs(request: &Request) -> Result<()> {
    registry::need_bpffs()?;
    let loaded = load_locked(request, counter(), true);
    count(|c| if loaded.is_ok() { c.loads += 1 } else { c.load_failures += 1 });
    loaded.map(|_| ())
}

fn load_locked(request: &Request, counter: Counter, for_runs: bool) -> Result<Outcome> {
    let source = Source::find(&request.object)?;
    let mut opened = source.open()?;
    if let Some(name) = &request.cc_name {
        opened.rename(name)?;
    }
    let name = opened.cc_name.clone();
    check_cc_name(&name)?;
    let algo = Algo::named(&name);
    algo.tidy()?;
    if runs::is_for_runs(&algo) && !runs::in_use(&algo)? {
        unload_locked(&name, None)?; // a killed run left it
    }
    if sysctl::is_registered(&name)? {
        return Err(taken(&algo));
    }
    opened.apply(&values::settings(&opened.description.tunables, &request.profile, &[], &request.set)?)?;
    let mut loaded = prepare(opened)?;
    let version = pin_version(&algo, &mut loaded, &source, &request.profile)?;
    if for_runs {
        std::fs::create_dir(algo.runs_path()).tried(|| format!("cannot make {}", algo.runs_path().display()))?;
    }
    killpoint("pinned");
    let started = Instant::now();
    if let Err(error) = register(&algo, &mut loaded) {
        // nothing half-loaded
        let _ = registry::remove_tree(algo.dir());
        return Err(error);
    }
    Ok(finish(&algo, &version, Some(0), false, Pending { started, counter }))
}

/// Why a name that is registered already cannot be loaded, and what can be done instead.
fn taken(algo: &Algo) -> Error {
    let name = &algo.name;
    let hint = if runs::is_for_runs(algo) {
        " for a `hotcc run`, and goes when that ends".to_owned()
    } else if algo.dir().exists() {
        format!("; to tune it: hotcc set {name} TUNABLE=VALUE; to replace it: hotcc swap {name} NEW")
    } else {
        ", not by hotcc (hotcc status shows by whom)".to_owned()
    };
    Error::failed(format!(
        "a congestion control named `{name}` is registered already{hint}; to load beside it: hotcc load --as OTHER_NAME"
    ))
}

/// Which values a swap starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunables {
    /// Those that were asked for.
    Anew,
    /// Those of the version that serves, where the new one has such a tunable and takes the value; what is asked for
    /// one by one goes before.
    Kept,
}

/// Replaces what stands behind `name`. `live` moves the open sockets too.
pub fn swap(name: &str, request: &Request, live: bool) -> Result<Outcome> {
    swap_tuned(name, request, Tunables::Anew, live)
}

/// As [`swap`], with the tunables as told.
pub fn swap_tuned(name: &str, request: &Request, tunables: Tunables, live: bool) -> Result<Outcome> {
    let _lock = begin("hotcc swap")?;
    let counter = counter();
    let outcome = swap_locked(name, request, tunables, live, counter);
    count(|c| match &outcome {
        Ok(outcome) => c.swaps += u64::from(!outcome.served_already),
        Err(_) => c.swap_failures += 1,
    });
    outcome
}

fn swap_locked(name: &str, request: &Request, tunables: Tunables, live: bool, counter: Counter) -> Result<Outcome> {
    let source = Source::find(&request.object)?;
    let mut opened = source.open()?;
    let (algo, old) = Algo::serving(name)?;
    algo.tidy()?;
    let swaps = old.meta()?.swaps + 1;
    opened.rename(name)?;
    let before = match tunables {
        Tunables::Kept => old.settings()?,
        Tunables::Anew => values_for_comparison(&old),
    };
    let kept = if tunables == Tunables::Kept { &before[..] } else { &[] };
    opened.apply(&values::settings(&opened.description.tunables, &request.profile, kept, &request.set)?)?;
    let [data, rodata] = [Section::Data, Section::Rodata].map(|section| opened.initial_values(section));
    let after = present::read(&opened.description.tunables, data.as_deref(), rodata.as_deref());
    if serves_already(&old, &source, &opened)? {
        // another version of the very same would only push the one to roll back to out of its place
        let pending = Pending { started: Instant::now(), counter };
        return Ok(Outcome { served_already: true, ..finish(&algo, &old, None, live, pending) });
    }
    let mut loaded = prepare(opened)?;
    let new = pin_version(&algo, &mut loaded, &source, &request.profile)?;
    killpoint("pinned");
    let started = Instant::now();
    if let Err(error) = install::replace(&algo, &old, &mut loaded) {
        let _ = registry::remove_tree(&new.dir);
        return Err(error.during(&format!("cannot swap {name}; the old version serves on")));
    }
    let tunables_changed = present::changed(&before, &after);
    Ok(Outcome { tunables_changed, ..finish(&algo, &new, Some(swaps), live, Pending { started, counter }) })
}

/// Puts the previous version of `name` back. Doing it twice undoes the undoing.
pub fn rollback(name: &str, live: bool) -> Result<Outcome> {
    let _lock = begin("hotcc rollback")?;
    let counter = counter();
    let outcome = rollback_locked(name, live, counter);
    count(|c| if outcome.is_ok() { c.rollbacks += 1 } else { c.rollback_failures += 1 });
    outcome
}

fn rollback_locked(name: &str, live: bool, counter: Counter) -> Result<Outcome> {
    let (algo, serving) = Algo::serving(name)?;
    algo.tidy()?;
    let previous = algo
        .previous()?
        .ok_or_else(|| Error::failed(format!("`{name}` was never swapped; there is nothing to go back to")))?;
    let swaps = serving.meta()?.swaps + 1;
    let tunables_changed = present::changed(&values_for_comparison(&serving), &values_for_comparison(&previous));
    previous.unsettle()?;
    killpoint("pinned");
    let started = Instant::now();
    let back = install::put_back(&algo, &serving, &previous)
        .map_err(|e| e.during(&format!("cannot roll {name} back; the current version serves on")))?;
    Ok(Outcome { tunables_changed, ..finish(&algo, &back, Some(swaps), live, Pending { started, counter }) })
}

/// A version's tunables. Not being able to tell what changes is no reason not to change it.
fn values_for_comparison(version: &Version) -> Vec<Setting> {
    version.settings().inspect_err(|error| tracing::warn!("not compared: {error}")).unwrap_or_default()
}

/// Whether a version is what `opened`, ready to be loaded from `source`, would become.
fn serves_already(version: &Version, source: &Source, opened: &Opened) -> Result<bool> {
    Ok(version.meta()?.sha256 == source.sha256()
        && version.section(Section::Data)? == opened.initial_values(Section::Data)
        && version.section(Section::Rodata)? == opened.initial_values(Section::Rodata))
}

/// All that follows once the kernel has switched to `new`: defaults, open sockets, notes, old versions. No `swaps`: it
/// had been switched to it already.
fn finish(algo: &Algo, new: &Version, swaps: Option<u64>, live: bool, pending: Pending) -> Outcome {
    killpoint("switched");
    let mut warnings = Vec::new();
    let mut warn = |error: Error| warnings.push(error.to_string());
    // Without this, new sockets on the default would go on getting the old version.
    let defaults = sysctl::replace_defaults(&algo.name, &[&algo.name]).map_err(&mut warn).unwrap_or_default();
    let switched_in_us = pending.started.elapsed().as_micros() as u64;
    killpoint("defaults");
    let moved = live.then(|| migrate::to_version(&algo.name, new.map_id).map_err(&mut warn).ok()).flatten();
    killpoint("moved");
    let noted = swaps
        .map_or(Ok(()), |swaps| new.settle(swaps))
        .and_then(|()| algo.tidy())
        .and_then(|()| new.meta())
        .map_err(&mut warn);
    if !matches!(algo.current(), Ok(Some(current)) if current.map_id == new.map_id) {
        warn(Error::failed(format!("another version of {} serves: somebody else swapped it meanwhile", algo.name)));
    }
    killpoint("noted");
    let counted = pending.counter.join().unwrap_or_else(|_| Err(Error::failed("loading the socket iterator panicked")));
    let groups = counted.and_then(|mut c| c.count()).map_err(&mut warn).ok();
    let of = |current: bool| connections(&groups, |g| g.cc == algo.name && (g.map_id == new.map_id) == current);
    Outcome {
        name: algo.name.clone(),
        object: noted.as_ref().map(|m| text(&m.object)).unwrap_or_default(),
        profile: noted.as_ref().map(|m| text(&m.profile)).unwrap_or_default(),
        switched_in_us,
        defaults_rewritten: defaults.replaced,
        defaults_refused: defaults.refused,
        connections_current: of(true),
        connections_older: of(false),
        moved,
        tunables_changed: Vec::new(),
        served_already: false,
        warnings,
    }
}

/// What unloading came to.
#[derive(Clone, Debug, Serialize)]
pub struct Unloaded {
    /// Congestion control that is gone.
    pub name: String,
    /// Connections that keep running it until they close; `None` where sockets cannot be walked.
    pub connections_left: Option<u64>,
    /// Listening sockets that chose it, and keep handing it to what they accept until they choose another.
    pub listeners_left: Option<u64>,
    /// Network namespaces whose default named it, and got another.
    pub defaults_moved: usize,
    /// What they got.
    pub fallback: Vec<String>,
    /// What they were to get.
    pub fallback_wanted: String,
    /// Of them, those whose kernel refused that: outside the initial namespace only what
    /// `net.ipv4.tcp_allowed_congestion_control` lists can be the default.
    pub fallback_refused: usize,
    /// What went wrong after it was gone.
    pub warnings: Vec<String>,
}

/// Takes a congestion control away. Connections that use it run on.
pub fn unload(name: &str, fallback: Option<&str>) -> Result<Unloaded> {
    let _lock = begin("hotcc unload")?;
    unload_locked(name, fallback)
}

pub(crate) fn unload_locked(name: &str, fallback: Option<&str>) -> Result<Unloaded> {
    registry::need_bpffs()?;
    let algo = Algo::named(name);
    let Some(serving) = algo.current()? else { return Err(Algo::nothing_to_unload(name)?) };
    let fallback = choose_fallback(name, fallback)?;
    let groups = count_sockets();
    // First the defaults: a default would go on handing the dead one to new sockets.
    let defaults = sysctl::replace_defaults(name, &[&fallback, "reno"])?;
    if defaults.refused > 0 {
        return Err(Error::failed(format!(
            "cannot unload {name}: it is the default of {} network namespace(s) that take neither {fallback} nor reno; set another default there",
            defaults.refused
        )));
    }
    killpoint("defaults");
    if algo.link_path().exists() {
        std::fs::remove_file(algo.link_path()).tried(|| format!("cannot remove {}", algo.link_path().display()))?;
    } else {
        install::unregister(&serving)?;
    }
    killpoint("unlinked");
    let done = registry::remove_tree(algo.dir()).and_then(|()| wait_until_gone(name));
    count(|c| c.unloads += 1);
    let listeners = groups.as_ref().map(|g| g.iter().filter(|g| g.cc == name).map(|g| g.counts.listeners).sum());
    Ok(Unloaded {
        name: name.to_owned(),
        connections_left: connections(&groups, |g| g.cc == name),
        listeners_left: listeners,
        defaults_moved: defaults.replaced,
        fallback: defaults.used,
        fallback_wanted: fallback,
        fallback_refused: defaults.second_best,
        warnings: done.err().iter().map(Error::to_string).collect(),
    })
}

fn choose_fallback(name: &str, wanted: Option<&str>) -> Result<String> {
    let available = sysctl::available()?;
    if let Some(wanted) = wanted {
        if wanted == name || !available.iter().any(|a| a == wanted) {
            return Err(Error::usage(format!(
                "`{wanted}` cannot be the default instead; available: {}",
                available.join(" ")
            )));
        }
        return Ok(wanted.to_owned());
    }
    let usual = ["cubic", "reno"].into_iter().find(|c| *c != name && available.iter().any(|a| a == c));
    Ok(usual.unwrap_or("reno").to_owned())
}

/// The kernel unregisters after the last reference is dropped, which is not at once.
fn wait_until_gone(name: &str) -> Result<()> {
    for _ in 0..500 {
        if !sysctl::is_registered(name)? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(Error::failed(format!(
        "`{name}` is still registered: another process holds it (hotcc status shows what is known)"
    )))
}

/// Who runs what now. What was done stays done where that cannot be told.
pub(crate) fn count_sockets() -> Option<Vec<Group>> {
    let counted = FlowCounter::new().and_then(|mut counter| counter.count());
    counted.inspect_err(|error| tracing::warn!("connections not counted: {error}")).ok()
}

/// Connections of the groups that match.
pub(crate) fn connections(groups: &Option<Vec<Group>>, matches: impl Fn(&Group) -> bool) -> Option<u64> {
    let matching = groups.as_ref()?.iter().filter(|g| matches(g));
    Some(matching.map(|g| g.counts.connections).sum())
}
