//! Raises the priority of threads that must not wait long for other processes.

use nix::errno::Errno;
use nix::libc::{self, sched_attr};

/// The highest priority among ordinary threads.
const NICE: i32 = -20;
/// Requested time slice, the shortest possible: from Linux 6.12 on, threads with a shorter slice run first.
const SLICE_NS: u64 = 100_000;

/// While this value lives, the calling thread, and threads that it starts, have precedence over other ordinary threads.
/// Threads started meanwhile keep that precedence afterwards.
///
/// This is not real-time priority: a real-time thread is woken where it ran last, and preempts packet forwarding there
/// even if another processor is idle.
pub struct Urgent {
    before: Option<sched_attr>,
}

impl Urgent {
    /// Raises the priority, which needs CAP_SYS_NICE. Without it, the priority stays unchanged, and a message is
    /// logged.
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
        // needs no privilege, because the former priority is lower
        if let Some(Err(error)) = self.before.as_ref().map(set) {
            tracing::warn!("cannot restore the normal thread priority: {error}");
        }
    }
}

const SIZE: u32 = size_of::<sched_attr>() as u32;

/// Returns the scheduling attributes of the calling thread.
fn attributes() -> nix::Result<sched_attr> {
    // SAFETY: the struct consists of integers only, for which zero is a valid value.
    let mut found: sched_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most `SIZE` bytes; 0 is the calling thread.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, SIZE, 0) })?;
    Ok(found)
}

fn set(wanted: &sched_attr) -> nix::Result<()> {
    // SAFETY: the kernel only reads the struct, as many bytes as its `size` field says; 0 is the calling thread.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *wanted, 0) }).map(|_| ())
}
