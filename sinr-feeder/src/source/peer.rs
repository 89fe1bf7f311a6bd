//! `peer:ADDRESS:PORT,keys=FILE`: readings that another host's feeder sends in authenticated datagrams.
//!
//! The line of a key in the file names the link that the key's holder may write. A datagram is `VERSION KEY-NUMBER LINE
//! CODE`: one byte each for version and key number, a line of JSON, and the authentication code over everything before
//! it.

use super::udp::{address, bind, receive};
use super::{Running, Source};
use crate::args::Args;
use crate::error::SourceError;
use crate::feed::sink::{Batch, Sink};
use crate::line::Line;
use crate::link::{self, Granted};
use crate::publish::peer::VERSION;
use crate::publish::unix_us;
use crate::reading::{Grant, Ue};
use crate::reject::Reject;
use hotcc_abi::radio::{IndexKey, SOURCE_PEER};
use hotcc_host::error::chain;
use hotcc_keys::{Keys, MAC_BYTES, Window};
use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

/// Maximum difference between the clocks of two hosts when a new session begins. So a feeder that just started accepts
/// no session recorded longer ago, and a session from further in the future cannot block later ones.
const CLOCKS_APART_US: u64 = 300_000_000;

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
            let mut receiver = Receiver::new(keys);
            receive(socket, move |datagram| sink.batch(|batch| receiver.take(batch, datagram))).await
        })
    }
}

/// Verifies datagrams, and recognizes replayed ones.
#[derive(Debug)]
struct Receiver {
    keys: Keys<Granted>,
    /// Number of different links that its keys name.
    granted: usize,
    /// The session of each key, by number and link.
    sessions: HashMap<(u8, IndexKey), Session>,
}

/// A run of a sender.
#[derive(Debug)]
struct Session {
    number: u64,
    /// The counters that were received.
    window: Window,
    /// The latest time of the sender in a line of this or an earlier session, in us since 1970.
    latest_us: u64,
}

impl Receiver {
    fn new(keys: Keys<Granted>) -> Self {
        let granted: HashSet<IndexKey> = keys.iter().filter_map(|(_, link)| link.map(|link| link.0)).collect();
        Self { keys, granted: granted.len(), sessions: HashMap::new() }
    }

    fn take(&mut self, batch: &mut Batch<'_>, datagram: &[u8]) {
        match self.verify(datagram, unix_us()) {
            Ok((link, grant, line)) => batch.offer(Ue::Granted(link, grant), &line.reading()),
            Err((reason, what)) => batch.reject(reason, &what),
        }
    }

    fn verify<'a>(
        &mut self,
        datagram: &'a [u8],
        now_unix_us: u64,
    ) -> Result<(IndexKey, Grant, Line<'a>), (Reject, String)> {
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
        let at_us = session.saturating_add(sent_us);
        self.check_replay((*id, granted), session, counter, at_us, now_unix_us)
            .map_err(|what| (Reject::Replayed, format!("key {id}, session {session}: {what}")))?;
        let link = match &line.link {
            None => granted,
            Some(text) => link::parse(text).map_err(|e| (Reject::Malformed, e.to_string()))?,
        };
        if !granted.contains(&link) {
            return Err((Reject::Forbidden, format!("key {id} may write {granted}, not {link}")));
        }
        Ok((link, Grant { link: granted, all: self.granted }, line))
    }

    /// Checks that a line is not replayed. The number of a session is its start, in us since 1970. This number plus the
    /// time since then is the sender's time, which only increases from line to line. So if a line of another session
    /// has a later time, it was not recorded from an earlier session. This also holds if the sender's clock was set
    /// back and the new session has the smaller number.
    fn check_replay(
        &mut self,
        sender: (u8, IndexKey),
        number: u64,
        counter: u64,
        at_us: u64,
        now_us: u64,
    ) -> Result<(), &'static str> {
        let known = self.sessions.get_mut(&sender);
        let before_us = known.as_ref().map_or(0, |session| session.latest_us);
        // limited to the near future, so that a line with a wrong time does not block another session for long
        let latest_us = before_us.max(at_us.min(now_us.saturating_add(CLOCKS_APART_US)));
        if let Some(session) = known.filter(|session| session.number == number) {
            if !session.window.take(counter) {
                return Err("received before, or too late");
            }
            session.latest_us = latest_us;
            return Ok(());
        }
        if at_us.abs_diff(now_us) > CLOCKS_APART_US {
            return Err("sent more than 300 s ago, or the hosts' clocks differ by more than that");
        }
        if at_us <= before_us {
            return Err("another session has sent later lines");
        }
        if counter == 0 {
            return Err("the counter is 0; counters start at 1");
        }
        self.sessions.insert(sender, Session { number, window: Window::after(counter), latest_us });
        Ok(())
    }
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
        Receiver::new(Keys::read(file.path()).unwrap())
    }

    fn sent(receiver: &Receiver, id: u8, link: Option<&str>, session: u64, counter: u64) -> Vec<u8> {
        sent_at(receiver, id, link, (session, 500), counter)
    }

    fn sent_at(receiver: &Receiver, id: u8, link: Option<&str>, (session, at_us): (u64, u64), counter: u64) -> Vec<u8> {
        let (key, _) = receiver.keys.numbered(id).next().unwrap();
        let reading = Reading { sinr_db: Some(7.0), ..Reading::default() };
        let mut line = Line::message(&reading, 1.0, Sent { session, at_us }, counter);
        line.link = link.map(Into::into);
        datagram(key, &line)
    }

    fn verdict(receiver: &mut Receiver, datagram: &[u8]) -> Result<String, Reject> {
        verdict_at(receiver, datagram, NOW_US)
    }

    fn verdict_at(receiver: &mut Receiver, datagram: &[u8], now_unix_us: u64) -> Result<String, Reject> {
        receiver.verify(datagram, now_unix_us).map(|(link, ..)| link.to_string()).map_err(|(reason, _)| reason)
    }

    const MINUTE_US: u64 = 60_000_000;

    /// Neither the start of a session nor a time within one may block later lines.
    #[test]
    fn a_line_from_far_in_the_future_locks_nobody_out() {
        let mut r = receiver();
        let first = sent(&r, 1, None, NOW_US, 1);
        assert!(verdict(&mut r, &first).is_ok());
        for ahead_us in [6 * MINUTE_US, 525_600 * MINUTE_US, u64::MAX - NOW_US] {
            let future = sent(&r, 1, None, NOW_US + ahead_us, 1);
            assert_eq!(verdict(&mut r, &future), Err(Reject::Replayed), "{ahead_us}");
        }
        let next = sent(&r, 1, None, NOW_US, 2);
        assert!(verdict(&mut r, &next).is_ok());
        let odd = sent_at(&r, 1, None, (NOW_US, u64::MAX - NOW_US), 3);
        assert!(verdict(&mut r, &odd).is_ok(), "its session is known");
        let restarted = sent(&r, 1, None, NOW_US + 6 * MINUTE_US, 1);
        assert!(verdict_at(&mut r, &restarted, NOW_US + 6 * MINUTE_US).is_ok());
    }

    /// The sender's clock was four minutes ahead and was then set right; the sender restarted a minute later.
    #[test]
    fn a_sender_whose_clock_was_set_back_is_heard_again_by_itself() {
        let mut r = receiver();
        let ahead = sent(&r, 1, None, NOW_US + 4 * MINUTE_US, 1);
        assert!(verdict(&mut r, &ahead).is_ok());
        let session = NOW_US + MINUTE_US;
        let verdicts = [1u64, 2, 3, 4, 5, 6].map(|minute| {
            let line = sent_at(&r, 1, None, (session, (minute - 1) * MINUTE_US + 1000), minute);
            verdict_at(&mut r, &line, NOW_US + minute * MINUTE_US).is_ok()
        });
        assert_eq!(verdicts, [false, false, false, true, true, true]);
        // lines recorded from either run are still rejected
        for recorded in [ahead, sent(&r, 1, None, NOW_US + 4 * MINUTE_US, 2), sent(&r, 1, None, session, 6)] {
            assert_eq!(verdict_at(&mut r, &recorded, NOW_US + 7 * MINUTE_US), Err(Reject::Replayed));
        }
    }

    /// Both senders use the same key, by mistake.
    #[test]
    fn two_senders_at_once_let_no_recorded_line_in() {
        let mut r = receiver();
        let lines: Vec<_> = (1..20).map(|n| sent_at(&r, 1, None, (NOW_US + n % 2, n * 1000), n)).collect();
        for (n, line) in lines.iter().enumerate() {
            assert!(verdict(&mut r, line).is_ok(), "{n}");
            for recorded in &lines[..=n] {
                assert_eq!(verdict(&mut r, recorded), Err(Reject::Replayed), "{n}");
            }
        }
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
    fn forged_and_replayed_lines_are_rejected() {
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
        let datagrams = [7, 6].map(|counter| sent(&r, 1, None, NOW_US, counter));
        assert!(datagrams.iter().all(|d| verdict(&mut r, d).is_ok()));
        let before_the_first = sent(&r, 1, None, NOW_US, 4);
        assert_eq!(verdict(&mut r, &before_the_first), Err(Reject::Replayed));
        let later = sent(&r, 1, None, NOW_US + 1, 1);
        let earlier = sent(&r, 1, None, NOW_US, 8);
        assert!(verdict(&mut r, &later).is_ok());
        assert_eq!(verdict(&mut r, &earlier), Err(Reject::Replayed));
        // A feeder that just started knows no session, but rejects old recordings nevertheless.
        let mut fresh = receiver();
        let recorded = sent(&r, 1, None, NOW_US - 301_000_000, 1);
        assert_eq!(verdict(&mut fresh, &recorded), Err(Reject::Replayed));
    }
}
