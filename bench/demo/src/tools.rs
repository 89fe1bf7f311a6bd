//! The real commands, run as a user would, and shown.

use anyhow::{Context, Result, ensure};
use hotcc_testbed::netlab::{Process, quiet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where the walkthrough goes: stdout, or stderr when stdout is for JSON. A reader that went away is no reason to stop
/// before everything is cleaned up.
#[derive(Clone, Copy, Debug)]
pub struct Say {
    /// Whether stdout is for JSON.
    pub to_stderr: bool,
}

impl Say {
    /// A line.
    pub fn line(self, text: impl AsRef<str>) {
        self.part(&format!("{}\n", text.as_ref()));
    }

    /// The beginning of a line whose end comes later.
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
    /// Where what is run is shown.
    pub say: Say,
}

impl Tools {
    /// Finds them beside this binary.
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

    /// Runs a command line to its end, shows it and what it says.
    pub fn show(&self, line: &str) -> Result<String> {
        self.say.line(format!("$ {line}"));
        let text = self.run(line)?;
        for line in text.lines() {
            self.say.line(format!("  {line}"));
        }
        Ok(text)
    }

    /// Runs a command line to its end. An error has what it said.
    pub fn run(&self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        let program = self.program(words.next().unwrap_or_default());
        let output = quiet(&program).args(words).output().with_context(|| format!("cannot run {program}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`{line}` failed ({}): {}", output.status, said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a command line in the background, in the directory `files`, and shows it. What it writes to stdout goes
    /// to the file `out` there.
    pub fn background(&self, line: &str, files: &Path, out: &str) -> Result<Process> {
        self.say.line(format!("$ {line} &"));
        let mut words = line.split_whitespace();
        let mut command = quiet(&self.program(words.next().unwrap_or_default()));
        command.args(words).current_dir(files).stdout(create(&files.join(out))?).stderr(Stdio::inherit());
        Process::start(&mut command)
    }
}

/// Makes a file for a process's output.
pub fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("cannot create {}", path.display()))
}
