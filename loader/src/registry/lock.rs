//! The lock of every command that changes something.

use super::bpffs::need_bpffs;
use hotcc_abi::pins;
use hotcc_host::error::{Result, need_root};
use hotcc_host::lock::{self, Lock};
use std::path::Path;

/// Takes the lock; waits a while for another command to finish.
pub fn lock() -> Result<Lock> {
    lock::acquire(&Path::new(pins::RUN).join("lock"), 0o600, lock::PATIENCE)
}

/// What every command that changes something begins with.
pub(crate) fn begin(command: &str) -> Result<Lock> {
    need_root(command)?;
    need_bpffs()?;
    lock()
}
