//! `hotcc run`: one command's sockets under a congestion control, and nobody else's.
//!
//! The command gets a cgroup of its own with a sock_ops program on it, which sets the congestion control when a
//! socket connects or listens. Both end with this process, however it ends: the program's link is not pinned, and the
//! next run removes a cgroup that was left empty.

use crate::error::{Error, Result, Tried, need_root};
use crate::flows::{padded, set_job};
use crate::install::load_for_process;
use crate::object::Loaded;
use crate::{kernel, manage, sysctl};
use bytemuck::{Pod, Zeroable};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

const CGROUP_PREFIX: &str = "hotcc-run-";

/// What a run came to.
#[derive(Debug)]
pub struct Ran {
    /// How the command ended.
    pub status: ExitStatus,
    /// Sockets that got the congestion control.
    pub sockets: u64,
    /// Sockets the kernel refused it to.
    pub refused: u64,
    /// Whether it was loaded for this run only.
    pub loaded_for_this_run: bool,
}

/// `struct choose_job` of the agent.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ChooseJob {
    cc_name: [u8; 16],
    chosen: u64,
    refused: u64,
}

/// Runs `command` with the sockets it and its children open under `cc`. A built-in algorithm that is not loaded is
/// loaded for as long as the command runs.
pub fn run(cc: &str, command: &[String]) -> Result<Ran> {
    need_root("hotcc run")?;
    let (program, arguments) = command.split_first().ok_or_else(|| Error::usage("no command to run after `--`"))?;
    let kept = if sysctl::is_registered(cc)? {
        None
    } else if hotcc_bpf::algo(cc).is_some() {
        Some(Kept::load(cc)?)
    } else {
        let text =
            format!("`{cc}` is neither registered nor built in; `hotcc list` and `hotcc status` show what there is");
        return Err(Error::failed(text));
    };
    let group = Group::new()?;
    let (object, _link) = attach(cc, &group)?;
    let procs = File::options().write(true).open(group.path.join("cgroup.procs"));
    let procs = procs.tried(|| format!("cannot open {}/cgroup.procs", group.path.display()))?;
    let mut child = Command::new(program);
    child.args(arguments);
    // SAFETY: between fork and exec the closure only writes to an open descriptor; "0" stands for the writer itself.
    unsafe { child.pre_exec(move || (&procs).write_all(b"0")) };
    // Ctrl-C is the command's to handle; we wait for it and clean up.
    let _ignored = IgnoreInterrupts::new()?;
    let status = child.status().tried(|| format!("cannot run {program}"))?;
    let map = object.maps().find(|m| m.name().to_string_lossy().ends_with(".data"));
    let value = map.and_then(|m| m.lookup(&[0; 4], MapFlags::empty()).ok().flatten()).unwrap_or_default();
    let job: ChooseJob = bytemuck::try_pod_read_unaligned(&value).unwrap_or_else(|_| Zeroable::zeroed());
    Ok(Ran { status, sockets: job.chosen, refused: job.refused, loaded_for_this_run: kept.is_some() })
}

/// An algorithm that is loaded as long as the value lives.
enum Kept {
    /// By a link of this process: gone with it, however it ends.
    Link { _loaded: Loaded, _link: Link },
    /// Where there are no links: as `hotcc load` would, so that other commands know of it if this one is killed.
    Pinned(String),
}

impl Kept {
    fn load(cc: &str) -> Result<Self> {
        if kernel::has_links() {
            let (loaded, link) = load_for_process(cc)?;
            return Ok(Self::Link { _loaded: loaded, _link: link });
        }
        let request =
            manage::Request { object: cc.to_owned(), cc_name: None, profile: "default".to_owned(), set: Vec::new() };
        manage::load(&request).map(|_| Self::Pinned(cc.to_owned()))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Self::Pinned(name) = self
            && let Err(error) = manage::unload(name, None)
        {
            tracing::warn!("{error}");
        }
    }
}

fn attach(cc: &str, group: &Group) -> Result<(Object, Link)> {
    let agent = hotcc_bpf::agent("choose").ok_or_else(|| Error::failed("no agent `choose` built in"))?;
    let tried = || "cannot attach the sock_ops program to the command's cgroup".to_owned();
    let mut open = ObjectBuilder::default().open_memory(agent.bytes).tried(tried)?;
    set_job(&mut open, &ChooseJob { cc_name: padded(cc), chosen: 0, refused: 0 })?;
    let object = open.load().tried(tried)?;
    let directory = File::open(&group.path).tried(tried)?;
    let program = object.progs_mut().next().ok_or_else(|| Error::failed("agent `choose` has no program"))?;
    let link = program.attach_cgroup(directory.as_raw_fd()).tried(tried)?;
    Ok((object, link))
}

/// A cgroup that goes away with the value.
struct Group {
    path: PathBuf,
}

impl Group {
    fn new() -> Result<Self> {
        let root = cgroup2_root()?;
        remove_left_over(&root);
        let path = root.join(format!("{CGROUP_PREFIX}{}", std::process::id()));
        fs::create_dir(&path).tried(|| format!("cannot make the cgroup {}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Fails while something the command left in the background still lives in it; the next run looks again.
        let _ = fs::remove_dir(&self.path);
    }
}

fn remove_left_over(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(CGROUP_PREFIX) {
            let _ = fs::remove_dir(entry.path()); // the kernel refuses while a process is in it
        }
    }
}

/// Where cgroup v2 is mounted: the only place, or beside v1.
pub fn cgroup2_root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").tried(|| "cannot read /proc/self/mounts".to_owned())?;
    let found = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (path, kind) = (fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    found.ok_or_else(|| {
        Error::kernel_lacks("no cgroup v2 is mounted; mount it: mount -t cgroup2 none /sys/fs/cgroup/unified")
    })
}

/// Leaves SIGINT and SIGQUIT to the command for as long as it lives.
struct IgnoreInterrupts([nix::sys::signal::SigHandler; 2]);

const INTERRUPTS: [nix::sys::signal::Signal; 2] = [nix::sys::signal::SIGINT, nix::sys::signal::SIGQUIT];

impl IgnoreInterrupts {
    fn new() -> Result<Self> {
        use nix::sys::signal::{SigHandler, signal};
        let ignore = |s| {
            // SAFETY: the handler does nothing. The command does not inherit it: exec resets handlers (SIG_IGN it
            // would keep).
            unsafe { signal(s, SigHandler::Handler(nothing)) }.tried(|| "cannot set a signal handler".to_owned())
        };
        Ok(Self([ignore(INTERRUPTS[0])?, ignore(INTERRUPTS[1])?]))
    }
}

extern "C" fn nothing(_signal: i32) {}

impl Drop for IgnoreInterrupts {
    fn drop(&mut self) {
        for (signal, before) in INTERRUPTS.into_iter().zip(self.0) {
            // SAFETY: puts back the handler that was installed before.
            let _ = unsafe { nix::sys::signal::signal(signal, before) };
        }
    }
}
