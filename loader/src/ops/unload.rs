//! Unloads a congestion control.

use crate::canary;
use crate::failpoint;
use crate::registry::counters::count;
use crate::registry::defaults::{self, Defaults};
use crate::registry::{self, Algo, begin, install};
use crate::sockets::count::{connections, count_sockets};
use crate::sysctl;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::nearest;
use hotcc_host::netns::NetNs;
use serde::Serialize;

/// The result of unloading.
#[derive(Clone, Debug, Serialize)]
pub struct Unloaded {
    /// Congestion control that was unloaded.
    pub name: String,
    /// Connections that keep running it until they close; `None` if sockets cannot be counted.
    pub connections_left: Option<u64>,
    /// Listening sockets that selected it, and pass it on to accepted connections until they select another.
    pub listeners_left: Option<u64>,
    /// Network namespaces whose default it was, and which have another default now.
    pub defaults_moved: usize,
    /// New defaults of these network namespaces.
    pub fallback: Vec<String>,
    /// Fallbacks that the kernel refused as a default.
    pub fallback_wanted: String,
    /// Those of the `defaults_moved` namespaces in which the kernel refused the first choice: outside the initial
    /// namespace, only what `net.ipv4.tcp_allowed_congestion_control` lists can be the default.
    pub fallback_refused: usize,
    /// Errors that occurred after it was unregistered.
    pub warnings: Vec<String>,
}

/// Unloads a congestion control. Connections that use it keep it.
pub fn unload(name: &str, fallback: Option<&str>) -> Result<Unloaded> {
    let _lock = begin("hotcc unload")?;
    canary::refuse_while_comparing(name, "unload")?;
    unload_locked(name, fallback)
}

pub(crate) fn unload_locked(name: &str, fallback: Option<&str>) -> Result<Unloaded> {
    let algo = Algo::with_name(name)?;
    registry::need_bpffs()?;
    let Some(serving) = algo.current()? else {
        let error = Algo::nothing_to_unload(name)?;
        if !algo.dir().exists() {
            return Err(error);
        }
        Defaults::noted(&algo)?.replace_in_others(name)?;
        algo.gc()?;
        return Err(error.and("what a killed command had left of it was removed"));
    };
    let available = sysctl::available()?;
    let fallback = fallback.map(|wanted| check_fallback(name, wanted, &available)).transpose()?;
    let before = Defaults::noted(&algo)?;
    let candidates = |ns: &NetNs| {
        let of_choice = fallback.map(str::to_owned).or_else(|| before.of(defaults::id(ns)));
        let usual = if fallback.is_none() { "cubic" } else { "reno" };
        let mut candidates: Vec<String> = of_choice.into_iter().chain([usual, "reno"].map(str::to_owned)).collect();
        candidates.retain(|c| c != name && available.contains(c));
        candidates.dedup();
        candidates
    };
    let groups = count_sockets();
    // Defaults are replaced first: otherwise new sockets would still get the unloaded algorithm from them.
    let defaults = sysctl::replace_defaults(name, candidates)?;
    if defaults.refused > 0 {
        return Err(Error::failed(format!(
            "cannot unload {name}: it is the default of {} network namespace(s) that accept none of {}; set another default there",
            defaults.refused,
            defaults.not_taken.join(", ")
        )));
    }
    failpoint::kill("defaults");
    if algo.link_path().exists() {
        std::fs::remove_file(algo.link_path()).tried(|| format!("cannot remove {}", algo.link_path().display()))?;
    } else {
        install::unregister(&serving)?;
    }
    failpoint::kill("unlinked");
    let done = before.replace_in_others(name);
    let done = done.and(registry::remove_tree(algo.dir())).and_then(|()| wait_until_gone(name));
    count(|c| c.unloads += 1);
    let listeners = groups.as_ref().map(|g| g.iter().filter(|g| g.cc == name).map(|g| g.counts.listeners).sum());
    Ok(Unloaded {
        name: name.to_owned(),
        connections_left: connections(&groups, |g| g.cc == name),
        listeners_left: listeners,
        defaults_moved: defaults.replaced,
        fallback: defaults.used,
        fallback_wanted: defaults.not_taken.join(" or "),
        fallback_refused: defaults.second_best,
        warnings: done.err().iter().map(|error| format!("{error:#}")).collect(),
    })
}

fn check_fallback<'a>(name: &str, wanted: &'a str, available: &[String]) -> Result<&'a str> {
    if wanted == name || !available.iter().any(|a| a == wanted) {
        let others: Vec<&str> = available.iter().map(String::as_str).filter(|a| *a != name).collect();
        return Err(Error::usage(format!("invalid fallback `{wanted}`{}", nearest::hint(wanted, &others))));
    }
    Ok(wanted)
}

/// Waits until the name is unregistered. The kernel does that only after the last reference is dropped.
fn wait_until_gone(name: &str) -> Result<()> {
    for _ in 0..500 {
        if !sysctl::is_registered(name)? {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(Error::failed(format!(
        "`{name}` is still registered after 5 s: another process holds it, or the kernel is still unregistering it (see: \
         hotcc status)"
    )))
}
