//! The sequence numbers of a connection, read from its socket.

use nix::libc;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Returns the sequence number of the next byte to be written. Needs CAP_NET_ADMIN: it puts the socket into repair
/// mode, which exists for checkpoint and restore.
pub fn next_to_write(socket: &impl AsFd) -> io::Result<u32> {
    const SEND_QUEUE: libc::c_int = 2;
    next(socket, SEND_QUEUE)
}

/// Returns the sequence number of the next byte to be received, in the same way.
pub fn next_to_receive(socket: &impl AsFd) -> io::Result<u32> {
    const RECV_QUEUE: libc::c_int = 1;
    next(socket, RECV_QUEUE)
}

fn next(socket: &impl AsFd, queue: libc::c_int) -> io::Result<u32> {
    const OFF_WITHOUT_PROBE: libc::c_int = -1;
    set_option(socket, libc::TCP_REPAIR, 1)?;
    let sequence = set_option(socket, libc::TCP_REPAIR_QUEUE, queue).and_then(|()| queue_sequence(socket));
    set_option(socket, libc::TCP_REPAIR, OFF_WITHOUT_PROBE)?;
    sequence
}

fn queue_sequence(socket: &impl AsFd) -> io::Result<u32> {
    let mut sequence = 0u32;
    let mut length = size_of::<u32>() as libc::socklen_t;
    let (fd, to) = (socket.as_fd().as_raw_fd(), (&raw mut sequence).cast());
    // SAFETY: the kernel writes at most `length` bytes to `sequence`, and both live through the call.
    let result = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, to, &raw mut length) };
    if result == 0 { Ok(sequence) } else { Err(io::Error::last_os_error()) }
}

fn set_option(socket: &impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let (fd, length) = (socket.as_fd().as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of `value`, which lives through the call.
    let result = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, option, std::ptr::from_ref(&value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
