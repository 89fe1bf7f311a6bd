//! Work that does not wait long for other processes.

use nix::errno::Errno;
use nix::libc::{self, sched_attr};

/// The highest priority among ordinary threads.
const NICE: i32 = -20;
/// How long it wants to run at a time, the least that there is: who wants less runs first, from Linux 6.12 on.
const SLICE_NS: u64 = 100_000;

/// While it lives, this thread, and what it starts, goes before other ordinary ones. What was started meanwhile goes on so.
///
/// Real-time priority is not meant: such a thread is woken where it ran last, before whoever forwards packets there, though
/// another processor be idle.
pub struct Urgent {
    before: Option<sched_attr>,
}

impl Urgent {
    /// Needs CAP_SYS_NICE; without it everything goes on as before, which is logged.
    #[must_use]
    pub fn begin() -> Self {
        let began = attributes().and_then(|before| {
            set(&sched_attr { sched_nice: NICE, sched_runtime: SLICE_NS, ..before })?;
            Ok(before)
        });
        if let Err(error) = &began {
            tracing::info!(
                "cannot raise the priority of the thread that sends reports: {error}; reports may be late while this machine is busy"
            );
        }
        Self { before: began.ok() }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // needs no privilege: what was before is less
        if let Some(Err(error)) = self.before.as_ref().map(set) {
            tracing::warn!("cannot restore the normal thread priority: {error}");
        }
    }
}

const SIZE: u32 = size_of::<sched_attr>() as u32;

/// This thread's.
fn attributes() -> nix::Result<sched_attr> {
    // SAFETY: it is of integers alone, of which zeros are values.
    let mut found: sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes as many bytes as it is told that there are; 0 is the calling thread.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, SIZE, 0) })?;
    Ok(found)
}

fn set(wanted: &sched_attr) -> nix::Result<()> {
    // SAFETY: the kernel only reads it, and as many bytes as it says that it has; 0 is the calling thread.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *wanted, 0) }).map(|_| ())
}
