//! What tests of the lab and of the demo need from this machine: a stock kernel to boot, and a list of the traces that
//! a run could leave in the running kernel.
#![allow(dead_code, reason = "each test binary uses its part")]

use hotcc_kernels::{Kernel, Selector};
use hotcc_lab::vm;
use hotcc_testbed::kernel::skipped;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};

/// A processor of this machine that is reserved for the calling thread, and for the processes that it starts, as long
/// as the value lives.
///
/// A virtual machine is two threads that wait for each other: with more machines than processors they mostly wait.
pub struct Processor {
    number: usize,
    all: CpuSet,
}

static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
static GIVEN_BACK: Condvar = Condvar::new();

impl Processor {
    /// Waits for a free processor.
    pub fn take() -> Self {
        let processors = vm::processors();
        let mut taken = TAKEN.lock().unwrap();
        let number = loop {
            if let Some(free) = processors.iter().find(|number| !taken.contains(*number)) {
                break *free;
            }
            taken = GIVEN_BACK.wait(taken).unwrap();
        };
        taken.insert(number);
        drop(taken);
        let (mut all, mut one) = (CpuSet::new(), CpuSet::new());
        processors.iter().for_each(|processor| all.set(*processor).unwrap());
        one.set(number).unwrap();
        sched_setaffinity(Pid::from_raw(0), &one).unwrap();
        Self { number, all }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        let _ = sched_setaffinity(Pid::from_raw(0), &self.all);
        TAKEN.lock().unwrap().remove(&self.number);
        GIVEN_BACK.notify_one();
    }
}

/// The kernels for arm64 on which hotcc is tested. Their guests need the programs of `just build-arm64`.
pub const ARM64_KERNELS: [&str; 3] = ["6.1-arm64", "6.12-arm64", "newest-arm64"];

/// Returns a stock kernel for the lab. Returns `None`, and reports the test as skipped, if the kernel cannot be booted
/// or downloaded.
pub fn stock_kernel(test: &str, name: &str) -> Option<Kernel> {
    let selector: Selector = name.parse().unwrap();
    if let Err(why) = vm::qemu_version(selector.architecture) {
        skipped(test, why);
        return None;
    }
    match hotcc_kernels::ready(&selector, &mut |progress| eprintln!("{progress}")) {
        Ok(kernel) => Some(kernel),
        Err(why) if why.is_offline() => {
            skipped(test, format_args!("no package index reachable: {why}"));
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Returns the entries of a directory; none if it does not exist.
pub fn names(directory: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path())
}

/// Returns what a run could leave in the kernel: network namespaces whose names begin with `prefix`, pins, congestion
/// controls, radio links.
pub fn traces_in_the_kernel(prefix: &str) -> BTreeSet<String> {
    let ours = |name: &str| ["crest", "dtcp", "westwoodp"].iter().any(|algorithm| name.ends_with(algorithm));
    let namespaces = names("/run/netns").filter(|p| p.to_string_lossy().contains(&format!("/{prefix}")));
    let pins = names("/sys/fs/bpf/hotcc").chain(names("/sys/fs/bpf/hotcc/algo").filter(|p| ours(&p.to_string_lossy())));
    let mut found: BTreeSet<String> = namespaces.chain(pins).map(|p| p.display().to_string()).collect();
    found.extend(hotcc::sysctl::available().unwrap().into_iter().filter(|name| ours(name)));
    let links = hotcc_radio_map::links(Path::new(hotcc_abi::pins::ROOT)).unwrap();
    found.extend(links.iter().map(|link| link.key.to_string()));
    found
}
