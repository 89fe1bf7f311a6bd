//! The programs of guests and their shared libraries: this machine's, or for arm64 those of `just build-arm64`.

use anyhow::{Context, Result, bail, ensure};
use hotcc_kernels::Architecture;
use hotcc_testbed::programs::{companion_binary, program_in, system_program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of the programs for arm64, beside the directories of cargo's profiles.
const ARM64: &str = "aarch64-unknown-linux-gnu";
/// Its directory of Debian's programs and libraries for arm64.
const DEBIAN: &str = "debian";
/// Directories of libraries in [`DEBIAN`].
const LIBRARIES: [&str; 3] = ["lib", "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"];

/// Returns the path of a program of this project.
pub fn ours(architecture: Architecture, name: &str) -> Result<PathBuf> {
    match architecture {
        Architecture::Amd64 => companion_binary(name),
        Architecture::Arm64 => arm64(&["release"], name),
    }
}

/// Returns the path of a program of the operating system.
pub fn system(architecture: Architecture, name: &str) -> Result<PathBuf> {
    match architecture {
        Architecture::Amd64 => system_program(name),
        // `ip` in sbin is a link to /bin/ip, which is this machine's
        Architecture::Arm64 => arm64(&["debian/bin", "debian/sbin"], name),
    }
}

fn arm64(directories: &[&str], name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    // tests run from target/PROFILE/deps
    let targets = own.ancestors().skip(2).take(2).map(|target| target.join(ARM64));
    let places = targets.flat_map(|target| directories.iter().map(move |directory| target.join(directory)));
    program_in(places, name).with_context(|| format!("there is no {name} for arm64; build it: just build-arm64"))
}

/// Returns the shared libraries of a program, including its loader: the path at which the program expects each, and the
/// library's file on this machine.
pub(crate) fn libraries(program: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    match program.ancestors().find(|directory| directory.ends_with(ARM64)) {
        Some(place) => arm64_libraries(program, &place.join(DEBIAN)),
        None => native_libraries(program),
    }
}

fn native_libraries(program: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        if String::from_utf8_lossy(&output.stderr).contains("not a dynamic executable") {
            return Ok(BTreeMap::new());
        }
        bail!("ldd {}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    if text.contains("not found") {
        bail!("{} needs a library that is not installed:\n{text}", program.display());
    }
    let paths = text.split_whitespace().filter(|w| w.starts_with('/')).map(PathBuf::from);
    Ok(paths.map(|path| (path.clone(), path)).collect())
}

/// Finds the libraries below `root` by name, as their loader does; this machine cannot run it.
fn arm64_libraries(program: &Path, root: &Path) -> Result<BTreeMap<PathBuf, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut left = vec![program.to_owned()];
    while let Some(file) = left.pop() {
        for name in needed(&file)? {
            let places = LIBRARIES.map(|directory| Path::new(directory).join(&name));
            let place = places.into_iter().find(|place| root.join(place).exists());
            let place = place
                .with_context(|| format!("{} needs {name}, which is not in {}", file.display(), root.display()))?;
            let library = root.join(&place);
            if found.insert(Path::new("/").join(place), library.clone()).is_none() {
                left.push(library);
            }
        }
    }
    Ok(found)
}

/// Returns the names of the libraries that a program or library is linked with, and of its loader.
fn needed(file: &Path) -> Result<Vec<String>> {
    let output = Command::new("readelf").args(["--wide", "--dynamic", "--program-headers"]).arg(file).output();
    let output = output.context("cannot run readelf; install binutils")?;
    ensure!(output.status.success(), "readelf {}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let bracketed = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
    let names = text.lines().filter(|line| line.contains("(NEEDED)")).filter_map(bracketed);
    let loader = text.lines().find_map(|line| Some(line.split_once("interpreter: ")?.1.trim_end_matches(']')));
    let loader = loader.and_then(|path| path.rsplit('/').next()).map(str::to_owned);
    Ok(names.chain(loader).collect())
}
