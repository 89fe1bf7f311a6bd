//! The kernel's list of congestion controls, and each network namespace's default.

use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::nearest;
use hotcc_host::netns::{self, NetNs};
use std::path::Path;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Names the kernel knows now.
pub fn available() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(AVAILABLE).tried(|| format!("cannot read {AVAILABLE}"))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Whether the kernel knows this name now.
pub fn is_registered(name: &str) -> Result<bool> {
    Ok(available()?.iter().any(|n| n == name))
}

/// The message for a name that the kernel does not know, with the names that it knows.
#[must_use]
pub fn unregistered(name: &str, available: &[String]) -> String {
    let available: Vec<&str> = available.iter().map(String::as_str).collect();
    format!("no congestion control `{name}` is registered{}", nearest::hint(name, &available))
}

/// The caller's network namespace's default.
pub fn default() -> Result<String> {
    let text = std::fs::read_to_string(DEFAULT).tried(|| format!("cannot read {DEFAULT}"))?;
    Ok(text.trim().to_owned())
}

/// Writes the caller's network namespace's default.
pub fn set_default(name: &str) -> Result<()> {
    std::fs::write(DEFAULT, name).tried(|| format!("cannot write {name} to {DEFAULT}"))
}

/// That network namespace's default.
pub fn default_in(ns: &NetNs) -> Result<String> {
    inside(ns, default)
}

/// Writes that network namespace's default.
pub fn set_default_in(ns: &NetNs, name: &str) -> Result<()> {
    inside(ns, || set_default(name))
}

fn inside<T: Send>(ns: &NetNs, work: impl Fn() -> Result<T> + Send + Sync) -> Result<T> {
    let results = netns::in_these(std::slice::from_ref(ns), |_| work())?;
    results.into_iter().next().ok_or_else(|| Error::failed(format!("cannot enter network namespace {}", ns.label())))
}

/// Whether the kernel would load a module for this name when a socket or a default asks for it.
#[must_use]
pub fn has_module(name: &str) -> bool {
    let Ok(system) = nix::sys::utsname::uname() else { return false };
    let list = Path::new("/lib/modules").join(system.release()).join("modules.dep");
    std::fs::read_to_string(list).is_ok_and(|modules| modules.contains(&format!("/tcp_{name}.ko")))
}

/// What became of the namespaces whose default was to be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Namespaces that have the new one.
    pub replaced: usize,
    /// What they have, without repetition.
    pub used: Vec<String>,
    /// Namespaces of these that refused the first candidate.
    pub second_best: usize,
    /// Candidates that namespaces refused, without repetition.
    pub not_taken: Vec<String>,
    /// Namespaces where the kernel refused it: outside the initial one a congestion control must be
    /// TCP_CONG_NON_RESTRICTED.
    pub refused: usize,
}

/// Writes the first of a namespace's `candidates` that the kernel takes, into every namespace whose default is `old`. With the same
/// name: the kernel keeps the version that stood behind the name when it was written, so after a swap it must be written
/// again.
pub fn replace_defaults(old: &str, candidates: impl Fn(&NetNs) -> Vec<String> + Send + Sync) -> Result<Replaced> {
    let results = netns::in_each(|ns| {
        if default()? != old {
            return Ok(None);
        }
        let mut candidates = candidates(ns);
        let taken = candidates.iter().position(|name| {
            std::fs::write(DEFAULT, name)
                .inspect_err(|e| {
                    tracing::warn!("cannot set the default of network namespace {} to {name}: {e}", ns.path.display())
                })
                .is_ok()
        });
        let name = taken.map(|n| candidates.drain(n..).next());
        Ok(Some((candidates, name.flatten())))
    })?;
    let mut outcome = Replaced::default();
    for (not_taken, taken) in results.into_iter().flatten() {
        match taken {
            Some(name) => {
                outcome.replaced += 1;
                outcome.second_best += usize::from(!not_taken.is_empty());
                outcome.used.push(name);
            }
            None => outcome.refused += 1,
        }
        outcome.not_taken.extend(not_taken);
    }
    for names in [&mut outcome.used, &mut outcome.not_taken] {
        names.sort_unstable();
        names.dedup();
    }
    Ok(outcome)
}

/// The namespaces that have this default, as people call them.
pub fn namespaces_with_default(name: &str) -> Result<Vec<String>> {
    let labels = netns::in_each(|ns| Ok((default()? == name).then(|| ns.label())))?;
    Ok(labels.into_iter().flatten().collect())
}
