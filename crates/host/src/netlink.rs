//! Rtnetlink dumps: all objects of one kind in the calling thread's network namespace.

use crate::error::{Error, Result, Tried};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::sys::socket::MsgFlags;
use std::io;

/// Size of a receive buffer. The kernel fills at most half of it at once.
pub const BUFFER_BYTES: usize = 1 << 16;
const HEADER_BYTES: usize = 16;
/// Maximum number of attempts at a dump that changes interrupt.
const ATTEMPTS: u32 = 10;

/// The result of a dump.
#[derive(Debug, Default)]
pub struct Dump {
    /// The objects.
    pub messages: Vec<RouteNetlinkMessage>,
    /// Number of objects that were skipped because this program cannot parse them; every attempt skips the same ones.
    pub unreadable: usize,
    /// Whether the objects changed during every attempt, so that some may be missing or stale.
    pub is_interrupted: bool,
}

/// Opens a socket.
///
/// # Errors
/// Fails if the kernel refuses.
pub fn open() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    Ok(socket)
}

/// Dumps what `request` asks for, in up to ten attempts if the objects change meanwhile.
///
/// # Errors
/// Fails if the kernel refuses, or if the answer is not valid netlink.
pub fn dump(request: &RouteNetlinkMessage) -> Result<Dump> {
    let mut attempt = 1;
    loop {
        let dump = dump_once(request)?;
        if !dump.is_interrupted || attempt == ATTEMPTS {
            return Ok(dump);
        }
        attempt += 1;
    }
}

fn dump_once(request: &RouteNetlinkMessage) -> Result<Dump> {
    let tried = || "cannot read from rtnetlink".to_owned();
    let socket = open().tried(tried)?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request.clone()));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send_to(&bytes, &SocketAddr::new(0, 0), 0).tried(tried)?;
    let mut dump = Dump::default();
    loop {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let (length, from) = match socket.recv_from(&mut buffer, MsgFlags::MSG_TRUNC.bits()) {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            received => received.tried(tried)?,
        };
        if length > buffer.len() {
            return Err(Error::failed(format!(
                "cannot read from rtnetlink: a message of {length} bytes exceeds the buffer of {BUFFER_BYTES}"
            )));
        }
        if from.port_number() != 0 {
            continue; // sent by another process, not by the kernel
        }
        if dump.take(&buffer)? {
            return Ok(dump);
        }
    }
}

impl Dump {
    /// Adds the messages of one datagram. Returns whether the dump is complete.
    fn take(&mut self, mut rest: &[u8]) -> Result<bool> {
        while let Some(length) = rest.get(..4).and_then(|l| l.try_into().ok()).map(u32::from_ne_bytes) {
            let length = length as usize;
            let Some(message) = rest.get(..length).filter(|m| m.len() >= HEADER_BYTES) else {
                return Err(Error::failed(format!(
                    "cannot read from rtnetlink: truncated message of {length} bytes, {} received",
                    rest.len()
                )));
            };
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            let (header, payload) = match NetlinkMessage::deserialize(message) {
                Ok(message) => message.into_parts(),
                Err(why) => {
                    tracing::debug!("ignoring an invalid netlink message: {why}");
                    self.unreadable += 1;
                    continue;
                }
            };
            self.is_interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
            match payload {
                // the kernel could not list the rest
                NetlinkPayload::Done(done) if done.code < 0 => {
                    let why = io::Error::from_raw_os_error(done.code.saturating_neg());
                    return Err(why).tried(|| "cannot read from rtnetlink".to_owned());
                }
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => {
                    return Err(error.to_io()).tried(|| "cannot read from rtnetlink".to_owned());
                }
                NetlinkPayload::InnerMessage(message) => self.messages.push(message),
                _ => {}
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::DoneMessage;
    use netlink_packet_route::link::LinkMessage;

    fn bytes(flags: u16, payload: NetlinkPayload<RouteNetlinkMessage>) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }

    fn link() -> NetlinkPayload<RouteNetlinkMessage> {
        NetlinkPayload::from(RouteNetlinkMessage::NewLink(LinkMessage::default()))
    }

    #[test]
    fn an_interrupted_dump_says_so() {
        let mut dump = Dump::default();
        assert!(!dump.take(&bytes(0, link())).unwrap());
        assert!(!dump.is_interrupted);
        let done = bytes(NLM_F_DUMP_INTR, NetlinkPayload::Done(DoneMessage::default()));
        assert!(dump.take(&[bytes(0, link()), done].concat()).unwrap());
        assert!(dump.is_interrupted);
        assert_eq!(dump.messages.len(), 2);
    }

    #[test]
    fn a_dump_that_ends_with_an_error_is_an_error() {
        let mut done = DoneMessage::default();
        done.code = -nix::libc::ENOMEM;
        let datagram = [bytes(0, link()), bytes(0, NetlinkPayload::Done(done))].concat();
        let error = Dump::default().take(&datagram).unwrap_err();
        assert_eq!(error.io().and_then(io::Error::raw_os_error), Some(nix::libc::ENOMEM));
    }

    #[test]
    fn a_message_cut_short_is_an_error_and_an_unknown_one_is_counted() {
        let whole = bytes(0, link());
        assert!(Dump::default().take(&whole[..whole.len() - 4]).is_err());
        let mut garbled = whole.clone();
        garbled.truncate(HEADER_BYTES + 4);
        garbled[..4].copy_from_slice(&(HEADER_BYTES as u32 + 4).to_ne_bytes());
        let mut dump = Dump::default();
        dump.take(&[garbled, whole].concat()).unwrap();
        assert_eq!((dump.unreadable, dump.messages.len()), (1, 1));
    }

    #[test]
    fn the_kernel_has_a_loopback_interface() {
        let dump = dump(&RouteNetlinkMessage::GetLink(LinkMessage::default())).unwrap();
        let is_loopback = |message: &RouteNetlinkMessage| matches!(message, RouteNetlinkMessage::NewLink(link) if link.header.index == 1);
        assert!(dump.messages.iter().any(is_loopback));
        assert_eq!(dump.unreadable, 0);
    }
}
