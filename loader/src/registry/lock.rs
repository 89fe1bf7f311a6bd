//! The lock of all commands that change state.

use super::bpffs::need_bpffs;
use hotcc_abi::pins;
use hotcc_host::error::{Result, need_root};
use hotcc_host::lock::{self, Lock};
use std::path::Path;

/// Takes the lock; waits up to `lock::PATIENCE` for another command to finish.
pub fn lock() -> Result<Lock> {
    lock::acquire(&Path::new(pins::RUN).join("lock"), 0o600, lock::PATIENCE)
}

/// Begins a command that changes state: checks privileges and bpffs, and takes the lock.
pub(crate) fn begin(command: &str) -> Result<Lock> {
    need_root(command)?;
    need_bpffs()?;
    lock()
}
