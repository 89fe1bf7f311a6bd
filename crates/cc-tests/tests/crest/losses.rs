//! crest's answers to losses and marks: the queue that is wanted, and limits of W.

use super::{CRUISE, Connection, PROBE, longer};
use hotcc_host_algo::{HostAlgo, RateSample};

const OPEN: u8 = 0;
const CWR: u8 = 2;
const LOSS: u8 = 4;
/// Values of `policed`: from `LIMIT` on there is a limit, and from `RANDOM` on losses count as random.
const LIMIT: u64 = 51;
const RANDOM: u64 = 4 * LIMIT;

#[test]
fn losses_shrink_the_target_queue_and_not_the_flight() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    for _ in 0..40 {
        connection.view.lost += 20; // more than a tenth of each round
        connection.ack(50_000, 100, 100, 42_000);
    }
    assert!(connection.state("loss") > 100);
    assert!(connection.state("room") <= 3);
    // the RTTs are near the least one, so that no probe is due. 1.1 x 100 / 42 ms x 40 ms, and a segment: 105.8
    connection.ack(10_000, 20, 100, 42_000);
    while connection.state("phase") != CRUISE {
        connection.ack(50_000, 100, 100, 40_500);
    }
    connection.ack(50_000, 100, 100, 42_000);
    let w = connection.state("window") as f64 / 256.0;
    assert!((105.3..106.0).contains(&w), "{w}");
}

/// Unlike losses, marks take W to less than what arrives. It returns when they end.
#[test]
fn marks_shrink_the_window_below_what_arrives_until_they_end() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let mut windows = |rounds, marked| {
        for _ in 0..rounds {
            if marked {
                connection.flow.set_state(CWR);
            }
            connection.ack(50_000, 100, 100, 40_600); // near the least RTT, so that no probe is due
            assert_eq!(connection.state("phase"), CRUISE);
        }
        connection.state("window") as f64 / 256.0
    };
    // 100 / 40.6 ms x 40 ms = 98.5
    let before = windows(10, false);
    let one = windows(1, true);
    assert!(98.5 * 1.1 < one && one < before, "{one} after {before}");
    // 15/16, and a segment
    let many = windows(15, true);
    assert!((92.9..93.9).contains(&many), "{many}");
    // 1/16 more per round, and at last 1.1
    let later: Vec<f64> = (0..4).map(|_| windows(1, false)).collect();
    assert!(later.is_sorted() && later[3] > 1.1 * 98.5, "{later:?}");
}

/// Segments that a timeout marks as lost are often only delayed. A full queue would be a rival's.
#[test]
fn an_outage_is_no_full_queue() {
    let algo = HostAlgo::load("crest");
    for undone in [false, true] {
        let mut connection = Connection::wide(&algo);
        connection.view.lost += connection.view.snd_cwnd;
        connection.flow.set(&connection.view);
        connection.flow.set_state(LOSS);
        connection.view.ca_state = if undone { OPEN } else { LOSS }.into();
        connection.ack(200_000, 200, 200, 240_000);
        assert_eq!(connection.state("filled"), 0, "undone: {undone}");
        connection.view.ca_state = OPEN.into();
        connection.ack(50_000, 200, 200, 40_000);
        // a test comes only after 25 rounds with a queue
        for _ in 0..5 {
            connection.ack(50_000, 200, 200, 65_000);
            assert_eq!(connection.state("phase"), CRUISE, "undone: {undone}");
        }
    }
}

#[test]
fn a_mark_ends_the_start() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.flow.set_state(CWR);
    assert_eq!(connection.state("phase"), CRUISE);
}

/// Runs rounds without a queue, each with 6 % of its segments lost, until W is at most what arrives; returns their
/// number.
fn lossy_rounds_to_a_limit(connection: &mut Connection<'_>) -> u32 {
    for round in 1..40 {
        connection.view.lost += 6;
        connection.ack(40_000, 100, 100, 40_000);
        if connection.state("policed") >= LIMIT {
            return round;
        }
    }
    panic!(
        "no limit: {} per mille lost, {} / 8 RTTs without a queue",
        connection.state("loss"),
        connection.state("empty")
    );
}

#[test]
fn losses_without_a_queue_limit_the_window_to_what_arrives() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    let rounds = lossy_rounds_to_a_limit(&mut connection);
    assert!(rounds >= 4, "{rounds} rounds");
    for _ in 0..49 {
        connection.ack(40_000, 100, 100, 40_000);
        let w = connection.state("window") as f64 / 256.0;
        assert!((98.5..101.5).contains(&w), "100 segments arrive per RTT, W is {w}");
    }
    // then 2 % more per round; a round takes more than one of these ACKs now
    for _ in 0..10 {
        connection.ack(40_000, 100, 100, 40_000);
    }
    let w = connection.state("window") as f64 / 256.0;
    assert!((105.0..125.0).contains(&w), "{w}");
}

#[test]
fn losses_that_persist_under_a_limit_count_as_random() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    lossy_rounds_to_a_limit(&mut connection);
    let mut rounds = 0;
    while connection.state("policed") < RANDOM {
        connection.view.lost += 6;
        connection.ack(40_000, 100, 100, 40_000);
        rounds += 1;
        assert!(rounds < 40, "{}", connection.state("policed"));
    }
    connection.ack(40_000, 100, 100, 40_000);
    assert!(connection.state("window") > 105 * 256, "1.1 times what arrives again");
}

/// Once losses count as random, up to 9 % of them do not shrink the queue that is wanted. They stay random when a queue
/// forms.
#[test]
fn random_losses_are_ignored() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    lossy_rounds_to_a_limit(&mut connection);
    let mut rounds = |lost, count, rtt_us| {
        for _ in 0..count {
            connection.view.lost += lost;
            connection.ack(40_000, 100, 100, rtt_us);
        }
        (connection.state("policed") >= RANDOM, connection.state("room"))
    };
    let (is_random, room_before) = rounds(6, 40, 40_000);
    assert!(is_random);
    let (is_random, room) = rounds(6, 40, 50_000);
    assert!(is_random && room > room_before, "{room_before} {room}");
    let (is_random, room_after) = rounds(20, 3, 50_000);
    assert!(!is_random && room_after < room, "{room} {room_after}");
}

/// A lost segment holds up what is acknowledged in order, for another round trip.
#[test]
fn a_round_lasts_one_round_trip_while_a_segment_is_missing() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    for _ in 0..40 {
        connection.view.lost += 4;
        let in_order = connection.view.snd_una;
        connection.ack(50_000, 96, 96, 50_000);
        connection.view.snd_una = in_order;
    }
    let loss = connection.state("loss");
    assert!((38..=40).contains(&loss), "{loss} permille; 4 of 100 are lost");
}

/// Here, less arrives than the limit allows when a probe begins.
#[test]
fn a_probe_leaves_the_limit() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    lossy_rounds_to_a_limit(&mut connection);
    for _ in 0..200 {
        let limit = connection.state("resume");
        connection.ack(40_000, 60, 60, 43_000);
        if connection.state("phase") == PROBE {
            assert!(connection.state("policed") >= LIMIT);
            assert!(connection.state("resume") >= limit, "{} after {limit}", connection.state("resume"));
            return;
        }
    }
    panic!("no probe");
}

/// Long after the queue has gone, a trial begins as any.
#[test]
fn a_full_queue_is_forgotten_once_it_has_gone() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    for _ in 0..2 {
        connection.view.lost += 1;
        connection.ack(100_000, 100, 100, 100_000);
    }
    assert_eq!((connection.state("filled"), connection.state("rounds")), (1, 255));
    for _ in 0..2000 {
        let flight = connection.view.snd_cwnd;
        connection.ack(40_000, flight, flight as i32, 40_000);
        if connection.state("filled") == 0 {
            return;
        }
    }
    panic!("after {} rounds", connection.state("rounds"));
}

#[test]
fn a_queue_ends_the_limit() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    lossy_rounds_to_a_limit(&mut connection);
    for _ in 0..6 {
        // W had grown, so a round takes more than one of these ACKs
        connection.ack(50_000, 100, 100, 50_000);
    }
    assert_eq!(connection.state("policed"), 0);
}

/// If a policer drops most segments, nearly all that arrive are retransmissions, which give no sample.
#[test]
fn losses_end_the_start_without_a_sample() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.view.lost += 20;
    connection.view.now_us += 1000;
    connection.view.delivered += 10;
    connection.flow.set(&connection.view);
    connection.flow.set_state(LOSS); // in START, a timeout's losses count
    let sample = RateSample { acked_sacked: 10, is_retrans: true, rtt_us: -1, ..RateSample::default() };
    connection.flow.cong_control(&sample);
    assert_eq!(connection.state("phase"), CRUISE);
}

#[test]
fn a_longer_path_is_found_while_losses_are_random() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::cruising(&algo);
    lossy_rounds_to_a_limit(&mut connection);
    while connection.state("policed") < RANDOM {
        connection.view.lost += 6;
        connection.ack(40_000, 100, 100, 40_000);
    }
    let found = longer(&mut connection, 40, |_| 80_000);
    assert!(found.is_some(), "in 40 rounds; a mature flow's probes are 62 apart");
}

#[test]
fn few_losses_at_a_timeout_do_not_end_the_start() {
    let algo = HostAlgo::load("crest");
    let mut connection = Connection::new(&algo);
    connection.view.lost += 5; // at most 10 / 8 + 4
    connection.flow.set(&connection.view);
    connection.flow.set_state(LOSS);
    connection.view.ca_state = LOSS.into();
    connection.ack(40_000, 5, 5, 40_000);
    assert_eq!((connection.state("phase"), connection.state("loss")), (0, 0));
}
