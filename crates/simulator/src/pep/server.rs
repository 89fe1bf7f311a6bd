//! The server's agent: which reports count, and how old they are (pep-agent/src/server). The border must have answered
//! a probe before its reports count; the answers also measure the round trip, and the offset of the clocks.

use crate::packet::{Content, Echo, Probe, Report};
use hotcc_lab_proto::plan::Fault;
use std::collections::VecDeque;

/// `TICK`, at which probes of new borders leave.
const TICK_NS: u64 = 20_000_000;
/// `PROBE_PERIOD_US`: time between two probes of a border that has answered.
const PROBE_PERIOD_NS: u64 = 1_000_000_000;
/// `ANSWER_US`: maximum time until an answer.
const ANSWER_NS: u64 = 3_000_000_000;
/// `QUIET_US`: a silent border is not probed any more.
const QUIET_NS: u64 = 5_000_000_000;
/// `GONE_US`: and after this time, it must answer again.
const GONE_NS: u64 = 60_000_000_000;
/// `CLOCK_SPAN_US`: how long a measurement of the clocks' offset is as good as a new one.
const CLOCK_SPAN_US: u64 = 10_000_000;
/// `--max-age-ms`.
const MAX_AGE_US: u64 = 1_000_000;

/// A delay of the lab's relay, which `Fault::Delayed` inserts.
const FAULT_DELAY_NS: u64 = 500_000_000;
/// Under `Fault::SeesHoles`, reports leave out the first segment of each block of this many segments.
const BLOCK_BYTES: u64 = 16 * SEGMENT_BYTES;
/// Under `Fault::SeesAhead`, reports claim this many more bytes than arrived.
const AHEAD_BYTES: u64 = 16 * SEGMENT_BYTES;
const SEGMENT_BYTES: u64 = 1448;

/// A measurement of the round trip to the border, and the server's clock minus the border's. Here, both clocks are the
/// same, so the offset is the measurement's error.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rtt_us: u64,
    offset_us: i64,
}

/// The shortest round trip of the last 10 to 20 seconds (`Clock`).
#[derive(Clone, Copy, Debug)]
struct Clock {
    current: Sample,
    previous: Sample,
    since_us: u64,
}

impl Clock {
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
}

/// A run of the border that has answered (`Border` in sessions.rs).
#[derive(Clone, Copy, Debug)]
struct Session {
    run: u32,
    clock: Clock,
    probed_ns: u64,
    heard_ns: u64,
}

/// A report that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dated {
    pub report: Report,
    /// When the border saw the last segment, by the server's clock.
    pub seen_us: u64,
    /// The shortest round trip to the border.
    pub rtt_us: u32,
}

/// The agent on a server.
#[derive(Debug, Default)]
pub(super) struct Server {
    place: u16,
    fault: Fault,
    session: Option<Session>,
    /// The run of a border that has not answered, and when to probe it.
    found: Option<(u32, u64)>,
    /// Datagrams that the fault delays, each with the time at which it arrives.
    delayed: VecDeque<(u64, Content)>,
}

impl Server {
    /// Starts the agent of the server with this index. `fault` applies to what the border sends to it.
    pub fn start(place: u16, fault: Fault) -> Self {
        Self { place, fault, ..Self::default() }
    }

    /// Takes a datagram of the border from the link. Returns the report in it, if it counts.
    pub fn arrive(&mut self, now_ns: u64, mut content: Content) -> Option<Dated> {
        if self.fault == Fault::Delayed {
            self.delayed.push_back((now_ns + FAULT_DELAY_NS, content));
            return None;
        }
        if let Content::Report(report) = &mut content {
            lie(self.fault, report);
        }
        self.take(now_ns, &content)
    }

    /// Takes the next delayed datagram that has arrived by now. Returns the report in it, if it counts; the outer `None`
    /// means that none has arrived.
    pub fn take_delayed(&mut self, now_ns: u64) -> Option<Option<Dated>> {
        let (_, content) = self.delayed.pop_front_if(|(at_ns, _)| *at_ns <= now_ns)?;
        Some(self.take(now_ns, &content))
    }

    /// Returns when a delayed datagram or a probe is due.
    pub fn next_ns(&self) -> Option<u64> {
        let delayed_ns = self.delayed.front().map(|(at_ns, _)| *at_ns);
        let found_ns = self.found.map(|(_, at_ns)| at_ns);
        let probe_ns = self.session.map(|one| (one.probed_ns + PROBE_PERIOD_NS, one.heard_ns + QUIET_NS));
        let probe_ns = probe_ns.map(|(at_ns, until_ns)| (at_ns.next_multiple_of(TICK_NS), until_ns));
        let probe_ns = probe_ns.filter(|(at_ns, until_ns)| at_ns <= until_ns).map(|(at_ns, _)| at_ns);
        delayed_ns.into_iter().chain(found_ns).chain(probe_ns).min()
    }

    /// Returns the probes that are due (`Sessions::due`).
    pub fn probes(&mut self, now_ns: u64) -> Vec<Probe> {
        let mut due = Vec::new();
        if let Some(session) = &mut self.session
            && now_ns - session.heard_ns <= QUIET_NS
            && now_ns - session.probed_ns >= PROBE_PERIOD_NS
        {
            session.probed_ns = now_ns;
            due.push(Probe { server: self.place, run: session.run, sent_ns: now_ns });
        }
        if let Some((run, _)) = self.found.take_if(|(_, at_ns)| *at_ns <= now_ns) {
            due.push(Probe { server: self.place, run, sent_ns: now_ns });
        }
        due
    }

    fn take(&mut self, now_ns: u64, content: &Content) -> Option<Dated> {
        self.session = self.session.filter(|session| now_ns - session.heard_ns <= GONE_NS);
        match content {
            Content::Report(report) => self.report(now_ns, report),
            Content::Echo(echo) => {
                self.echo(now_ns, echo);
                None
            }
            _ => None,
        }
    }

    fn report(&mut self, now_ns: u64, report: &Report) -> Option<Dated> {
        let Some(session) = self.session.as_mut().filter(|session| session.run == report.run) else {
            self.found.get_or_insert((report.run, (now_ns + 1).next_multiple_of(TICK_NS)));
            return None;
        };
        session.heard_ns = now_ns;
        let best = session.clock.best();
        let now_us = now_ns / 1000;
        let seen_us = (report.seen_ns / 1000).saturating_add_signed(best.offset_us).min(now_us);
        let rtt_us = best.rtt_us as u32;
        (now_us - seen_us <= MAX_AGE_US).then_some(Dated { report: *report, seen_us, rtt_us })
    }

    fn echo(&mut self, now_ns: u64, &Echo { probe: Probe { run, sent_ns, .. }, border_ns }: &Echo) {
        if now_ns - sent_ns > ANSWER_NS {
            return;
        }
        let (now_us, sent_us) = (now_ns / 1000, sent_ns / 1000);
        let rtt_us = now_us - sent_us;
        let offset_us = (sent_us + rtt_us / 2).wrapping_sub(border_ns / 1000).cast_signed();
        let sample = Sample { rtt_us, offset_us };
        if let Some(session) = self.session.as_mut().filter(|session| session.run == run) {
            session.clock.add(sample, now_us);
            session.heard_ns = now_ns;
        } else {
            let clock = Clock { current: sample, previous: sample, since_us: now_us };
            self.session = Some(Session { run, clock, probed_ns: sent_ns, heard_ns: now_ns });
        }
    }
}

/// Changes a report as the lab's relay does (bench/lab-guest/src/exec/pep/relay.rs). The server rejects what
/// `Fault::Replayed` repeats, so that fault changes nothing.
fn lie(fault: Fault, report: &mut Report) {
    let highest = report.ranges().last().map_or(report.in_order, |range| range.1);
    match fault {
        Fault::SeesAll => report.see_all_below(highest),
        Fault::SeesAhead => report.see_all_below(highest + AHEAD_BYTES),
        Fault::SeesHoles => {
            let to = report.in_order;
            let into_block = to % BLOCK_BYTES;
            report.see_all_below(to - into_block);
            if into_block > SEGMENT_BYTES {
                report.ranges[0] = (to - into_block + SEGMENT_BYTES, to);
                report.range_count = 1;
            }
        }
        Fault::None | Fault::Dies | Fault::Delayed | Fault::Replayed => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn report(run: u32, seen_ms: u64) -> Content {
        Content::Report(Report { run, in_order: 20 * SEGMENT_BYTES, seen_ns: seen_ms * MS, ..Report::default() })
    }

    /// Lets a border answer a probe: it takes 10 ms to the border, and 20 ms back.
    fn proven(fault: Fault) -> Server {
        let mut server = Server::start(0, fault);
        assert_eq!(server.arrive(65 * MS, report(1, 60)), None, "the border has not answered");
        answer(&mut server, 80);
        server
    }

    fn answer(server: &mut Server, at_ms: u64) {
        assert_eq!(server.next_ns(), Some(at_ms * MS));
        assert_eq!(server.probes(at_ms * MS - 1), []);
        let probes = server.probes(at_ms * MS);
        let [probe] = probes[..] else { panic!("{probes:?}") };
        let echo = Echo { probe, border_ns: probe.sent_ns + 10 * MS };
        assert_eq!(server.arrive(probe.sent_ns + 30 * MS, Content::Echo(echo)), None);
    }

    /// The clocks' offset is known to half of the asymmetry: 5 ms.
    #[test]
    fn reports_count_once_the_border_has_answered() {
        let mut server = proven(Fault::None);
        let dated = |at_ms, seen_ms, server: &mut Server| {
            server.arrive(at_ms * MS, report(1, seen_ms)).map(|dated| (dated.seen_us, dated.rtt_us))
        };
        assert_eq!(dated(120, 100, &mut server), Some((105_000, 30_000)));
        assert_eq!(dated(120, 119, &mut server), Some((120_000, 30_000)), "not later than now");
        assert_eq!(dated(1060, 55, &mut server), Some((60_000, 30_000)));
        assert_eq!(dated(1060, 54, &mut server), None, "too old");
        answer(&mut server, 1080);
        assert_eq!(server.next_ns(), Some(2080 * MS));
    }

    #[test]
    fn another_run_of_the_border_must_answer_itself() {
        let mut server = proven(Fault::None);
        assert_eq!(server.arrive(200 * MS, report(2, 199)), None);
        answer(&mut server, 220);
        assert!(server.arrive(260 * MS, report(2, 255)).is_some());
    }

    #[test]
    fn a_silent_border_is_not_probed_for_long() {
        let mut server = proven(Fault::None);
        for second in 1..=5 {
            assert_eq!(server.probes((80 + second * 1000) * MS).len(), 1);
        }
        assert_eq!((server.next_ns(), server.probes(6080 * MS)), (None, Vec::new()));
    }

    #[test]
    fn the_shortest_round_trip_expires() {
        let sample = |rtt_us| Sample { rtt_us, offset_us: 0 };
        let mut clock = Clock { current: sample(30), previous: sample(30), since_us: 0 };
        for (second, rtt_us, best) in [(1, 20, 20), (2, 40, 20), (10, 50, 20), (19, 45, 20), (20, 60, 45)] {
            clock.add(sample(rtt_us), second * 1_000_000);
            assert_eq!(clock.best().rtt_us, best, "after {second} s");
        }
    }

    #[test]
    fn faults_change_reports_as_the_labs_relay_does() {
        let seen = |fault, in_order, ranges: &[(u64, u64)]| {
            let segments = |bytes: u64| bytes / SEGMENT_BYTES;
            let mut report = Report { in_order: in_order * SEGMENT_BYTES, ..Report::default() };
            report.range_count = ranges.len() as u8;
            for (to, from) in report.ranges.iter_mut().zip(ranges) {
                *to = (from.0 * SEGMENT_BYTES, from.1 * SEGMENT_BYTES);
            }
            lie(fault, &mut report);
            let ranges: Vec<_> = report.ranges().iter().map(|range| (segments(range.0), segments(range.1))).collect();
            (segments(report.in_order), ranges)
        };
        assert_eq!(seen(Fault::None, 20, &[(22, 30)]), (20, vec![(22, 30)]));
        assert_eq!(seen(Fault::SeesAll, 20, &[(22, 30)]), (30, vec![]));
        assert_eq!(seen(Fault::SeesAhead, 20, &[(22, 30)]), (46, vec![]));
        assert_eq!(seen(Fault::SeesHoles, 20, &[(22, 30)]), (16, vec![(17, 20)]));
        assert_eq!(seen(Fault::SeesHoles, 17, &[]), (16, vec![]));
    }

    #[test]
    fn a_relay_may_delay_what_the_border_sends() {
        let mut server = Server::start(0, Fault::Delayed);
        assert_eq!((server.arrive(0, report(1, 0)), server.next_ns()), (None, Some(500 * MS)));
        assert_eq!((server.take_delayed(499 * MS), server.take_delayed(500 * MS)), (None, Some(None)));
        assert!(server.found.is_some(), "the report arrived");
    }
}
