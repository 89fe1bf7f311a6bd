//! Drops privileges that a daemon no longer needs once it has started.

use crate::error::{Result, Tried};
use caps::{CapSet, Capability, CapsHashSet};

/// Drops all capabilities of this thread, and of threads that it starts from now on, except `keep`. They cannot be
/// regained. Returns the remaining [`identity`].
///
/// # Errors
/// Fails if the kernel refuses.
pub fn drop_all_but(keep: &[Capability]) -> Result<String> {
    let tried = || "cannot drop capabilities".to_owned();
    let held = caps::read(None, CapSet::Permitted).tried(tried)?;
    let kept: CapsHashSet = keep.iter().copied().filter(|c| held.contains(c)).collect();
    caps::clear(None, CapSet::Ambient).tried(tried)?;
    if held.contains(&Capability::CAP_SETPCAP) {
        for capability in caps::all().difference(&kept) {
            // fails for capabilities that this kernel does not know, which no process can have
            let _ = caps::drop(None, CapSet::Bounding, *capability);
        }
    }
    caps::set(None, CapSet::Effective, &kept).tried(tried)?;
    caps::set(None, CapSet::Permitted, &kept).tried(tried)?;
    caps::clear(None, CapSet::Inheritable).tried(tried)?;
    identity()
}

/// Returns the user and the capabilities of this thread, for the log: `user 0, with CAP_BPF, CAP_NET_ADMIN`.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn identity() -> Result<String> {
    let held = caps::read(None, CapSet::Permitted).tried(|| "cannot read capabilities".to_owned())?;
    let missing: CapsHashSet = caps::runtime::thread_all_supported().difference(&held).copied().collect();
    let list = |some: &CapsHashSet| {
        let mut names: Vec<String> = some.iter().map(ToString::to_string).collect();
        names.sort();
        names.join(", ")
    };
    let names = if held.is_empty() {
        "no capability".to_owned()
    } else if missing.is_empty() {
        "all capabilities".to_owned()
    } else if missing.len() < held.len() {
        format!("all capabilities but {}", list(&missing))
    } else {
        list(&held)
    };
    Ok(format!("user {}, with {names}", nix::unistd::geteuid()))
}
