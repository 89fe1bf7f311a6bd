//! A congestion control that hotcc has pinned: the version that serves, the one that served before, and what killed
//! commands left.

use super::bpffs::{need_bpffs, remove_tree, subdirectories};
use super::registrations::is_in_use;
use super::version::Version;
use crate::object::check_cc_name;
use crate::sysctl;
use bytemuck::Zeroable;
use hotcc_abi::pins;
use hotcc_abi::stats::AlgoStats;
use hotcc_host::error::{Error, Result, Tried};
use hotcc_host::nearest;
use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle};
use std::path::{Path, PathBuf};

const KEY: [u8; 4] = [0; 4];

/// An algorithm that hotcc loaded.
#[derive(Clone, Debug)]
pub struct Algo {
    /// Name of the congestion control.
    pub name: String,
    dir: PathBuf,
}

impl Algo {
    /// Returns all that are pinned, in the order of their names.
    pub fn all() -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for dir in subdirectories(Path::new(pins::ALGO))? {
            let name = dir.file_name().and_then(|n| n.to_str()).map(pins::cc_name_of).unwrap_or_default();
            found.push(Self { name, dir });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Returns the algorithm of this name, whether or not it is loaded.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), dir: pins::algo_dir(name) }
    }

    /// Returns the algorithm of a name that a user gave; fails if it is no valid name. `a-b` is not valid: its pins
    /// would be in the same directory as those of `a.b`.
    pub(crate) fn with_name(name: &str) -> Result<Self> {
        check_cc_name(name)?;
        Ok(Self::named(name))
    }

    /// Returns the algorithm of this name and its serving version; fails if none serves.
    pub fn serving(name: &str) -> Result<(Self, Version)> {
        let algo = Self::with_name(name)?;
        need_bpffs()?;
        if let Some(version) = algo.current()? {
            return Ok((algo, version));
        }
        Err(Self::not_serving(name, true)?)
    }

    /// Returns the error for a name that cannot be unloaded, because hotcc has not loaded it.
    pub(crate) fn nothing_to_unload(name: &str) -> Result<Error> {
        Self::not_serving(name, false)
    }

    /// Returns the error for a name that hotcc has not loaded; with `advice`, it includes how to load one.
    fn not_serving(name: &str, advice: bool) -> Result<Error> {
        let loaded: Vec<String> =
            Self::all()?.into_iter().filter(|a| matches!(a.current(), Ok(Some(_)))).map(|a| a.name).collect();
        let loaded: Vec<&str> = loaded.iter().map(String::as_str).collect();
        let others = match &loaded[..] {
            [] => "; no algorithm is".to_owned(),
            loaded => nearest::hint(name, loaded),
        };
        let hint = if sysctl::is_registered(name)? {
            ". It is registered, but not by hotcc (see: hotcc status)".to_owned()
        } else if advice {
            load_advice(name, &loaded).map_or_else(String::new, |advice| format!(". {advice}"))
        } else {
            String::new()
        };
        Ok(Error::failed(format!("`{name}` is not loaded by hotcc{others}{hint}")))
    }

    /// Returns the directory of its pins.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path at which the registration is pinned.
    #[must_use]
    pub fn link_path(&self) -> PathBuf {
        self.dir.join("link")
    }

    /// Returns the path of the mark for algorithms that were loaded for runs only.
    #[must_use]
    pub fn runs_path(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// Returns all versions, oldest first.
    pub fn versions(&self) -> Result<Vec<Version>> {
        let mut found: Vec<Version> = subdirectories(&self.dir)?
            .into_iter()
            .filter_map(|dir| {
                let map_id = dir.file_name()?.to_str()?.strip_prefix('v')?.parse().ok()?;
                Some(Version { map_id, dir })
            })
            .collect();
        found.sort_by_key(|v| v.map_id);
        Ok(found)
    }

    /// Returns the version that serves, according to the kernel, or `None` if none does.
    pub fn current(&self) -> Result<Option<Version>> {
        let link_path = self.link_path();
        if !link_path.exists() {
            return Ok(self.versions()?.into_iter().find(is_registered_map));
        }
        let link = match Link::open(&link_path) {
            // unloaded in the meantime: callers that only read hold no lock
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            link => link.tried(|| format!("cannot open {}", link_path.display()))?,
        };
        let info = link.info().tried(|| format!("cannot read {}", link_path.display()))?;
        let LinkTypeInfo::StructOps(ops) = info.info else { return Ok(None) };
        // listed after the link is read, because a version is pinned before it serves
        Ok(self.versions()?.into_iter().find(|v| v.map_id == ops.map_id))
    }

    /// Returns the version that served before the current one.
    pub fn previous(&self) -> Result<Option<Version>> {
        let Some(current) = self.current()? else { return Ok(None) };
        let others = self.versions()?.into_iter().filter(|v| v.map_id != current.map_id);
        // in the order of swaps, and not of times, because the clock may have been set in between
        let mut served: Vec<(u64, Version)> =
            others.filter_map(|v| v.meta().ok().filter(|m| m.activations > 0).map(|m| (m.swaps, v))).collect();
        served.sort_by_key(|(swaps, _)| *swaps);
        Ok(served.pop().map(|(_, v)| v))
    }

    /// Finishes or removes what a killed command left, and removes versions older than the previous one. Call it with
    /// the lock held.
    pub fn gc(&self) -> Result<()> {
        if !self.dir.exists() {
            return Ok(());
        }
        let Some(current) = self.current()? else {
            return remove_tree(&self.dir);
        };
        if current.meta()?.committed == 0 {
            // a command was killed after the kernel had switched, but before the command had finished
            let versions = self.versions()?;
            let swaps = versions.iter().filter_map(|v| v.meta().ok()).map(|m| m.swaps).max().unwrap_or(0);
            sysctl::replace_defaults(&self.name, |_| vec![self.name.clone()])?;
            current.commit(swaps + u64::from(versions.len() > 1))?;
        }
        let previous = self.previous()?.map(|v| v.map_id);
        for version in self.versions()? {
            if version.map_id != current.map_id && Some(version.map_id) != previous {
                remove_tree(&version.dir)?;
            }
        }
        Ok(())
    }

    /// Returns whether [`gc`](Self::gc) would change nothing.
    pub(crate) fn is_clean(&self) -> Result<bool> {
        let Some(current) = self.current()? else { return Ok(!self.dir.exists()) };
        let Ok(meta) = current.meta() else { return Ok(true) }; // it cannot be repaired; unloading does not need it
        let wanted = 1 + usize::from(self.previous()?.is_some());
        Ok(meta.committed != 0 && self.versions()?.len() <= wanted)
    }

    /// Returns the path at which the counters of all its versions are pinned.
    #[must_use]
    pub fn stats_path(&self) -> PathBuf {
        self.dir.join(pins::STATS)
    }

    /// Returns the map of these counters, or `None` if no version keeps counters, or if all versions are of an earlier
    /// hotcc whose counters have another layout.
    pub(crate) fn stats_map(&self) -> Result<Option<MapHandle>> {
        let path = self.stats_path();
        if !path.exists() {
            return Ok(None);
        }
        let map = MapHandle::from_pinned_path(&path).tried(|| format!("cannot read {}", path.display()))?;
        Ok((map.value_size() as usize == size_of::<AlgoStats>()).then_some(map))
    }

    /// Returns the monotonic counters of all versions since the name was loaded, summed over CPUs, or `None` if there
    /// are none that this hotcc can read.
    pub fn stats(&self) -> Result<Option<AlgoStats>> {
        let Some(map) = self.stats_map()? else { return Ok(None) };
        let tried = || format!("cannot read {}", self.stats_path().display());
        let mut sum: AlgoStats = Zeroable::zeroed();
        for value in map.lookup_percpu(&KEY, MapFlags::empty()).tried(tried)?.unwrap_or_default() {
            if let Ok(one) = bytemuck::try_pod_read_unaligned(&value) {
                sum.add(&one);
            }
        }
        Ok(Some(sum))
    }
}

/// Returns advice to load the built-in algorithm of this name, or the one with the most similar name, unless a name in
/// `known` is similar, too.
pub(crate) fn load_advice(name: &str, known: &[&str]) -> Option<String> {
    if hotcc_bpf::algo(name).is_some() {
        return Some(format!("Load it: hotcc load {name}"));
    }
    let builtin: Vec<&str> = hotcc_bpf::ALGOS.iter().map(|o| o.name).collect();
    let nearest = nearest::nearest(name, &builtin).filter(|_| nearest::nearest(name, known).is_none())?;
    Some(format!("Did you mean `{nearest}`? Load it: hotcc load {nearest}"))
}

/// Returns whether the version's map is itself a registration, as it is without links.
fn is_registered_map(version: &Version) -> bool {
    let value = version.map("map").ok().flatten().and_then(|m| m.lookup(&KEY, MapFlags::empty()).ok().flatten());
    value.is_some_and(|v| is_in_use(&v))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_to_load_names_the_nearest_built_in_algorithm() {
        assert_eq!(load_advice("dtcp", &[]).as_deref(), Some("Load it: hotcc load dtcp"));
        assert_eq!(load_advice("dctp", &[]).as_deref(), Some("Did you mean `dtcp`? Load it: hotcc load dtcp"));
        assert_eq!(load_advice("dctp", &["dctcp"]), None, "a loaded one is as near");
        assert_eq!(load_advice("no_such", &["cubic"]), None);
    }
}
