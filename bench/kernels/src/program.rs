//! Runs system programs: with captured output, in the C locale, and never longer than this process.

use super::error::{Error, Result};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Number of lines of a program's error output that are repeated.
const LAST: usize = 5;

/// A program, and the Debian package that contains it.
#[derive(Debug)]
pub(super) struct Program {
    command: Command,
    package: &'static str,
}

impl Program {
    pub(super) fn new(path: &str, package: &'static str) -> Self {
        let mut command = Command::new(path);
        let search = std::env::var("PATH").unwrap_or_default();
        // depmod is in sbin, which is not in every user's PATH
        command.env("PATH", format!("{search}:/usr/sbin:/sbin")).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let die_with_us = || prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(die_with_us) };
        Self { command, package }
    }

    pub(super) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn directory(mut self, path: &std::path::Path) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Starts the program. Its output stays in pipes, so it blocks when they are full, until the output is read.
    pub(super) fn start(mut self) -> Result<Running> {
        let program = self.command.get_program().to_string_lossy().into_owned();
        match self.command.spawn() {
            Ok(child) => Ok(Running { child, program }),
            Err(source) => Err(Error::NoProgram { program, package: self.package, source }),
        }
    }

    /// Runs the program to its end, and returns its output.
    pub(super) fn run(self) -> Result<String> {
        self.start()?.finish().map_err(|error| match error {
            Error::Program { program, why } => {
                let lines: Vec<_> = why.lines().collect();
                Error::Program { program, why: lines[lines.len().saturating_sub(LAST)..].join("; ") }
            }
            other => other,
        })
    }
}

/// A running program.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    program: String,
}

impl Running {
    /// Returns whether it is still running.
    pub(super) fn is_busy(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the end of the program. Returns its output, or an error with all of its error output.
    pub(super) fn finish(self) -> Result<String> {
        let program = self.program;
        let failed = |why: String| Error::Program { program: program.clone(), why };
        let output = self.child.wait_with_output().map_err(|e| failed(e.to_string()))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Err(failed(if lines.is_empty() { output.status.to_string() } else { lines.join("\n") }))
    }
}
