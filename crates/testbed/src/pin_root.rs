//! A directory for the pins of one test, which is removed when the value is dropped, also after a panic.

use crate::kernel::BPFFS;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Removes the directory and all pins in it when it is dropped.
#[derive(Debug)]
pub struct PinRoot(PathBuf);

impl PinRoot {
    /// Returns a path below the BPF file system that no other test uses; the directory is not created.
    #[must_use]
    pub fn new(program: &str, test: &str) -> Self {
        Self(Path::new(BPFFS).join(format!("{program}-test-{}-{test}", std::process::id())))
    }
}

impl Deref for PinRoot {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for PinRoot {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for PinRoot {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
