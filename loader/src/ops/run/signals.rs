//! Holds back signals that would end a run before it has cleaned up.

use hotcc_host::error::{Result, Tried};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{self, SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use std::os::fd::AsFd;
use std::process::{Child, ExitStatus};

const ENDING: [Signal; 11] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGPWR,
];

/// Signals that end a process by default, and SIGCHLD; all are blocked while the value lives.
pub(super) struct Signals {
    arrivals: SignalFd,
    pub(super) before: SigSet,
}

impl Signals {
    pub(super) fn hold() -> Result<Self> {
        let held: SigSet = ENDING.into_iter().chain([Signal::SIGCHLD]).collect();
        let tried = || "cannot block signals".to_owned();
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK).tried(tried)?;
        Ok(Self { arrivals: SignalFd::with_flags(&held, SfdFlags::SFD_CLOEXEC).tried(tried)?, before })
    }

    /// Returns whether a signal that would end this process is pending. SIGCHLD does not count: it may be from the
    /// child process that checked an object.
    pub(super) fn end_was_asked(&self) -> Result<bool> {
        let tried = || "cannot look for signals".to_owned();
        let ending = SignalFd::with_flags(&ENDING.into_iter().collect(), SfdFlags::SFD_CLOEXEC).tried(tried)?;
        let mut polled = [PollFd::new(ending.as_fd(), PollFlags::POLLIN)];
        poll(&mut polled, PollTimeout::ZERO).map(|ready| ready > 0).tried(tried)
    }

    /// Waits until the command ends, and passes on signals that arrive meanwhile.
    pub(super) fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            let arrived = match self.arrivals.read_signal() {
                Err(Errno::EINTR) => continue,
                arrived => arrived?,
            };
            // A signal from a terminal is sent by the kernel, and the command has already received it.
            let sent = arrived.filter(|a| a.ssi_code != nix::libc::SI_KERNEL);
            let signal = sent.and_then(|a| Signal::try_from(a.ssi_signo as i32).ok());
            if let Some(signal) = signal.filter(|&s| s != Signal::SIGCHLD) {
                signal::kill(Pid::from_raw(child.id() as i32), signal)?;
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}
