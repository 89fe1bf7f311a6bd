//! Sends readings to another feeder in authenticated datagrams; `source/peer.rs` receives them.

use super::{Publisher, Session, age_ms};
use crate::args::Args;
use crate::condition::DatedReading;
use crate::error::SourceError;
use crate::line::Line;
use crate::link::Granted;
use hotcc_abi::clock::monotonic_ns;
use hotcc_host::error::chain;
use hotcc_keys::{Key, Keys};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

/// Version of the datagrams' format.
pub const VERSION: u8 = 1;

/// Returns a line as a datagram: version, key number, line, authentication code.
#[must_use]
pub fn datagram(key: &Key, line: &Line<'_>) -> Vec<u8> {
    let mut datagram = vec![VERSION, key.id];
    datagram.extend(line.to_json());
    let mac = key.sign(&datagram);
    datagram.extend(mac);
    datagram
}

/// `peer:ADDRESS:PORT,keys=FILE`: signs with the file's first key.
#[derive(Debug)]
pub(super) struct PeerPublisher {
    address: SocketAddr,
    file: PathBuf,
    open: Option<(UdpSocket, Key)>,
    session: Session,
    sent: u64,
    dropped: u64,
}

impl PeerPublisher {
    pub(super) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let text = args.main("the other host's address")?;
        let address = text
            .parse()
            .map_err(|_| format!("invalid address `{text}`: expected ADDRESS:PORT, e.g. 192.0.2.1:9001"))?;
        let file = args.text("keys").ok_or("the key file is missing: expected peer:ADDRESS:PORT,keys=FILE")?.into();
        args.done()?;
        Ok(Self { address, file, open: None, session: Session::begin(), sent: 0, dropped: 0 })
    }

    pub(super) fn open(mut self) -> Result<Self, SourceError> {
        let keys = Keys::<Granted>::read(&self.file).map_err(|e| SourceError(chain(&e)))?;
        let (key, _) = keys.iter().next().ok_or_else(|| SourceError(format!("{} has no key", self.file.display())))?;
        let any: SocketAddr = if self.address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 8], 0).into() };
        let socket = UdpSocket::bind(any).and_then(|s| s.set_nonblocking(true).map(|()| s));
        let socket =
            socket.map_err(|e| SourceError(format!("cannot open a socket to send to {}: {e}", self.address)))?;
        self.open = Some((socket, key.clone()));
        Ok(self)
    }
}

impl Publisher for PeerPublisher {
    fn send(&mut self, _id: &str, reading: &DatedReading) {
        let Some((socket, key)) = &self.open else { return };
        let now_ns = monotonic_ns();
        let (sent, counter) = self.session.next(now_ns);
        let line = Line::message(&reading.reading, age_ms(reading.made_ns, now_ns), sent, counter);
        match socket.send_to(&datagram(key, &line), self.address) {
            Ok(_) => self.sent += 1,
            Err(_) => self.dropped += 1,
        }
    }

    fn name(&self) -> String {
        format!("peer:{}", self.address)
    }

    fn counts(&self) -> (u64, u64) {
        (self.sent, self.dropped)
    }
}
