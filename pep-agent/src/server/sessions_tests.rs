//! Borders that start, restart, are replayed, delayed and forged.

use super::*;
use crate::wire::Kind;

const FROM: &str = "192.0.2.1:5000";
/// The border's clock is behind the server's by this much.
const OFFSET_US: u64 = 7_000_000_000;
const START_US: u64 = 8_000_000_000;
const KEY: Fingerprint = [1; 16];

fn header(epoch: u64, counter: u64, time_us: u64) -> Header {
    Header { kind: Kind::Report, key_id: 1, epoch, counter, time_us }
}

fn from() -> Path {
    Path { peer: FROM.parse().unwrap(), own: [203, 0, 113, 1].into() }
}

fn elsewhere(port: u16) -> Path {
    Path { peer: ([198, 51, 100, 1], port).into(), ..from() }
}

fn report(sessions: &mut Sessions, epoch: u64, counter: u64, now_us: u64) -> Result<Clock, RejectedDatagram> {
    sessions.report(&header(epoch, counter, now_us - OFFSET_US), KEY, from(), now_us)
}

/// Sends a probe and answers it, with these delays on the way there and back.
fn prove(sessions: &mut Sessions, epoch: u64, counter: u64, sent_us: u64, there_us: u64, back_us: u64) {
    let probed = sessions.due(sent_us);
    assert!(probed.iter().any(|q| q.epoch == epoch), "a probe is due");
    let nonce = sessions.nonce(epoch, 1, sent_us);
    let answer = header(epoch, counter, sent_us + there_us - OFFSET_US);
    sessions.echo(&answer, KEY, from(), nonce, sent_us + there_us + back_us).unwrap();
}

#[test]
fn a_report_counts_once_its_border_has_answered() {
    let mut sessions = Sessions::default();
    assert_eq!(report(&mut sessions, 5, 1, START_US).unwrap_err(), RejectedDatagram::Unauthenticated);
    let answer = |sessions: &mut Sessions, nonce| sessions.echo(&header(5, 2, 0), KEY, from(), nonce, START_US);
    assert_eq!(answer(&mut sessions, START_US), Err(RejectedDatagram::NotOutstanding), "nobody probed");
    prove(&mut sessions, 5, 2, START_US, 4000, 6000);
    assert!(sessions.due(START_US + 20_000).is_empty(), "an answer is no reason to ask again");
    let nonce = sessions.nonce(5, 1, START_US);
    assert_eq!(answer(&mut sessions, nonce), Err(RejectedDatagram::Replayed), "it was answered");
    let clock = report(&mut sessions, 5, 3, START_US + 20_000).unwrap();
    assert_eq!(clock.rtt_us(), 10_000);
    assert_eq!(sessions.authenticated(), (1, Some(10_000)));
    for replayed in [1, 2, 3] {
        assert_eq!(report(&mut sessions, 5, replayed, START_US + 30_000).unwrap_err(), RejectedDatagram::Replayed);
    }
}

#[test]
fn an_answer_is_valid_only_for_its_probe_and_in_time() {
    let mut sessions = Sessions::default();
    let nonce = sessions.nonce(5, 1, START_US);
    let echo =
        |sessions: &mut Sessions, header: Header, nonce, now_us| sessions.echo(&header, KEY, from(), nonce, now_us);
    let late_us = START_US + u64::from(ANSWER_US) + 1;
    for (epoch, key_id, nonce, now_us) in [
        (6, 1, nonce, START_US + 1),
        (5, 2, nonce, START_US + 1),
        (5, 1, nonce ^ 1 << 32, START_US + 1),
        (5, 1, nonce ^ 1, START_US + 1),
        (5, 1, nonce, START_US - 1),
        (5, 1, nonce, late_us),
        (5, 1, nonce, START_US + (1 << 32) + 1),
        (5, 1, Sessions::default().nonce(5, 1, START_US), START_US + 1),
    ] {
        let header = Header { key_id, ..header(epoch, 1, 0) };
        assert_eq!(
            echo(&mut sessions, header, nonce, now_us),
            Err(RejectedDatagram::NotOutstanding),
            "{epoch} {key_id} {nonce:x}"
        );
    }
    assert_eq!(echo(&mut sessions, header(5, 1, 0), nonce, late_us - 1), Ok(()));
}

#[test]
fn restarts_neither_lock_borders_out_nor_admit_old_reports() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1_000_000, START_US);
    prove(&mut sessions, 5, 1_000_001, START_US, 1000, 1000);
    assert!(report(&mut sessions, 5, 1_000_002, START_US + 5000).is_ok());
    // the border restarts: its counters start again at 1
    assert_eq!(report(&mut sessions, 6, 1, START_US + 10_000).unwrap_err(), RejectedDatagram::Unauthenticated);
    prove(&mut sessions, 6, 2, START_US + 200_000, 1000, 1000);
    assert!(report(&mut sessions, 6, 3, START_US + 210_000).is_ok());
    // the server restarts: datagrams recorded before need an answer that is no longer possible
    let mut restarted = Sessions::default();
    assert_eq!(
        report(&mut restarted, 5, 1_000_003, START_US + 220_000).unwrap_err(),
        RejectedDatagram::Unauthenticated
    );
    let before = sessions.nonce(5, 1, START_US + 220_000);
    let answer = header(5, 1_000_001, 0);
    assert_eq!(restarted.echo(&answer, KEY, from(), before, START_US + 221_000), Err(RejectedDatagram::NotOutstanding));
    // datagrams recorded from the run that now answers have a lower counter
    let _ = report(&mut restarted, 6, 3, START_US + 230_000);
    prove(&mut restarted, 6, 10, START_US + 240_000, 1000, 1000);
    assert_eq!(report(&mut restarted, 6, 9, START_US + 250_000).unwrap_err(), RejectedDatagram::Replayed);
    assert!(report(&mut restarted, 6, 11, START_US + 250_000).is_ok());
}

/// Anyone on the wire can read the epochs of runs, and may hold a key for other servers.
#[test]
fn a_run_named_under_another_key_is_another_border() {
    const OTHER: Fingerprint = [2; 16];
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    prove(&mut sessions, 5, 2, START_US, 1000, 1000);
    let last = header(5, u64::MAX, START_US);
    assert_eq!(
        sessions.report(&last, OTHER, elsewhere(9), START_US + 5000).unwrap_err(),
        RejectedDatagram::Unauthenticated
    );
    let sent_us = START_US + 20_000;
    let others = Probe { to: elsewhere(9), epoch: 5, key: OTHER };
    assert_eq!(sessions.due(sent_us), [others], "the other one is probed where it is, under its own key");
    let nonce = sessions.nonce(5, 1, sent_us);
    sessions.echo(&last, OTHER, elsewhere(9), nonce, sent_us + 1000).unwrap();
    assert_eq!(sessions.authenticated(), (1, Some(1000)), "they are one run");
    let clock = report(&mut sessions, 5, 3, sent_us + 2000).unwrap();
    assert_eq!((clock.rtt_us(), clock.ours(START_US - OFFSET_US, sent_us + 2000)), (2000, START_US));
    let border = Probe { to: from(), epoch: 5, key: KEY };
    assert!(sessions.due(START_US + 1_000_000).contains(&border));
}

/// However long the way back takes, a time of the border is dated to within half of the shortest round trip.
#[test]
fn a_delayed_report_is_dated_when_it_was_made() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    prove(&mut sessions, 5, 2, START_US, 5000, 500_000);
    prove(&mut sessions, 5, 3, START_US + 1_000_000, 5000, 7000);
    prove(&mut sessions, 5, 4, START_US + 2_000_000, 5000, 500_000);
    let made_us = START_US + 2_100_000;
    let header = header(5, 5, made_us - OFFSET_US);
    let arrived_us = made_us + 500_000;
    let clock = sessions.report(&header, KEY, from(), arrived_us).unwrap();
    let error_us = clock.ours(header.time_us, arrived_us).abs_diff(made_us);
    assert!(error_us <= 6000, "{error_us}");
    assert_eq!(clock.ours(header.time_us + 10_000_000, arrived_us), arrived_us, "nothing is from the future");
}

#[test]
fn drifting_clocks_are_followed() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    prove(&mut sessions, 5, 2, START_US, 1000, 1000);
    for second in 1..100 {
        let now_us = START_US + second * 1_000_000;
        let (drift_us, counter) = (second * 50, second * 2 + 1);
        assert_eq!(sessions.due(now_us).len(), 1);
        let (nonce, at_us) = (sessions.nonce(5, 1, now_us), now_us + 2000 - OFFSET_US - drift_us);
        sessions.echo(&header(5, counter, at_us), KEY, from(), nonce, now_us + 4000).unwrap();
        let seen_us = now_us - OFFSET_US - drift_us;
        let clock = sessions.report(&header(5, counter + 1, seen_us), KEY, from(), now_us + 5000).unwrap();
        let error_us = clock.ours(seen_us, now_us + 5000).abs_diff(now_us);
        assert!(error_us <= 2 * 10 * 50, "{error_us} us after {second} s");
    }
}

#[test]
fn a_datagram_causes_one_probe() {
    let mut sessions = Sessions::default();
    for came_us in [START_US, START_US + 10_000_000] {
        let _ = report(&mut sessions, 5, 1, came_us);
        assert_eq!(sessions.due(came_us).len(), 1);
        for later_us in (20_000..10_000_000).step_by(20_000) {
            assert!(sessions.due(came_us + later_us).is_empty(), "{later_us} us later");
        }
    }
}

/// A border is one of a thousand senders, and gets its share of each period's probes.
#[test]
fn probed_addresses_are_chosen_at_random() {
    let mut sessions = Sessions::default();
    let mut probed = 0;
    for time in 0..500 {
        let now_us = START_US + time * NEW_PROBES_PERIOD_US;
        for port in 1..1000 {
            let _ = sessions.report(&header(5, 1, 0), KEY, elsewhere(port), now_us);
            if port == 1 {
                let _ = report(&mut sessions, 5, time, now_us);
            }
        }
        let due = sessions.due(now_us);
        assert_eq!(due.len(), NEW_PROBES);
        probed += u32::from(due.iter().any(|probe| probe.to == from()));
    }
    assert!((16..=64).contains(&probed), "{probed} of 500 times, 32 expected");
}

/// A third party whose copy of each report arrives first, from another address, does not take the border's place and
/// does not prevent it from moving.
#[test]
fn a_border_is_at_the_address_that_answers() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    prove(&mut sessions, 5, 2, START_US, 1000, 1000);
    let moved = elsewhere(77);
    let mut probed: HashMap<Path, u32> = HashMap::new();
    for counter in 3..203 {
        let now_us = START_US + counter * NEW_PROBES_PERIOD_US;
        assert!(sessions.report(&header(5, counter, now_us - OFFSET_US), KEY, elsewhere(1), now_us).is_ok());
        let own = if counter < 100 { from() } else { moved };
        let own = sessions.report(&header(5, counter, now_us - OFFSET_US), KEY, own, now_us);
        assert_eq!(own.unwrap_err(), RejectedDatagram::Replayed);
        sessions.due(now_us).into_iter().for_each(|probe| *probed.entry(probe.to).or_default() += 1);
    }
    assert_eq!((probed[&from()], probed[&elsewhere(1)], probed[&moved]), (4, 200, 103));
    let now_us = START_US + 204 * NEW_PROBES_PERIOD_US;
    let nonce = sessions.nonce(5, 1, now_us);
    sessions.echo(&header(5, 204, now_us - OFFSET_US), KEY, moved, nonce, now_us + 500).unwrap();
    assert!(sessions.report(&header(5, 205, now_us - OFFSET_US), KEY, moved, now_us + 1000).is_ok());
    assert!(sessions.due(now_us + NEW_PROBES_PERIOD_US).is_empty(), "it has just answered");
}

#[test]
fn addresses_of_a_border_are_bounded_and_forgotten() {
    let mut sessions = Sessions::default();
    for (counter, port) in (1..).zip(1..=10) {
        let now_us = START_US + counter;
        let nonce = sessions.nonce(5, 1, now_us);
        sessions.echo(&header(5, counter, 0), KEY, elsewhere(port), nonce, now_us + 1).unwrap();
    }
    let probed: HashSet<Path> = sessions.due(START_US + 2_000_000).iter().map(|probe| probe.to).collect();
    assert_eq!(probed, (7..=10).map(elsewhere).collect(), "those that answered last");
    assert!(sessions.due(START_US + 8_000_000).is_empty(), "it is quiet");
    sessions.gc(START_US + 70_000_000);
    assert_eq!(sessions.borders.len(), 0);
}

#[test]
fn replayed_runs_take_no_room() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 0, 1, START_US);
    prove(&mut sessions, 0, 2, START_US, 1000, 1000);
    for epoch in 1..10_000 {
        assert_eq!(report(&mut sessions, epoch, 1, START_US + epoch).unwrap_err(), RejectedDatagram::Unauthenticated);
    }
    assert_eq!((sessions.borders.len(), sessions.chosen.len()), (1, NEW_PROBES));
    assert!(report(&mut sessions, 0, 3, START_US + 20_000).is_ok());
}

/// The holder of one key cannot fill the table against holders of other keys.
#[test]
fn the_runs_of_one_key_make_room_for_those_of_others() {
    let mut sessions = Sessions::default();
    let mut answers = |key: u8, epoch: u64, now_us: u64| {
        let nonce = sessions.nonce(epoch, 1, now_us);
        let answered = sessions.echo(&header(epoch, 1, 0), [key; 16], from(), nonce, now_us + 1);
        let of = |key: u8| sessions.borders.keys().filter(|(_, k)| *k == [key; 16]).count();
        (answered, of(1), of(2), of(3))
    };
    assert_eq!(answers(2, 0, START_US), (Ok(()), 0, 1, 0));
    for epoch in 1..BORDERS as u64 {
        assert_eq!(answers(1, epoch, START_US + epoch), (Ok(()), epoch as usize, 1, 0));
    }
    assert_eq!(answers(1, 256, START_US + 256), (Err(RejectedDatagram::TooMany), BORDERS - 1, 1, 0));
    assert_eq!(answers(3, 257, START_US + 257), (Ok(()), BORDERS - 2, 1, 1), "its quietest went");
    assert_eq!(answers(2, 258, START_US + 258), (Ok(()), BORDERS - 3, 2, 1));
}

/// A firewall may begin to drop probes while reports still arrive.
#[test]
fn a_border_that_stops_answering_must_answer_again() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    prove(&mut sessions, 5, 2, START_US, 1000, 1000);
    for second in 1..=60 {
        let now_us = START_US + second * 1_000_000;
        assert!(report(&mut sessions, 5, 2 + second, now_us).is_ok());
        sessions.due(now_us);
        sessions.gc(now_us);
    }
    let late_us = START_US + 62_000_000;
    sessions.gc(late_us);
    assert_eq!(report(&mut sessions, 5, 63, late_us).unwrap_err(), RejectedDatagram::Unauthenticated);
    prove(&mut sessions, 5, 64, late_us + NEW_PROBES_PERIOD_US, 1000, 1000);
    assert!(report(&mut sessions, 5, 65, late_us + 100_000).is_ok());
}
