//! Directories of pins.

use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::error::{Result, Tried};
use std::fs;
use std::path::{Path, PathBuf};

/// Fails unless a BPF file system is mounted at the path of the pins, and only root can change them.
pub fn need_bpffs() -> Result<()> {
    bpffs::need(Path::new(pins::ROOT))
}

/// Returns the directories in a directory of pins; none if it does not exist.
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
