//! Programs by name: those built beside this one, and those installed on this machine.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the path of a program built beside this one, or installed with it in lib/hotcc.
pub fn companion_binary(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    // tests run from target/PROFILE/deps
    let built = own.ancestors().skip(1).take(2).map(|d| d.join(name));
    let installed = own.ancestors().nth(2).map(|d| d.join("lib/hotcc").join(name));
    let found = built.chain(installed).find(|p| is_executable(p));
    found.with_context(|| format!("{name} is not beside {}; build it: just build", own.display()))
}

/// Returns the path of a program installed on this machine.
pub fn system_program(name: &str) -> Result<PathBuf> {
    let found = program_in(["/usr/sbin", "/sbin", "/usr/bin", "/bin"], name);
    found.with_context(|| format!("{name} is not installed; ./setup.sh installs it"))
}

/// Returns the path of a program in the first of these directories that has it.
pub fn program_in(directories: impl IntoIterator<Item = impl AsRef<Path>>, name: &str) -> Option<PathBuf> {
    directories.into_iter().map(|directory| directory.as_ref().join(name)).find(|path| is_executable(path))
}

/// Returns whether a file is executable.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
