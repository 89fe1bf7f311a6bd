//! The ring of reports, and how the agent waits or polls for them.

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

/// The program that generates the reports that are due, and switches to polling.
pub const POLL: &str = "border_poll";
/// The program that switches back to the kernel's timer and wake-ups.
pub const END_POLL: &str = "border_end_poll";
/// The shortest packet on which the kernel runs a program; these programs ignore it.
const NO_PACKET: [u8; 14] = [0; 14];

/// The ring of reports from the kernel, and the programs that generate the reports that are due.
pub struct Ring {
    ring: RingBuf<MapData>,
    programs: Ebpf,
    /// How long to leave the ring alone after some reports were taken out.
    pub gather: Duration,
}

impl Ring {
    /// Returns the ring with its programs, which must be loaded.
    #[must_use]
    pub fn new(ring: RingBuf<MapData>, programs: Ebpf, gather: Duration) -> Self {
        Self { ring, programs, gather }
    }

    /// Takes the next report. Returns it with the time of the first segment that no earlier report covers, in
    /// nanoseconds of the monotonic clock.
    pub fn take(&mut self) -> Option<(FlowReport, u64)> {
        while let Some(item) = self.ring.next() {
            if let Some(raw) = records::read(&item) {
                return Some((records::report(&raw), raw.since_ns));
            }
        }
        None
    }

    /// Waits until there is a report, or until the timeout.
    pub fn wait(&self, timeout: PollTimeout) {
        // SAFETY: the ring, and with it the descriptor, lives longer than the borrow, which ends with this call.
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        // an interrupted call only ends early, which is harmless
        let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout);
    }

    /// Makes the kernel generate the reports that are due by time. From then on, the kernel's timer generates none, and
    /// reports cause no wake-ups: call this repeatedly, or [`Ring::end_poll`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn poll(&self) -> Result<()> {
        self.run(POLL)
    }

    /// Switches back to the kernel's timer and wake-ups.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn end_poll(&self) -> Result<()> {
        self.run(END_POLL)
    }

    fn run(&self, name: &str) -> Result<()> {
        let program: &SchedClassifier = object::program(&self.programs, name)?;
        let options = TestRunOptions { data_in: Some(&NO_PACKET), ..TestRunOptions::new() };
        program.test_run(options).tried(|| format!("cannot run the BPF program `{name}`")).map(|_| ())
    }
}
