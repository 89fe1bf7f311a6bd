//! A private view of the file system, in which the benchmarks may pin and name anything.
//!
//! bpffs and the named network namespaces belong to a mount namespace of this process and its children. So the kernel
//! removes them with the last of these processes, even after SIGKILL, and the programs that are loaded and pinned on
//! this machine are out of reach.

use anyhow::{Context, Result};
use hotcc_abi::pins;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fs;

/// Directory in which `ip netns` keeps names.
const NAMED_NAMESPACES: &str = "/run/netns";

/// Moves this process into that view. Must be called before the first thread starts: threads and children inherit it.
pub fn enter() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS).context("cannot create a mount namespace")?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).context("cannot make mounts private")?;
    let options = Some("mode=0755"); // otherwise, other users could write to it
    for (kind, path) in [("tmpfs", NAMED_NAMESPACES), ("tmpfs", pins::RUN), ("bpf", pins::BPFFS)] {
        fs::create_dir_all(path).with_context(|| format!("cannot create {path}"))?;
        mount(Some(kind), path, Some(kind), MsFlags::empty(), options)
            .with_context(|| format!("cannot mount {path}"))?;
    }
    Ok(())
}
