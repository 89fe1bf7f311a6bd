//! Loads an object and registers it under a name that is free.

use super::switch::{Counter, Outcome, Pending, counter, finish};
use super::unload::unload_locked;
use crate::killpoint::killpoint;
use crate::object::{Source, check_cc_name};
use crate::registry::counters::count;
use crate::registry::install::{pin_version, prepare, register};
use crate::registry::{self, Algo, begin, runs};
use crate::sysctl;
use crate::tunables::values;
use hotcc_host::error::{Error, Result, Tried};
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
        std::fs::create_dir(algo.runs_path()).tried(|| format!("cannot create {}", algo.runs_path().display()))?;
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
