//! The kernel's list of congestion controls, and each network namespace's default.

use hotcc_host::error::{Result, Tried};
use hotcc_host::nearest;
use hotcc_host::netns::{self, NetNs};
use std::path::Path;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Returns the names of all registered congestion controls.
pub fn available() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(AVAILABLE).tried(|| format!("cannot read {AVAILABLE}"))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Returns whether a congestion control of this name is registered.
pub fn is_registered(name: &str) -> Result<bool> {
    Ok(available()?.iter().any(|n| n == name))
}

/// Returns the message for a name that is not registered, with the names that are.
#[must_use]
pub fn unregistered(name: &str, available: &[String]) -> String {
    let available: Vec<&str> = available.iter().map(String::as_str).collect();
    format!("no congestion control `{name}` is registered{}", nearest::hint(name, &available))
}

/// Returns the default of the caller's network namespace.
pub fn default() -> Result<String> {
    let text = std::fs::read_to_string(DEFAULT).tried(|| format!("cannot read {DEFAULT}"))?;
    Ok(text.trim().to_owned())
}

/// Sets the default of the caller's network namespace.
pub fn set_default(name: &str) -> Result<()> {
    std::fs::write(DEFAULT, name).tried(|| format!("cannot write {name} to {DEFAULT}"))
}

/// Returns the default of this network namespace.
pub fn default_in(ns: &NetNs) -> Result<String> {
    netns::inside(ns, default)
}

/// Sets the default of this network namespace.
pub fn set_default_in(ns: &NetNs, name: &str) -> Result<()> {
    netns::inside(ns, || set_default(name))
}

/// Returns whether the kernel would load a module for this name when a socket or a default asks for it.
#[must_use]
pub fn has_module(name: &str) -> bool {
    let Ok(system) = nix::sys::utsname::uname() else { return false };
    let list = Path::new("/lib/modules").join(system.release()).join("modules.dep");
    std::fs::read_to_string(list).is_ok_and(|modules| modules.contains(&format!("/tcp_{name}.ko")))
}

/// The result of replacing defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Number of namespaces that have a new default.
    pub replaced: usize,
    /// The new defaults, without repetition.
    pub used: Vec<String>,
    /// Number of those namespaces that refused the first candidate.
    pub second_best: usize,
    /// Candidates that namespaces refused, without repetition.
    pub not_taken: Vec<String>,
    /// Number of namespaces that refused all candidates: outside the initial namespace, a default must be
    /// TCP_CONG_NON_RESTRICTED.
    pub refused: usize,
}

/// In every namespace whose default is `old`, sets the default to the first of the namespace's `candidates` that the
/// kernel accepts. A candidate may be `old` itself: a default refers to the version that served when it was written, so
/// after a swap it must be written again.
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

/// Returns the labels of the namespaces that have this default.
pub fn namespaces_with_default(name: &str) -> Result<Vec<String>> {
    let labels = netns::in_each(|ns| Ok((default()? == name).then(|| ns.label())))?;
    Ok(labels.into_iter().flatten().collect())
}
