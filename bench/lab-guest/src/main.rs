//! The first process of the lab's guest: mounts file systems, loads modules, does the job, reports, and powers off.
//!
//! It writes messages to the second serial line, one JSON message per line. The first serial line is the kernel's
//! console.

use anyhow::{Context, Result, bail};
mod canaries;
mod matrix;

#[cfg(target_arch = "x86_64")]
use hotcc_lab_guest::job_input;
use hotcc_lab_guest::stage::Stage;
use hotcc_lab_guest::{exec, meter};
use hotcc_lab_proto::job::{self, JOB_MODULES_PATH, JOB_PATH, Job, MODULES_PATH, Message, RESULTS_PORT};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// The second serial line: on x86-64 of the board, on arm64 on the PCI bus.
const RESULTS: &str = if cfg!(target_arch = "x86_64") { "/dev/ttyS1" } else { "/dev/ttyS0" };
/// How long to repeat a command until its output has the expected text, in the guest's time.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("hotcc-guest is the init process of the lab's virtual machine; use `hotcc-bench lab` instead");
        return ExitCode::from(2);
    }
    // if the first process panics, the kernel panics too, and its console output would hide this message
    std::panic::set_hook(Box::new(|panic| println!("guest: {panic}")));
    if let Err(error) = std::panic::catch_unwind(guest).unwrap_or_else(|_| bail!("the guest's agent panicked")) {
        println!("guest: {error:#}"); // to the console, because the other line may be the cause of the failure
    }
    // without a final message, the host treats the end of the machine as a failure
    let _ = nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF);
    ExitCode::FAILURE
}

fn guest() -> Result<()> {
    for (source, target, kind) in [
        ("proc", "/proc", "proc"),
        ("sysfs", "/sys", "sysfs"),
        ("devtmpfs", "/dev", "devtmpfs"),
        ("tmpfs", "/run", "tmpfs"),
        ("tmpfs", "/tmp", "tmpfs"),
        ("bpf", "/sys/fs/bpf", "bpf"),
        ("cgroup2", "/sys/fs/cgroup", "cgroup2"),
    ] {
        let options = (kind == "bpf").then_some("mode=0755"); // without this mode, other users could write to it
        mount(Some(source), target, Some(kind), MsFlags::empty(), options)
            .with_context(|| format!("cannot mount {target}"))?;
    }
    std::os::unix::fs::symlink("/run", "/var/run").or_else(|_| {
        fs::create_dir_all("/var")?;
        std::os::unix::fs::symlink("/run", "/var/run")
    })?;
    seed_random_numbers()?;
    let mut line = File::options().write(true).open(RESULTS).context("cannot open the result line")?;
    let last = match work(&mut line) {
        Ok(()) => Message::Done { uptime_s: uptime_s()? },
        Err(error) => Message::Failed(format!("{error:#}")),
    };
    say(&mut line, &last)
}

/// Does the work whose errors can be reported to the host.
fn work(line: &mut File) -> Result<()> {
    load_modules(MODULES_PATH)?;
    run("/bin/ip", &["link", "set", "lo", "up"])?;
    #[cfg(target_arch = "x86_64")]
    if !Path::new(JOB_PATH).exists() {
        job_input::receive()?;
    }
    load_modules(JOB_MODULES_PATH)?;
    let release = nix::sys::utsname::uname()?.release().to_string_lossy().into_owned();
    say(line, &Message::Booted { release, uptime_s: uptime_s()? })?;
    obey_job(line)
}

/// Gives the kernel the same random numbers in each run, immediately. Without a source of randomness, the kernel delays
/// the first reader by a second, and until then it mixes its pool for every number that it needs itself.
fn seed_random_numbers() -> Result<()> {
    /// From `linux/random.h`, on x86-64 and arm64.
    const RNDADDENTROPY: nix::libc::Ioctl = 0x4008_5203;
    /// `struct rand_pool_info` in `linux/random.h`.
    #[repr(C)]
    struct Seed {
        entropy_bits: i32,
        bytes: i32,
        buffer: [u8; 64],
    }
    let random = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    let seed = Seed {
        entropy_bits: 512,
        bytes: 64,
        buffer: *b"hotcc: every run of the lab draws the same random numbers, once.",
    };
    // SAFETY: the kernel reads the structure, whose buffer is as long as it says, and keeps no reference to it.
    let done = unsafe { nix::libc::ioctl(random.as_raw_fd(), RNDADDENTROPY, &raw const seed) };
    nix::errno::Errno::result(done).context("cannot seed the random numbers")?;
    Ok(())
}

fn obey_job(line: &mut File) -> Result<()> {
    let job = serde_json::from_slice(&fs::read(JOB_PATH).context("cannot read the job")?)?;
    match job {
        Job::Scenario(plan) => {
            let mut out = BufWriter::with_capacity(1 << 20, results_port()?);
            exec::exec(&plan, Stage::Guest, &mut out, &mut |text| say(line, &Message::Progress(text.to_owned())))?;
            out.flush().context("cannot write results")?;
        }
        Job::Commands(commands) => commands.iter().try_for_each(|command| obey(command, line))?,
        Job::Canaries { setup, canaries } => {
            setup.iter().try_for_each(|command| obey(command, line))?;
            for canary in &canaries {
                say(line, &Message::Output(canaries::run(canary)?))?;
            }
        }
        Job::Cost(job) => meter::measure(&job, &mut |message| say(line, &message))?,
        Job::Qdisc(comparison) => {
            let compared = exec::compare(&comparison, |done| say(line, &Message::Progress(done)))?;
            say(line, &Message::Output(serde_json::to_string(&compared)?))?;
        }
        Job::Matrix { subjects, bytes } => {
            for (subject, next) in subjects.iter().zip(subjects.iter().cycle().skip(1)) {
                say(line, &Message::Row(matrix::row(subject, next, bytes)))?;
            }
            say(line, &Message::Row(matrix::policy_row(bytes)))?;
            say(line, &Message::Row(matrix::receivers_row(bytes)))?;
        }
    }
    Ok(())
}

/// Opens the virtio port for results. Fails if its driver has not found it yet.
fn results_port() -> Result<File> {
    for entry in fs::read_dir("/sys/class/virtio-ports").context("no virtio ports")?.flatten() {
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == RESULTS_PORT {
            let path = Path::new("/dev").join(entry.file_name());
            return File::options().write(true).open(&path).with_context(|| format!("cannot open {}", path.display()));
        }
    }
    bail!("no virtio port has the name {RESULTS_PORT}")
}

fn say(line: &mut File, message: &Message) -> Result<()> {
    let mut text = serde_json::to_string(message)?;
    text.push('\n');
    line.write_all(text.as_bytes()).context("cannot write to the result line")
}

fn uptime_s() -> Result<f64> {
    let text = fs::read_to_string("/proc/uptime")?;
    text.split_whitespace().next().context("empty /proc/uptime")?.parse().context("cannot parse /proc/uptime")
}

fn load_modules(directory: &str) -> Result<()> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    let mut paths: Vec<_> = entries.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let file = File::open(&path)?;
        nix::kmod::finit_module(&file, c"", nix::kmod::ModuleInitFlags::empty())
            .with_context(|| format!("cannot load {}", path.display()))?;
    }
    Ok(())
}

/// Runs a command and returns its stdout. Fails if the command fails.
fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Executes one command of [`Job::Commands`].
fn obey(command: &job::Command, line: &mut File) -> Result<()> {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    let (program, arguments) = words.split_first().context("an empty command")?;
    if command.stays {
        Command::new(program).args(arguments).spawn().with_context(|| format!("cannot run {program}"))?;
        return Ok(());
    }
    let started = Instant::now();
    loop {
        let output = run(program, arguments);
        match (&output, &command.until) {
            (Ok(text), Some(wanted)) if text.contains(wanted.as_str()) => {}
            (_, Some(_)) if started.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            (Ok(text), Some(wanted)) => bail!("{}: expected `{wanted}` in its output, found {text}", words.join(" ")),
            _ => {}
        }
        return say(line, &Message::Output(output?));
    }
}
