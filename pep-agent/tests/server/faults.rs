//! Borders that lie, die and return; datagrams that are forged, replayed, delayed, or part of a flood. The flow
//! continues in every case.

use crate::held::Held;
use crate::host::*;
use crate::scripted::{Scripted, met};
use hotcc_abi::pep::PepRecordUpdate;
use hotcc_cc_tests::storage::{newest, sockets_in};
use pep_agent::report::{FlowReport, SeqRange, Transport};
use pep_agent::server::{DatagramFate, Options, RecordFate};
use pep_agent::wire::{self, Header, Kind, PORT};
use std::net::{TcpListener, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[test]
fn each_bad_datagram_is_counted_for_what_it_is_and_changes_nothing() {
    let (name, cc) = ("each_bad_datagram_is_counted_for_what_it_is_and_changes_nothing", "mdcubic_bad");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5"), (2, "b6")]);
    let agent = Agent::start(&hosts, &keys, options());
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut border = Scripted::authenticated(&hosts, &agent, &flow);
    let good = border.report(&[flow.seen_to(flow.first)]);
    met(&agent, DatagramFate::Accepted, 1);
    let seen = flow.connection().pep.map(|p| (p.in_order_bytes, p.segments));
    let lie = FlowReport { segments: 999, ..flow.seen_to(flow.first.wrapping_sub(1)) };
    let mut datagram = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = border.datagram(std::slice::from_ref(&lie));
        change(&mut bytes);
        border.send(&bytes);
    };
    datagram(&|bytes| bytes.truncate(40));
    met(&agent, DatagramFate::Truncated, 1);
    datagram(&|bytes| bytes.resize(1201, 0));
    met(&agent, DatagramFate::Oversized, 1);
    datagram(&|bytes| bytes[2] = 9);
    met(&agent, DatagramFate::Version, 1);
    datagram(&|bytes| bytes[0] = 0);
    met(&agent, DatagramFate::NotOurs, 1);
    datagram(&|bytes| bytes[3] = 9);
    met(&agent, DatagramFate::Malformed, 1);
    datagram(&|bytes| bytes[4] = 3);
    met(&agent, DatagramFate::UnknownKey, 1);
    datagram(&|bytes| bytes[4] = 2);
    datagram(&|bytes| *bytes.last_mut().unwrap() ^= 1);
    met(&agent, DatagramFate::WrongCode, 2);
    border.send(&good);
    met(&agent, DatagramFate::Replayed, 1);
    let echo = Header { kind: Kind::Echo, key_id: 1, epoch: border.epoch, counter: 500, time_us: now_us() };
    border.send(&wire::probe(&echo, 12345, &border.key));
    met(&agent, DatagramFate::NotOutstanding, 1);
    border.epoch += 1;
    border.report(std::slice::from_ref(&lie));
    met(&agent, DatagramFate::Unauthenticated, 2);
    assert_eq!(flow.connection().pep.map(|p| (p.in_order_bytes, p.segments)), seen);
    assert_eq!(agent.datagrams(DatagramFate::Accepted), 1);
}

/// A firewall or NAT between them lets nothing else in.
#[test]
fn a_probe_comes_from_the_address_that_the_report_went_to() {
    let (name, cc) = ("a_probe_comes_from_the_address_that_the_report_went_to", "mdcubic_second");
    let Some(scene) = scene(name, cc) else { return };
    for (epoch, own, server) in [(78, "10.248.1.254:0", "10.248.1.7"), (79, "[fd48:1::254]:0", "fd48:1::7")] {
        let prefix =
            if server.contains(':') { "-6 address add fd48:1::7/64 nodad" } else { "address add 10.248.1.7/24" };
        scene.hosts.server.ip(&format!("{prefix} dev router")).unwrap();
        let socket = scene.hosts.router.enter(|| UdpSocket::bind(own).unwrap()).unwrap();
        socket.connect((server, PORT)).unwrap(); // receives only from there
        socket.set_nonblocking(true).unwrap();
        Scripted { socket, ..Scripted::new(0xa5, &scene.hosts, epoch) }.prove(&scene.agent, &scene.flow);
    }
}

#[test]
fn a_key_is_valid_only_for_its_servers() {
    let (name, cc) = ("a_key_is_valid_only_for_its_servers", "mdcubic_prefix");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5"), (2, "b6")]);
    let (mut beside, mut within) = (hosts.border(&keys), hosts.inband_border(&keys)); // both sign with key 1
    let lines = std::fs::read_to_string(&keys).unwrap().replacen('\n', " 192.0.2.0/24\n", 1);
    std::fs::write(&keys, lines).unwrap();
    let agent = Agent::start(&hosts, &keys, Options { inband: vec!["router".to_owned()], ..options() });
    let flow = Flow::open(&hosts, SERVER, cc);
    for (border, times) in [(&mut beside as &mut dyn Transport, 1), (&mut within, 2)] {
        border.send(&[flow.seen_to(flow.first)], now_us());
        met(&agent, DatagramFate::UnknownKey, times);
    }
    // with the other key, which is for every server, they are accepted
    introduce(&mut hosts.border(&keys), &agent, &flow);
    let accepted = agent.datagrams(DatagramFate::Accepted);
    hosts.inband_border(&keys).send(&[flow.seen_to(flow.first)], now_us());
    met(&agent, DatagramFate::Accepted, accepted + 1);
    assert_eq!(agent.datagrams(DatagramFate::UnknownKey), 2, "{}", agent.told());
}

/// The second border also uses the first one's epoch, which it can read on the wire, and the highest possible counter.
#[test]
fn borders_whose_keys_share_a_number_do_not_meet() {
    let (name, cc) = ("borders_whose_keys_share_a_number_do_not_meet", "mdcubic_twokeys");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[]);
    let lines = format!("1 {} 10.248.1.0/24\n1 {} fd48:1::/64\n", "a5".repeat(32), "b6".repeat(32));
    std::fs::write(&keys, lines).unwrap();
    let agent = Agent::start(&hosts, &keys, options());
    let flows = [SERVER, SERVER_V6].map(|address| Flow::open(&hosts, address, cc));
    let mut first = Scripted::proven_by(0xa5, &hosts, &agent, &flows[0]);
    let mut second = Scripted::proven_by(0xb6, &hosts, &agent, &flows[1]);
    second.counter = u64::MAX - 1;
    second.report(&[flows[1].seen_to(flows[1].first)]);
    met(&agent, DatagramFate::Accepted, 1);
    first.report(&[flows[0].seen_to(flows[0].first)]);
    met(&agent, DatagramFate::Accepted, 2);
    assert_eq!(agent.records(RecordFate::Written), 2, "{}", agent.told());
}

/// Both keys are for that server. The second border's clock is 20 s ahead, and it uses the first one's epoch.
#[test]
fn a_border_makes_no_record_of_another_key_s_older() {
    const AHEAD_US: u64 = 20_000_000;
    let (name, cc) = ("a_border_makes_no_record_of_another_key_s_older", "mdcubic_order");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[]);
    let write = |lines: [&str; 2]| std::fs::write(&keys, lines.concat()).unwrap();
    let lines = [("a5", "10.248.0.0/16"), ("b6", "10.248.1.0/24")]
        .map(|(key, prefix)| format!("1 {} {prefix}\n", key.repeat(32)));
    write([&lines[1], &lines[0]]);
    let mut second_within = hosts.inband_border(&keys);
    write([&lines[0], &lines[1]]);
    let mut first_within = hosts.inband_border(&keys);
    let agent = Agent::start(&hosts, &keys, Options { inband: vec!["router".to_owned()], ..options() });
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut first = Scripted::proven_by(0xa5, &hosts, &agent, &flow);
    let second = Scripted { ahead_us: AHEAD_US, ..Scripted::new(0xb6, &hosts, 77) };
    let mut second = second.prove(&agent, &flow);
    let seen = || flow.seen_to(flow.first);
    let ahead = || FlowReport { seen_at_us: now_us() + AHEAD_US, ..seen() };
    for _ in 0..2 {
        first.meets(&agent, seen(), RecordFate::Written);
        second.meets(&agent, ahead(), RecordFate::Written);
    }
    for _ in 0..2 {
        for (border, report) in [(&mut first_within, seen()), (&mut second_within, ahead())] {
            let written = agent.records(RecordFate::Written);
            border.send(std::slice::from_ref(&report), report.seen_at_us);
            wait("a written record", || agent.told(), || agent.records(RecordFate::Written) > written);
        }
    }
}

/// This holds even if the agent has stopped long before.
#[test]
fn records_are_removed_with_their_socket() {
    let (name, cc) = ("records_are_removed_with_their_socket", "mdcubic_gone");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, options());
    let [storage, account] = ["pep_flow", "account"].map(newest);
    let before = sockets_in(&storage);
    let flows = [SERVER, SERVER, SERVER_V6].map(|address| Flow::open(&hosts, address, cc));
    let mut border = Scripted::authenticated(&hosts, &agent, &flows[0]);
    for (written, flow) in flows.iter().enumerate() {
        border.report(&[flow.seen_to(flow.first)]);
        wait("a record", || agent.told(), || agent.records(RecordFate::Written) > written as u64);
    }
    let kept = || [sockets_in(&storage) - before, sockets_in(&account)];
    assert_eq!(kept(), [3; 2]);
    drop(agent);
    assert_eq!(kept(), [3; 2]);
    drop(flows);
    wait("the end of all records", || format!("{:?}", kept()), || kept() == [0; 2]);
}

#[test]
fn impossible_reports_are_rejected() {
    let Some(Scene { test: _test, hosts, agent, flow, .. }) = scene("impossible_reports_are_rejected", "mdcubic_lie")
    else {
        return;
    };
    let mut border = Scripted::authenticated(&hosts, &agent, &flow);
    let mut refused = |report, fate| border.meets(&agent, report, fate);
    let at = |offset: i64| flow.first.wrapping_add(offset as u32);
    let range = |start, end| SeqRange { start: at(start), end: at(end) };
    refused(flow.seen_to(at(1)), RecordFate::Outside); // nothing was sent yet
    refused(flow.seen_to(at(1 << 30)), RecordFate::Outside);
    refused(flow.seen_to(at(-(3 << 29))), RecordFate::Outside);
    refused(FlowReport { ranges: vec![range(-50, 1)], ..flow.seen_to(at(-100)) }, RecordFate::Outside);
    let overlapping = vec![range(-50, -40), range(-45, -30)];
    refused(FlowReport { ranges: overlapping, ..flow.seen_to(at(-100)) }, RecordFate::Shape);
    let mut stranger = flow.seen_to(at(0));
    stranger.key.client.set_port(stranger.key.client.port() ^ 1);
    refused(stranger, RecordFate::UnknownFlow);
    let listener = hosts.server.enter(|| TcpListener::bind((SERVER, 0)).unwrap()).unwrap();
    let mut to_listener = flow.seen_to(at(0));
    to_listener.key.server = listener.local_addr().unwrap();
    refused(to_listener, RecordFate::NotSending);
    let late = FlowReport { seen_at_us: now_us() - 3_000_000, ..flow.seen_to(at(0)) };
    refused(late, RecordFate::TooOld);
    // after a report of data that was never sent, the flow's records are rejected for five seconds
    refused(flow.seen_to(at(0)), RecordFate::Distrusted);
    assert!(flow.connection().pep.is_none(), "nothing was written");
    sleep(Duration::from_secs(5));
    refused(flow.seen_to(at(0)), RecordFate::Written);
    assert!(flow.connection().pep.is_some());
    let earlier = FlowReport { seen_at_us: now_us() - 500_000, ..flow.seen_to(at(0)) };
    refused(earlier, RecordFate::Older);
    // a border may report higher ranges, which a third party sent it in the server's name: these are left out
    for begins_at in [0, 1 << 29] {
        let ranges = vec![range(-50, -40), range(begins_at, begins_at + 1000), range(3 << 28, 1 << 30)];
        refused(FlowReport { ranges, ..flow.seen_to(at(-100)) }, RecordFate::Written);
        assert_eq!(flow.connection().pep.unwrap().ranges_bytes, [(-50, -40)]);
    }
    refused(flow.seen_to(at(1)), RecordFate::Outside);
    assert!(flow.connection().pep.is_none(), "nor is what it told before");
}

/// The kernel sends a segment before it advances snd_nxt, and holds the socket's lock until then.
#[test]
fn reports_are_not_judged_while_the_socket_is_busy() {
    let Some(Scene { test: _test, hosts, agent, flow, .. }) =
        scene("reports_are_not_judged_while_the_socket_is_busy", "mdcubic_held")
    else {
        return;
    };
    let mut border = Scripted::authenticated(&hosts, &agent, &flow);
    let (seen, beyond) = (flow.seen_to(flow.first), flow.seen_to(flow.first.wrapping_add(1 << 29)));
    let mut is_met = |report: &FlowReport, fate| {
        border.meets(&agent, FlowReport { seen_at_us: now_us(), ..report.clone() }, fate);
    };
    is_met(&seen, RecordFate::Written);
    let held = Held::new(&flow.server);
    is_met(&beyond, RecordFate::Busy);
    drop(held);
    assert!(flow.connection().pep.is_some(), "what it told before is there");
    is_met(&seen, RecordFate::Written);
    is_met(&beyond, RecordFate::Outside);
    assert!(flow.connection().pep.is_none());
    is_met(&seen, RecordFate::Distrusted);
}

#[test]
fn a_delayed_report_is_as_old_as_it_is() {
    let Some(Scene { test: _test, hosts, agent, flow, .. }) =
        scene("a_delayed_report_is_as_old_as_it_is", "mdcubic_late")
    else {
        return;
    };
    let mut border = Scripted::authenticated(&hosts, &agent, &flow);
    let made = Instant::now();
    let bytes = border.datagram(&[flow.seen_to(flow.first)]);
    sleep(Duration::from_millis(500));
    border.send(&bytes);
    met(&agent, DatagramFate::Accepted, 1);
    assert_eq!(agent.records(RecordFate::Written), 1, "{}", agent.told());
    let age_ms = flow.connection().pep.unwrap().age_ms as u128;
    let most_ms = made.elapsed().as_millis();
    // the clocks' offset is known to within half of the probe's round trip
    assert!((480..=most_ms + 20).contains(&age_ms), "{age_ms} ms, and not more than {most_ms}");
}

/// Only the agent can pass records to the kernel: the same bytes in a packet on the wire have no effect.
#[test]
fn the_wire_does_not_reach_the_program() {
    let Some(Scene { test: _test, hosts, keys, agent, flow }) =
        scene("the_wire_does_not_reach_the_program", "mdcubic_wire")
    else {
        return;
    };
    let mut record = PepRecordUpdate {
        family: 4,
        flags: 1,
        time_ns: now_us() * 1000,
        in_order: flow.first,
        ..PepRecordUpdate::default()
    };
    record.server[..4].copy_from_slice(&[10, 248, 1, 1]);
    record.client[..4].copy_from_slice(&[10, 248, 2, 2]);
    record.server_port = flow.key.server.port().to_be_bytes();
    record.client_port = flow.key.client.port().to_be_bytes();
    for ethertype in [0x0800u16, 0x86dd] {
        let mut frame = vec![0xff; 12];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(bytemuck::bytes_of(&record));
        for _ in 0..10 {
            hosts.send_frame(&frame);
        }
    }
    let socket = hosts.router.enter(|| UdpSocket::bind("10.248.1.254:0").unwrap()).unwrap();
    for _ in 0..10 {
        socket.send_to(bytemuck::bytes_of(&record), (SERVER, PORT)).unwrap();
    }
    met(&agent, DatagramFate::NotOurs, 10);
    assert!(flow.connection().pep.is_none());
    // passed by the agent, the record is written
    introduce(&mut hosts.border(&keys), &agent, &flow);
    assert!(flow.connection().pep.is_some());
}

#[test]
fn borders_and_servers_may_restart_and_keys_change() {
    let Some(Scene { test, hosts, keys, agent, flow }) =
        scene("borders_and_servers_may_restart_and_keys_change", "mdcubic_again")
    else {
        return;
    };
    let mut border = hosts.border(&keys);
    introduce(&mut border, &agent, &flow);
    drop(border);
    let mut border = hosts.border(&keys);
    introduce(&mut border, &agent, &flow);
    drop(agent);
    let agent = Agent::start(&hosts, &keys, options());
    introduce(&mut border, &agent, &flow);
    assert_eq!(agent.datagrams(DatagramFate::Replayed), 0, "{}", agent.told());
    // the server gets the new key beside the old one, then the border changes to it, then the old one is removed
    let read = |keys: &[(u8, &str)]| pep_agent::auth::Keys::read(&test.key_file(keys)).unwrap();
    agent.keys.replace(read(&[(1, "a5"), (2, "b6")]));
    introduce(&mut border, &agent, &flow);
    drop(border);
    let mut border = hosts.border(&test.key_file(&[(2, "b6"), (1, "a5")]));
    introduce(&mut border, &agent, &flow);
    agent.keys.replace(read(&[(2, "b6")]));
    introduce(&mut border, &agent, &flow);
    assert_eq!(agent.datagrams(DatagramFate::UnknownKey) + agent.datagrams(DatagramFate::WrongCode), 0);
}

/// All faults at once, beside a border that reports everything that was sent: every byte arrives once and in its place.
#[test]
fn a_transfer_stands_lies_and_floods() {
    let (name, cc) = ("a_transfer_stands_lies_and_floods", "mdcubic_flood");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    hosts.server.sysctl("net.ipv4.tcp_rto_min_us", "200000").unwrap();
    hosts.router.tc("qdisc add dev client root tbf rate 100mbit burst 64kb limit 200kb").unwrap();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start(&hosts, &keys, Options { rate_per_second: 20_000, ..options() });
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut scripted = Scripted::authenticated(&hosts, &agent, &flow);
    let reader = flow.read_at_client();
    let (view, strangers) = (flow.border_view(), flow.border_view());
    let flood = hosts.router.enter(|| UdpSocket::bind("10.248.1.254:0").unwrap()).unwrap();
    let faults = always(move || {
        let seen = view.report();
        let acknowledges_all = scripted.report(std::slice::from_ref(&seen));
        scripted.send(&acknowledges_all);
        let start = seen.in_order.wrapping_sub(2000);
        let claims_losses = SeqRange { start, end: start.wrapping_add(1000) };
        scripted.report(&[FlowReport {
            in_order: start.wrapping_sub(50_000),
            ranges: vec![claims_losses],
            segments: seen.segments + 1,
            seen_at_us: now_us(),
            ..seen
        }]);
        let mut stranger = strangers.report();
        for port in 1..40 {
            stranger.key.client.set_port(port);
            scripted.report(std::slice::from_ref(&stranger));
        }
        for _ in 0..100 {
            let _ = flood.send_to(&[0x50; 100], (SERVER, PORT));
        }
    });
    let began = Instant::now();
    while flow.info().tcpi_bytes_acked < 20_000_000 {
        flow.fill();
        sleep(Duration::from_millis(5));
        assert!(began.elapsed() < 3 * PATIENCE, "{} {:#?}", agent.told(), flow.connection());
    }
    drop(faults);
    let told = agent.told();
    flow.end();
    assert!(reader.join().unwrap() >= 20_000_000);
    for fate in [DatagramFate::Accepted, DatagramFate::Replayed, DatagramFate::RateLimited] {
        assert!(agent.datagrams(fate) > 0, "{}: {told}", fate.label());
    }
    assert!(agent.records(RecordFate::UnknownFlow) > 0 && agent.records(RecordFate::Clocked) > 0, "{told}");
    let taken = agent.records(RecordFate::Clocked) + agent.records(RecordFate::Written);
    assert!(agent.records(RecordFate::Older) < taken / 10, "the lies are as new as what is true: {told}");
}
