//! The BPF file system that holds all pins.

use crate::error::{Error, Result};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::path::Path;

/// How to get a BPF file system, and where it only seems to be missing.
pub const HOW_TO_MOUNT: &str =
    "mount -t bpf bpf /sys/fs/bpf (`ip netns exec` hides bpffs: use `nsenter --net=/run/netns/NAME` instead)";

/// Whether `path`, or its nearest existing parent, is in a BPF file system.
#[must_use]
pub fn is_at(path: &Path) -> bool {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(path);
    statfs(existing).is_ok_and(|stat| stat.filesystem_type() == BPF_FS_MAGIC)
}

/// Fails unless `path`, or its nearest existing parent, is in a BPF file system.
///
/// # Errors
/// It is not.
pub fn need(path: &Path) -> Result<()> {
    if is_at(path) {
        return Ok(());
    }
    let message = format!("cannot use {}: no BPF file system there", path.display());
    Err(Error::kernel_lacks(message).and(&format!("mount it: {HOW_TO_MOUNT}")))
}
