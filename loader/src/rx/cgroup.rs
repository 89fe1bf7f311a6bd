//! Cgroups (v2), by path and by the number that the kernel knows them by, which is their inode's.

use crate::error::{Error, Result, Tried};
use crate::run;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// Opens a cgroup's directory.
pub(super) fn open(path: &Path) -> Result<File> {
    let advice = format!("make one: mkdir {}/NAME", run::cgroup2_root()?.display());
    if !path.exists() {
        return Err(Error::failed(format!("there is no cgroup {}; {advice}", path.display())));
    }
    let tried = || format!("cannot open the cgroup {}", path.display());
    let directory = File::open(path).tried(tried)?;
    if nix::sys::statfs::fstatfs(&directory).tried(tried)?.filesystem_type().0 != CGROUP2_MAGIC {
        return Err(Error::failed(format!("{} is no cgroup (v2); {advice}", path.display())));
    }
    Ok(directory)
}

/// Where the cgroup of that number is; `None`: it is gone.
pub(super) fn path_of(id: u64) -> Result<Option<PathBuf>> {
    let mut to_visit = vec![run::cgroup2_root()?];
    while let Some(path) = to_visit.pop() {
        // one may go away while its siblings are looked at
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.ino() == id {
            return Ok(Some(path));
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        to_visit.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    Ok(None)
}
