//! The BPF file system that everything is pinned in.

use crate::error::{Error, Result, Tried};
use hotcc_abi::pins;
use std::fs;
use std::path::{Path, PathBuf};

/// How to get a BPF file system; and where not to, which looks just the same.
pub(crate) const MOUNT_BPFFS: &str =
    "mount -t bpf bpf /sys/fs/bpf (inside `ip netns exec`, which hides it, do not: use nsenter --net=/run/netns/NAME)";

/// Stops early where there is no BPF file system.
pub fn need_bpffs() -> Result<()> {
    const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
    let found = nix::sys::statfs::statfs(pins::BPFFS).is_ok_and(|s| s.filesystem_type().0 == BPF_FS_MAGIC);
    if found {
        return Ok(());
    }
    Err(Error::kernel_lacks(format!("no BPF file system at {}; mount it: {MOUNT_BPFFS}", pins::BPFFS)))
}

/// Directories in a directory of pins; empty if it does not exist.
pub(super) fn subdirectories(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.tried(|| format!("cannot list {}", dir.display()))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.tried(|| format!("cannot list {}", dir.display()))?;
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Removes a directory of pins.
pub fn remove_tree(dir: &Path) -> Result<()> {
    fs::remove_dir_all(dir).tried(|| format!("cannot remove {}", dir.display()))
}
