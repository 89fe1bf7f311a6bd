//! Finds cgroups (v2): the mount point, and a cgroup by its path or by its id, which is the inode number of its
//! directory.

use hotcc_host::error::{Error, Result, Tried};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How to mount cgroup v2, and a case in which it is mounted but hidden.
pub(crate) const MOUNT_CGROUP2: &str = "mount -t cgroup2 none /sys/fs/cgroup/unified (`ip netns exec` hides cgroup v2: use `nsenter --net=/run/netns/NAME` instead)";

/// Returns the first mount point of cgroup v2, which may be mounted alone or beside v1.
pub fn cgroup2_root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").tried(|| "cannot read /proc/self/mounts".to_owned())?;
    let found = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    found.ok_or_else(|| Error::kernel_lacks(format!("cgroup v2 is not mounted; mount it: {MOUNT_CGROUP2}")))
}

/// Returns the path of this process's cgroup.
pub fn own() -> Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").tried(|| "cannot read /proc/self/cgroup".to_owned())?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let path = path.ok_or_else(|| Error::kernel_lacks("this process is in no cgroup (v2)"))?;
    if path.starts_with("..") {
        return Err(Error::failed(format!("cannot find this process's cgroup /{path}: its cgroup namespace hides it")));
    }
    Ok(cgroup2_root()?.join(path))
}

/// Opens a cgroup's directory.
pub(crate) fn open(path: &Path) -> Result<File> {
    let advice = format!("create one: mkdir {}/NAME", cgroup2_root()?.display());
    if !path.exists() {
        return Err(Error::failed(format!("cgroup {} does not exist; {advice}", path.display())));
    }
    let tried = || format!("cannot open the cgroup {}", path.display());
    let directory = File::open(path).tried(tried)?;
    if fstatfs(&directory).tried(tried)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
        return Err(Error::failed(format!("{} is not a cgroup (v2); {advice}", path.display())));
    }
    Ok(directory)
}

/// Returns the path of the cgroup with this id, or `None` if the cgroup was removed.
pub(crate) fn path_of(id: u64) -> Result<Option<PathBuf>> {
    let mut to_visit = vec![cgroup2_root()?];
    while let Some(path) = to_visit.pop() {
        // a cgroup may be removed during the search
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.ino() == id {
            return Ok(Some(path));
        }
        let entries = fs::read_dir(&path).into_iter().flatten().flatten();
        to_visit.extend(entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    Ok(None)
}
