//! The work of a command after the kernel has switched to a version, and the command's result.
//!
//! From here on a command no longer fails: it prints errors as warnings, and the next command repairs them.

use super::migrate::{self, Moved};
use crate::failpoint;
use crate::registry::{Algo, Version};
use crate::sockets::count::{FlowCounter, connections};
use crate::sysctl;
use crate::tunables::Setting;
use crate::tunables::present::Changed;
use hotcc_host::cstr::text;
use hotcc_host::error::{Error, Result};
use serde::Serialize;
use std::thread::JoinHandle;
use std::time::Instant;

/// The version that serves now, and the outcome for open sockets.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Congestion control.
    pub name: String,
    /// Object that serves.
    pub object: String,
    /// Profile it started from.
    pub profile: String,
    /// Time from the first change to the old version until new flows and defaults have the new version, microseconds.
    /// Loading and verification precede it, and disturb nothing.
    pub switched_in_us: u64,
    /// Network namespaces whose default is this name, and was written again so that it refers to this version.
    pub defaults_rewritten: usize,
    /// Network namespaces whose default is this name, but where the kernel refuses this version.
    pub defaults_refused: usize,
    /// Connections that run the serving version; `None` if sockets cannot be counted.
    pub connections_current: Option<u64>,
    /// Connections that still run an older version.
    pub connections_older: Option<u64>,
    /// Open sockets that were moved, if the command moves them.
    pub moved: Option<Moved>,
    /// Tunables that both this version and the one before have, with different values.
    pub tunables_changed: Vec<Changed>,
    /// Whether the same object with the same tunables already served: then nothing was swapped, and a rollback still
    /// restores the same version as before.
    pub served_already: bool,
    /// Errors after the kernel had switched, and warnings of the algorithm's author about the values of tunables.
    pub warnings: Vec<String>,
}

/// A socket counter that is being loaded. That takes as long as loading an algorithm, so both are loaded at the same
/// time.
pub(super) type Counter = JoinHandle<Result<FlowCounter>>;

pub(super) fn counter() -> Counter {
    std::thread::spawn(FlowCounter::new)
}

/// A switch in progress.
pub(super) struct Pending {
    /// Time before the first change to the old version.
    pub(super) started: Instant,
    pub(super) counter: Counter,
}

/// Does everything that follows once the kernel has switched to `new`: updates the defaults and the metadata, moves
/// open sockets, and removes old versions. `swaps` is `None` if `new` already served.
pub(super) fn finish(algo: &Algo, new: &Version, swaps: Option<u64>, live: bool, pending: Pending) -> Outcome {
    failpoint::kill("switched");
    let mut warnings = Vec::new();
    let mut warn = |error: Error| warnings.push(format!("{error:#}"));
    // Without this, new sockets that use the default would continue to get the old version.
    let defaults =
        sysctl::replace_defaults(&algo.name, |_| vec![algo.name.clone()]).map_err(&mut warn).unwrap_or_default();
    let switched_in_us = pending.started.elapsed().as_micros() as u64;
    failpoint::kill("defaults");
    let moved = live.then(|| migrate::to_version(&algo.name, new.map_id).map_err(&mut warn).ok()).flatten();
    failpoint::kill("moved");
    let noted = swaps
        .map_or(Ok(()), |swaps| new.commit(swaps))
        .and_then(|()| algo.gc())
        .and_then(|()| new.meta())
        .map_err(&mut warn);
    if !matches!(algo.current(), Ok(Some(current)) if current.map_id == new.map_id) {
        warn(Error::failed(format!(
            "another version of {} serves: another process swapped it in the meantime",
            algo.name
        )));
    }
    failpoint::kill("noted");
    let counted = pending.counter.join().unwrap_or_else(|_| Err(Error::failed("loading the socket iterator panicked")));
    let groups = counted.and_then(|mut c| c.count()).map_err(&mut warn).ok();
    warnings.extend(new.settings().iter().flatten().filter_map(Setting::warning));
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
