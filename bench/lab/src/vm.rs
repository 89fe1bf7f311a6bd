//! One run of the virtual machine: QEMU's flags, the guest's messages, and what is shown when it goes wrong.

use anyhow::{Context, Result, bail};
use hotcc_kernels::{Kernel, series};
use hotcc_lab_proto::job::{Message, RESULTS_PORT};
use hotcc_testbed::netlab;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

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
/// How long an interrupt may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);
const CONSOLE_TAIL_LINES: usize = 45;

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
    /// The initramfs.
    pub initramfs: PathBuf,
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

/// Kills the machine with the value; the kernel does it if we are killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // fails where it has ended, which is the usual case
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boots it and hands every message to `each`, up to the last. The console goes to a file in `scratch`. It must be called
/// on a thread that lives as long as the machine. Whoever catches interrupts gets them as the error
/// [`Interrupted`](netlab::Interrupted), with the machine gone.
pub fn run(machine: &Machine, scratch: &Path, mut each: impl FnMut(&Message) -> Result<()>) -> Result<()> {
    let console = scratch.join("console.log");
    let errors = scratch.join("qemu.err");
    let mut command = Command::new(QEMU);
    command
        .args(machine.clock.flags().split(' '))
        .args(["-cpu", machine.clock.model(&machine.kernel.release)])
        .args(["-nodefaults", "-display", "none", "-monitor", "none", "-no-reboot", "-smp", "1"])
        .args(["-m", &machine.memory_mib.to_string()])
        .arg("-serial")
        .arg(format!("file:{}", console.display()))
        .args(["-serial", "stdio", "-append", KERNEL_ARGUMENTS, "-kernel"])
        .arg(&machine.kernel.vmlinuz)
        .arg("-initrd")
        .arg(&machine.initramfs)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(&errors).context("cannot write to the scratch directory")?);
    if let Some(path) = &machine.results {
        // no ioeventfd: the device answers within the guest's instruction, not when another thread comes to it
        command
            .args(["-device", "virtio-serial-pci,ioeventfd=off", "-chardev"])
            .arg(format!("file,id=results,path={}", option_value(&path.to_string_lossy())))
            .args(["-device", &format!("virtserialport,chardev=results,name={RESULTS_PORT}")]);
    }
    let mut only = CpuSet::new();
    if let Some(cpu) = machine.cpu {
        only.set(cpu).context("invalid processor number")?;
    }
    let stay = machine.cpu.is_some();
    let before_exec = move || {
        set_pdeathsig(Signal::SIGKILL)?;
        if stay {
            sched_setaffinity(Pid::from_raw(0), &only)?;
        }
        Ok(())
    };
    // a terminal's Ctrl-C goes to its whole process group: it is ours to end the machine
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(before_exec) };
    let mut qemu = Running(command.spawn().with_context(|| format!("cannot run {QEMU}; ./setup.sh installs it"))?);
    let lines = BufReader::new(qemu.0.stdout.take().context("QEMU has no output")?);
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    let mut heard = Instant::now();
    loop {
        netlab::check()?;
        let line = match receive.recv_timeout(NOTICE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if heard.elapsed() < machine.patience => continue,
            Err(RecvTimeoutError::Timeout) => {
                bail!("the guest sent no message for {} s{}", machine.patience.as_secs(), tails(&console, &errors))
            }
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the guest ended before its result{}", tails(&console, &errors))
            }
        };
        heard = Instant::now();
        let message: Message = match serde_json::from_str(line.trim()) {
            Ok(message) => message,
            Err(_) if line.trim().is_empty() => continue,
            Err(why) => bail!("invalid message from the guest: `{line}`: {why}{}", tails(&console, &errors)),
        };
        each(&message)?;
        match message {
            Message::Done { .. } => return Ok(()),
            Message::Failed(why) => bail!("in the guest: {why}{}", tails(&console, &errors)),
            _ => {}
        }
    }
}

/// A value within one of QEMU's lists of options, which commas separate.
fn option_value(text: &str) -> String {
    text.replace(',', ",,")
}

fn tails(console: &Path, errors: &Path) -> String {
    let tail = |path: &Path| {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
        lines[lines.len().saturating_sub(CONSOLE_TAIL_LINES)..].join("\n  ")
    };
    let named = [("end of its console", console), ("end of QEMU's messages", errors)];
    let texts = named.map(|(what, path)| (what, tail(path)));
    texts.into_iter().filter(|(_, t)| !t.is_empty()).map(|(what, t)| format!("\n{what}:\n  {t}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commas_of_a_case_end_no_option() {
        assert_eq!(option_value("cc=dtcp,loss=0.01/seed-1/results"), "cc=dtcp,,loss=0.01/seed-1/results");
    }
}
