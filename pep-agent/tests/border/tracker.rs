//! The state that the program keeps of a flow, compared with a model that records for each byte whether it was seen.

use crate::packet::{ACK, FIN, Packet, RST, SYN};
use crate::program::{FlowState, PATIENT, Program, SERVER, Settings, client, program};
use hotcc_abi::border::REASONS;
use pep_agent::border::records;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::time::{Duration, Instant};

/// Bytes of a flow that the model covers.
const SPACE: usize = 400;
const RANGES: usize = 4;

/// The state byte by byte, from the first byte that was seen.
struct Model {
    base: u32,
    seen: [bool; SPACE],
    segments: u32,
}

impl Model {
    fn in_order(&self) -> usize {
        self.seen.iter().position(|seen| !seen).unwrap_or(SPACE)
    }

    /// Returns the runs of seen bytes above the in-order ones.
    fn ranges(&self) -> Vec<(usize, usize)> {
        let (mut runs, mut at) = (Vec::new(), self.in_order());
        while let Some(start) = (at..SPACE).find(|i| self.seen[*i]) {
            let end = (start..SPACE).find(|i| !self.seen[*i]).unwrap_or(SPACE);
            runs.push((start, end));
            at = end;
        }
        runs
    }

    /// Returns whether a gap appeared or closed.
    fn segment(&mut self, at: i32, length: usize, is_data: bool) -> bool {
        let gaps = self.ranges().len();
        let end = (at + length as i32).clamp(0, SPACE as i32) as usize;
        self.seen[(at.max(0) as usize).min(end)..end].fill(true);
        let is_other = self.ranges().len() != gaps;
        if self.ranges().len() > RANGES {
            let (start, end) = self.ranges()[0];
            self.seen[start..end].fill(false);
        }
        self.segments += u32::from(is_data);
        is_other
    }

    fn ack(&mut self, at: usize) {
        let highest = self.ranges().last().map_or(self.in_order(), |r| r.1);
        self.seen[..at.min(highest)].fill(true);
    }

    fn state(&self) -> FlowState {
        let number = |offset: usize| self.base.wrapping_add(offset as u32);
        let ranges = self.ranges().iter().map(|&(start, end)| (number(start), number(end))).collect();
        FlowState { in_order: number(self.in_order()), ranges, segments: self.segments }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Segment { at: i32, payload: usize, fin: bool },
    Ack { at: usize },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let segment = (-20..300i32, 1..50usize, any::<bool>().prop_map(|fin| fin));
    let event = prop_oneof![
        6 => segment.prop_map(|(at, payload, fin)| Event::Segment { at, payload, fin }),
        // as with loss and reordering: short steps that leave holes
        6 => (0..40i32, 1..4usize).prop_map(|(at, payload)| Event::Segment { at: at * 7, payload, fin: false }),
        1 => (0..380usize).prop_map(|at| Event::Ack { at }),
    ];
    prop::collection::vec(event, 1..60)
}

fn apply(program: &mut Program, number: u32, base: u32, events: &[Event]) -> Result<(), TestCaseError> {
    let (server, client) = (SERVER.parse().unwrap(), client(number));
    let mut model = Model { base, seen: [false; SPACE], segments: 0 };
    let mut due = 0;
    program.reports();
    program.segment(client, base, 1);
    model.segment(0, 1, true);
    for event in events {
        match *event {
            Event::Segment { at, payload, fin } => {
                let flags = ACK | if fin { FIN } else { 0 };
                let seq = base.wrapping_add_signed(at);
                program.data(&Packet { flags, ..Packet::data(server, client, seq, payload) }.frame());
                due += usize::from(model.segment(at, payload + usize::from(fin), true));
            }
            Event::Ack { at } => {
                program.ack(&Packet::ack(client, server, base.wrapping_add(at as u32)).frame());
                model.ack(at);
            }
        }
        prop_assert_eq!(program.flow(server, client), Some(model.state()), "after {:?}", event);
        let reports = program.reports();
        prop_assert_eq!(reports.len(), due, "reports due after {:?}", event);
        for report in reports {
            prop_assert_eq!(REASONS[report.reason as usize], "gap");
            let (report, state) = (records::report(&report), model.state());
            let ranges: Vec<_> = report.ranges.iter().map(|r| (r.start, r.end)).collect();
            prop_assert_eq!((report.key.server, report.key.client), (server, client));
            prop_assert_eq!(FlowState { in_order: report.in_order, ranges, segments: report.segments }, state);
        }
        due = 0;
    }
    Ok(())
}

#[test]
fn the_program_keeps_what_a_model_of_single_bytes_has() {
    let Some(program) = program("model", PATIENT) else { return };
    let program = std::cell::RefCell::new((program, 0));
    // many of the initial sequence numbers are just below the wrap
    let base = prop_oneof![any::<u32>(), (0..300u32).prop_map(|n| n.wrapping_neg())];
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() });
    let outcome = runner.run(&(base, events()), |(base, events)| {
        let (program, number) = &mut *program.borrow_mut();
        *number += 1;
        apply(program, *number, base, &events)
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn beginnings_and_ends_take_sequence_space() {
    let Some(program) = program("ends", PATIENT) else { return };
    let (server, client) = (SERVER.parse().unwrap(), client(0));
    let send = |flags, seq, payload| {
        program.data(&Packet { flags, ..Packet::data(server, client, seq, payload) }.frame());
        program.flow(server, client).map(|f| (f.in_order, f.segments))
    };
    assert_eq!(send(SYN | ACK, u32::MAX, 0), Some((0, 0)));
    assert_eq!(send(ACK, 0, 0), Some((0, 0)), "no data, nothing changes");
    assert_eq!(send(ACK, 0, 1000), Some((1000, 1)));
    assert_eq!(send(ACK, 999, 1), Some((1000, 2)), "a keep-alive with a byte");
    assert_eq!(send(ACK, 999, 0), Some((1000, 2)), "and one without");
    assert_eq!(send(ACK | FIN, 1000, 500), Some((1501, 3)));
    assert_eq!(send(ACK | FIN, 1500, 0), Some((1501, 3)), "again");
    // the next connection between the same ports; its SYN-ACK carries the answer to the request
    assert_eq!(send(SYN | ACK, 900_000, 10), Some((900_011, 1)));
    assert_eq!(send(RST, 900_011, 0), None);
    assert_eq!(program.counters().flows_ended, 1);
    for end in [RST, SYN] {
        assert_eq!(send(ACK, 5, 5), Some((10, 1)), "from the middle of a flow: its first segment says where");
        program.ack(&Packet { flags: end, ..Packet::ack(client, server, 0) }.frame());
        assert_eq!(program.flow(server, client), None);
    }
    assert_eq!(program.counters().flows_new, 3);
}

#[test]
fn a_distant_sequence_number_restarts_tracking() {
    let Some(program) = program("far", PATIENT) else { return };
    let (server, client) = (SERVER.parse().unwrap(), client(0));
    let window = 1 << 30;
    program.segment(client, 1000, 100);
    program.segment(client, 1100 + window, 100);
    let state = |in_order, ranges: &[(u32, u32)], segments| FlowState { in_order, ranges: ranges.to_vec(), segments };
    assert_eq!(program.flow(server, client), Some(state(1100, &[(1100 + window, 1200 + window)], 2)));
    program.segment(client, 1101 + 2 * window, 100);
    assert_eq!(program.flow(server, client), Some(state(1201 + 2 * window, &[], 3)));
    program.segment(client, 1200 + window, 1);
    assert_eq!(program.flow(server, client), Some(state(1201 + window, &[], 4)));
    assert_eq!(program.counters().lost_sight, 2);
}

#[test]
fn an_acknowledgement_never_goes_beyond_what_was_seen() {
    let Some(program) = program("acks", PATIENT) else { return };
    let (server, client) = (SERVER.parse().unwrap(), client(0));
    let ack = |ack| {
        program.ack(&Packet::ack(client, server, ack).frame());
        program.flow(server, client).map(|f| (f.in_order, f.ranges))
    };
    program.segment(client, 0, 100);
    assert_eq!(ack(5000), Some((100, vec![])), "no gap: nothing to learn");
    program.segment(client, 200, 100);
    program.segment(client, 400, 100);
    assert_eq!(ack(50), Some((100, vec![(200, 300), (400, 500)])), "old");
    assert_eq!(ack(250), Some((300, vec![(400, 500)])));
    assert_eq!(ack(5000), Some((500, vec![])));
}

#[test]
fn segments_that_arrive_while_a_flow_is_locked_are_skipped_and_counted() {
    let Some(mut program) = program("busy", PATIENT) else { return };
    let (server, client) = (SERVER.parse().unwrap(), client(1));
    program.segment(client, 0, 100);
    program.set_lock(server, client, true);
    program.segment(client, 100, 100);
    program.set_lock(server, client, false);
    assert_eq!(program.counters().segments_busy, 1);
    assert_eq!(program.flow(server, client).map(|f| (f.in_order, f.segments)), Some((100, 1)));
    program.segment(client, 100, 100);
    assert_eq!(program.counters().segments_busy, 1);
    assert_eq!(program.flow(server, client).map(|f| f.in_order), Some(200));
}

#[test]
fn reports_are_due_by_segments_and_by_time() {
    const DELAY_US: u32 = 20_000;
    let settings = Settings { segments: 4, delay_us: DELAY_US, ..PATIENT };
    let Some(mut program) = program("due", settings) else { return };
    for i in 0..4 {
        program.segment(client(1), i * 10, 10);
    }
    let reports = program.reports();
    assert_eq!(reports.len(), 1, "the fourth segment");
    assert_eq!((REASONS[reports[0].reason as usize], reports[0].segments), ("segments", 4));

    // several flows that wait; the timer reports them without another packet
    for i in 2..50 {
        program.segment(client(i), 0, 10);
    }
    let (started, mut told) = (Instant::now(), Vec::new());
    while told.len() < 49 && started.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
        told.extend(program.reports());
    }
    assert!(told.iter().all(|r| (REASONS[r.reason as usize], r.segments) == ("time", 1)), "{told:?}");
    let mut clients: Vec<_> = told.iter().map(|r| records::report(r).key.client).collect();
    clients.sort_unstable();
    let mut all: Vec<_> = (1..50).map(client).collect();
    all.sort_unstable();
    assert_eq!(clients, all, "the flows that wait, and the first one's first segment, which waited by itself");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(program.reports(), [], "each of them once");

    // the same again, after a pause
    program.segment(client(2), 10, 10);
    let started = Instant::now();
    while program.reports().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(10), "the timer does not run any more");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(started.elapsed() >= Duration::from_micros(u64::from(DELAY_US) / 2), "{:?}", started.elapsed());
}

#[test]
fn a_single_segment_waits_alone_and_later_ones_with_their_flow() {
    const DELAY_US: u32 = 200_000;
    let delay = Duration::from_micros(DELAY_US.into());
    let Some(mut program) = program("alone", Settings { delay_us: DELAY_US, ..PATIENT }) else { return };
    program.agent("border_poll");
    let told = |program: &mut Program| {
        std::thread::sleep(delay);
        program.agent("border_poll");
        program.reports().iter().map(|r| (r.seen.in_order, r.seen.range_count, r.segments)).collect::<Vec<_>>()
    };
    program.segment(client(0), 0, 10);
    for i in 1..5 {
        program.segment(client(0), i * 10, 10);
    }
    assert_eq!(told(&mut program), [(10, 0, 1), (50, 0, 5)], "the flow once, whatever it got");
    assert_eq!(told(&mut program), [], "and no more");
    program.segment(client(0), 50, 10);
    assert_eq!(told(&mut program), [(60, 0, 6)], "alone again, after a pause");
    // an entry for a segment alone has no room for ranges
    program.segment(client(0), 100, 10);
    assert_eq!(program.reports().len(), 1, "a gap is told at once");
    std::thread::sleep(delay);
    program.segment(client(0), 110, 10);
    assert_eq!(told(&mut program), [(60, 1, 8)]);
    // its flow may have ended by then
    program.segment(client(1), 0, 10);
    program.data(&Packet { flags: RST, ..Packet::data(SERVER.parse().unwrap(), client(1), 10, 0) }.frame());
    assert_eq!(told(&mut program), [(10, 0, 1)]);
}

#[test]
fn while_the_agent_polls_only_polls_generate_reports() {
    const DELAY_US: u32 = 200_000;
    let delay = Duration::from_micros(DELAY_US.into());
    let Some(mut program) = program("look", Settings { delay_us: DELAY_US, ..PATIENT }) else { return };
    // whether or not the timer was already waiting
    for timer_waits in [true, false] {
        if timer_waits {
            program.segment(client(0), 0, 10);
        }
        program.agent("border_poll");
        if !timer_waits {
            program.segment(client(0), 10, 10);
        }
        std::thread::sleep(delay * 2);
        assert_eq!(program.reports(), [], "before a poll");
        program.agent("border_poll");
        let told: Vec<_> = program.reports().iter().map(|r| (REASONS[r.reason as usize], r.segments)).collect();
        assert_eq!(told, [("time", if timer_waits { 1 } else { 2 })]);
        program.agent("border_poll");
        assert_eq!(program.reports(), [], "each of them once");
    }
    // segments that come before polling ends are not forgotten
    program.segment(client(0), 20, 10);
    program.agent("border_end_poll");
    program.segment(client(1), 0, 10);
    let (started, mut told) = (Instant::now(), 0);
    while told < 2 {
        assert!(started.elapsed() < Duration::from_secs(10), "the timer does not run: {told} of 2 told");
        std::thread::sleep(Duration::from_millis(1));
        told += program.reports().len();
    }
}
