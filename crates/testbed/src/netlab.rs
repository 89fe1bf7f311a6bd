//! Hosts made of network namespaces, for a demo or a benchmark, and processes on them. All of it is removed afterwards:
//! after a return, an error, a panic, and Ctrl-C (see [`catch_interrupts`]).
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use hotcc_testbed::netlab::{Lab, Process};
//! let lab = Lab::new("bench")?;
//! let (a, b) = (lab.namespace("a")?, lab.namespace("b")?);
//! lab.veth(&a, "10.249.1.1/24", &b, "10.249.1.2/24")?;
//! let server = Process::start(b.command("iperf3").arg("--server"))?;
//! a.command("iperf3").args(["--client", "10.249.1.2"]).status()?;
//! # drop(server); Ok(()) }
//! ```
//!
//! Only the network is separate on such a host: it shares files, bpffs and process ids with the machine.

use anyhow::{Context, Result, bail, ensure};
use nix::sched::{CloneFlags, setns};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const NAMED: &str = "/run/netns";
const POLL: Duration = Duration::from_millis(20);
/// Time that a process has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// This process was asked to end: by Ctrl-C, SIGTERM or SIGHUP.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Catches interrupts: from now on, an interrupt only sets a flag, which [`pause`], [`Process::wait`] and [`check`]
/// turn into the error [`Interrupted`], so that everything ends by being dropped. Further interrupts have no effect,
/// nor have further calls.
pub fn catch_interrupts() -> Result<()> {
    match ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst)) {
        Err(ctrlc::Error::MultipleHandlers) => Ok(()),
        caught => caught.context("cannot handle Ctrl-C"),
    }
}

/// Returns [`Interrupted`] as an error if this process was asked to end.
pub fn check() -> Result<()> {
    if INTERRUPTED.load(Ordering::SeqCst) { Err(Interrupted.into()) } else { Ok(()) }
}

/// Sleeps for `length`, or until interrupted.
pub fn pause(length: Duration) -> Result<()> {
    let end = Instant::now() + length;
    loop {
        check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(POLL));
    }
}

/// Network namespaces that are removed when the value is dropped.
#[derive(Debug)]
pub struct Lab {
    stem: String,
    made: Mutex<Vec<String>>,
}

impl Lab {
    /// Creates a lab whose namespaces are called PREFIX-PID-NAME, after removing those of killed processes.
    pub fn new(prefix: &str) -> Result<Self> {
        remove_left_over(prefix);
        Ok(Self { stem: stem(prefix), made: Mutex::default() })
    }

    /// Creates a host, with its loopback interface up.
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        let full = format!("{}{name}", self.stem);
        run(quiet("ip").args(["netns", "add", &full]))?;
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(full.clone());
        let path = Path::new(NAMED).join(&full);
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let namespace = Namespace { name: name.to_owned(), full, file: Arc::new(file) };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Connects two hosts with a cable; addresses are `ADDR/LEN`. On each host, the interface has the name of the other
    /// host.
    pub fn veth(&self, a: &Namespace, a_address: &str, b: &Namespace, b_address: &str) -> Result<()> {
        a.ip(&format!("link add name {} type veth peer name {} netns {}", b.name, a.name, b.full))?;
        for (host, peer, address) in [(a, b, a_address), (b, a, b_address)] {
            host.ip(&format!("address add {address} dev {}", peer.name))?;
            host.ip(&format!("link set dev {} up", peer.name))?;
        }
        Ok(())
    }
}

/// Returns the prefix of the names of this process's namespaces.
#[must_use]
pub fn stem(prefix: &str) -> String {
    format!("{prefix}-{}-", std::process::id())
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in self.made.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Err(error) = delete(&name) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// Removes the namespaces of processes that no longer exist. Processes end with their parent (see [`Process`]), but
/// namespaces have names in the file system.
pub fn remove_left_over(prefix: &str) {
    for entry in fs::read_dir(NAMED).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_of_dead_process(&name, prefix)
            && let Err(error) = delete(&name)
        {
            eprintln!("{error:#}");
        }
    }
}

/// Returns whether a name is PREFIX-PID or PREFIX-PID-NAME, and no process has that PID any more.
#[must_use]
pub fn is_of_dead_process(name: &str, prefix: &str) -> bool {
    let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
    let pid = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
    pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

fn delete(name: &str) -> Result<()> {
    run(quiet("ip").args(["netns", "delete", name]))
}

/// A host.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
    full: String,
    file: Arc<File>,
}

impl Namespace {
    /// Returns the host's name within the lab.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that will run on this host, and that the terminal's Ctrl-C does not reach. Unlike under
    /// `ip netns exec`, it sees the machine's /sys, with bpffs. To run it in the background, use [`Process::start`].
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = quiet(program);
        let file = Arc::clone(&self.file);
        let enter = move || setns(&file, CloneFlags::CLONE_NEWNET).map_err(std::io::Error::from);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(enter) };
        command
    }

    /// Runs `work` on a thread that is on this host: sockets that it opens belong to the host.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let on_host = || {
            setns(&self.file, CloneFlags::CLONE_NEWNET).with_context(|| format!("cannot enter {}", self.full))?;
            Ok(work())
        };
        std::thread::scope(|scope| match scope.spawn(on_host).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Sets a sysctl, such as `net.ipv4.ip_forward`.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<()> {
        let path = Path::new("/proc/sys").join(key.replace('.', "/"));
        let written = self.enter(|| fs::write(&path, value))?;
        written.with_context(|| format!("cannot set {key}={value} on {}", self.name))
    }

    /// Runs `ip`, with arguments separated by spaces.
    pub fn ip(&self, arguments: &str) -> Result<()> {
        run(quiet("ip").args(["-n", &self.full]).args(arguments.split_whitespace()))
    }

    /// Runs `tc`, with arguments separated by spaces.
    pub fn tc(&self, arguments: &str) -> Result<()> {
        run(quiet("tc").args(["-n", &self.full]).args(arguments.split_whitespace()))
    }
}

/// Returns a command in its own process group: the terminal sends Ctrl-C only to this process, which ends its children
/// itself.
#[must_use]
pub fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// Runs a command to its end. If it fails, the error includes the command and its stderr.
pub fn run(command: &mut Command) -> Result<()> {
    output(command).map(|_| ())
}

/// Runs a command to its end and returns its stdout. If it fails, the error includes the command and its stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", words(command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed ({}): {}", words(command), output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A process in the background, which is ended when the value is dropped: by SIGTERM, then by SIGKILL if it is still
/// there.
///
/// It also ends with the thread that started it, so that it does not remain if this process is killed. So start it on a
/// thread that lives as long as the process is needed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    words: String,
}

impl Process {
    /// Starts a process. Its output goes where `command` says; if that is a pipe that is not read, the process blocks
    /// when the pipe is full.
    pub fn start(command: &mut Command) -> Result<Self> {
        let die_with_us = || prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from);
        // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
        unsafe { command.pre_exec(die_with_us) };
        let words = words(command);
        let child = command.spawn().with_context(|| format!("cannot start {words}"))?;
        Ok(Self { child, words })
    }

    /// Returns the process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the process has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot wait for {}", self.words))
    }

    /// Waits until the process ends. Fails if it does not end in time, or after an interrupt; the process then keeps
    /// running.
    pub fn wait(&mut self, at_most: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + at_most;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > end {
                bail!("{} did not end within {} s", self.words, at_most.as_secs());
            }
            pause(POLL)?;
        }
    }

    /// Ends the process and waits until it is gone. Succeeds if it had ended before.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        // not `wait`: an interrupt must not prevent the process from being ended
        let end = Instant::now() + GRACE;
        let mut signal = Some(Signal::SIGTERM);
        while Instant::now() < end {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if let Some(signal) = signal.take() {
                let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
            }
            std::thread::sleep(POLL);
        }
        self.child.kill().and_then(|()| self.child.wait()).with_context(|| format!("cannot end {}", self.words))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("{error:#}");
        }
    }
}
