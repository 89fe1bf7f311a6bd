//! Runs libbpf's work on a third party's object in a child process first, because libbpf may crash on an invalid
//! object.

use super::libbpf_log;
use caps::Capability;
use hotcc_host::capabilities::drop_all_but;
use hotcc_host::error::{Error, Result, Tried};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use std::io::{self, PipeWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Limits of the child. The child is a copy of its parent, so its address space includes the stacks and arenas of the
/// parent's threads.
const LIMITS: [(Resource, u64); 4] = [
    (Resource::RLIMIT_AS, 4 << 30),
    (Resource::RLIMIT_CPU, 10),
    (Resource::RLIMIT_FSIZE, 0),
    (Resource::RLIMIT_CORE, 0),
];

/// Capabilities that libbpf needs to probe the kernel's features, to create maps, and to read the BTF of kernel
/// modules.
const CAPABILITIES: [Capability; 4] =
    [Capability::CAP_BPF, Capability::CAP_NET_ADMIN, Capability::CAP_PERFMON, Capability::CAP_SYS_ADMIN];

/// Does `work` in a child process with fewer privileges. Returns its result and libbpf's warnings; fails if the child
/// dies.
pub(super) fn rehearse(origin: &str, work: impl FnOnce() -> io::Result<()>) -> Result<(io::Result<()>, String)> {
    let cannot = || format!("cannot check {origin} in a child process");
    let (mut reader, writer) = io::pipe().tried(cannot)?;
    let parent = getpid();
    // SAFETY: the child runs `perform` and ends. glibc, and musl from 1.2.2 on, keep the allocator usable after a fork. The
    // child has only this thread, and no other thread of the parent holds the lock of `libbpf_log` during the fork.
    let forked = libbpf_log::alone(|| unsafe { fork() }).tried(cannot)?;
    let ForkResult::Parent { child } = forked else {
        let done = catch_unwind(AssertUnwindSafe(|| perform(parent, writer, work)));
        // SAFETY: this ends the child without running the exit handlers that the parent registered.
        unsafe { nix::libc::_exit(i32::from(!matches!(done, Ok(Ok(()))))) }
    };
    drop(writer);
    let mut answer = Vec::new();
    let read = reader.read_to_end(&mut answer);
    let status = loop {
        match waitpid(child, None) {
            Err(nix::Error::EINTR) => {}
            status => break status.tried(cannot)?,
        }
    };
    read.tried(cannot)?;
    match (status, answer.split_first_chunk()) {
        (WaitStatus::Exited(_, 0), Some((errno, log))) => {
            let errno = i32::from_ne_bytes(*errno);
            let result = if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) };
            Ok((result, String::from_utf8_lossy(log).into_owned()))
        }
        (WaitStatus::Signaled(_, signal, _), _) => Err(Error::failed(format!(
            "cannot use {origin}: {signal} killed the child process that checked it, so libbpf cannot process this object"
        ))),
        _ => Err(Error::failed(format!("{}: it failed", cannot()))),
    }
}

/// Runs in the child: drops privileges, does the work, and writes its errno and libbpf's warnings to `answer`.
fn perform(parent: Pid, mut answer: PipeWriter, work: impl FnOnce() -> io::Result<()>) -> Result<()> {
    let tried = || "cannot restrict the child process".to_owned();
    prctl::set_pdeathsig(Signal::SIGKILL).tried(tried)?;
    if getppid() != parent {
        return Err(Error::failed("the parent has ended"));
    }
    prctl::set_no_new_privs().tried(tried)?;
    drop_all_but(&CAPABILITIES)?;
    for (resource, most) in LIMITS {
        let (_, hard) = getrlimit(resource).tried(tried)?;
        let most = most.min(hard);
        setrlimit(resource, most, most).tried(tried)?;
    }
    let (result, log) = libbpf_log::capture(work);
    let errno = result.err().map_or(0, |error| error.raw_os_error().unwrap_or(nix::libc::EINVAL));
    answer.write_all(&errno.to_ne_bytes()).and_then(|()| answer.write_all(log.as_bytes())).tried(tried)
}
