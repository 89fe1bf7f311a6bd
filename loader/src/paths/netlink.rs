//! Rtnetlink: receives notices of route changes, and dumps all routes.

use hotcc_host::error::{Result, Tried};
use hotcc_host::netlink::{self, BUFFER_BYTES};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::Socket;
use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use std::io;

/// Groups (`RTNLGRP_*`) of the notices: links, IPv4 addresses, routes of either family, nexthop objects. Links and
/// addresses are included because the kernel sends no notice for IPv4 routes that it drops when their link or source
/// address goes away.
const GROUPS: [u32; 5] = [1, 5, 7, 11, 32];

/// A subscription to notices of changes.
pub(super) struct Notices(Socket);

impl Notices {
    /// Subscribes to notices of the calling thread's network namespace.
    pub(super) fn open() -> Result<Self> {
        let subscribe = || -> io::Result<Self> {
            let socket = netlink::open()?;
            GROUPS.into_iter().try_for_each(|group| socket.add_membership(group))?;
            Ok(Self(socket))
        };
        subscribe().tried(|| "cannot subscribe to route changes (rtnetlink)".to_owned())
    }

    /// Waits for a notice.
    pub(super) fn wait(&self) -> Result<()> {
        self.receive(MsgFlags::empty()).map(|_| ())
    }

    /// Discards all pending notices.
    pub(super) fn drain(&self) -> Result<()> {
        while self.receive(MsgFlags::MSG_DONTWAIT)? {}
        Ok(())
    }

    /// Receives a notice; returns whether there was one. Its contents are ignored, because all routes are read again.
    fn receive(&self, flags: MsgFlags) -> Result<bool> {
        loop {
            let mut buffer = Vec::with_capacity(BUFFER_BYTES);
            match self
                .0
                .recv(&mut buffer, flags.bits())
                .map_err(|e| (Errno::from_raw(e.raw_os_error().unwrap_or(0)), e))
            {
                // ENOBUFS: the socket's buffer overflowed, so there were notices
                Ok(_) | Err((Errno::ENOBUFS, _)) => return Ok(true),
                Err((Errno::EAGAIN, _)) => return Ok(false),
                Err((Errno::EINTR, _)) => {}
                Err((_, why)) => return Err(why).tried(|| "cannot receive route changes (rtnetlink)".to_owned()),
            }
        }
    }
}

/// Returns all routes of both families in the calling thread's network namespace. If changes interrupt every attempt,
/// the result may be inconsistent; but such a change also sends a notice, and then the routes are read again.
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
