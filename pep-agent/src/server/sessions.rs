//! The borders that the server knows: each run of a border must answer a probe with a fresh number before its reports
//! count.
//!
//! So neither side needs state that survives a restart: what an eavesdropper recorded of another run, or before the
//! server's start, comes without that answer, or with a lower counter. The answer also measures the round trip, and the
//! offset between both clocks.
//!
//! The server keeps no state for a run that has not answered: the number itself contains the time at which the server
//! sent it. So replayed datagrams, from any address, take no border's place. Each address that an authentic report
//! comes from may be probed; if there are more addresses than probes, a random choice decides, so an honest border gets
//! its turn.
//!
//! The same run under another key counts as another border: anyone on the wire can read the epochs of runs, and the
//! holder of a key for other servers must not be able to impersonate them.

use super::clock::{Clock, Sample};
use super::socket::Path;
use crate::wire::Header;
use hotcc_keys::{Fingerprint, Window};
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Maximum number of borders.
const BORDERS: usize = 256;
/// Maximum number of probes to new addresses in each period.
const NEW_PROBES: usize = 64;
const NEW_PROBES_PERIOD_US: u64 = 20_000;
/// Probe an address that has answered again after this long; keep at most this many addresses per border.
const PROBE_PERIOD_US: u64 = 1_000_000;
const ADDRESSES: usize = 4;
/// Maximum time until an answer.
const ANSWER_US: u32 = 3_000_000;
/// A silent border is no longer probed after `QUIET_US`, and expires after `GONE_US`; so does a silent address.
const QUIET_US: u64 = 5_000_000;
const GONE_US: u64 = 60_000_000;

/// An address that has answered.
#[derive(Debug)]
struct Address {
    at: Path,
    sent_us: u64,
    answered_us: u64,
}

/// A run of a border, and the key that it uses.
type Name = (u64, Fingerprint);

/// A border that has answered.
#[derive(Debug)]
struct Border {
    window: Window,
    clock: Clock,
    addresses: Vec<Address>,
    heard_us: u64,
}

impl Border {
    fn answered(&mut self, from: Path, sent_us: u64, now_us: u64) {
        self.heard_us = now_us;
        if let Some(address) = self.addresses.iter_mut().find(|address| address.at == from) {
            address.answered_us = now_us;
            return;
        }
        if self.addresses.len() == ADDRESSES {
            let quietest = (0..ADDRESSES).min_by_key(|&i| self.addresses[i].answered_us);
            quietest.map(|i| self.addresses.swap_remove(i));
        }
        self.addresses.push(Address { at: from, sent_us, answered_us: now_us });
    }
}

/// Why a report or an answer is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedDatagram {
    /// This run of a border has not answered yet.
    Unauthenticated,
    /// It has already arrived, or may have.
    Replayed,
    /// An answer to a probe that is not outstanding.
    NotOutstanding,
    /// The table of borders is full.
    TooMany,
}

/// A probe to a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where to send it, and from where.
    pub to: Path,
    /// The run of the border.
    pub epoch: u64,
    /// The key that the run uses.
    pub key: Fingerprint,
}

/// All borders. Only authentic datagrams may be passed to [`Self::report`] and [`Self::echo`].
#[derive(Debug, Default)]
pub struct Sessions {
    borders: HashMap<Name, Border>,
    /// New addresses to probe next: a uniform random choice of those found since the last probes were sent.
    chosen: Vec<Probe>,
    found: u64,
    sent_us: u64,
    /// Secret seed of the codes in probes, and of random choices.
    random: RandomState,
}

impl Sessions {
    /// Processes a report that was signed with `key`. Returns the clock to date it by, or why it is rejected.
    pub fn report(
        &mut self,
        header: &Header,
        key: Fingerprint,
        from: Path,
        now_us: u64,
    ) -> Result<Clock, RejectedDatagram> {
        let found = Probe { to: from, epoch: header.epoch, key };
        let Some(border) = self.borders.get_mut(&(header.epoch, key)) else {
            self.choose(found);
            return Err(RejectedDatagram::Unauthenticated);
        };
        let counted = border.window.take(header.counter).then_some(border.clock).ok_or(RejectedDatagram::Replayed);
        if counted.is_ok() {
            border.heard_us = now_us;
        }
        // the answer will show whether the border itself is at this address, or a third party replays its datagrams
        // from there
        if border.addresses.iter().all(|address| address.at != from) {
            self.choose(found);
        }
        counted
    }

    /// Whether a report, if authentic, is from a border that has answered and arrives for the first time.
    #[must_use]
    pub fn expects_report(&self, header: &Header, key: Fingerprint) -> bool {
        self.borders.get(&(header.epoch, key)).is_some_and(|border| border.window.is_new(header.counter))
    }

    /// Whether an answer, if authentic, is to an outstanding probe.
    #[must_use]
    pub fn expects_echo(&self, header: &Header, nonce: u64, now_us: u64) -> bool {
        self.round_trip_us(header, nonce, now_us).is_some()
    }

    /// Reservoir sampling: each address found in this period is equally likely to be probed.
    fn choose(&mut self, found: Probe) {
        if self.chosen.contains(&found) {
            return;
        }
        self.found += 1;
        if self.chosen.len() < NEW_PROBES {
            self.chosen.push(found);
            return;
        }
        let place = self.random.hash_one((self.sent_us, self.found)) % self.found;
        if let Some(chosen) = self.chosen.get_mut(place as usize) {
            *chosen = found;
        }
    }

    /// Processes an answer that was signed with `key`.
    pub fn echo(
        &mut self,
        header: &Header,
        key: Fingerprint,
        from: Path,
        nonce: u64,
        now_us: u64,
    ) -> Result<(), RejectedDatagram> {
        let rtt_us = self.round_trip_us(header, nonce, now_us).ok_or(RejectedDatagram::NotOutstanding)?;
        let sent_us = now_us - rtt_us;
        let offset_us = (sent_us + rtt_us / 2).wrapping_sub(header.time_us).cast_signed();
        let sample = Sample { rtt_us, offset_us };
        let name = (header.epoch, key);
        if let Some(border) = self.borders.get_mut(&name) {
            if !border.window.take(header.counter) {
                return Err(RejectedDatagram::Replayed);
            }
            border.clock.add(sample, now_us);
            border.answered(from, sent_us, now_us);
            return Ok(());
        }
        self.make_room(key, now_us)?;
        let (window, clock) = (Window::after(header.counter), Clock::new(sample, now_us));
        let mut border = Border { window, clock, addresses: Vec::new(), heard_us: now_us };
        border.answered(from, sent_us, now_us);
        self.borders.insert(name, border);
        Ok(())
    }

    /// Returns the number for a probe at `now_us`: the time, and a code that only this server can compute.
    #[must_use]
    pub fn nonce(&self, epoch: u64, key_id: u8, now_us: u64) -> u64 {
        // of the whole time, so that it is not valid again when the lower half comes round
        let code = self.random.hash_one((epoch, key_id, now_us)) as u32;
        u64::from(code) << 32 | u64::from(now_us as u32)
    }

    /// Returns the time since the probe that an answer repeats was sent; `None` if no such probe was sent, or more than
    /// `ANSWER_US` ago.
    fn round_trip_us(&self, answer: &Header, nonce: u64, now_us: u64) -> Option<u64> {
        let rtt_us = (now_us as u32).wrapping_sub(nonce as u32);
        let sent_us = now_us.checked_sub(rtt_us.into()).filter(|_| rtt_us <= ANSWER_US)?;
        (self.nonce(answer.epoch, answer.key_id, sent_us) == nonce).then_some(rtt_us.into())
    }

    /// Makes room for a border of `key`. The holder of a key can make up runs until the table is full; then the key
    /// with the most runs loses its quietest run to a key with fewer.
    fn make_room(&mut self, key: Fingerprint, now_us: u64) -> Result<(), RejectedDatagram> {
        if self.borders.len() < BORDERS {
            return Ok(());
        }
        self.gc(now_us);
        if self.borders.len() < BORDERS {
            return Ok(());
        }
        let mut places: HashMap<Fingerprint, usize> = HashMap::new();
        for (_, key) in self.borders.keys() {
            *places.entry(*key).or_default() += 1;
        }
        let has = places.get(&key).copied().unwrap_or(0);
        let most = places.into_iter().max_by_key(|(_, places)| *places).filter(|(_, most)| *most > has + 1);
        let (greedy, _) = most.ok_or(RejectedDatagram::TooMany)?;
        let theirs = self.borders.iter().filter(|((_, key), _)| *key == greedy);
        if let Some(quietest) = theirs.min_by_key(|(_, border)| border.heard_us).map(|(name, _)| *name) {
            self.borders.remove(&quietest);
        }
        Ok(())
    }

    /// Returns the probes to send now.
    pub fn due(&mut self, now_us: u64) -> Vec<Probe> {
        let mut due = Vec::new();
        for (&(epoch, key), border) in &mut self.borders {
            if now_us.saturating_sub(border.heard_us) > QUIET_US {
                continue;
            }
            for address in &mut border.addresses {
                if now_us.saturating_sub(address.sent_us) >= PROBE_PERIOD_US {
                    address.sent_us = now_us;
                    due.push(Probe { to: address.at, epoch, key });
                }
            }
        }
        if now_us.saturating_sub(self.sent_us) >= NEW_PROBES_PERIOD_US {
            (self.sent_us, self.found) = (now_us, 0);
            due.append(&mut self.chosen);
        }
        due
    }

    /// Removes expired borders and addresses.
    pub fn gc(&mut self, now_us: u64) {
        let is_gone = |since_us: u64| now_us.saturating_sub(since_us) > GONE_US;
        self.borders.retain(|_, border| {
            border.addresses.retain(|address| !is_gone(address.answered_us));
            // without a recent answer, the offset of the clocks is not known: it must answer again
            !border.addresses.is_empty() && !is_gone(border.heard_us)
        });
    }

    /// Returns the number of runs that have answered, whatever keys they use, and the shortest round trip to any of
    /// them, microseconds.
    #[must_use]
    pub fn authenticated(&self) -> (usize, Option<u32>) {
        let runs: HashSet<u64> = self.borders.keys().map(|(epoch, _)| *epoch).collect();
        (runs.len(), self.borders.values().map(|border| border.clock.rtt_us()).min())
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
