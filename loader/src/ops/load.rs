//! Loads an object and registers it under a free name.

use super::switch::{Counter, Outcome, Pending, counter, finish};
use super::unload::unload_locked;
use crate::failpoint;
use crate::object::{Source, check_cc_name};
use crate::registry::counters::count;
use crate::registry::defaults::Defaults;
use crate::registry::install::{pin_version, prepare, register};
use crate::registry::{self, Algo, begin, runs};
use crate::sysctl;
use crate::tunables::values;
use hotcc_host::error::{Error, Kind, Result, need_root};
use std::time::Instant;

/// A request to load an object.
#[derive(Clone, Debug)]
pub struct Request {
    /// Built-in name or path.
    pub object: String,
    /// Name to register under instead of the object's own.
    pub cc_name: Option<String>,
    /// `default` or `paper`.
    pub profile: String,
    /// `tunable=value` assignments, applied after the profile.
    pub set: Vec<String>,
}

/// Loads an object and registers it.
pub fn load(request: &Request) -> Result<Outcome> {
    let source = read("hotcc load", request)?;
    let _lock = begin("hotcc load")?;
    load_and_count(request, source, false)
}

/// Loads an object as [`load`] does. Call it with the lock held.
pub(crate) fn load_and_count(request: &Request, source: Result<Source>, for_runs: bool) -> Result<Outcome> {
    let counter = counter();
    let outcome = source.and_then(|source| load_locked(request, source, counter, for_runs));
    count(|c| if outcome.is_ok() { c.loads += 1 } else { c.load_failures += 1 });
    outcome
}

/// Reads the object for a command. The command calls it before it takes the lock, because a slow file system can delay
/// the read without limit.
pub(super) fn read(command: &str, request: &Request) -> Result<Result<Source>> {
    need_root(command)?;
    Ok(Source::find(&request.object))
}

/// Loads an object that is unloaded when no run uses it. Call it with the lock held. Returns warnings.
pub(crate) fn load_for_runs(request: &Request, source: Source) -> Result<Vec<String>> {
    registry::need_bpffs()?;
    load_and_count(request, Ok(source), true).map(|outcome| outcome.warnings)
}

fn load_locked(request: &Request, source: Source, counter: Counter, for_runs: bool) -> Result<Outcome> {
    let mut opened = source.open()?;
    if let Some(name) = &request.cc_name {
        opened.rename(name)?;
    }
    let name = opened.cc_name.clone();
    check_cc_name(&name).map_err(|error| match request.cc_name {
        Some(_) => error,
        None => error.during(&format!("cannot load {}", source.origin)).as_kind(Kind::Failed),
    })?;
    // before anything changes
    opened.apply(&values::settings(&opened.description.tunables, &request.profile, &[], &request.set)?)?;
    let algo = Algo::named(&name);
    algo.gc()?;
    let mut warnings = Vec::new();
    if runs::is_for_runs(&algo) && !runs::in_use(&algo)? {
        warnings = unload_locked(&name, None)?.warnings; // left by a killed run
    }
    if sysctl::is_registered(&name)? {
        return Err(warnings.iter().fold(taken(&algo), |error, warning| error.and(warning)));
    }
    let mut loaded = prepare(opened)?;
    let version = pin_version(&algo, &mut loaded, &source, &request.profile)?;
    Defaults::note(&algo).inspect_err(|_| {
        let _ = registry::remove_tree(algo.dir());
    })?;
    if for_runs {
        runs::mark(&algo)?;
    }
    failpoint::kill("pinned");
    let started = Instant::now();
    if let Err(error) = register(&algo, &mut loaded) {
        // remove the pins, so that nothing is left half-loaded
        let _ = registry::remove_tree(algo.dir());
        return Err(error);
    }
    let mut outcome = finish(&algo, &version, Some(0), false, Pending { started, counter });
    outcome.warnings.splice(..0, warnings);
    Ok(outcome)
}

/// Returns the error for a name that is already registered, with what to do instead.
fn taken(algo: &Algo) -> Error {
    let name = &algo.name;
    let hint = if runs::is_for_runs(algo) {
        " for a `hotcc run`, until that ends".to_owned()
    } else if algo.dir().exists() {
        format!("; to tune it: hotcc set {name} TUNABLE=VALUE; to replace it: hotcc swap {name} NEW")
    } else {
        ", but not by hotcc (see: hotcc status)".to_owned()
    };
    Error::failed(format!(
        "cannot load `{name}`: a congestion control of that name is already registered{hint}; to load under another name: hotcc load OBJECT --as OTHER_NAME"
    ))
}
