//! Signals that algorithms get besides TCP's own events: reports of a PEP, hints of a receiver; and SACK blocks, which
//! show what is missing. All are relative to the bytes in flight, so a script stays valid if events are left out.

use crate::kernel::Event;
use crate::random::Random;
use crate::reports::{At, Report};

/// The signals that are drawn for a connection. The radio's always are; algorithms that do not use them ignore them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signals {
    /// Only the radio's.
    Radio,
    /// A PEP's reports, and SACK blocks.
    Pep,
    /// A receiver's hints.
    Hint,
}

/// How a PEP behaves for a while.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// It reports what it sees.
    Honest,
    /// It has stopped: its last report stays.
    Silent,
    /// Its reports arrive after the client's ACKs.
    Behind,
    /// It reports anything.
    Forged,
}

/// Draws the signals of one connection.
#[derive(Clone, Debug)]
pub struct Source {
    signals: Signals,
    manner: Manner,
}

impl Source {
    /// Returns a source of these signals.
    #[must_use]
    pub fn new(signals: Signals) -> Self {
        Self { signals, manner: Manner::Honest }
    }

    /// Draws the events at the start: hints before there is an RTT sample.
    pub fn begin(&self, random: &mut Random) -> Vec<Event> {
        if self.signals != Signals::Hint || !random.once_in(4) {
            return vec![];
        }
        let early = |random: &mut Random| {
            [hint(random), Event::Ack { after_us: random.between(0, 1500), acked: 1, rtt_us: None }]
        };
        (0..6).flat_map(|_| early(random)).collect()
    }

    /// Draws the events before the next of TCP's own events.
    pub fn draw(&mut self, random: &mut Random) -> Vec<Event> {
        match self.signals {
            Signals::Radio => vec![], // draws nothing, so the connections are the same as without this source
            Signals::Pep => self.pep(random),
            Signals::Hint if random.once_in(2) => vec![hint(random)],
            Signals::Hint => vec![],
        }
    }

    fn pep(&mut self, random: &mut Random) -> Vec<Event> {
        let mut events = Vec::new();
        if random.once_in(30) {
            use Manner::{Behind, Forged, Honest, Silent};
            self.manner = random.pick(&[Honest, Honest, Honest, Silent, Behind, Forged]);
            if matches!(self.manner, Silent) && random.once_in(3) {
                events.push(Event::NoPep { storage: random.once_in(2) });
            }
            if matches!(self.manner, Behind) {
                let range = random.once_in(4).then_some((At::Nxt(1), At::Nxt(20_000)));
                let report = Report::up_to(At::Una(-(random.scale(1.0, 1e6) as i32)));
                events.push(Event::Pep(report.with(range.as_slice())));
            }
        }
        match self.manner {
            Manner::Honest if !random.once_in(4) => events.push(Event::Pep(honest(random))),
            Manner::Forged if random.once_in(2) => events.push(Event::Pep(forged(random))),
            _ => {}
        }
        if random.once_in(12) {
            events.push(sack(random));
        }
        if random.once_in(100) {
            events.extend(loss_past_the_pep(random));
        }
        events
    }
}

/// Draws a loss of bytes that the PEP has seen, and its consequences.
fn loss_past_the_pep(random: &mut Random) -> Vec<Event> {
    let duplicate = Event::Duplicate { after_us: random.between(0, 1000) };
    let mut events = vec![Event::Pep(Report::up_to(At::Share(1000))), duplicate, sack(random)];
    if random.once_in(3) {
        events.push(Event::Idle { for_us: random.scale(1e3, 100e6) as u64, restart: true });
        events.push(Event::Pep(Report::up_to(At::Share(1000))));
    }
    events.extend([Event::Recovery, duplicate]);
    if random.once_in(2) {
        let found = [Event::Lost(1), Event::NoPep { storage: true }, sack(random)];
        events.push(random.pick(&found));
        events.extend([Event::Ack { after_us: 0, acked: 1, rtt_us: None }, duplicate]);
    }
    let timeout = Event::Timeout { ssthresh: false };
    events.extend(random.pick(&[None, Some(Event::Complete), Some(Event::Undo), Some(timeout), Some(timeout)]));
    events
}

/// Draws shares of the bytes in flight, in ascending order.
fn shares<const N: usize>(random: &mut Random, from: u16) -> [At; N] {
    let mut permille = [0; N];
    permille.fill_with(|| random.between(u64::from(from), 1000) as u16);
    permille.sort_unstable();
    permille.map(At::Share)
}

fn honest(random: &mut Random) -> Report {
    let in_order = random.pick(&[0, 0, 200, 500, 800, 900, 1000, 1000]);
    let mut report = Report::up_to(At::Share(in_order));
    if random.once_in(3) {
        let [a, b, c, d, e, f, g, h] = shares(random, in_order);
        let ranges = [(a, b), (c, d), (e, f), (g, h)];
        report = report.with(&ranges[..random.between(1, 4) as usize]);
    }
    report.rtt_us = random.between(0, 100_000) as u32;
    report.writing = random.once_in(20);
    report
}

/// Draws a report with arbitrary contents, as a network may carry it: an algorithm must not trust it.
fn forged(random: &mut Random) -> Report {
    let anywhere = |random: &mut Random| match random.between(0, 3) {
        0 => At::Share(random.between(0, 1000) as u16),
        1 => At::Nxt(random.between(0, 1 << 20) as i32 - (1 << 19)),
        2 => At::Una(random.between(0, 1 << 20) as i32 - (1 << 19)),
        // keeps ranges shorter than half the sequence space: for longer ones, the ends do not tell which half is meant
        _ => At::Una(random.between(0, 1 << 29) as i32 - (1 << 28)),
    };
    let in_order = if random.once_in(4) { At::Una(random.bits() as i32) } else { anywhere(random) };
    let mut report = Report::up_to(in_order);
    for range in &mut report.ranges {
        *range = (anywhere(random), anywhere(random));
        if random.once_in(8) {
            let start = random.bits() as i32;
            *range = (At::Una(start), At::Una(start.wrapping_add(random.between(0, 1 << 28) as i32)));
        }
    }
    report.range_count = random.pick(&[0, 1, 2, 3, 4, 4, 5, u32::MAX]);
    report.rtt_us = random.pick(&[0, 1, 10_000, u32::MAX]);
    report.writing = random.once_in(10);
    report.age_ms = match random.between(0, 4) {
        0 => random.pick(&[-1, -9, -10, -11, -1000]),
        1 => random.pick(&[1, 99, 100, 101, 999, 1000, 1001, 29_999, 30_001]),
        2 => random.bits() as i32,
        3 => random.pick(&[4_294_967, 4_295_000, 4_294_967 * 2 + 1]), // a multiple of 2^32 us
        _ => 0,
    };
    report
}

fn sack(random: &mut Random) -> Event {
    let count = random.between(0, 4) as usize;
    let [a, b, c, d, e, f, g, h] = shares(random, 0);
    let mut blocks = match random.between(0, 9) {
        0 => [(a, d), (b, c), (e, f), (g, h)], // one within another
        1 => [(At::Una(-3000), At::Una(-1000)), (At::Una(-500), a), (b, c), (d, e)], // acknowledged since
        2 => [(a, a), (b, c), (d, e), (At::Nxt(1), At::Nxt(1000))],
        _ => [(a, b), (c, d), (e, f), (g, h)],
    };
    blocks[count..].fill((At::Una(0), At::Una(0)));
    Event::Sack(blocks)
}

fn hint(random: &mut Random) -> Event {
    let hint = match random.between(0, 9) {
        0 => random.pick(&[0, 71, 100, 121, 255]),
        1 => random.bits() as u8,
        2 => random.pick(&[1, 70, 101, 120]),
        3..6 => random.between(1, 70) as u8,
        _ => random.between(101, 120) as u8,
    };
    let age_ms = match random.between(0, 7) {
        0 => random.pick(&[-1, -9, -10, -11, -12, -1000]),
        1 => random.pick(&[1, 99, 100, 101, 999, 1000, 1001, 29_999, 30_000, 30_001]),
        2 => random.bits() as i32,
        3 if random.once_in(4) => random.pick(&[4_294_967, 4_295_000, 4_294_967 * 2 + 1]), // a multiple of 2^32 us
        _ => 0,
    };
    Event::Hint { hint, age_ms, new: !random.once_in(8) }
}
