//! Rtnetlink: notices that something about the routes changed, and all routes as they are.

use hotcc_host::error::{Result, Tried};
use hotcc_host::netlink::{self, BUFFER_BYTES};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;
use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use std::io;

/// Groups (`RTNLGRP_*`) of the notices: links, IPv4 addresses, routes of either family, next hop objects. The kernel
/// drops IPv4's routes without a word when their link or source address goes.
const GROUPS: [u32; 5] = [1, 5, 7, 11, 32];

/// Notices of changes.
pub(super) struct Notices(Socket);

impl Notices {
    /// From now on, of the network namespace that the thread is in.
    pub(super) fn open() -> Result<Self> {
        let subscribe = || -> io::Result<Self> {
            let socket = netlink::open()?;
            GROUPS.into_iter().try_for_each(|group| socket.add_membership(group))?;
            Ok(Self(socket))
        };
        subscribe().tried(|| "cannot subscribe to route changes (rtnetlink)".to_owned())
    }

    /// Waits for one.
    pub(super) fn wait(&self) -> Result<()> {
        self.receive(MsgFlags::empty()).map(|_| ())
    }

    /// Takes all that are there.
    pub(super) fn drain(&self) -> Result<()> {
        while self.receive(MsgFlags::MSG_DONTWAIT)? {}
        Ok(())
    }

    /// Whether there was one. What it says does not matter: the routes are read anew.
    fn receive(&self, flags: MsgFlags) -> Result<bool> {
        loop {
            let mut buffer = Vec::with_capacity(BUFFER_BYTES);
            match self
                .0
                .recv(&mut buffer, flags.bits())
                .map_err(|e| (Errno::from_raw(e.raw_os_error().unwrap_or(0)), e))
            {
                // ENOBUFS: more came than the socket holds
                Ok(_) | Err((Errno::ENOBUFS, _)) => return Ok(true),
                Err((Errno::EAGAIN, _)) => return Ok(false),
                Err((Errno::EINTR, _)) => {}
                Err((_, why)) => return Err(why).tried(|| "cannot receive route changes (rtnetlink)".to_owned()),
            }
        }
    }
}

/// All routes of the network namespace that the thread is in, of both families. A change that interrupts every attempt is
/// noticed as well, and the routes are read again then.
pub(super) fn dump_routes() -> Result<Vec<RouteMessage>> {
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut request = RouteMessage::default();
        request.header.address_family = family;
        let dump =
            netlink::dump(&RouteNetlinkMessage::GetRoute(request)).tried(|| "cannot read the routes".to_owned())?;
        all.extend(dump.messages.into_iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) if route.header.address_family == family => Some(route),
            _ => None,
        }));
    }
    Ok(all)
}
