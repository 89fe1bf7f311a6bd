//! Rtnetlink: notices that something about the routes changed, and all routes as they are.

use crate::error::{Error, Result, Tried};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::errno::Errno;
use nix::sys::socket::MsgFlags;
use std::io;

/// Groups (`RTNLGRP_*`) of the notices: links, IPv4 addresses, routes of either family, next hop objects. The kernel
/// drops IPv4's routes without a word when their link or source address goes.
const GROUPS: [u32; 5] = [1, 5, 7, 11, 32];
/// The kernel fills at most half of this at once.
const BUFFER: usize = 1 << 16;
/// A dump that a change interrupted is repeated so many times.
const DUMPS: u32 = 10;

fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    Ok(socket)
}

/// Notices of changes.
pub(super) struct Notices(Socket);

impl Notices {
    /// From now on, of the network namespace that the thread is in.
    pub(super) fn open() -> Result<Self> {
        let subscribe = || -> io::Result<Self> {
            let socket = open()?;
            GROUPS.into_iter().try_for_each(|group| socket.add_membership(group))?;
            Ok(Self(socket))
        };
        subscribe().tried(|| "cannot listen to changes of the routes (rtnetlink)".to_owned())
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
            let mut buffer = Vec::with_capacity(BUFFER);
            match self
                .0
                .recv(&mut buffer, flags.bits())
                .map_err(|e| (Errno::from_raw(e.raw_os_error().unwrap_or(0)), e))
            {
                // ENOBUFS: more came than the socket holds
                Ok(_) | Err((Errno::ENOBUFS, _)) => return Ok(true),
                Err((Errno::EAGAIN, _)) => return Ok(false),
                Err((Errno::EINTR, _)) => {}
                Err((_, why)) => return Err(why).tried(|| "cannot listen to changes of the routes".to_owned()),
            }
        }
    }
}

/// All routes of the network namespace that the thread is in, of both families.
pub(super) fn dump_routes() -> Result<Vec<RouteMessage>> {
    let mut all = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        all.extend(dump_family(family)?);
    }
    Ok(all)
}

fn dump_family(family: AddressFamily) -> Result<Vec<RouteMessage>> {
    let mut attempt = 1;
    loop {
        let (routes, interrupted) = dump(family).map_err(|why| why.during("cannot read the routes"))?;
        // the change that interrupted the last one is noticed, too, and they are read again
        if !interrupted || attempt == DUMPS {
            return Ok(routes);
        }
        attempt += 1;
    }
}

/// The routes, and whether they changed meanwhile.
fn dump(family: AddressFamily) -> Result<(Vec<RouteMessage>, bool)> {
    let tried = || "rtnetlink".to_owned();
    let socket = open().tried(tried)?;
    let mut route = RouteMessage::default();
    route.header.address_family = family;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::from(RouteNetlinkMessage::GetRoute(route)));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).tried(tried)?;
    let (mut routes, mut interrupted) = (Vec::new(), false);
    loop {
        let mut buffer = Vec::with_capacity(BUFFER);
        let (length, from) = match socket.recv_from(&mut buffer, MsgFlags::MSG_TRUNC.bits()) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            received => received.tried(tried)?,
        };
        if length > buffer.len() {
            return Err(Error::failed(format!("a message of {length} bytes")));
        }
        if from.port_number() != 0 {
            continue; // another process, not the kernel
        }
        for message in messages(&buffer) {
            let (header, payload) = message?;
            interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
            match payload {
                NetlinkPayload::Done(_) => return Ok((routes, interrupted)),
                NetlinkPayload::Error(error) => return Err(error.to_io()).tried(tried),
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route))
                    if route.header.address_family == family =>
                {
                    routes.push(route);
                }
                _ => {}
            }
        }
    }
}

type Message = (NetlinkHeader, NetlinkPayload<RouteNetlinkMessage>);

/// The messages of a datagram. What a message says that this program does not understand leaves a route out, each time.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = Result<Message>> {
    const HEADER: usize = 16;
    std::iter::from_fn(move || {
        loop {
            let length = rest.get(..4)?.try_into().map(u32::from_ne_bytes).ok()? as usize;
            let Some(message) = rest.get(..length).filter(|m| m.len() >= HEADER) else {
                rest = &[];
                return Some(Err(Error::failed("a message that is shorter than it says")));
            };
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            match NetlinkMessage::deserialize(message) {
                Ok(message) => return Some(Ok(message.into_parts())),
                Err(why) => tracing::debug!("a route that cannot be read: {why}"),
            }
        }
    })
}
