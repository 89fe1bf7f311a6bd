//! Reports that travel within their own flow.

use crate::both::Running;
use crate::host::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pep_agent::report::{FlowReport, Transport};
use pep_agent::server::{DatagramFate, Options, RecordFate};
use std::thread::sleep;
use std::time::Duration;

fn inband() -> Options {
    Options { inband: vec!["router".to_owned()], ..options() }
}

/// Returns the number of segments with a wrong checksum that the server's stack has received.
fn checksum_errors(hosts: &Hosts) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let text = hosts.server.enter(read).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|l| l.starts_with("Tcp:")).map(|l| l.split_whitespace().collect()).collect();
    let at = lines[0].iter().position(|name| *name == "InCsumErrors").unwrap();
    lines[1][at].parse().unwrap()
}

fn clocks_in_flow(name: &str, cc: &'static str, address: &str) {
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, inband());
    let mut border = hosts.inband_border(&keys);
    let flow = Flow::open(&hosts, address, cc);
    let first = flow.info().tcpi_snd_cwnd;
    hosts.hold_acks();
    flow.fill();
    wait("the first window", || format!("{}", flow.unacked()), || flow.unacked() == first);
    for _ in 0..3 {
        let (before, sent) = (agent.records(RecordFate::Clocked), flow.unacked());
        border.send(&[flow.seen()], now_us());
        wait("a clocked record", || agent.told(), || agent.records(RecordFate::Clocked) > before);
        wait("more in flight", || agent.told(), || flow.unacked() > sent);
        sleep(Duration::from_millis(20));
    }
    assert!(flow.unacked() >= 4 * first);
    assert_eq!(checksum_errors(&hosts), 0, "the stack saw none of them");
}

#[test]
fn reports_in_the_flow_clock_its_sender() {
    clocks_in_flow("reports_in_the_flow_clock_its_sender", "mdcubic_in4", SERVER);
}

#[test]
fn reports_in_the_flow_clock_its_sender_over_ipv6() {
    clocks_in_flow("reports_in_the_flow_clock_its_sender_over_ipv6", "mdcubic_in6", SERVER_V6);
}

#[test]
fn forged_and_replayed_reports_in_the_flow_change_nothing() {
    let (name, cc) = ("forged_and_replayed_reports_in_the_flow_change_nothing", "mdcubic_inbad");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let mut forger = hosts.inband_border(&test.key_file(&[(1, "b6")]));
    let mut stranger = hosts.inband_border(&test.key_file(&[(9, "b6")]));
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.inband_border(&keys);
    let agent = Agent::start(&hosts, &keys, inband());
    let flow = Flow::open(&hosts, SERVER, cc);
    let met = |fate: DatagramFate, times| wait(fate.label(), || agent.told(), || agent.datagrams(fate) == times);
    forger.send(&[flow.seen_to(flow.first)], now_us());
    met(DatagramFate::WrongCode, 1);
    stranger.send(&[flow.seen_to(flow.first)], now_us());
    met(DatagramFate::UnknownKey, 1);
    assert!(flow.connection().pep.is_none());
    let (report, sent_us) = (flow.seen_to(flow.first), now_us());
    border.send(std::slice::from_ref(&report), sent_us);
    met(DatagramFate::Accepted, 1);
    assert_eq!(agent.records(RecordFate::Written), 1, "{}", agent.told());
    border.send(&[report], sent_us); // exactly the same bytes
    met(DatagramFate::Accepted, 2);
    assert_eq!((agent.records(RecordFate::Older), agent.records(RecordFate::Written)), (1, 1), "{}", agent.told());
}

/// The clock in a report has 32 bits, so that after 42 minutes a replayed report seems to come from half an hour ahead.
#[test]
fn a_report_in_the_flow_that_is_replayed_much_later_stops_no_other_one() {
    const REPLAYED_AFTER_US: u64 = 2_500_000_000;
    let (name, cc) = ("a_report_in_the_flow_that_is_replayed_much_later_stops_no_other_one", "mdcubic_inwrap");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.inband_border(&keys);
    let agent = Agent::start(&hosts, &keys, inband());
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut is_met = |seen_at_us: u64, fate: RecordFate| {
        let before = agent.records(fate);
        border.send(&[FlowReport { seen_at_us, ..flow.seen_to(flow.first) }], seen_at_us);
        wait(fate.label(), || agent.told(), || agent.records(fate) > before);
    };
    is_met(now_us(), RecordFate::Written);
    is_met(now_us() + (1 << 32) - REPLAYED_AFTER_US, RecordFate::Older);
    is_met(now_us() + REPLAYED_AFTER_US, RecordFate::TooOld);
    is_met(now_us(), RecordFate::Written);
}

#[test]
fn a_flood_in_flows_is_counted_and_takes_nothing_from_a_border() {
    const FLOOD: u32 = 20_000; // the ring has room for 11,915
    let (name, cc) = ("a_flood_in_flows_is_counted_and_takes_nothing_from_a_border", "mdcubic_influd");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let mut forger = hosts.inband_border(&test.key_file(&[(1, "b6")]));
    let keys = test.key_file(&[(1, "a5")]);
    let arguments = ["server", "--key-file", keys.to_str().unwrap(), "--inband", "router", "--rate", "1000"];
    let server = Running::start(&hosts.server, &arguments, &test.dir.path().join("server"));
    let flow = Flow::open(&hosts, SERVER, cc);
    let datagrams = |result: &str| server.metric(&format!("hotcc_pep_server_datagrams_total{{result=\"{result}\"}}"));
    let dropped = || server.metric("hotcc_pep_server_inband_dropped_total");
    // all of the flood is in the ring before the server reads it: no further wake-up comes for the rest
    let pid = Pid::from_raw(server.process.id() as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    let forged = flow.seen_to(flow.first);
    for _ in 0..FLOOD {
        forger.send(std::slice::from_ref(&forged), now_us());
    }
    kill(pid, Signal::SIGCONT).unwrap();
    let met = || datagrams("wrong_code") + datagrams("rate_limited");
    wait("an end of the flood", || server.page(), || met() + dropped() == f64::from(FLOOD));
    assert!(dropped() > 5000.0, "{}", server.page());
    assert_eq!(datagrams("rate_limited"), 0.0, "what is not authentic has no allowance to use up");
    // beside a flood, an honest border's reports are accepted, in-band and as datagrams
    let report = forged.clone();
    let flood = always(move || (0..64).for_each(|_| _ = forger.send(std::slice::from_ref(&report), now_us())));
    for border in [&mut hosts.inband_border(&keys) as &mut dyn Transport, &mut hosts.border(&keys)] {
        let before = datagrams("accepted");
        wait(
            "an accepted report",
            || server.page(),
            || {
                border.send(&[flow.seen_to(flow.first)], now_us());
                datagrams("accepted") > before
            },
        );
    }
    drop(flood);
}

/// Each report of a border counts, however many forged ones are sent in its flow.
#[test]
fn no_flood_in_flows_silences_a_border() {
    const REPORTS: u64 = 50;
    let (name, cc) = ("no_flood_in_flows_silences_a_border", "mdcubic_inmany");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let mut forger = hosts.inband_border(&test.key_file(&[(1, "b6")]));
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.inband_border(&keys);
    let agent = Agent::start(&hosts, &keys, Options { rate_per_second: 1000, ..inband() });
    let flow = Flow::open(&hosts, SERVER, cc);
    let forged = flow.seen_to(flow.first);
    let flood = always(move || (0..64).for_each(|_| _ = forger.send(std::slice::from_ref(&forged), now_us())));
    wait("a flood", || agent.told(), || agent.datagrams(DatagramFate::WrongCode) > 1000);
    for accepted in 1..=REPORTS {
        border.send(&[flow.seen_to(flow.first)], now_us());
        wait("an accepted report", || agent.told(), || agent.datagrams(DatagramFate::Accepted) == accepted);
    }
    drop(flood);
}

/// A sender that does not know a connection's ports cannot reach the agent, not even with the address of a listening
/// server.
#[test]
fn reports_of_no_connection_do_not_reach_the_agent() {
    let (name, cc) = ("reports_of_no_connection_do_not_reach_the_agent", "mdcubic_innone");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.inband_border(&keys);
    let agent = Agent::start(&hosts, &keys, inband());
    let flow = Flow::open(&hosts, SERVER, cc);
    let listening = hosts.server.enter(|| std::net::TcpListener::bind((SERVER, 0)).unwrap()).unwrap();
    let mut none = flow.seen_to(flow.first);
    none.key.client.set_port(none.key.client.port() ^ 1);
    let mut to_listener = flow.seen_to(flow.first);
    to_listener.key.server = listening.local_addr().unwrap();
    for report in [none, to_listener] {
        border.send(&[report], now_us());
    }
    wait("their end", || checksum_errors(&hosts).to_string(), || checksum_errors(&hosts) == 2);
    border.send(&[flow.seen_to(flow.first)], now_us());
    wait("an accepted report", || agent.told(), || agent.datagrams(DatagramFate::Accepted) == 1);
    assert_eq!(agent.records(RecordFate::UnknownFlow), 0, "{}", agent.told());
}

/// A server without support for them drops them, and the flow continues.
#[test]
fn a_legacy_server_drops_reports_in_the_flow() {
    let (name, cc) = ("a_legacy_server_drops_reports_in_the_flow", "mdcubic_inold");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.inband_border(&keys);
    let flow = Flow::open(&hosts, SERVER, cc);
    let before = flow.info();
    for _ in 0..100 {
        border.send(&[flow.seen_to(flow.first)], now_us());
    }
    wait("their end", || checksum_errors(&hosts).to_string(), || checksum_errors(&hosts) == 100);
    let after = flow.info();
    assert_eq!((before.tcpi_rtt, before.tcpi_snd_cwnd), (after.tcpi_rtt, after.tcpi_snd_cwnd));
    let reader = flow.read_at_client();
    wait(
        "a transfer",
        || format!("{}", flow.info().tcpi_bytes_acked),
        || {
            flow.fill();
            border.send(&[flow.seen_to(flow.first)], now_us());
            flow.info().tcpi_bytes_acked > 5_000_000
        },
    );
    flow.end();
    assert!(reader.join().unwrap() > 5_000_000);
}
