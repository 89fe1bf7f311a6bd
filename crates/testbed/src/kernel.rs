//! What a test needs before it changes the kernel: root, a BPF file system, and a lock that keeps other tests from
//! doing the same.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use hotcc_host::bpffs;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use std::fmt::Display;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

/// Mount point of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
const LOCK: &str = "/tmp/hotcc-kernel-tests.lock";

/// The exclusive right to change the kernel's congestion controls, for as long as the value lives.
#[derive(Debug)]
pub struct KernelLock {
    _file: Flock<File>,
}

/// Prints the line that `just test` counts: this test was skipped, and why.
pub fn skipped(test: &str, why: impl Display) {
    println!("SKIPPED {test}: {why}");
}

/// Returns whether the test runs as root; if not, reports that the test is skipped.
#[must_use]
pub fn is_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skipped(test, "needs root");
    }
    root
}

/// Returns whether the test runs as root, and if so, mounts the BPF file system; if not, reports that the test is
/// skipped.
///
/// # Panics
/// The BPF file system cannot be mounted.
#[must_use]
pub fn is_root_with_bpffs(test: &str) -> bool {
    let root = is_root(test);
    if root {
        mount_bpffs();
    }
    root
}

/// Waits for the exclusive right to change the kernel, and mounts the BPF file system. Without root, reports that the
/// test is skipped, and returns `None`.
///
/// # Panics
/// The lock cannot be taken, or the BPF file system cannot be mounted.
#[must_use]
pub fn exclusive(test: &str) -> Option<KernelLock> {
    if !is_root(test) {
        return None;
    }
    let lock = Flock::lock(File::create(LOCK).unwrap(), FlockArg::LockExclusive).map_err(|(_, why)| why).unwrap();
    mount_bpffs();
    Some(KernelLock { _file: lock })
}

fn mount_bpffs() {
    static MOUNTING: Mutex<()> = Mutex::new(());
    let _guard = MOUNTING.lock().unwrap();
    if !bpffs::is_at(Path::new(BPFFS)) {
        mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), Some("mode=0755")).unwrap();
    }
    // hotcc refuses a BPF file system that other users can write to, which is the default without mount options
    let mode = std::fs::metadata(BPFFS).unwrap().permissions().mode();
    if mode & 0o022 != 0 {
        std::fs::set_permissions(BPFFS, Permissions::from_mode(0o755)).unwrap();
    }
}
