//! `udp:ADDRESS:PORT`: lines of JSON in datagrams.

use super::{Running, Source};
use crate::args::Args;
use crate::error::SourceError;
use crate::feed::sink::{Batch, Sink};
use crate::line::Line;
use crate::reject::Reject;
use hotcc_abi::radio::SOURCE_UDP;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, setsockopt, sockopt};
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Buffer size, enough for the largest datagram. It is not a multiple of a page, so that the buffers do not all map to
/// the same few cache lines.
const LARGEST: usize = 65_536 + 192;
/// Size of the socket's receive buffer, for datagrams that arrive while the processor is busy: thousands of UEs may
/// report at once.
const BURST: usize = 8 << 20;
/// Maximum number of datagrams received with one system call.
const AT_ONCE: usize = 64;
/// If datagrams arrive closer together than this, the next ones are left to gather for [`GATHER`].
const CLOSE: Duration = Duration::from_micros(200);
/// How long they gather, to be received together: waking up takes longer than processing a reading.
const GATHER: Duration = Duration::from_micros(100);

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
            receive(socket, move |datagram| {
                sink.batch(|batch| datagram.split(|b| *b == b'\n').for_each(|line| take_line(batch, line)));
            })
            .await
        })
    }
}

/// Parses an address to listen on.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("invalid address `{text}`: expected ADDRESS:PORT, e.g. 127.0.0.1:9000"))
}

pub(super) fn bind(address: SocketAddr) -> Result<UdpSocket, SourceError> {
    let socket =
        UdpSocket::bind(address).map_err(|e| SourceError(format!("cannot receive datagrams on {address}: {e}")))?;
    // Without the privilege for this size, take the largest that the system allows, or keep the default.
    if setsockopt(&socket, sockopt::RcvBufForce, &BURST).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &BURST);
    }
    Ok(socket)
}

/// Hands every datagram to `take`, forever: on its own thread, which waits in the system call that receives them.
pub(super) async fn receive(socket: UdpSocket, take: impl FnMut(&[u8]) + Send + 'static) -> Result<(), SourceError> {
    let failed = |why: String| SourceError(format!("cannot receive datagrams: {why}"));
    let (report, ended) = oneshot::channel();
    let work = move || {
        let _ = report.send(receive_all(&socket, take)); // the receiver is gone when the program ends
    };
    thread::Builder::new().name("datagrams".to_owned()).spawn(work).map_err(|e| failed(e.to_string()))?;
    Err(failed(ended.await.map_or("the receiving thread panicked".to_owned(), |e| e.to_string())))
}

/// Receives datagrams until an error, and returns the error.
fn receive_all(socket: &UdpSocket, mut take: impl FnMut(&[u8])) -> Errno {
    let mut buffers = vec![vec![0; LARGEST]; AT_ONCE];
    let mut headers = MultiHeaders::<()>::preallocate(AT_ONCE, None);
    let mut taken: Option<Instant> = None;
    loop {
        let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        match recvmmsg(socket.as_raw_fd(), &mut headers, &mut slices, MsgFlags::MSG_WAITFORONE, None) {
            Ok(messages) => messages.for_each(|message| take(message.iovs().next().unwrap_or_default())),
            Err(Errno::EINTR) => continue,
            Err(e) => return e,
        }
        if taken.replace(Instant::now()).is_some_and(|before| before.elapsed() < CLOSE) {
            thread::sleep(GATHER);
        }
    }
}

/// Hands over the reading of a line of JSON, or rejects it. An empty line is ignored.
pub(super) fn take_line(batch: &mut Batch<'_>, line: &[u8]) {
    if let Err((reason, what)) = offer_line(batch, line) {
        batch.reject(reason, &what);
    }
}

/// Hands over the reading of a line; an error if it is none. An empty line is no error.
pub(super) fn offer_line(batch: &mut Batch<'_>, line: &[u8]) -> Result<(), (Reject, String)> {
    let line = line.trim_ascii();
    if !line.is_empty() {
        let line = Line::parse(line).map_err(|what| (Reject::Malformed, what))?;
        line.check_units()?;
        batch.offer(line.ue()?, &line.reading());
    }
    Ok(())
}
