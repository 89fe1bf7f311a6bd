//! hotcc's C files as shared objects for the host: for the build scripts of the crates that run them there.

use crate::CLANG;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` to the shared object `object`, with the clang that compiled the BPF objects.
///
/// The first folder of `include` replaces `<hotcc/bpf.h>` with the host's version. Undefined behaviour traps in the object: a
/// test that provokes it crashes instead of passing by luck.
///
/// # Errors
///
/// If clang cannot be run, or if it rejects the file; the error then has clang's messages.
pub fn compile(source: &Path, object: &Path, include: &[PathBuf], defines: &[String]) -> io::Result<()> {
    let output = Command::new(CLANG)
        .args(["-shared", "-fPIC", "-O2", "-gline-tables-only", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args(["-fsanitize=integer-divide-by-zero,shift,signed-integer-overflow,bounds", "-fsanitize-trap=all"])
        .args(defines)
        .args(include.iter().map(|dir| format!("-I{}", dir.display())))
        .arg(source)
        .args(["-Wl,-Bsymbolic", "-o"]) // two objects in one process must not share symbols
        .arg(object)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{CLANG} failed on {} {defines:?}:\n{text}", source.display())));
    }
    Ok(())
}
