//! The cgroup of a run's command.

use crate::cgroup;
use hotcc_host::error::{Result, Tried};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const CGROUP_PREFIX: &str = "hotcc-run-";

/// A cgroup that is removed when the value is dropped. Its lock distinguishes it from cgroups that killed runs left.
pub(super) struct Group {
    pub(super) path: PathBuf,
    pub(super) directory: File,
    _lock: Flock<File>,
}

impl Group {
    /// Creates the cgroup. Call it with the registry's lock held: another run must not find the cgroup before it is
    /// locked.
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
        // Fails while a background process of the command still runs in the cgroup; the next run tries again.
        let _ = fs::remove_dir(&self.path);
    }
}

/// Returns the parent of a run's cgroup: the caller's cgroup, so that its limits apply to the command, and stopping the
/// caller's service stops the command. The cgroup of a nested run is a sibling of the outer run's. If it were a child,
/// the outer run's program would run last, and its choice would win.
fn parent() -> Result<PathBuf> {
    let own = cgroup::own()?;
    let is_run = |path: &&Path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(CGROUP_PREFIX));
    Ok(own.ancestors().find(|path| !is_run(path)).unwrap_or(&own).to_owned())
}

/// Locks a run's cgroup through a file that only root can open, because any process that can open a file can lock it.
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
