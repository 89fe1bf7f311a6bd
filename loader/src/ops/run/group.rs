//! The cgroup of a run's command.

use crate::cgroup::cgroup2_root;
use crate::registry;
use hotcc_host::error::{Result, Tried};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const CGROUP_PREFIX: &str = "hotcc-run-";

/// A cgroup that goes away with the value. Its lock tells it from what a killed run left.
pub(super) struct Group {
    pub(super) path: PathBuf,
    pub(super) directory: Flock<File>,
}

impl Group {
    pub(super) fn new() -> Result<Self> {
        let _lock = registry::lock()?; // another run must not find it before it is locked
        let root = cgroup2_root()?;
        remove_left_over(&root);
        let path = root.join(format!("{CGROUP_PREFIX}{}", std::process::id()));
        let tried = || format!("cannot create the cgroup {}", path.display());
        fs::create_dir(&path).tried(tried)?;
        let directory = File::open(&path).tried(tried)?;
        let directory = Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|(_, why)| why).tried(tried)?;
        Ok(Self { path, directory })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails while something the command left in the background still lives in it; the next run looks again.
        let _ = fs::remove_dir(&self.path);
    }
}

fn remove_left_over(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(CGROUP_PREFIX)
            && let Ok(directory) = File::open(entry.path())
            && Flock::lock(directory, FlockArg::LockExclusiveNonblock).is_ok()
        {
            let _ = fs::remove_dir(entry.path()); // the kernel refuses while a process is in it
        }
    }
}
