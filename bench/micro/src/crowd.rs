//! Many connections that are open at once.

use super::wire::{OTHER_FILES, Wire, allow_files};
use anyhow::Result;
use nix::sys::socket::sockopt::RcvBufForce;
use nix::sys::socket::{Backlog, listen, setsockopt};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Number of connections.
pub const CONNECTIONS: usize = 10_000;
/// Number of connections per listener. A connection that is not accepted needs no file descriptor of this process, but
/// still receives data; a listener keeps up to 4096 of them.
const CONNECTIONS_OF_A_LISTENER: usize = 2_500;

/// [`CONNECTIONS`] connections from the sender of a wire. Nothing reads what they receive.
pub struct Crowd {
    /// The sending ends.
    pub senders: Vec<TcpStream>,
    _listeners: Vec<TcpListener>,
}

impl Crowd {
    /// Opens the connections, by their numbers and the ports of the receiver that they connect to. Each can receive
    /// `buffer_bytes`.
    pub fn open(
        wire: &Wire,
        buffer_bytes: usize,
        connect: impl Fn(usize, u16) -> Result<TcpStream> + Sync,
    ) -> Result<Self> {
        allow_files(CONNECTIONS as u64 + OTHER_FILES)?;
        let (mut senders, mut listeners) = (Vec::new(), Vec::new());
        while senders.len() < CONNECTIONS {
            let listener = wire.receiver.enter(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
            listen(&listener, Backlog::MAXCONN)?;
            setsockopt(&listener, RcvBufForce, &buffer_bytes)?;
            let port = listener.local_addr()?.port();
            let numbers = senders.len()..senders.len() + CONNECTIONS_OF_A_LISTENER;
            let opened = wire.sender.enter(|| numbers.map(|n| connect(n, port)).collect::<Result<Vec<_>>>())?;
            senders.extend(opened?);
            listeners.push(listener);
        }
        Ok(Self { senders, _listeners: listeners })
    }
}
