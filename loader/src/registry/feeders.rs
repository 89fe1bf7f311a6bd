//! What feeders may write without root.

use hotcc_abi::pins;
use hotcc_host::error::{Result, Tried};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The signal maps, and the lock on them, belong to root and the group `hotcc`: a feeder in that group needs no root.
/// Each time anew: a command may have been killed between making a map and this.
pub(crate) fn share_with_feeders() -> Result<()> {
    let run = Path::new(pins::RUN);
    fs::set_permissions(run, fs::Permissions::from_mode(0o755))
        .tried(|| format!("cannot set the permissions of {}", run.display()))?;
    let lock = run.join(pins::RADIO_LOCK);
    File::options().append(true).create(true).open(&lock).tried(|| format!("cannot create {}", lock.display()))?;
    // a system without /etc/group has no such group either
    let group = nix::unistd::Group::from_name("hotcc").ok().flatten();
    for path in pins::SIGNAL_MAPS.map(pins::signal).into_iter().chain([lock]) {
        if !path.exists() {
            continue; // no algorithm had a use for it so far
        }
        let tried = || format!("cannot set the permissions of {}", path.display());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).tried(tried)?;
        if let Some(group) = &group {
            nix::unistd::chown(&path, None, Some(group.gid)).tried(tried)?;
        }
    }
    Ok(())
}
