//! A version whose pins may be removed meanwhile: it stays in the kernel, and can be pinned again.

use super::version::Version;
use crate::sys;
use hotcc_host::bpffs;
use hotcc_host::error::{Result, Tried};
use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The open pins of a version.
#[derive(Debug)]
pub(crate) struct Held {
    dir: PathBuf,
    pins: Vec<(OsString, OwnedFd)>,
}

impl Held {
    /// Opens the pins of a version.
    pub(crate) fn open(version: &Version) -> Result<Self> {
        let tried = || format!("cannot list {}", version.dir.display());
        let mut pins = Vec::new();
        for entry in fs::read_dir(&version.dir).tried(tried)? {
            let entry = entry.tried(tried)?;
            let pin = sys::obj_get(&entry.path()).tried(|| format!("cannot open {}", entry.path().display()))?;
            pins.push((entry.file_name(), pin));
        }
        Ok(Self { dir: version.dir.clone(), pins })
    }

    /// Pins the version where it was.
    pub(crate) fn pin_again(&self) -> Result<()> {
        bpffs::make(&self.dir)?;
        for (name, pin) in &self.pins {
            let path = self.dir.join(name);
            sys::obj_pin(pin, &path).tried(|| format!("cannot pin {}", path.display()))?;
        }
        Ok(())
    }
}
