//! Borders as the server knows them: each run of one has to answer a fresh number before anything it says counts.
//!
//! So neither a restart of the border nor one of the server needs anything kept: what an eavesdropper recorded of another
//! run, or before the server's start, comes without that answer, or with a counter below it. The answer also measures the
//! round trip, and how far both clocks are apart.
//!
//! The same run is another border under another key: anybody on the wire can read which runs there are, and who has a key
//! for other servers must not speak for them.

use crate::wire::Header;
use hotcc_keys::{Fingerprint, Window};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

/// Borders at a time.
const BORDERS: usize = 256;
const UNPROVEN_PROBE_US: u64 = 100_000;
const PROVEN_PROBE_US: u64 = 1_000_000;
/// Questions of which the answers may be under way.
const QUESTIONS: usize = 16;
/// A border that says nothing is not asked, and later forgotten.
const QUIET_US: u64 = 5_000_000;
const GONE_US: u64 = 60_000_000;
/// How long a measurement of the clocks' distance is as good as a new one: they drift apart by 50 us/s at the most.
const CLOCK_SPAN_US: u64 = 10_000_000;

/// A measurement of the way to a border and back.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rtt_us: u64,
    /// Our clock less the border's.
    offset_us: i64,
}

/// Our clock and a border's: by the quickest answer of the last ten to twenty seconds, in which the two can have
/// misjudged each other least.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    current: Sample,
    previous: Sample,
    since_us: u64,
}

impl Clock {
    fn new(sample: Sample, now_us: u64) -> Self {
        Self { current: sample, previous: sample, since_us: now_us }
    }

    fn add(&mut self, sample: Sample, now_us: u64) {
        if now_us - self.since_us >= CLOCK_SPAN_US {
            *self = Self { current: sample, previous: self.current, since_us: now_us };
        } else if sample.rtt_us <= self.current.rtt_us {
            self.current = sample;
        }
    }

    fn best(&self) -> Sample {
        if self.previous.rtt_us < self.current.rtt_us { self.previous } else { self.current }
    }

    /// Least time to the border and back, microseconds.
    #[must_use]
    pub fn rtt_us(&self) -> u32 {
        self.best().rtt_us.min(u32::MAX.into()) as u32
    }

    /// A moment of the border's clock by ours, microseconds; never later than now.
    #[must_use]
    pub fn ours(&self, border_us: u64, now_us: u64) -> u64 {
        border_us.saturating_add_signed(self.best().offset_us).min(now_us)
    }
}

#[derive(Debug)]
struct Asked {
    nonce: u64,
    at_us: u64,
}

#[derive(Debug)]
struct Proven {
    window: Window,
    clock: Clock,
}

/// A run of a border, and the key that it uses.
type Name = (u64, Fingerprint);

#[derive(Debug)]
struct Border {
    proven: Option<Proven>,
    address: SocketAddr,
    /// Oldest first.
    asked: VecDeque<Asked>,
    asked_us: Option<u64>,
    heard_us: u64,
}

/// Why a report does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// This run of a border has not answered yet.
    Unproven,
    /// It came already, or may have.
    Replayed,
    /// An answer to what was not asked.
    Unasked,
    /// There are as many borders as there can be.
    TooMany,
}

/// A question to a border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// To whom.
    pub to: SocketAddr,
    /// Which run of it.
    pub epoch: u64,
    /// Which key it uses.
    pub key: Fingerprint,
    /// What it has to repeat.
    pub nonce: u64,
}

/// All borders. What they are told must be authentic.
#[derive(Debug, Default)]
pub struct Sessions(HashMap<Name, Border>);

impl Sessions {
    /// A report came, signed with that key: the clock to date it by, if it counts.
    pub fn report(
        &mut self,
        header: &Header,
        key: Fingerprint,
        from: SocketAddr,
        now_us: u64,
    ) -> Result<Clock, Refused> {
        let name = (header.epoch, key);
        if !self.0.contains_key(&name) {
            self.make_room(now_us)?;
        }
        let border = self.0.entry(name).or_insert_with(|| Border {
            proven: None,
            address: from,
            asked: VecDeque::new(),
            asked_us: None,
            heard_us: now_us,
        });
        let Some(proven) = &mut border.proven else {
            (border.address, border.heard_us) = (from, now_us);
            return Err(Refused::Unproven);
        };
        if !proven.window.take(header.counter) {
            return Err(Refused::Replayed);
        }
        (border.address, border.heard_us) = (from, now_us);
        Ok(proven.clock)
    }

    /// Who never answered goes first; who did is not driven out.
    fn make_room(&mut self, now_us: u64) -> Result<(), Refused> {
        if self.0.len() < BORDERS {
            return Ok(());
        }
        self.tidy(now_us);
        let unproven = self.0.iter().filter(|(_, b)| b.proven.is_none()).min_by_key(|(_, b)| b.heard_us);
        match unproven.map(|(name, _)| *name) {
            Some(name) => drop(self.0.remove(&name)),
            None if self.0.len() < BORDERS => {}
            None => return Err(Refused::TooMany),
        }
        Ok(())
    }

    /// An answer came, signed with that key.
    pub fn echo(&mut self, header: &Header, key: Fingerprint, nonce: u64, now_us: u64) -> Result<(), Refused> {
        let border = self.0.get_mut(&(header.epoch, key)).ok_or(Refused::Unasked)?;
        let at = border.asked.iter().position(|asked| asked.nonce == nonce).ok_or(Refused::Unasked)?;
        let asked = border.asked.remove(at).ok_or(Refused::Unasked)?;
        let rtt_us = now_us.saturating_sub(asked.at_us);
        let offset_us = (asked.at_us + rtt_us / 2).wrapping_sub(header.time_us).cast_signed();
        let sample = Sample { rtt_us, offset_us };
        match &mut border.proven {
            Some(proven) => {
                proven.window.take(header.counter);
                proven.clock.add(sample, now_us);
            }
            None => {
                let (window, clock) = (Window::after(header.counter), Clock::new(sample, now_us));
                border.proven = Some(Proven { window, clock });
            }
        }
        Ok(())
    }

    /// Whom to ask now; `random` gives a number that nobody can guess.
    pub fn due(&mut self, now_us: u64, mut random: impl FnMut() -> u64) -> Vec<Question> {
        let mut due = Vec::new();
        for (&(epoch, key), border) in &mut self.0 {
            let waits = border.asked_us.is_some_and(|asked_us| match border.proven {
                Some(_) => now_us - asked_us < PROVEN_PROBE_US,
                // what somebody recorded, and sends from anywhere, makes one question; a border in use is heard all the time
                None => now_us - asked_us < UNPROVEN_PROBE_US || border.heard_us <= asked_us,
            });
            if waits || now_us.saturating_sub(border.heard_us) > QUIET_US {
                continue;
            }
            let nonce = random();
            if border.asked.len() == QUESTIONS {
                border.asked.pop_front();
            }
            border.asked.push_back(Asked { nonce, at_us: now_us });
            border.asked_us = Some(now_us);
            due.push(Question { to: border.address, epoch, key, nonce });
        }
        due
    }

    /// Forgets who is gone.
    pub fn tidy(&mut self, now_us: u64) {
        self.0.retain(|_, border| {
            let patience = if border.proven.is_some() { GONE_US } else { QUIET_US };
            now_us.saturating_sub(border.heard_us) <= patience
        });
    }

    /// How many have answered, each under whatever keys, and the least round trip to any of them, microseconds.
    #[must_use]
    pub fn proven(&self) -> (usize, Option<u32>) {
        let proven = || self.0.iter().filter_map(|((epoch, _), border)| Some((*epoch, border.proven.as_ref()?)));
        let runs: HashSet<u64> = proven().map(|(epoch, _)| epoch).collect();
        (runs.len(), proven().map(|(_, proven)| proven.clock.rtt_us()).min())
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
