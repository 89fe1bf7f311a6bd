//! Work that does not wait for other processes.

use nix::errno::Errno;
use nix::libc;

/// While it lives, this thread, and what it starts, goes before all that has no real-time priority (SCHED_FIFO). What was
/// started meanwhile goes on so.
#[derive(Debug)]
pub struct Urgent(());

impl Urgent {
    /// Needs CAP_SYS_NICE; without it everything goes on as before, which is logged.
    #[must_use]
    pub fn begin() -> Self {
        if let Err(error) = schedule(libc::SCHED_FIFO) {
            tracing::info!("no real-time priority: reports may be late while this machine is busy: {error}");
        }
        Self(())
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // needs no privilege
        if let Err(error) = schedule(libc::SCHED_OTHER) {
            tracing::warn!("cannot give up real-time priority: {error}");
        }
    }
}

fn schedule(policy: libc::c_int) -> nix::Result<()> {
    let parameters = libc::sched_param { sched_priority: libc::c_int::from(policy == libc::SCHED_FIFO) };
    // SAFETY: the parameters outlive the call, which only reads them; 0 is the calling thread.
    Errno::result(unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) }).map(|_| ())
}
