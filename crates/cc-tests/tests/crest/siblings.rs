//! crest and its siblings: what flows to one receiver share.

use super::{COMPETE, CRUISE, Connection, PROBE, START};
use hotcc_host_algo::{Group, HostAlgo};

/// Returns crest for a flow of the group to one receiver.
fn member(group: &Group) -> HostAlgo {
    let mut algo = HostAlgo::load("crest");
    algo.join(group);
    algo
}

/// Runs a second connection to the same receiver, with this RTT, until it leaves START.
fn newcomer<'a>(algo: &'a HostAlgo, member: &Connection<'_>, rtt_us: u32) -> Connection<'a> {
    let mut connection = Connection::new(algo);
    connection.view.now_us = member.view.now_us;
    for _ in 0..3 {
        connection.ack(rtt_us.into(), 10, 10, rtt_us.into());
    }
    connection
}

#[test]
fn a_newcomer_takes_its_siblings_least_rtt() {
    let (algo, to_another) = (member(&Group::default()), member(&Group::default()));
    let mut first = Connection::cruising(&algo);
    first.ack(50_000, 100, 100, 50_000);
    assert_eq!(first.state("base_us"), 40_000);
    assert_eq!(newcomer(&algo, &first, 45_000).state("base_us"), 40_000);
    assert_eq!(newcomer(&to_another, &first, 45_000).state("base_us"), 45_000);
}

/// The siblings' queue may make the RTT longer by four segments of each of them, and by an eighth. Here the two flows
/// have 2000 and about 100 segments/s, or a twentieth of that.
#[test]
fn a_newcomer_on_a_longer_path_keeps_its_own_least_rtt() {
    for (segments, rtt_us, is_longer) in
        [(100, 45_000, false), (100, 60_000, true), (5, 60_000, false), (5, 200_000, true)]
    {
        let algo = member(&Group::default());
        let mut first = Connection::cruising(&algo);
        for _ in 0..50 {
            first.ack(50_000, segments, segments as i32, 50_000);
        }
        let base_us = newcomer(&algo, &first, rtt_us).state("base_us");
        let want_us = if is_longer { u64::from(rtt_us) } else { first.state("base_us") };
        assert_eq!(base_us, want_us, "{segments} segments in each flight, {rtt_us} us");
    }
}

/// Milliseconds since the boot are negative as a signed number for half of the time.
#[test]
fn a_lone_flow_has_no_siblings_after_a_month_of_uptime() {
    for booted_us in [1_000_000, 2_500_000_000_000, 4_000_000_000_000] {
        let algo = member(&Group::default());
        let mut connection = Connection::new(&algo);
        connection.view.now_us = booted_us;
        let mut rounds = 0;
        connection.ack(40_000, 100, 100, 40_000);
        connection.ack(40_000, 100, 100, 60_000); // a queue that ends the start
        while connection.state("phase") != COMPETE {
            connection.ack(80_000, 50, 50, 80_000);
            rounds += 1;
            assert!(rounds < 250, "a queue that stands for 250 rounds is another's, {booted_us} us after the boot");
        }
    }
}

/// Before its first epoch ends, the group knows only what its flows have in this one.
#[test]
fn a_newcomer_of_the_groups_first_second_keeps_the_least_rtt_of_a_longer_path() {
    let algo = member(&Group::default());
    let mut first = Connection::cruising(&algo);
    first.ack(50_000, 100, 100, 50_000);
    assert_eq!(newcomer(&algo, &first, 45_000).state("base_us"), 40_000);
    assert_eq!(newcomer(&algo, &first, 100_000).state("base_us"), 100_000);
}

/// The group never probed; its least RTT is young.
#[test]
fn a_newcomer_does_not_probe_for_what_its_sibling_just_saw() {
    let algo = member(&Group::default());
    let mut first = Connection::new(&algo);
    first.view.now_us = 3_600_000_000;
    first.ack(40_000, 100, 100, 40_000);
    first.ack(50_000, 100, 100, 60_000); // a queue that ends the start
    first.ack(40_000, 100, 100, 40_000);
    let mut second = Connection::new(&algo);
    second.view.now_us = first.view.now_us;
    for round in 0..8 {
        second.ack(45_000, 10, 10, 45_000);
        assert!([START, CRUISE].contains(&second.state("phase")), "round {round}: phase {}", second.state("phase"));
    }
    assert_eq!(second.state("base_us"), 40_000);
}

#[test]
fn siblings_probe_together() {
    let algo = member(&Group::default());
    let mut first = Connection::cruising(&algo);
    first.ack(50_000, 100, 100, 50_000);
    let mut second = newcomer(&algo, &first, 45_000);
    let mut phases = Vec::new();
    for _ in 0..200 {
        for connection in [&mut first, &mut second] {
            connection.ack(50_000, 100, 100, 50_000);
        }
        second.view.now_us = first.view.now_us;
        phases.push([first.state("phase"), second.state("phase")]);
    }
    let probes = |flow: usize| phases.windows(2).filter(|w| w[0][flow] != PROBE && w[1][flow] == PROBE).count();
    let together = phases.iter().filter(|phases| phases.iter().all(|phase| *phase == PROBE)).count();
    assert!(probes(0) >= 2 && probes(1) >= 2, "{phases:?}");
    assert!(together >= probes(0), "{phases:?}");
}

/// With an RTT of a millisecond, a round still lasts 8 ms.
#[test]
fn siblings_on_a_short_path_probe_together() {
    let algo = member(&Group::default());
    let mut flows = [Connection::new(&algo), Connection::new(&algo)];
    flows[1].view.now_us += 4_000; // its rounds end between the other's
    for flow in &mut flows {
        flow.view.srtt_us = 8 * 1_500;
        flow.ack(8_000, 100, 100, 1_000);
        flow.ack(8_000, 100, 100, 6_000); // a queue that ends the start
    }
    let (mut probes, mut joined) = (0, 0);
    for _ in 0..4000 {
        let before = flows[0].state("phase");
        for flow in &mut flows {
            flow.ack(8_000, 100, 100, 1_500);
        }
        if before != PROBE && flows[0].state("phase") == PROBE {
            probes += 1;
            joined += u32::from(flows[1].state("phase") == PROBE);
        }
    }
    assert!(probes >= 4 && joined == probes, "{joined} of {probes} probes");
}

#[test]
fn a_flow_whose_clock_is_slightly_behind_leaves_the_least_rtt() {
    let algo = member(&Group::default());
    let mut first = Connection::cruising(&algo);
    first.ack(50_000, 100, 100, 50_000);
    let mut far = newcomer(&algo, &first, 100_000);
    assert_eq!(far.state("base_us"), 100_000);
    first.view.now_us = 2_960_000;
    first.ack(40_000, 100, 100, 40_000); // the group's least RTT is of 3000 ms
    far.view.now_us = 2_999_500 - 100_000;
    far.ack(100_000, 10, 10, 100_000);
    assert_eq!(newcomer(&algo, &first, 45_000).state("base_us"), 40_000);
}
