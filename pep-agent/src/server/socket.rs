//! The socket for reports. It reports to which of this host's addresses a datagram came, and answers from there: a
//! firewall or NAT on the way lets no other answer in.

use hotcc_host::error::{Result, Tried};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrIn, SockaddrIn6,
    SockaddrStorage, bind, recvmsg, sendmsg, setsockopt, socket, sockopt,
};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::AsRawFd;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A datagram's way: from the peer to this host, and back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Path {
    /// Address of the border.
    pub peer: SocketAddr,
    /// This host's address.
    pub own: IpAddr,
}

/// A socket that is bound, and does not block.
#[derive(Debug)]
pub struct ReportSocket {
    socket: UdpSocket,
    /// Space for the address that a datagram was sent to.
    control: Vec<u8>,
}

impl ReportSocket {
    /// Opens a socket at an address. `[::]` is any address: also of IPv4, whatever `net.ipv6.bindv6only` says, and if
    /// there is no IPv6.
    pub fn bind(address: SocketAddr) -> Result<Self> {
        let opened = match open(address) {
            Err(Errno::EAFNOSUPPORT) if address.ip() == Ipv6Addr::UNSPECIFIED => {
                open((Ipv4Addr::UNSPECIFIED, address.port()).into())
            }
            opened => opened,
        };
        let tried =
            || format!("cannot receive reports at {address} (choose another address with --receive ADDRESS:PORT)");
        let socket = UdpSocket::from_std(opened.tried(tried)?).tried(tried)?;
        Ok(Self { socket, control: cmsg_space!(in6_pktinfo) })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits for a datagram.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Takes the next datagram: returns its length, and its way.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Path)> {
        let (socket, control) = (&self.socket, &mut self.control);
        let take = || {
            let mut buffers = [IoSliceMut::new(buffer)];
            let flags = MsgFlags::empty();
            let taken = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(control), flags)?;
            let peer = taken.address.and_then(address_of);
            let (peer, own) = peer.zip(taken.cmsgs()?.find_map(own_of)).ok_or(ErrorKind::InvalidData)?;
            Ok((taken.bytes, Path { peer, own }))
        };
        socket.try_io(Interest::READABLE, take)
    }

    /// Sends a datagram back.
    pub fn send(&self, datagram: &[u8], way: Path) -> io::Result<()> {
        let (v4, v6);
        let own = match way.own {
            IpAddr::V4(own) => {
                let (from, any) = (in_addr { s_addr: u32::from_ne_bytes(own.octets()) }, in_addr { s_addr: 0 });
                v4 = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: from, ipi_addr: any };
                ControlMessage::Ipv4PacketInfo(&v4)
            }
            IpAddr::V6(own) => {
                v6 = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: own.octets() }, ipi6_ifindex: 0 };
                ControlMessage::Ipv6PacketInfo(&v6)
            }
        };
        let (to, flags) = (SockaddrStorage::from(way.peer), MsgFlags::empty());
        let send = || {
            let sent = sendmsg(self.socket.as_raw_fd(), &[IoSlice::new(datagram)], &[own], flags, Some(&to));
            Ok(sent.map(drop)?)
        };
        self.socket.try_io(Interest::WRITABLE, send)
    }
}

fn open(address: SocketAddr) -> nix::Result<std::net::UdpSocket> {
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let socket = socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    if address.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &false)?;
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
    } else {
        setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
    }
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(socket.into())
}

fn address_of(address: SockaddrStorage) -> Option<SocketAddr> {
    let v4 = |a: &SockaddrIn| SocketAddrV4::from(*a).into();
    let v6 = |a: &SockaddrIn6| SocketAddrV6::from(*a).into();
    address.as_sockaddr_in().map(v4).or_else(|| address.as_sockaddr_in6().map(v6))
}

/// Returns the address to answer from. A socket for both families reports one of IPv4 as mapped to IPv6.
fn own_of(message: ControlMessageOwned) -> Option<IpAddr> {
    match message {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into())
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into()),
        _ => None,
    }
}
