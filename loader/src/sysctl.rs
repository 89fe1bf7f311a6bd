//! The kernel's list of congestion controls, and each network namespace's default.

use hotcc_host::error::{Result, Tried};
use hotcc_host::{nearest, netns};

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

/// What became of the namespaces whose default was to be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Namespaces that have the new one.
    pub replaced: usize,
    /// What they have, without repetition.
    pub used: Vec<String>,
    /// Namespaces of these that refused the first candidate.
    pub second_best: usize,
    /// Namespaces where the kernel refused it: outside the initial one a congestion control must be
    /// TCP_CONG_NON_RESTRICTED.
    pub refused: usize,
}

/// Writes the first of `candidates` that the kernel takes into every namespace whose default is `old`. With the same
/// name: the kernel keeps the version that stood behind the name when it was written, so after a swap it must be written
/// again.
pub fn replace_defaults(old: &str, candidates: &[&str]) -> Result<Replaced> {
    let results = netns::in_each(|ns| {
        if default()? != old {
            return Ok(None);
        }
        let taken = candidates.iter().find(|name| {
            std::fs::write(DEFAULT, name)
                .inspect_err(|e| {
                    tracing::warn!("cannot set the default of network namespace {} to {name}: {e}", ns.path.display())
                })
                .is_ok()
        });
        Ok(Some(taken.map(|&name| name.to_owned())))
    })?;
    let mut outcome = Replaced::default();
    for taken in results.into_iter().flatten() {
        match taken {
            Some(name) => {
                outcome.replaced += 1;
                outcome.second_best += usize::from(Some(&&*name) != candidates.first());
                outcome.used.push(name);
            }
            None => outcome.refused += 1,
        }
    }
    outcome.used.sort_unstable();
    outcome.used.dedup();
    Ok(outcome)
}

/// The namespaces that have this default, as people call them.
pub fn namespaces_with_default(name: &str) -> Result<Vec<String>> {
    let labels = netns::in_each(|ns| Ok((default()? == name).then(|| ns.label())))?;
    Ok(labels.into_iter().flatten().collect())
}
