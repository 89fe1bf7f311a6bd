//! The ring of reports: what is in it, and how the agent comes to know.

use crate::border::records;
use crate::object;
use crate::report::FlowReport;
use aya::Ebpf;
use aya::maps::{MapData, RingBuf};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use hotcc_host::error::{Result, Tried};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// The program that has the kernel make the reports that are due.
pub const LOOK: &str = "border_look";
/// The one that leaves it to the kernel again.
pub const REST: &str = "border_rest";
/// As short a packet as the kernel takes for running a program on it; these look at none.
const NO_PACKET: [u8; 14] = [0; 14];

/// Reports on their way from the kernel, and the programs that make those that are due.
pub struct Ring {
    ring: RingBuf<MapData>,
    programs: Ebpf,
    /// How long it is left alone after some were taken out.
    pub gather: Duration,
}

impl Ring {
    /// Of these programs, which are loaded.
    #[must_use]
    pub fn new(ring: RingBuf<MapData>, programs: Ebpf, gather: Duration) -> Self {
        Self { ring, programs, gather }
    }

    /// The next report, and since when it was on its way, in nanoseconds of the monotonic clock.
    pub fn take(&mut self) -> Option<(FlowReport, u64)> {
        while let Some(item) = self.ring.next() {
            if let Some(raw) = records::read(&item) {
                return Some((records::report(&raw), raw.since_ns));
            }
        }
        None
    }

    /// Waits until there is something, or for so long.
    pub fn wait(&self, timeout: PollTimeout) {
        // SAFETY: the ring, and with it the descriptor, lives longer than the borrow, which ends with this call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        // an interrupted call is one that ends early, which does no harm
        let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout);
    }

    /// Has the kernel make the reports that are due by time. From now on it makes none of them by itself and wakes
    /// nobody: call this again and again, or [`Ring::rest`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn look(&self) -> Result<()> {
        self.run(LOOK)
    }

    /// Leaves it to the kernel again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn rest(&self) -> Result<()> {
        self.run(REST)
    }

    fn run(&self, name: &str) -> Result<()> {
        let program: &SchedClassifier = object::program(&self.programs, name)?;
        let options = TestRunOptions { data_in: Some(&NO_PACKET), ..TestRunOptions::new() };
        program.test_run(options).tried(|| format!("cannot run the BPF program `{name}`")).map(|_| ())
    }
}
