//! The virtual machine: QEMU's flags, and a complete run from boot to end.

mod process;
mod state;

pub use state::{Unusable, resume, save};

use anyhow::{Context, Result};
use hotcc_kernels::{Architecture, Kernel, series};
use hotcc_lab_proto::job::{Message, RESULTS_PORT};
use hotcc_testbed::programs::program_in;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use process::Process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The kernel that is used by default: the newest kernel of a stable Debian release.
pub const DEFAULT_KERNEL: &str = "6.12";

/// QEMU records, but keeps nothing of the recording: this makes its two threads take turns. Otherwise one thread may
/// see the processor halt before the other has accounted for the last instructions. Time would then jump by a few
/// nanoseconds too many, and two runs would diverge after some seconds.
const VIRTUAL_TIME: &str =
    "-accel tcg -icount shift=0,sleep=off,rr=record,rrfile=/dev/null -rtc base=2026-01-01,clock=vm";
/// The first series whose allocator needs cmpxchg16b in contexts that must not wait. Without cmpxchg16b, it could not
/// allocate a socket's storage there, which receives a PEP's reports.
const NEEDS_CX16: (u32, u32) = (6, 19);
/// The second line leaves out what takes a guest long and is not needed for measurements: the kernel's tests of its own
/// cryptography, the names of enumerations in trace events, clearing of memory before use, and statistics on waiting.
const KERNEL_ARGUMENTS: &str = "quiet panic=-1 nokaslr random.trust_cpu=off random.trust_bootloader=off \
    cryptomgr.notests=1 initcall_blacklist=jent_mod_init,trace_eval_init init_on_alloc=0 psi=0";

/// The guest's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Virtual time: one instruction takes one nanosecond, waiting takes no time, and no randomness comes from outside.
    #[default]
    Virtual,
    /// This machine's time, on an emulated processor.
    RealTranslated,
    /// This machine's time, on its own processor; much faster, but needs KVM.
    RealKvm,
}

impl Clock {
    fn flags(self) -> &'static str {
        match self {
            Self::Virtual => VIRTUAL_TIME,
            Self::RealTranslated => "-accel tcg",
            Self::RealKvm => "-accel kvm",
        }
    }

    /// Returns the processor model for a guest with this kernel, in QEMU's notation.
    ///
    /// For arm64, it is a server's processor with atomic instructions, whose clock ticks every nanosecond. QEMU's `max`
    /// would also authenticate pointers, which takes the host long, and draw random numbers.
    ///
    /// For x86-64, the model has no cmpxchg16b unless the kernel needs it. QEMU up to 7.2 computes its flags from a
    /// stale operand. If an interrupt follows immediately (icount causes this repeatedly at the same point of a run),
    /// it then returns with the trap flag set, and the kernel panics.
    fn model(self, release: &str) -> &'static str {
        if self != Self::RealKvm && Architecture::of(release) == Some(Architecture::Arm64) {
            return "neoverse-n1,cntfrq=1000000000";
        }
        match (self, series(release) >= Some(NEEDS_CX16)) {
            (Self::Virtual, false) => "max,-rdrand,-rdseed,-cx16",
            (Self::Virtual, true) => "max,-rdrand,-rdseed",
            (Self::RealTranslated, false) => "max,-cx16",
            (Self::RealTranslated, true) => "max",
            (Self::RealKvm, _) => "host",
        }
    }

    /// Returns the processor model and its speed.
    #[must_use]
    pub fn cpu(self, release: &str) -> String {
        let speed = match self {
            Self::Virtual => "at 10^9 instructions/s (TCG, icount shift=0)",
            Self::RealTranslated => "(TCG, real time)",
            Self::RealKvm => "(KVM, real time)",
        };
        format!("{} {speed}", self.model(release))
    }
}

/// Real time after which a guest that sends no message is considered hung: a busy machine may be slow, but not by this
/// much.
pub const PATIENCE: Duration = Duration::from_secs(900);

/// A machine to boot.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel. The processor model is one that this kernel runs on.
    pub kernel: Kernel,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// The guest's clock.
    pub clock: Clock,
    /// File that receives what the guest writes to its port [`RESULTS_PORT`].
    pub results: Option<PathBuf>,
    /// Processor of this machine to stay on, which makes waking the guest much cheaper; `None` for any.
    pub cpu: Option<usize>,
    /// Time after which a guest that sends no message is considered hung.
    pub patience: Duration,
}

impl Machine {
    /// Returns the arguments that do not name a file of this machine.
    pub(crate) fn fixed_arguments(&self) -> Vec<String> {
        let words = self.clock.flags().split(' ');
        let words = words.chain(["-cpu", self.clock.model(&self.kernel.release)]);
        let words = words.chain("-nodefaults -display none -monitor none -no-reboot -smp 1 -append".split(' '));
        let (console, board) = match self.kernel.architecture() {
            Architecture::Amd64 => ("ttyS0", &[][..]),
            // without randomness from the host: two runs are the same
            Architecture::Arm64 => ("ttyAMA0", &["-machine", "virt,dtb-randomness=off"][..]),
        };
        let kernel_arguments = format!("console={console} {KERNEL_ARGUMENTS}");
        let memory = format!("{}M", self.memory_mib);
        words.chain([&*kernel_arguments, "-m", &memory]).chain(board.iter().copied()).map(str::to_owned).collect()
    }
}

/// Returns the name of QEMU for an architecture.
#[must_use]
pub fn qemu(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => "qemu-system-x86_64",
        Architecture::Arm64 => "qemu-system-aarch64",
    }
}

/// Returns the path of QEMU for an architecture.
pub fn qemu_path(architecture: Architecture) -> Result<PathBuf> {
    let qemu = qemu(architecture);
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let found = program_in(std::env::split_paths(&directories), qemu);
    found.with_context(|| format!("cannot find {qemu}; ./setup.sh installs it"))
}

/// Returns QEMU's version line.
pub fn qemu_version(architecture: Architecture) -> Result<String> {
    let qemu = qemu(architecture);
    let output = Command::new(qemu).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {qemu}; ./setup.sh installs it"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// Returns the processors that this process may use.
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect()
}

/// Boots the machine and passes every message to `each`, including the last. The console goes to a file in `scratch`.
/// Call it on a thread that lives as long as the machine. If the process catches interrupts, an interrupt ends the
/// machine and is returned as the error [`Interrupted`](hotcc_testbed::netlab::Interrupted).
pub fn run(
    machine: &Machine,
    initramfs: &Path,
    scratch: &Path,
    each: impl FnMut(&Message) -> Result<()>,
) -> Result<()> {
    let mut command = command(machine, scratch);
    command.arg("-initrd").arg(initramfs);
    Process::start(command, machine, scratch, &[], None)?.converse(each)
}

/// Returns the QEMU command with the arguments that all machines share.
fn command(machine: &Machine, scratch: &Path) -> Command {
    let architecture = machine.kernel.architecture();
    let mut command = Command::new(qemu(architecture));
    command
        .args(machine.fixed_arguments())
        .arg("-serial")
        .arg(format!("file:{}", process::console(scratch).display()))
        .args(match architecture {
            Architecture::Amd64 => &["-serial", "stdio"][..],
            // the board has only one serial line of its own
            Architecture::Arm64 => &["-chardev", "stdio,id=messages", "-device", "pci-serial,chardev=messages"],
        })
        .arg("-kernel")
        .arg(&machine.kernel.vmlinuz);
    if let Some(path) = &machine.results {
        // no ioeventfd: the device answers within the guest's instruction, rather than when another thread handles it
        command
            .args(["-device", "virtio-serial-pci,ioeventfd=off", "-chardev"])
            .arg(format!("file,id=results,path={}", option_value(&path.to_string_lossy())))
            .args(["-device", &format!("virtserialport,chardev=results,name={RESULTS_PORT}")]);
    }
    command
}

/// Escapes a value for one of QEMU's option lists, which are separated by commas.
fn option_value(text: &str) -> String {
    text.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commas_of_a_case_end_no_option() {
        assert_eq!(option_value("cc=dtcp,loss=0.01/seed-1/results"), "cc=dtcp,,loss=0.01/seed-1/results");
    }
}
