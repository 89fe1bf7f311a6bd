//! Borders that start, restart, are replayed, delayed and made up.

use super::*;
use crate::wire::Kind;

const FROM: &str = "192.0.2.1:5000";
/// The border's clock is that much behind ours.
const OFFSET_US: u64 = 7_000_000_000;
const START_US: u64 = 8_000_000_000;
const KEY: Fingerprint = [1; 16];

fn header(epoch: u64, counter: u64, time_us: u64) -> Header {
    Header { kind: Kind::Report, key_id: 1, epoch, counter, time_us }
}

fn report(sessions: &mut Sessions, epoch: u64, counter: u64, now_us: u64) -> Result<Clock, Refused> {
    sessions.report(&header(epoch, counter, now_us - OFFSET_US), KEY, FROM.parse().unwrap(), now_us)
}

/// Asks and answers, with that long on the way there and back.
fn prove(sessions: &mut Sessions, epoch: u64, counter: u64, asked_us: u64, there_us: u64, back_us: u64) {
    let asked = sessions.due(asked_us, || asked_us);
    let question = asked.iter().find(|q| q.epoch == epoch).expect("a question is due");
    let answer = header(epoch, counter, asked_us + there_us - OFFSET_US);
    sessions.echo(&answer, KEY, question.nonce, asked_us + there_us + back_us).unwrap();
}

#[test]
fn a_report_counts_once_its_border_has_answered() {
    let mut sessions = Sessions::default();
    assert_eq!(report(&mut sessions, 5, 1, START_US).unwrap_err(), Refused::Unproven);
    assert_eq!(sessions.echo(&header(5, 2, 0), KEY, 77, START_US), Err(Refused::Unasked), "nobody asked");
    prove(&mut sessions, 5, 2, START_US, 4000, 6000);
    assert!(sessions.due(START_US + 20_000, || 1).is_empty(), "an answer is no reason to ask again");
    assert_eq!(sessions.echo(&header(5, 2, 0), KEY, START_US, START_US), Err(Refused::Unasked), "it was answered");
    let clock = report(&mut sessions, 5, 3, START_US + 20_000).unwrap();
    assert_eq!(clock.rtt_us(), 10_000);
    assert_eq!(sessions.proven(), (1, Some(10_000)));
    for replayed in [1, 2, 3] {
        assert_eq!(report(&mut sessions, 5, replayed, START_US + 30_000).unwrap_err(), Refused::Replayed);
    }
}

#[test]
fn a_restart_on_either_side_locks_nobody_out_and_lets_no_old_report_in() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1_000_000, START_US);
    prove(&mut sessions, 5, 1_000_001, START_US, 1000, 1000);
    assert!(report(&mut sessions, 5, 1_000_002, START_US + 5000).is_ok());
    // the border restarts: its counters begin anew
    assert_eq!(report(&mut sessions, 6, 1, START_US + 10_000).unwrap_err(), Refused::Unproven);
    prove(&mut sessions, 6, 2, START_US + 200_000, 1000, 1000);
    assert!(report(&mut sessions, 6, 3, START_US + 210_000).is_ok());
    // the server restarts: what was recorded before needs an answer that nobody can give any more
    let mut restarted = Sessions::default();
    assert_eq!(report(&mut restarted, 5, 1_000_003, START_US + 220_000).unwrap_err(), Refused::Unproven);
    assert_eq!(restarted.echo(&header(5, 1_000_001, 0), KEY, START_US, START_US + 220_000), Err(Refused::Unasked));
    // and of the run that answers, what was recorded has a lower counter
    let _ = report(&mut restarted, 6, 3, START_US + 230_000);
    prove(&mut restarted, 6, 10, START_US + 230_000, 1000, 1000);
    assert_eq!(report(&mut restarted, 6, 9, START_US + 240_000).unwrap_err(), Refused::Replayed);
    assert!(report(&mut restarted, 6, 11, START_US + 240_000).is_ok());
}

/// Which runs there are can be read off the wire, and keys for other servers are others' to use.
#[test]
fn a_run_named_under_another_key_is_another_border() {
    const OTHER: Fingerprint = [2; 16];
    let elsewhere = "198.51.100.1:9".parse().unwrap();
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    prove(&mut sessions, 5, 2, START_US, 1000, 1000);
    let last = header(5, u64::MAX, START_US);
    assert_eq!(sessions.report(&last, OTHER, elsewhere, START_US + 5000).unwrap_err(), Refused::Unproven);
    let asked = sessions.due(START_US + 10_000, || 77);
    let others = Question { to: elsewhere, epoch: 5, key: OTHER, nonce: 77 };
    assert_eq!(asked, [others], "the other one is asked where it is, under its own key");
    assert_eq!(sessions.echo(&last, KEY, 77, START_US + 11_000), Err(Refused::Unasked));
    sessions.echo(&last, OTHER, 77, START_US + 11_000).unwrap();
    assert_eq!(sessions.proven(), (1, Some(1000)), "they are one run");
    let clock = report(&mut sessions, 5, 3, START_US + 12_000).unwrap();
    assert_eq!((clock.rtt_us(), clock.ours(START_US - OFFSET_US, START_US + 12_000)), (2000, START_US));
    let border = Question { to: FROM.parse().unwrap(), epoch: 5, key: KEY, nonce: 78 };
    assert!(sessions.due(START_US + 1_000_000, || 78).contains(&border));
}

/// Whatever the way back does, a moment of the border is dated as it was, give or take half of the least round trip.
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
    let clock = sessions.report(&header, KEY, FROM.parse().unwrap(), arrived_us).unwrap();
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
        let asked = sessions.due(now_us, || now_us);
        sessions
            .echo(&header(5, counter, now_us + 2000 - OFFSET_US - drift_us), KEY, asked[0].nonce, now_us + 4000)
            .unwrap();
        let seen_us = now_us - OFFSET_US - drift_us;
        let clock =
            sessions.report(&header(5, counter + 1, seen_us), KEY, FROM.parse().unwrap(), now_us + 5000).unwrap();
        let error_us = clock.ours(seen_us, now_us + 5000).abs_diff(now_us);
        assert!(error_us <= 2 * 10 * 50, "{error_us} us after {second} s");
    }
}

#[test]
fn answers_that_take_longer_than_the_next_question_are_taken() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    let first = sessions.due(START_US, || 1)[0].nonce;
    assert!(sessions.due(START_US + 50_000, || 2).is_empty());
    for number in [3, 4] {
        let asked_us = START_US + (number - 2) * 100_000;
        let _ = report(&mut sessions, 5, number, asked_us);
        assert_eq!(sessions.due(asked_us, || number).len(), 1);
    }
    sessions.echo(&header(5, 2, 0), KEY, first, START_US + 700_000).unwrap();
    assert_eq!(sessions.proven(), (1, Some(700_000)));
}

#[test]
fn a_datagram_makes_one_question() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 5, 1, START_US);
    assert_eq!(sessions.due(START_US, || 1).len(), 1);
    for later_us in (20_000..10_000_000).step_by(20_000) {
        assert!(sessions.due(START_US + later_us, || 2).is_empty(), "{later_us} us later");
    }
    let _ = report(&mut sessions, 5, 1, START_US + 10_000_000);
    assert_eq!(sessions.due(START_US + 10_000_000, || 3).len(), 1);
}

#[test]
fn many_runs_of_borders_are_bounded_and_drive_out_none_that_answered() {
    let mut sessions = Sessions::default();
    let _ = report(&mut sessions, 0, 1, START_US);
    prove(&mut sessions, 0, 2, START_US, 1000, 1000);
    for epoch in 1..10_000 {
        assert_eq!(report(&mut sessions, epoch, 1, START_US + epoch).unwrap_err(), Refused::Unproven);
    }
    assert_eq!(sessions.0.len(), BORDERS);
    assert!(report(&mut sessions, 0, 3, START_US + 20_000).is_ok());
    sessions.tidy(START_US + 30_000_000);
    assert_eq!(sessions.0.len(), 1);
    sessions.tidy(START_US + 100_000_000);
    assert_eq!(sessions.0.len(), 0);
}
