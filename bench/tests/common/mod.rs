//! What tests on the kernel, and on stock kernels in the lab, share.
#![allow(dead_code, reason = "each test binary uses its part")]

use hotcc_bench::kernels::{self, Kernel};
use hotcc_bench::lab::results::{Results, locate};
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exclusive right to change the kernel's congestion controls. `None`, after saying so, where that is not ours.
pub fn kernel_test(name: &str) -> Option<Flock<File>> {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED {name}: needs root");
        return None;
    }
    let file = File::create("/tmp/hotcc-kernel-tests.lock").unwrap();
    let lock = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| e).unwrap();
    if hotcc::registry::need_bpffs().is_err() {
        obey(Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]));
    }
    Some(lock)
}

/// A stock kernel for the lab. `None`, after saying so, where it cannot be booted or had.
pub fn stock_kernel(test: &str, name: &str) -> Option<Kernel> {
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        println!("SKIPPED {test}: no qemu-system-x86_64");
        return None;
    }
    match kernels::ready(&name.parse().unwrap(), &mut |progress| eprintln!("{progress}")) {
        Ok(kernel) => Some(kernel),
        Err(why) if why.is_offline() => {
            println!("SKIPPED {test}: no package index reachable: {why}");
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// The entries of a directory; none of one that is not there.
pub fn names(directory: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path())
}

/// What could be left in the kernel: network namespaces whose name begins with `prefix`, pins, congestion controls, radio
/// links.
pub fn traces_in_the_kernel(prefix: &str) -> BTreeSet<String> {
    let ours = |name: &str| ["dtcp", "westwoodp"].iter().any(|algorithm| name.ends_with(algorithm));
    let namespaces = names("/run/netns").filter(|p| p.to_string_lossy().contains(&format!("/{prefix}")));
    let pins = names("/sys/fs/bpf/hotcc").chain(names("/sys/fs/bpf/hotcc/algo").filter(|p| ours(&p.to_string_lossy())));
    let mut found: BTreeSet<String> = namespaces.chain(pins).map(|p| p.display().to_string()).collect();
    found.extend(hotcc::sysctl::available().unwrap().into_iter().filter(|name| ours(name)));
    found.extend(
        hotcc_radio_map::links(Path::new(hotcc_abi::pins::ROOT)).unwrap().iter().map(|link| link.key.to_string()),
    );
    found
}

/// Builds programs of other packages, as these here are and beside them: cargo builds only this package's for its tests.
pub fn build(packages: &[&str]) {
    let here = Path::new(env!("CARGO_BIN_EXE_hotcc-bench")); // DIRECTORY/debug/hotcc-bench
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--target-dir"]).arg(here.ancestors().nth(2).unwrap());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    obey(cargo.args(packages.iter().flat_map(|package| ["--package", package])));
}

/// Runs it; where it fails, with what it said.
#[track_caller]
pub fn obey(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A scenario's file with less in it.
pub fn smaller(name: &str, less: &[(&str, &str)], directory: &Path) -> PathBuf {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name);
    let mut scenario = fs::read_to_string(whole).unwrap();
    for (from, to) in less {
        assert!(scenario.contains(from), "the scenario has no {from}");
        scenario = scenario.replace(from, to);
    }
    let path = directory.join(name);
    fs::write(&path, scenario).unwrap();
    path
}

/// What becomes of a scenario's runs, of all or of those cases (`axis=value`), on that kernel in the lab.
pub fn run_lab<'a>(lab: &str, cases: impl IntoIterator<Item = &'a str>, scenario: &Path, out: &Path) -> Results {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["lab", "--lab", lab, "--jobs", "2"]);
    command.args(cases.into_iter().flat_map(|case| ["--case", case]));
    // of a guest that panics there is no result, and a run that is not valid is a failure, too
    obey(command.arg("--out").arg(out).arg(scenario));
    Results::read(&locate(out).unwrap()).unwrap()
}
