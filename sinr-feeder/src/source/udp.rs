//! `udp:ADDRESS:PORT`: lines of JSON in datagrams.

use super::{Args, Running, Source, SourceError};
use crate::feed::{Batch, Sink};
use crate::line::Line;
use crate::reject::Reject;
use hotcc_abi::radio::SOURCE_UDP;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

/// The largest datagram.
const LARGEST: usize = 65_536;
/// Bytes that the kernel keeps while others have the processor: thousands of UEs may report at once.
const BURST: usize = 8 << 20;
/// Datagrams taken before others have their turn.
const AT_ONCE: usize = 64;

#[derive(Debug)]
pub(super) struct UdpSource {
    address: SocketAddr,
    socket: Option<UdpSocket>,
}

impl UdpSource {
    pub(super) fn parse(args: Args<'_>) -> Result<Self, String> {
        let address = address(args.main("the address to listen on")?)?;
        args.done()?;
        Ok(Self { address, socket: None })
    }
}

impl Source for UdpSource {
    fn kind(&self) -> u8 {
        SOURCE_UDP
    }

    fn open(&mut self) -> Result<(), SourceError> {
        self.socket = Some(bind(self.address)?);
        Ok(())
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let Some(socket) = self.socket else { return Ok(()) };
            receive(socket, |datagram, _| {
                sink.batch(|batch| datagram.split(|b| *b == b'\n').for_each(|line| take_line(batch, line)));
            })
            .await
        })
    }
}

/// What can be listened on.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is not ADDRESS:PORT"))
}

pub(super) fn bind(address: SocketAddr) -> Result<UdpSocket, SourceError> {
    let bound = UdpSocket::bind(address).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
    let socket = bound.map_err(|e| SourceError(format!("cannot receive datagrams on {address}: {e}")))?;
    // Who may not have as much as it takes gets what the system allows, or keeps what there is.
    if setsockopt(&socket, sockopt::RcvBufForce, &BURST).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BURST);
    }
    Ok(socket)
}

/// Hands every datagram to `take`, for ever.
pub(super) async fn receive(socket: UdpSocket, mut take: impl FnMut(&[u8], SocketAddr)) -> Result<(), SourceError> {
    let failed = |e| SourceError(format!("cannot receive datagrams: {e}"));
    let socket = tokio::net::UdpSocket::from_std(socket).map_err(failed)?;
    let mut buffer = vec![0; LARGEST];
    loop {
        socket.readable().await.map_err(failed)?;
        for _ in 0..AT_ONCE {
            match socket.try_recv_from(&mut buffer) {
                Ok((length, from)) => take(&buffer[..length], from),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(failed(e)),
            }
        }
        tokio::task::yield_now().await;
    }
}

/// One line of JSON; an empty one is none.
pub(super) fn take_line(batch: &mut Batch<'_>, line: &[u8]) {
    let line = line.trim_ascii();
    if line.is_empty() {
        return;
    }
    match Line::parse(line) {
        Ok(line) => match line.ue() {
            Ok(ue) => batch.offer(ue, &line.said()),
            Err((reason, what)) => batch.reject(reason, &what),
        },
        Err(what) => batch.reject(Reject::Malformed, &what),
    }
}
