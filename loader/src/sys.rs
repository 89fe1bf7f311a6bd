//! Kernel calls that libbpf-rs has no safe wrapper for, and the kernel's tick.

use hotcc_host::error::{Error, Result, Tried};
use libbpf_rs::libbpf_sys as bpf;
use nix::time::{ClockId, clock_getres};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Replaces the struct_ops map behind a link by `new_map`, if the map behind it is still `expected` (compare and swap).
pub fn link_update(link: impl AsFd, new_map: impl AsFd, expected: impl AsFd) -> io::Result<()> {
    let mut options = bpf::bpf_link_update_opts {
        sz: size_of::<bpf::bpf_link_update_opts>() as bpf::size_t,
        flags: bpf::BPF_F_REPLACE,
        ..Default::default()
    };
    options.old_map_fd = expected.as_fd().as_raw_fd() as u32;
    // SAFETY: all three file descriptors are open for the call, and `options` is initialised with its own size.
    let result =
        unsafe { bpf::bpf_link_update(link.as_fd().as_raw_fd(), new_map.as_fd().as_raw_fd(), &raw const options) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Replaces the program behind a link.
pub fn link_update_program(link: impl AsFd, program: impl AsFd) -> io::Result<()> {
    // SAFETY: both file descriptors are open for the call, and no options are given.
    let result =
        unsafe { bpf::bpf_link_update(link.as_fd().as_raw_fd(), program.as_fd().as_raw_fd(), std::ptr::null()) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Adds a map to the maps of a program that does not use it.
pub fn bind_map(program: impl AsFd, map: impl AsFd) -> io::Result<()> {
    // SAFETY: both file descriptors are open for the call, and no options are given.
    let result =
        unsafe { bpf::bpf_prog_bind_map(program.as_fd().as_raw_fd(), map.as_fd().as_raw_fd(), std::ptr::null()) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Opens the object that is pinned at `path`.
pub fn obj_get(path: &Path) -> io::Result<OwnedFd> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(io::Error::other)?;
    // SAFETY: `path` is NUL-terminated and outlives the call.
    let fd = unsafe { bpf::bpf_obj_get(path.as_ptr()) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just returned this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Pins an object at `path`.
pub fn obj_pin(object: impl AsFd, path: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).map_err(io::Error::other)?;
    // SAFETY: `path` is NUL-terminated and outlives the call, for which the file descriptor is open.
    let result = unsafe { bpf::bpf_obj_pin(object.as_fd().as_raw_fd(), path.as_ptr()) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Turns on the kernel's run-time statistics of BPF programs for as long as the descriptor is open.
pub fn enable_stats() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointer.
    let fd = unsafe { bpf::bpf_enable_stats(bpf::BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just returned this descriptor; it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the kernel's jiffy in microseconds, which is the resolution of its coarse clock.
pub fn tick_us() -> Result<u32> {
    let resolution =
        clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).tried(|| "cannot read the kernel's tick".to_owned())?;
    u32::try_from(resolution.tv_nsec() / 1000).map_err(|_| Error::failed("the kernel's tick is invalid"))
}

/// Restores SIGPIPE's default action, so that `hotcc list | head` ends silently instead of with a panic. For commands
/// that write to no pipe or socket but stdout and stderr.
pub fn end_quietly_on_closed_pipe() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    // SAFETY: this restores the default action; no handler of this program runs.
    let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
}
