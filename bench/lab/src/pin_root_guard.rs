//! Restores a machine on which hotcc had not been used: also removes what hotcc's commands leave on purpose.

use anyhow::Result;
use hotcc::registry;
use hotcc_abi::pins;
use nix::mount::{MntFlags, umount2};
use std::fs;
use std::path::Path;

/// Whether hotcc had been used on this machine.
#[derive(Debug)]
pub struct PinRootGuard {
    had_root: bool,
}

impl PinRootGuard {
    /// Checks whether hotcc has been used on this machine.
    #[must_use]
    pub fn look() -> Self {
        Self { had_root: Path::new(pins::ROOT).exists() }
    }

    /// Removes what hotcc's commands leave on purpose (the empty radio map, storages of sockets, counters), if hotcc
    /// had not been used on this machine before and no other use has started since.
    pub fn remove(&self) -> Result<()> {
        if self.had_root || !Path::new(pins::ROOT).exists() {
            return Ok(());
        }
        let _lock = registry::lock()?;
        let known = |name: &String| ["algo", "signal", "pep", "rx", "counters"].contains(&name.as_str());
        let in_use = !entries(pins::ALGO).is_empty() || !entries(pins::ROOT).iter().all(known);
        if in_use || !hotcc_radio_map::links(Path::new(pins::ROOT))?.is_empty() {
            return Ok(());
        }
        let _ = umount2(pins::FEEDERS, MntFlags::MNT_DETACH); // exists only if the group of feeders exists
        Ok(registry::remove_tree(Path::new(pins::ROOT))?)
    }
}

/// Returns the names in a directory; empty if the directory does not exist.
#[must_use]
pub fn entries(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}
