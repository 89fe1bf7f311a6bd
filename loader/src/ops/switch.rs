//! What follows once the kernel has switched to a version, and what came of it.
//!
//! From here on a command no longer fails: it warns, and the next command repairs what went wrong.

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
    /// What went wrong after the kernel had switched, and what the algorithm's author warns of in its tunables' values.
    pub warnings: Vec<String>,
}

/// A socket counter on its way: loading one takes as long as loading an algorithm, so both go on at once.
pub(super) type Counter = JoinHandle<Result<FlowCounter>>;

pub(super) fn counter() -> Counter {
    std::thread::spawn(FlowCounter::new)
}

/// A switch under way.
pub(super) struct Pending {
    /// Before the first touch of what served.
    pub(super) started: Instant,
    pub(super) counter: Counter,
}

/// All that follows once the kernel has switched to `new`: defaults, open sockets, notes, old versions. No `swaps`: it
/// had been switched to it already.
pub(super) fn finish(algo: &Algo, new: &Version, swaps: Option<u64>, live: bool, pending: Pending) -> Outcome {
    failpoint::kill("switched");
    let mut warnings = Vec::new();
    let mut warn = |error: Error| warnings.push(format!("{error:#}"));
    // Without this, new sockets on the default would go on getting the old version.
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
