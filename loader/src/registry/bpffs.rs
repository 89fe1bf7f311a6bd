//! The directories of pins.

use hotcc_abi::pins;
use hotcc_host::bpffs;
use hotcc_host::error::{Result, Tried};
use std::fs;
use std::path::{Path, PathBuf};

/// Fails unless a BPF file system is mounted where the pins are, and nobody but root can change them.
pub fn need_bpffs() -> Result<()> {
    bpffs::need(Path::new(pins::ROOT))
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
