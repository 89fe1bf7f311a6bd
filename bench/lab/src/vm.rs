//! The virtual machine: QEMU's flags, and one run of it from its boot on.

mod process;
mod state;

pub use state::{Unusable, resume, save};

use anyhow::{Context, Result};
use hotcc_kernels::{Kernel, series};
use hotcc_lab_proto::job::{Message, RESULTS_PORT};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use process::Process;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The newest of Debian's stable kernels: what runs unless another one is named.
pub const DEFAULT_KERNEL: &str = "6.12";

const QEMU: &str = "qemu-system-x86_64";
/// Recording, of which nothing is kept, makes QEMU's two threads take turns. Without it one may see the processor halt before
/// the other has accounted its last instructions, and time then jumps by a few nanoseconds too many: two runs drift apart
/// after some seconds.
const VIRTUAL_TIME: &str =
    "-accel tcg -icount shift=0,sleep=off,rr=record,rrfile=/dev/null -rtc base=2026-01-01,clock=vm";
/// The first series whose allocator needs cmpxchg16b where it must not wait: without it a socket's storage, which a PEP's
/// reports go to, cannot be made there.
const NEEDS_CX16: (u32, u32) = (6, 19);
/// The second line leaves out what takes a guest long and what no measurement needs: the kernel's tests of its own
/// cryptography, the names of enumerations in trace events, clearing of memory before use, statistics of waiting.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 nokaslr random.trust_cpu=off random.trust_bootloader=off \
    cryptomgr.notests=1 initcall_blacklist=jent_mod_init,trace_eval_init init_on_alloc=0 psi=0";

/// Whose time the guest has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Its own: one instruction is one nanosecond, waiting takes no time, and nothing random comes from outside.
    #[default]
    Virtual,
    /// This machine's, on a translated processor.
    RealTranslated,
    /// This machine's, on its own processor: much faster, where KVM is.
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

    /// The processor that a guest of this kernel sees, as QEMU calls it.
    ///
    /// No cmpxchg16b where it can be done without: QEMU up to 7.2 reckons its flags from a stale operand, and an interrupt
    /// right after it, as icount places one again and again in the same run, then returns with the trap flag set, at which
    /// the kernel panics.
    fn model(self, release: &str) -> &'static str {
        match (self, series(release) >= Some(NEEDS_CX16)) {
            (Self::Virtual, false) => "max,-rdrand,-rdseed,-cx16",
            (Self::Virtual, true) => "max,-rdrand,-rdseed",
            (Self::RealTranslated, false) => "max,-cx16",
            (Self::RealTranslated, true) => "max",
            (Self::RealKvm, _) => "host",
        }
    }

    /// The same, with how fast it is.
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

/// What to boot.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel; the processor is one that it runs on.
    pub kernel: Kernel,
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Whose time it has.
    pub clock: Clock,
    /// File that gets what the guest writes to its port [`RESULTS_PORT`].
    pub results: Option<PathBuf>,
    /// Processor of this machine to stay on, which makes waking the guest much cheaper; `None`: any.
    pub cpu: Option<usize>,
    /// The guest is taken for hung when it says nothing for that long.
    pub patience: Duration,
}

impl Machine {
    /// The arguments that name no file of this machine.
    pub(crate) fn fixed_arguments(&self) -> Vec<String> {
        let words = self.clock.flags().split(' ');
        let words = words.chain(["-cpu", self.clock.model(&self.kernel.release)]);
        let words = words.chain("-nodefaults -display none -monitor none -no-reboot -smp 1 -append".split(' '));
        let memory = format!("{}M", self.memory_mib);
        words.chain([KERNEL_ARGUMENTS, "-m", &memory]).map(str::to_owned).collect()
    }
}

/// QEMU's first line about itself.
pub fn qemu_version() -> Result<String> {
    let output = Command::new(QEMU).arg("--version").output();
    let output = output.with_context(|| format!("cannot run {QEMU}; ./setup.sh installs it"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// Processors that this process may use.
pub fn processors() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect()
}

/// Boots it and hands every message to `each`, up to the last. The console goes to a file in `scratch`. It must be called
/// on a thread that lives as long as the machine. Whoever catches interrupts gets them as the error
/// [`Interrupted`](hotcc_testbed::netlab::Interrupted), with the machine gone.
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

/// What all of its QEMUs have in common.
fn command(machine: &Machine, scratch: &Path) -> Command {
    let mut command = Command::new(QEMU);
    command
        .args(machine.fixed_arguments())
        .arg("-serial")
        .arg(format!("file:{}", process::console(scratch).display()))
        .args(["-serial", "stdio", "-kernel"])
        .arg(&machine.kernel.vmlinuz);
    if let Some(path) = &machine.results {
        // no ioeventfd: the device answers within the guest's instruction, not when another thread comes to it
        command
            .args(["-device", "virtio-serial-pci,ioeventfd=off", "-chardev"])
            .arg(format!("file,id=results,path={}", option_value(&path.to_string_lossy())))
            .args(["-device", &format!("virtserialport,chardev=results,name={RESULTS_PORT}")]);
    }
    command
}

/// A value within one of QEMU's lists of options, which commas separate.
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
