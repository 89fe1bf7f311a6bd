//! Commands that a test runs to their end: their exit status and their output.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

use serde_json::Value;
use std::process::{Command, Output};

/// Runs a command, which must succeed; returns its stdout.
///
/// # Panics
/// The command cannot be run, fails, or does not print UTF-8.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command, which must succeed and print JSON.
///
/// # Panics
/// The command cannot be run, fails, or does not print JSON.
#[track_caller]
pub fn json(command: &mut Command) -> Value {
    serde_json::from_str(&succeed(command)).unwrap()
}

/// Checks that a command failed with this exit code, and not by a panic; returns its message.
///
/// # Panics
/// The command did not fail in this way.
#[track_caller]
pub fn failed(code: i32, output: &Output) -> String {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}{}", String::from_utf8_lossy(&output.stdout));
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// Builds programs of other packages, in the same way as this test and beside its own programs: for a package's tests,
/// cargo builds only the package's own programs. The whole workspace is selected, so that libraries have the same
/// features as in a build of the workspace, and are not built again.
///
/// # Panics
/// They cannot be built.
pub fn build(programs: &[&str]) {
    let here = std::env::current_exe().unwrap(); // DIRECTORY/debug/deps/NAME
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--workspace", "--target-dir"]).arg(here.ancestors().nth(3).unwrap());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    succeed(cargo.args(programs.iter().flat_map(|program| ["--bin", program])));
}

/// Returns what a command wrote to stderr.
#[must_use]
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
