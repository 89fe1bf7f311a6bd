//! The cache of kernels: one directory for each kernel, complete or absent; one fetch at a time.

use super::apt::Apt;
use super::error::{Error, OnFile, Result};
use super::mirror::Mirror;
use super::package::Package;
use super::selector::{Architecture, Selector, Suite, Wanted};
use super::{Kernel, Listed, Manifest, Progress, unpack, version};
use nix::fcntl::{Flock, FlockArg};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

/// Environment variable that overrides the cache's directory.
const CACHE: &str = "HOTCC_CACHE";
const MANIFEST: &str = "manifest.json";
const UNFINISHED: &str = ".fetch-";
const INDEXES: &str = ".apt";

/// Version of the layout of a kernel's directory; a kernel with another layout is fetched again.
pub(super) const FORMAT: u32 = 1;

/// The kernels of a suite, or why its index could not be reached.
type Index = std::result::Result<Arc<Vec<Package>>, String>;

/// A cache of kernels, and the mirror that it is filled from.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    mirror: Option<Mirror>,
    /// Indexes, each requested once per process.
    indexes: Mutex<HashMap<(Suite, Architecture), Index>>,
}

impl Store {
    /// Opens this user's cache, `$HOTCC_CACHE/kernels`, else `$XDG_CACHE_HOME/hotcc/kernels`, else
    /// `~/.cache/hotcc/kernels`; it is filled from this machine's mirror.
    pub fn open() -> Result<Self> {
        Self::at(&cache_directory()?.join("kernels"), None)
    }

    /// Opens the cache in `directory`; it is filled from `mirror`, or from this machine's mirror.
    pub fn at(directory: &Path, mirror: Option<Mirror>) -> Result<Self> {
        let directory = std::path::absolute(directory).on_file("cannot find", directory)?;
        Ok(Self { directory, mirror, indexes: Mutex::default() })
    }

    /// Returns the directory of the cache.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the newest matching kernel in the index.
    pub fn resolve(&self, selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Package> {
        let _lock = self.lock(progress)?;
        self.newest(selector, progress)
    }

    /// Returns all kernels that match any of the selectors, newest first; without selectors, the newest of each
    /// [supported](Selector::supported) kernel. If the index cannot be reached, returns the cached kernels.
    pub fn list(&self, selectors: &[Selector], progress: &mut dyn FnMut(&Progress)) -> Result<Vec<Listed>> {
        let _lock = self.lock(progress)?;
        let (mut listed, mut reported) = (Vec::new(), Vec::new());
        let by_default = selectors.is_empty();
        let (all, limit) = if by_default { (Selector::supported(), 1) } else { (selectors.to_vec(), usize::MAX) };
        let mut absent = None;
        for selector in all {
            let packages = match self.matching(&selector, progress) {
                Err(error) if error.is_offline() || by_default && matches!(error, Error::NotFound { .. }) => {
                    let kept: Vec<_> = self.kept(&selector).into_iter().map(|kernel| kernel.manifest.package).collect();
                    let notice = Progress::Offline { why: error.to_string() };
                    if error.is_offline() && !kept.is_empty() && !reported.contains(&notice) {
                        progress(&notice);
                        reported.push(notice);
                    }
                    if kept.is_empty() {
                        absent = absent.or(Some(error));
                    }
                    kept
                }
                other => other?,
            };
            for package in packages.into_iter().take(limit) {
                let cached = self.kept_as(&package).map(|kernel| kernel.dir);
                listed.push(Listed { selector: selector.clone(), package, cached });
            }
        }
        match absent {
            Some(error) if listed.is_empty() => Err(error),
            _ => Ok(listed),
        }
    }

    /// Returns the newest matching kernel, after downloading it if it is not in the cache. If the index cannot be
    /// reached, or no longer has a matching kernel, returns the newest matching kernel in the cache, and reports that
    /// to `progress`.
    pub fn fetch(&self, selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Kernel> {
        if let (Wanted::Release(_), Some(kernel)) = (&selector.wanted, self.cached(selector)) {
            return Ok(kernel);
        }
        let _lock = self.lock(progress)?;
        let fetched = self.newest(selector, progress).and_then(|package| match self.kept_as(&package) {
            Some(kernel) if kernel.verify().is_ok() => Ok(kernel),
            _ => self.make(&package, progress),
        });
        match fetched {
            Err(error) if error.is_offline() || matches!(error, Error::NotFound { .. }) => {
                let Some(kernel) = self.cached(selector) else { return Err(error) };
                progress(&Progress::Fallback { release: kernel.release.clone(), why: error.to_string() });
                Ok(kernel)
            }
            other => other,
        }
    }

    /// Returns the newest matching kernel in the cache, without using the network.
    #[must_use]
    pub fn cached(&self, selector: &Selector) -> Option<Kernel> {
        self.kept(selector).into_iter().find(|kernel| kernel.verify().is_ok())
    }

    /// Removes all kernels and indexes, and returns the number of bytes freed.
    pub fn clean(&self, progress: &mut dyn FnMut(&Progress)) -> Result<u64> {
        if !self.directory.is_dir() {
            return Ok(0);
        }
        let _lock = self.lock(progress)?;
        let mut freed = 0;
        for path in self.entries() {
            if path.join(MANIFEST).is_file() || path.ends_with(INDEXES) {
                freed += size(&path);
                fs::remove_dir_all(&path).on_file("cannot remove", &path)?;
            }
        }
        Ok(freed)
    }

    fn entries(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    /// Locks the cache for changes, and removes what a killed fetch left.
    fn lock(&self, progress: &mut dyn FnMut(&Progress)) -> Result<Flock<File>> {
        fs::create_dir_all(&self.directory)
            .on_file("cannot create", &self.directory)
            .map_err(|e| e.in_directory(&self.directory))?;
        let path = self.directory.join(".lock");
        let file = File::create(&path).on_file("cannot create", &path).map_err(|e| e.in_directory(&self.directory))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).or_else(|(file, _)| {
            progress(&Progress::Waiting);
            Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error)
        });
        let lock = lock.on_file("cannot lock", &path)?;
        let unfinished = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(UNFINISHED));
        for path in self.entries().into_iter().filter(unfinished) {
            fs::remove_dir_all(&path).on_file("cannot remove", &path)?;
        }
        Ok(lock)
    }

    fn apt(&self, suite: Suite, architecture: Architecture) -> Result<Apt> {
        let mirror = match &self.mirror {
            Some(mirror) => mirror.clone(),
            None => Mirror::of_this_machine()?,
        };
        let state = format!("{suite}-{}", architecture.name());
        Apt::new(&self.directory.join(INDEXES).join(state), &mirror, suite, architecture)
    }

    fn index(
        &self,
        suite: Suite,
        architecture: Architecture,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Arc<Vec<Package>>> {
        let place = (suite, architecture);
        let mut indexes = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = indexes.get(&place) {
            return known.clone().map_err(|why| Error::Unreachable { suite, why });
        }
        progress(&Progress::Index { suite });
        let ask = || {
            let apt = self.apt(suite, architecture)?;
            apt.update()?;
            apt.kernels().map(Arc::new)
        };
        let asked = ask().map_err(|error| error.in_directory(&self.directory));
        match &asked {
            Ok(index) => drop(indexes.insert(place, Ok(Arc::clone(index)))),
            Err(Error::Unreachable { why, .. }) => drop(indexes.insert(place, Err(why.clone()))),
            Err(_) => {}
        }
        asked
    }

    /// Returns the matching kernels, from the first suite that has any.
    fn matching(&self, selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Vec<Package>> {
        for suite in selector.suites() {
            let index = self.index(suite, selector.architecture, progress)?;
            let fits = |package: &&Package| selector.accepts(&package.release, suite);
            let found: Vec<_> = index.iter().filter(fits).cloned().collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        let suites = selector.suites().into_iter().map(Suite::name).collect::<Vec<_>>().join(" or ");
        Err(Error::NotFound { selector: selector.clone(), suites })
    }

    fn newest(&self, selector: &Selector, progress: &mut dyn FnMut(&Progress)) -> Result<Package> {
        let found = self.matching(selector, progress)?.into_iter().next();
        found.ok_or_else(|| Error::NotFound { selector: selector.clone(), suites: "any suite".into() })
    }

    /// Returns the matching kernels in the cache, newest first.
    fn kept(&self, selector: &Selector) -> Vec<Kernel> {
        let fits = |kernel: &Kernel| {
            let package = &kernel.manifest.package;
            Suite::from_str(&package.suite).is_ok_and(|suite| selector.accepts(&package.release, suite))
        };
        let mut kernels: Vec<_> = self.entries().iter().filter_map(|path| kernel_in(path)).filter(fits).collect();
        kernels.sort_by(|a, b| version::compare(&b.manifest.package.version, &a.manifest.package.version));
        kernels
    }

    /// Returns the kernel in the cache that was made from exactly these files.
    fn kept_as(&self, package: &Package) -> Option<Kernel> {
        let kernel = kernel_in(&self.directory.join(&package.release))?;
        (kernel.manifest.package.debs == package.debs).then_some(kernel)
    }

    fn make(&self, package: &Package, progress: &mut dyn FnMut(&Progress)) -> Result<Kernel> {
        let scratch = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.directory);
        let made = scratch.on_file("cannot create a directory in", &self.directory).and_then(|scratch| {
            let [debs, tree, kernel] = ["debs", "tree", "kernel"].map(|name| scratch.path().join(name));
            fs::create_dir(&debs).on_file("cannot create", &debs)?;
            let total = package.size();
            self.apt(package.suite.parse()?, package.architecture())?.download(package, &debs, &mut |bytes| {
                progress(&Progress::Downloading { release: package.release.clone(), bytes, total });
            })?;
            progress(&Progress::Unpacking { release: package.release.clone() });
            let vmlinuz_sha256 = unpack::unpack(package, &debs, &tree, &kernel)?;
            let manifest = Manifest { format: FORMAT, package: package.clone(), vmlinuz_sha256 };
            let path = kernel.join(MANIFEST);
            let text =
                serde_json::to_string_pretty(&manifest).map_err(io::Error::from).on_file("cannot write", &path)?;
            fs::write(&path, text + "\n").on_file("cannot write", &path)?;
            let place = self.directory.join(&package.release);
            if place.exists() {
                fs::rename(&place, scratch.path().join("replaced")).on_file("cannot move", &place)?;
            }
            fs::rename(&kernel, &place).on_file("cannot move", &kernel)?;
            Ok(Kernel::new(place, manifest))
        });
        made.map_err(|error| error.in_directory(&self.directory))
    }
}

/// Returns the directory of everything that hotcc downloads for this user: `$HOTCC_CACHE`, else
/// `$XDG_CACHE_HOME/hotcc`, else `~/.cache/hotcc`.
///
/// # Errors
/// None of these variables is set.
pub fn cache_directory() -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable(CACHE)
        .or_else(|| variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("hotcc")))
        .or_else(|| variable("HOME").map(|path| path.join(".cache/hotcc")));
    cache.ok_or_else(|| Error::Io {
        tried: "cannot locate the cache".into(),
        source: io::Error::other(format!("none of {CACHE}, XDG_CACHE_HOME and HOME is set")),
    })
}

/// Returns the kernel in a directory, if it contains one with the current layout.
fn kernel_in(directory: &Path) -> Option<Kernel> {
    let manifest: Manifest = serde_json::from_slice(&fs::read(directory.join(MANIFEST)).ok()?).ok()?;
    let named = directory.file_name().is_some_and(|name| name == manifest.package.release.as_str());
    (named && manifest.format == FORMAT).then(|| Kernel::new(directory.into(), manifest))
}

fn size(path: &Path) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    let entries = if metadata.is_dir() { fs::read_dir(path).ok() } else { None };
    metadata.len() + entries.into_iter().flatten().flatten().map(|entry| size(&entry.path())).sum::<u64>()
}
