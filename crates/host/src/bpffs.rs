//! The BPF file system that holds all pins.

use crate::error::{Error, Result};
use crate::root_dir::{self, PUBLIC, RootDir};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::path::Path;

/// How to mount a BPF file system, and a case in which it is mounted but hidden.
pub const HOW_TO_MOUNT: &str = "mount -t bpf -o mode=0755 bpf /sys/fs/bpf (`ip netns exec` hides bpffs: use `nsenter --net=/run/netns/NAME` instead)";

/// Returns whether `path`, or its nearest existing parent, is in a BPF file system.
#[must_use]
pub fn is_at(path: &Path) -> bool {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(path);
    statfs(existing).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC)
}

/// Returns the mount point of the BPF file system that `path` is in, or would be in.
///
/// # Errors
/// Fails if there is no BPF file system.
fn top(path: &Path) -> Result<&Path> {
    let is_bpffs = |path: &&Path| statfs(*path).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC);
    // take the one nearest to `/`, because directories further below may be links, which are not trusted yet
    path.ancestors().filter(is_bpffs).last().ok_or_else(|| {
        let message = format!("cannot use {}: no BPF file system there", path.display());
        Error::kernel_lacks(message).and(&format!("mount it: {HOW_TO_MOUNT}"))
    })
}

/// Fails unless `path` is in a BPF file system, or would be, and other users can change neither the directories that
/// lead to it nor anything in it.
///
/// # Errors
/// Fails if one of these conditions is not met.
pub fn need(path: &Path) -> Result<()> {
    let top = top(path)?;
    let mut directory = RootDir::open(top)?;
    for name in path.strip_prefix(top).unwrap_or(path) {
        directory = match directory {
            Some(above) => above.child(name)?,
            None => return Ok(()),
        };
    }
    directory.map_or(Ok(()), |directory| directory.check_below())
}

/// Creates the directory `path` in a BPF file system, and its missing parents.
///
/// # Errors
/// Fails if there is no BPF file system, or if another user can change a directory on the way.
pub fn make(path: &Path) -> Result<()> {
    root_dir::make(top(path)?, path, PUBLIC).map(drop)
}
