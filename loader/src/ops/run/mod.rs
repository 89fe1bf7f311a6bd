//! `hotcc run`: runs one command whose sockets use a congestion control; other sockets are not affected.
//!
//! The command gets a cgroup of its own. A sock_ops program on this cgroup sets the congestion control when a socket
//! connects or listens. The program is detached when this process ends, however it ends, because its link is not
//! pinned; if the process is killed, the next run removes the empty cgroup. A signal that would end this process is
//! passed on to the command, and this process ends after the command.

mod group;
mod run_guard;
mod signals;

pub use run_guard::Choice;

use crate::object::prepare::{set_job, use_shared};
use crate::registry;
use bytemuck::{Pod, Zeroable};
use group::Group;
use hotcc_host::cstr::padded;
use hotcc_host::error::{Error, Result, Tried, need_root};
use libbpf_rs::{Link, MapCore, MapFlags, Object, ObjectBuilder};
use run_guard::RunGuard;
use signals::Signals;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// Congestion control.
    pub cc: String,
    /// Exit status of the command.
    pub status: ExitStatus,
    /// Sockets that got the congestion control.
    pub sockets: u64,
    /// Sockets for which the kernel refused the congestion control.
    pub refused: u64,
    /// Sockets that got it and have closed, and ran another congestion control by then.
    pub changed: u64,
    /// Traffic of the command's connections.
    pub traffic: Traffic,
    /// Whether it was loaded for this run, or for a concurrent one; the last of them unloads it.
    pub loaded_for_runs: bool,
    /// Warnings from loading it.
    pub warnings: Vec<String>,
}

/// Traffic of connections until they ended or the command ended, under any congestion control.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Traffic {
    /// Time at which the first one was established, CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// Time at which the last data were acknowledged, as read at a change of a connection's state.
    pub ended_ns: u64,
    /// Bytes that were acknowledged.
    pub acked_bytes: u64,
    /// Segments with data that were sent, including retransmissions.
    pub sent_segments: u64,
    /// Segments that were retransmitted.
    pub retransmitted_segments: u64,
    /// Sum of smoothed RTT x bytes acknowledged, microseconds x bytes.
    pub srtt_us_bytes: u64,
}

/// `struct choose_job` of `cgroup_cc`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ChooseJob {
    cc_name: [u8; 16],
    chosen: u64,
    refused: u64,
    changed: u64,
    traffic: Traffic,
}

/// Runs `command`; the sockets that it and its children open use the chosen congestion control. If that is not loaded,
/// it is loaded for as long as a run uses it.
pub fn run(choice: &Choice, command: &[String]) -> Result<Ran> {
    need_root("hotcc run")?;
    let (program, arguments) = command.split_first().ok_or_else(|| Error::usage("no command to run after `--`"))?;
    // Reading the file may take long, so it is done while a signal still ends this process.
    let file = run_guard::read(choice)?;
    let lock = registry::lock()?;
    // Created before anything that must be undone, and so dropped last: no signal ends this process before it has
    // cleaned up.
    let signals = Signals::hold()?;
    let guard = RunGuard::take(choice, file)?;
    let group = Group::new();
    drop(lock); // the guard takes it again when it is dropped
    let group = group?;
    let (object, _link) = attach(&guard.name, &group)?;
    let procs = File::options().write(true).open(group.path.join("cgroup.procs"));
    let procs = procs.tried(|| format!("cannot open {}/cgroup.procs", group.path.display()))?;
    let mut child = Command::new(program);
    child.args(arguments);
    let mask = signals.before;
    // SAFETY: between fork and exec the closure only writes to an open descriptor ("0" means the writing process) and
    // sets the signal mask.
    unsafe { child.pre_exec(move || (&procs).write_all(b"0").and_then(|()| Ok(mask.thread_set_mask()?))) };
    if signals.end_was_asked()? {
        // it was not passed on to the command; this process receives it when `signals` is dropped, after everything was
        // undone
        return Err(Error::failed("a signal arrived before the command began"));
    }
    let mut child = child.spawn().map_err(|why| Error::not_started(program, why))?;
    let status = signals.wait(&mut child).tried(|| format!("cannot wait for {program}"))?;
    let map = object.maps().find(|m| m.name().to_string_lossy().ends_with(".data"));
    let value = map.and_then(|m| m.lookup(&[0; 4], MapFlags::empty()).ok().flatten()).unwrap_or_default();
    let job: ChooseJob = bytemuck::try_pod_read_unaligned(&value).unwrap_or_else(|_| Zeroable::zeroed());
    let (cc, loaded_for_runs, warnings) = (guard.name.clone(), guard.is_for_runs(), guard.warnings.clone());
    let ChooseJob { chosen: sockets, refused, changed, traffic, .. } = job;
    Ok(Ran { cc, status, sockets, refused, changed, traffic, loaded_for_runs, warnings })
}

fn attach(cc: &str, group: &Group) -> Result<(Object, Link)> {
    let embedded =
        hotcc_bpf::prog("cgroup_cc").ok_or_else(|| Error::failed("the program `cgroup_cc` is not built in"))?;
    let tried = || "cannot attach the sock_ops program to the command's cgroup".to_owned();
    let mut open = ObjectBuilder::default().open_memory(embedded.bytes).tried(tried)?;
    set_job(&mut open, &ChooseJob { cc_name: padded(cc), ..ChooseJob::zeroed() })?;
    for mut map in open.maps_mut() {
        use_shared(&mut map)?;
    }
    let object = open.load().tried(tried)?;
    let program = object.progs_mut().next().ok_or_else(|| Error::failed("the object `cgroup_cc` has no program"))?;
    let link = program.attach_cgroup(group.directory.as_raw_fd()).tried(tried)?;
    Ok((object, link))
}
