//! Privileges that a daemon gives up once it has started.

use crate::error::{Result, Tried};
use caps::{CapSet, Capability, CapsHashSet};

/// Drops all capabilities of this thread, and of threads it starts from now on, except `keep`. They cannot be regained.
///
/// # Errors
/// The kernel refuses.
pub fn drop_all_but(keep: &[Capability]) -> Result<()> {
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
    caps::clear(None, CapSet::Inheritable).tried(tried)
}
