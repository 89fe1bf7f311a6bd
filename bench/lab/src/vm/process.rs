//! A running QEMU: messages of the guest and of the monitor, and the output to show if it fails.

use super::{Machine, qemu};
use anyhow::{Context, Result, bail};
use hotcc_lab_proto::job::Message;
use hotcc_testbed::netlab;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Maximum time until an interrupt is noticed.
const NOTICE: Duration = Duration::from_millis(100);
const CONSOLE_TAIL_LINES: usize = 45;

/// A message from a machine.
pub(super) enum Heard {
    /// A message of the guest.
    Guest(Message),
    /// A message of QEMU's monitor.
    Monitor(Value),
}

/// One line, before it is parsed.
enum Line {
    Guest(String),
    Monitor(String),
}

/// A QEMU process. It is killed when the value is dropped; if this process is killed, the kernel kills QEMU.
pub(super) struct Process {
    child: Child,
    lines: Receiver<Line>,
    heard: Instant,
    patience: Duration,
    console: PathBuf,
    errors: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        // fails if the process has ended, which is the usual case
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of the file for the guest's console.
pub(super) fn console(scratch: &Path) -> PathBuf {
    scratch.join("console.log")
}

impl Process {
    /// Starts QEMU, which inherits the descriptors `inherited` under their present numbers. If QEMU has a monitor,
    /// `monitor` is this process's end of the monitor's descriptor.
    pub(super) fn start(
        mut command: Command,
        machine: &Machine,
        scratch: &Path,
        inherited: &[BorrowedFd<'_>],
        monitor: Option<Box<dyn Read + Send>>,
    ) -> Result<Self> {
        let (console, errors) = (console(scratch), scratch.join("qemu.err"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).context("cannot write to the scratch directory")?);
        let mut only = CpuSet::new();
        if let Some(cpu) = machine.cpu {
            only.set(cpu).context("invalid processor number")?;
        }
        let stay = machine.cpu.is_some();
        let inherited: Vec<i32> = inherited.iter().map(AsRawFd::as_raw_fd).collect();
        let before_exec = move || {
            set_pdeathsig(Signal::SIGKILL)?;
            if stay {
                sched_setaffinity(Pid::from_raw(0), &only)?;
                take_turns()?;
            }
            for number in &inherited {
                // SAFETY: the caller of `start` holds the descriptor until the process has been created.
                let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
                fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            Ok(())
        };
        // a terminal's Ctrl-C goes to its whole process group, but this process must end the machine itself
        command.process_group(0);
        // SAFETY: between fork and exec the closure only makes system calls and allocates nothing.
        unsafe { command.pre_exec(before_exec) };
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}; ./setup.sh installs it", qemu(machine.kernel.architecture())))?;
        let output = child.stdout.take();
        let (send, lines) = channel();
        let process = Self { child, lines, heard: Instant::now(), patience: machine.patience, console, errors };
        if let Some(monitor) = monitor {
            listen(monitor, send.clone(), Line::Monitor);
        }
        listen(output.context("QEMU has no output")?, send, Line::Guest);
        Ok(process)
    }

    /// Waits for the next message.
    pub(super) fn hear(&mut self) -> Result<Heard> {
        loop {
            netlab::check()?;
            let line = match self.lines.recv_timeout(NOTICE) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if self.heard.elapsed() < self.patience => continue,
                Err(RecvTimeoutError::Timeout) => {
                    bail!("the guest sent no message for {} s{}", self.patience.as_secs(), self.tails())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the guest ended before its result{}", self.tails())
                }
            };
            self.heard = Instant::now();
            let (text, parsed) = match &line {
                Line::Guest(text) => (text, serde_json::from_str(text.trim()).map(Heard::Guest)),
                Line::Monitor(text) => (text, serde_json::from_str(text.trim()).map(Heard::Monitor)),
            };
            match parsed {
                Ok(heard) => return Ok(heard),
                Err(_) if text.trim().is_empty() => {}
                Err(why) => bail!("invalid message from the guest: `{text}`: {why}{}", self.tails()),
            }
        }
    }

    /// Passes every message of the guest to `each`, including the last.
    pub(super) fn converse(mut self, mut each: impl FnMut(&Message) -> Result<()>) -> Result<()> {
        loop {
            let Heard::Guest(message) = self.hear()? else { continue };
            each(&message)?;
            match message {
                Message::Done { .. } => return Ok(()),
                Message::Failed(why) => return Err(failure(&why)),
                _ => {}
            }
        }
    }

    /// Returns the end of the guest's console and of QEMU's messages, for a guest that cannot say what is wrong.
    fn tails(&self) -> String {
        let tail = |path: &Path| {
            let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
            let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
            lines[lines.len().saturating_sub(CONSOLE_TAIL_LINES)..].join("\n  ")
        };
        let named = [("end of its console", &self.console), ("end of QEMU's messages", &self.errors)];
        let texts = named.map(|(what, path)| (what, tail(path)));
        texts.into_iter().filter(|(_, t)| !t.is_empty()).map(|(what, t)| format!("\n{what}:\n  {t}")).collect()
    }
}

/// Returns the error that the guest reported.
pub(super) fn failure(why: &str) -> anyhow::Error {
    anyhow::anyhow!("in the guest: {why}")
}

/// Schedules this process so that a thread that wakes does not interrupt the one that woke it, unless it has a policy of
/// its own. QEMU's threads wake each other for each of the guest's timers, and need this processor for a moment only
/// after the other has gone to wait.
fn take_turns() -> nix::Result<()> {
    let any = libc::sched_param { sched_priority: 0 };
    // SAFETY: both calls are for the calling process, and the second reads `any`, which lives until it returns.
    let done = unsafe {
        match libc::sched_getscheduler(0) {
            libc::SCHED_OTHER => libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const any),
            other => other,
        }
    };
    Errno::result(done).map(drop)
}

/// Sends the lines that are read from `from`.
fn listen(from: impl Read + Send + 'static, send: Sender<Line>, kind: fn(String) -> Line) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(kind(line)).is_err() {
                return;
            }
        }
    });
}
