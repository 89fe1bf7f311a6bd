//! The real commands, run and shown as a user would run them.

use anyhow::{Context, Result, ensure};
use hotcc_testbed::netlab::{Process, quiet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Output of the walkthrough: stdout, or stderr if stdout is for JSON. Errors of writing are ignored, so that a closed
/// pipe does not prevent the cleanup.
#[derive(Clone, Copy, Debug)]
pub struct Say {
    /// Whether stdout is reserved for JSON.
    pub to_stderr: bool,
}

impl Say {
    /// Prints a line.
    pub fn line(self, text: impl AsRef<str>) {
        self.part(&format!("{}\n", text.as_ref()));
    }

    /// Prints part of a line, whose end may follow later.
    pub fn part(self, text: &str) {
        let _ = if self.to_stderr {
            std::io::stderr().write_all(text.as_bytes())
        } else {
            let mut out = std::io::stdout();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
    }
}

/// The commands of this build.
#[derive(Clone, Debug)]
pub struct Tools {
    directory: PathBuf,
    /// Output on which the commands are shown.
    pub say: Say,
}

impl Tools {
    /// Finds the commands beside this binary.
    pub fn new(say: Say) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find this binary's directory")?;
        let directory = own.parent().map(Path::to_owned).unwrap_or_default();
        for name in ["hotcc", "sinr-feeder"] {
            let path = directory.join(name);
            ensure!(path.exists(), "{} not found; build it with `cargo build --workspace`", path.display());
        }
        Ok(Self { directory, say })
    }

    fn program(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// Runs a command line to its end, and prints the command and its output.
    pub fn show(&self, line: &str) -> Result<String> {
        self.say.line(format!("$ {line}"));
        let text = self.run(line)?;
        for line in text.lines() {
            self.say.line(format!("  {line}"));
        }
        Ok(text)
    }

    /// Runs a command line to its end, and returns its output. An error includes what the command printed to stderr.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = self.program(words.next().unwrap_or_default());
        let output = quiet(&program).args(words).output().with_context(|| format!("cannot run {program}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{line}` failed ({}): {}", output.status, said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a command line in the background, in the directory `files`, and prints it. Its stdout goes to the file
    /// `out` in that directory.
    pub fn background(&self, line: &str, files: &Path, out: &str) -> Result<Process> {
        self.say.line(format!("$ {line} &"));
        let mut words = line.split_whitespace();
        let mut command = quiet(&self.program(words.next().unwrap_or_default()));
        command.args(words).current_dir(files).stdout(create(&files.join(out))?).stderr(Stdio::inherit());
        Process::start(&mut command)
    }
}

/// Creates a file for a process's output.
pub fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot create {}", path.display()))
}
