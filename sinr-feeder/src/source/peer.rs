//! `peer:ADDRESS:PORT,keys=FILE`: readings that another host's feeder sends in authenticated datagrams.
//!
//! A key's line in the file says which link its holder may write. A datagram is `VERSION KEY-NUMBER LINE CODE`: a byte
//! each, a line of JSON, and the code over all before it.

use super::udp::{address, bind, receive};
use super::{Running, Source};
use crate::args::Args;
use crate::error::SourceError;
use crate::feed::sink::{Batch, Sink};
use crate::line::Line;
use crate::link::{self, Granted};
use crate::publish::peer::VERSION;
use crate::reading::Ue;
use crate::reject::Reject;
use hotcc_abi::radio::{IndexKey, SOURCE_PEER};
use hotcc_host::error::chain;
use hotcc_keys::{Keys, MAC_BYTES, Window};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// How far the clocks of two hosts may be apart: a feeder that was just started knows no session yet, and takes none that
/// was recorded longer ago.
const CLOCKS_APART: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct PeerSource {
    address: SocketAddr,
    file: PathBuf,
    open: Option<(UdpSocket, Keys<Granted>)>,
}

impl PeerSource {
    pub(super) fn parse(mut args: Args<'_>) -> Result<Self, String> {
        let address = address(args.main("the address to listen on")?)?;
        let file = args.text("keys").ok_or("the key file is missing: expected peer:ADDRESS:PORT,keys=FILE")?.into();
        args.done()?;
        Ok(Self { address, file, open: None })
    }
}

impl Source for PeerSource {
    fn kind(&self) -> u8 {
        SOURCE_PEER
    }

    fn open(&mut self) -> Result<(), SourceError> {
        let keys = Keys::read(&self.file).map_err(|e| SourceError(chain(&e)))?;
        if let Some((key, _)) = keys.iter().find(|(_, link)| link.is_none()) {
            let file = self.file.display();
            return Err(SourceError(format!(
                "{file}: key {} names no link: add the link that its sender may write to the end of the line",
                key.id
            )));
        }
        self.open = Some((bind(self.address)?, keys));
        Ok(())
    }

    fn run(self: Box<Self>, sink: Sink) -> Running {
        Box::pin(async move {
            let Some((socket, keys)) = self.open else { return Ok(()) };
            let mut receiver = Receiver { keys, sessions: HashMap::new() };
            receive(socket, move |datagram| sink.batch(|batch| receiver.take(batch, datagram))).await
        })
    }
}

/// What tells a datagram from one that came before.
#[derive(Debug)]
struct Receiver {
    keys: Keys<Granted>,
    /// The newest session of each key, by number and link, and the counters of it that came.
    sessions: HashMap<(u8, IndexKey), (u64, Window)>,
}

impl Receiver {
    fn take(&mut self, batch: &mut Batch<'_>, datagram: &[u8]) {
        match self.verify(datagram, unix_us()) {
            Ok((link, line)) => batch.offer(Ue::Granted(link), &line.reading()),
            Err((reason, what)) => batch.reject(reason, &what),
        }
    }

    fn verify<'a>(&mut self, datagram: &'a [u8], now_unix_us: u64) -> Result<(IndexKey, Line<'a>), (Reject, String)> {
        let short = || (Reject::Malformed, format!("the datagram of {} bytes is too short", datagram.len()));
        let (signed, mac) = datagram.split_last_chunk::<MAC_BYTES>().ok_or_else(short)?;
        let ([version, id], text) = signed.split_first_chunk().ok_or_else(short)?;
        if *version != VERSION {
            return Err((
                Reject::Malformed,
                format!("the datagram has version {version}; this feeder uses version {VERSION}"),
            ));
        }
        let granted =
            self.keys.numbered(*id).find(|(key, _)| key.verify(signed, mac)).map(|(_, link)| link.map(|l| l.0));
        let granted = granted
            .ok_or((Reject::Unauthenticated, format!("the authentication code matches no key with number {id}")))?;
        let line = Line::parse(text).map_err(|what| (Reject::Malformed, what))?;
        let (Some(session), Some(counter), Some(sent_us)) = (line.session, line.counter, line.sent_us) else {
            return Err((Reject::Malformed, "session, counter or sent_us is missing".to_owned()));
        };
        let granted = granted.ok_or((Reject::Forbidden, format!("key {id} has no link")))?;
        let apart_us = session.saturating_add(sent_us).abs_diff(now_unix_us);
        self.check_replay((*id, granted), session, counter, Duration::from_micros(apart_us))?;
        let link = match &line.link {
            None => granted,
            Some(text) => link::parse(text).map_err(|e| (Reject::Malformed, e.to_string()))?,
        };
        if !granted.contains(&link) {
            return Err((Reject::Forbidden, format!("key {id} may write {granted}, not {link}")));
        }
        Ok((link, line))
    }

    /// Sessions are numbered by the time they begin at, in us since 1970, so a later one is known to be later.
    fn check_replay(
        &mut self,
        sender: (u8, IndexKey),
        session: u64,
        counter: u64,
        apart: Duration,
    ) -> Result<(), (Reject, String)> {
        let replayed = |what: &str| Err((Reject::Replayed, format!("key {}, session {session}: {what}", sender.0)));
        match self.sessions.get_mut(&sender) {
            Some((newest, _)) if session < *newest => return replayed("a later session has started"),
            Some((newest, window)) if session == *newest => {
                return if window.take(counter) { Ok(()) } else { replayed("received before, or too late") };
            }
            None if apart > CLOCKS_APART => {
                return replayed("sent more than 300 s ago, or the hosts' clocks differ by more than that");
            }
            _ => {}
        }
        let mut window = Window::after(0);
        if !window.take(counter) {
            return replayed("the counter is 0; counters start at 1");
        }
        self.sessions.insert(sender, (session, window));
        Ok(())
    }
}

fn unix_us() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::peer::datagram;
    use crate::reading::Sent;
    use hotcc_keys::KEY_BYTES;
    use hotcc_radio_map::Reading;

    const NOW_US: u64 = 1_800_000_000_000_000;

    fn receiver() -> Receiver {
        let (a, b) = ("0a".repeat(KEY_BYTES), "0b".repeat(KEY_BYTES));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("1 {a} 10.0.0.7\n2 {b} 10.1.0.0/16\n")).unwrap();
        Receiver { keys: Keys::read(file.path()).unwrap(), sessions: HashMap::new() }
    }

    fn sent(receiver: &Receiver, id: u8, link: Option<&str>, session: u64, counter: u64) -> Vec<u8> {
        let (key, _) = receiver.keys.numbered(id).next().unwrap();
        let reading = Reading { sinr_db: Some(7.0), ..Reading::default() };
        let mut line = Line::message(&reading, 1.0, Sent { session, at_us: 500 }, counter);
        line.link = link.map(Into::into);
        datagram(key, &line)
    }

    fn verdict(receiver: &mut Receiver, datagram: &[u8]) -> Result<String, Reject> {
        receiver.verify(datagram, NOW_US).map(|(link, _)| link.to_string()).map_err(|(reason, _)| reason)
    }

    #[test]
    fn each_key_writes_its_own_links() {
        let mut r = receiver();
        for (counter, (id, link, expected)) in (1..).zip([
            (1, None, Ok("10.0.0.7/32".to_owned())),
            (1, Some("10.0.0.7:4096/6"), Ok("10.0.0.7:4096/6".to_owned())),
            (1, Some("10.0.0.8"), Err(Reject::Forbidden)),
            (1, Some("10.0.0.0/8"), Err(Reject::Forbidden)),
            (2, Some("10.1.2.3"), Ok("10.1.2.3/32".to_owned())),
            (2, Some("10.0.0.7"), Err(Reject::Forbidden)),
            (2, Some("nowhere"), Err(Reject::Malformed)),
        ]) {
            let datagram = sent(&r, id, link, NOW_US, counter);
            assert_eq!(verdict(&mut r, &datagram), expected, "{id} {link:?}");
        }
    }

    #[test]
    fn what_is_forged_or_came_before_is_refused() {
        let mut r = receiver();
        let first = sent(&r, 1, None, NOW_US, 5);
        for i in 0..first.len() {
            let mut forged = first.clone();
            forged[i] ^= 1;
            assert!(verdict(&mut r, &forged).is_err(), "byte {i}");
        }
        for short in [&first[..17], &first[..first.len() - 1], b"", &[1; 18]] {
            assert!(matches!(verdict(&mut r, short), Err(Reject::Malformed | Reject::Unauthenticated)));
        }
        assert!(verdict(&mut r, &first).is_ok());
        assert_eq!(verdict(&mut r, &first), Err(Reject::Replayed));
        let datagrams = [4, 6].map(|counter| sent(&r, 1, None, NOW_US, counter));
        assert!(datagrams.iter().all(|d| verdict(&mut r, d).is_ok()));
        let later = sent(&r, 1, None, NOW_US + 1, 1);
        let earlier = sent(&r, 1, None, NOW_US, 7);
        assert!(verdict(&mut r, &later).is_ok());
        assert_eq!(verdict(&mut r, &earlier), Err(Reject::Replayed));
        // A feeder that was just started knows no session: what was recorded some time ago is refused all the same.
        let mut fresh = receiver();
        let recorded = sent(&r, 1, None, NOW_US - 301_000_000, 1);
        assert_eq!(verdict(&mut fresh, &recorded), Err(Reject::Replayed));
    }
}
