//! The cgroup of a run's command.

use crate::cgroup;
use hotcc_host::error::{Result, Tried};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const CGROUP_PREFIX: &str = "hotcc-run-";

/// A cgroup that goes away with the value. Its lock tells it from what a killed run left.
pub(super) struct Group {
    pub(super) path: PathBuf,
    pub(super) directory: File,
    _lock: Flock<File>,
}

impl Group {
    /// Makes it. Call with the registry's lock held: another run must not find it before it is locked.
    pub(super) fn new() -> Result<Self> {
        let parent = parent()?;
        remove_left_over(&parent);
        let path = parent.join(format!("{CGROUP_PREFIX}{}", std::process::id()));
        let tried = || format!("cannot create the cgroup {}", path.display());
        fs::create_dir(&path).tried(tried)?;
        let directory = File::open(&path).tried(tried)?;
        let lock = lock(&path).tried(tried)?;
        Ok(Self { path, directory, _lock: lock })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails while something the command left in the background still lives in it; the next run looks again.
        let _ = fs::remove_dir(&self.path);
    }
}

/// The caller's cgroup, so that its limits hold for the command, and what ends the caller's service ends the command. A run
/// within a run gets a cgroup beside that one's: below it, the outer run's choice would come last, and stay.
fn parent() -> Result<PathBuf> {
    let own = cgroup::own()?;
    let is_run = |path: &&Path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(CGROUP_PREFIX));
    Ok(own.ancestors().find(|path| !is_run(path)).unwrap_or(&own).to_owned())
}

/// Locks a run's cgroup by a file that only root can open: whoever can open it can lock it.
fn lock(cgroup: &Path) -> io::Result<Flock<File>> {
    let file = File::options().write(true).open(cgroup.join("cgroup.kill"))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, why)| why.into())
}

fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(CGROUP_PREFIX) && lock(&entry.path()).is_ok() {
            let _ = fs::remove_dir(entry.path()); // the kernel refuses while a process is in it
        }
    }
}
