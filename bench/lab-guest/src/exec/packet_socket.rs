//! A packet socket on one device: receives every frame that comes in, and sends frames, including their offloading.

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Size of the socket's buffers, for frames that wait.
const ROOM_BYTES: libc::c_int = 64 << 20;

/// One device's socket.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

fn set(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> nix::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value outlives the call, and the length is that of the value.
    let code = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    Errno::result(code).map(drop)
}

impl PacketSocket {
    /// Opens a socket on a device in the calling thread's network namespace.
    pub fn open(ifindex: i32) -> Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: creates a socket and accesses no memory. The socket has no protocol, so it receives nothing until it
        // is bound.
        let fd =
            Errno::result(unsafe { libc::socket(libc::AF_PACKET, kind, 0) }).context("cannot open a packet socket")?;
        // SAFETY: the descriptor was just created, and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).context("cannot enable PACKET_VNET_HDR")?;
        set(&fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1).context("cannot enable PACKET_IGNORE_OUTGOING")?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, ROOM_BYTES).context("cannot enlarge the receive buffer")?;
        set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, ROOM_BYTES).context("cannot enlarge the send buffer")?;
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: plain data, for which all zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        (address.sll_family, address.sll_protocol, address.sll_ifindex) = (libc::AF_PACKET as u16, all, ifindex);
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address outlives the call, and the length is that of the address.
        Errno::result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) })
            .context("cannot listen on a cable")?;
        Ok(Self(fd))
    }

    /// Receives the next frame, which follows its offload header. Returns its length, or `None` if no frame waits.
    pub fn receive(&self, buffer: &mut [u8]) -> nix::Result<Option<usize>> {
        // SAFETY: the kernel writes at most the length of the buffer into it.
        let got = unsafe { libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match Errno::result(got) {
            Ok(length) => Ok(Some(length.cast_unsigned())),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Sends a frame, which follows its offload header.
    pub fn send(&self, data: &[u8]) -> nix::Result<()> {
        // SAFETY: the kernel only reads the slice.
        Errno::result(unsafe { libc::send(self.0.as_raw_fd(), data.as_ptr().cast(), data.len(), 0) }).map(drop)
    }

    /// Returns the number of frames that were dropped for lack of room since the last call.
    pub fn missed(&self) -> nix::Result<u32> {
        let mut counts = [0u32; 2]; // struct tpacket_stats: packets, drops
        let mut length = size_of_val(&counts) as libc::socklen_t;
        let (fd, option) = (self.0.as_raw_fd(), libc::PACKET_STATISTICS);
        // SAFETY: the kernel writes at most `length` bytes into the array, which is that long.
        let code =
            unsafe { libc::getsockopt(fd, libc::SOL_PACKET, option, counts.as_mut_ptr().cast(), &raw mut length) };
        Errno::result(code).map(|_| counts[1])
    }
}

/// Several sockets, of which only the ready ones are polled: a cell has hundreds.
#[derive(Debug)]
pub(super) struct Ready {
    epoll: Epoll,
    events: Vec<EpollEvent>,
}

impl Ready {
    /// Watches these sockets for frames.
    pub fn of<'a>(taps: impl IntoIterator<Item = &'a PacketSocket>) -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let mut events = Vec::new();
        for (place, socket) in taps.into_iter().enumerate() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, place as u64);
            epoll.add(&socket.0, event)?;
            events.push(event);
        }
        Ok(Self { epoll, events })
    }

    /// Waits until a frame arrives, but at most `ns`. Returns the indices of the sockets that have frames.
    pub fn wait(&mut self, ns: u64) -> nix::Result<impl Iterator<Item = usize>> {
        let time = TimeSpec::from_duration(Duration::from_nanos(ns)); // epoll's own timeout is in milliseconds
        let any = ppoll(&mut [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)], Some(time), None);
        let count = match any {
            Ok(0) | Err(Errno::EINTR) => 0,
            Ok(_) => self.epoll.wait(&mut self.events, EpollTimeout::ZERO)?,
            Err(why) => return Err(why),
        };
        Ok(self.events[..count].iter().map(|event| event.data() as usize))
    }
}
