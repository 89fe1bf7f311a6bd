//! Valid and invalid packets of every kind: what the program reads from them, and that they pass.

use crate::packet::{Packet, ethernet, ipv4};
use crate::program::{PATIENT, SERVER, SERVER_V6, Settings, client, program};
use hotcc_abi::border::Counters;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::net::SocketAddr;

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The shortest frame: the kernel does not run programs on a frame without payload.
const SHORTEST: usize = 15;
/// Bytes before the IP header.
const TAGGED_HEADER: usize = 18;
const CLIENT_V6: &str = "[2001:db8:f::9]:5000";

#[test]
fn segments_are_found_in_every_supported_encapsulation() {
    let Some(program) = program("wrapped", PATIENT) else { return };
    let options = |length: usize, number| vec![number, (length / 8 - 1) as u8].into_iter().chain(vec![0; length - 2]);
    let v4 = Packet::data(addr(SERVER), client(0), 1000, 500);
    let v6 = Packet::data(addr(SERVER_V6), addr(CLIENT_V6), 1000, 500);
    let hop_by_hop = (0, options(8, 0).collect::<Vec<u8>>());
    let destination = (60, options(24, 0).collect::<Vec<u8>>());
    let packets = [
        v4.clone(),
        Packet { tags: vec![0x8100], ..v4.clone() },
        Packet { tags: vec![0x88a8, 0x8100], ..v4.clone() },
        Packet { ip_options: vec![1; 40], ..v4.clone() },
        Packet { tcp_options: vec![1; 40], ip_options: vec![1; 4], ..v4.clone() },
        Packet { padding: 6, ..v4.clone() },
        v6.clone(),
        Packet { tags: vec![0x8100, 0x8100], tcp_options: vec![1; 12], ..v6.clone() },
        Packet { extensions: vec![hop_by_hop.clone()], ..v6.clone() },
        Packet { extensions: vec![hop_by_hop, destination], ..v6.clone() },
    ];
    for (i, packet) in packets.into_iter().enumerate() {
        let mut to = packet.to;
        to.set_port(3000 + i as u16);
        program.data(&Packet { to, ..packet.clone() }.frame());
        let flow = program.flow(packet.from, to).unwrap_or_else(|| panic!("not tracked: {packet:?}"));
        assert_eq!((flow.in_order, flow.segments), (1500, 1), "{packet:?}");
    }
    let counters = program.counters();
    assert_eq!((counters.packets, counters.tracked, counters.malformed), (10, 10, 0));
}

#[test]
fn super_packets_count_as_their_segments() {
    let Some(program) = program("gso", PATIENT) else { return };
    let frame = |to| Packet::data(addr(SERVER), to, 0, 1460).frame();
    program.super_packet(&frame(client(0)), 7, 209);
    program.super_packet(&frame(client(1)), 0, 209);
    program.super_packet(&frame(client(2)), 0, 0);
    let segments = [0, 1, 2].map(|i| program.flow(addr(SERVER), client(i)).map(|f| (f.in_order, f.segments)));
    assert_eq!(segments, [Some((1460, 7)), Some((1460, 7)), Some((1460, 1))]);
    // larger than its length field can express
    let mut big = Packet::data(addr(SERVER), client(3), 0, 1460).frame();
    big[16..18].fill(0);
    program.super_packet(&big, 7, 209);
    program.data(&big);
    let big = program.flow(addr(SERVER), client(3)).map(|f| (f.in_order, f.segments));
    assert_eq!((big, program.counters().malformed), (Some((1460, 7)), 1));
}

#[test]
fn what_is_not_tracked_is_counted_by_why() {
    let Some(program) = program("others", PATIENT) else { return };
    let v4 = Packet::data(addr(SERVER), client(0), 1000, 500);
    let v6 = Packet::data(addr(SERVER_V6), addr(CLIENT_V6), 1000, 500);
    let (IpServer(from), IpServer(to)) = (IpServer::of(SERVER), IpServer::of("10.0.0.1:1"));
    let udp = |port: u16| {
        let mut datagram = vec![0x10, 0];
        datagram.extend(port.to_be_bytes());
        datagram.extend([0; 60]);
        [ethernet(&[], 0x0800), ipv4(from, to, 17, &[], &datagram)].concat()
    };
    program.data(&Packet { from: addr("198.51.100.1:443"), ..v4.clone() }.frame());
    assert_eq!(program.counters().untracked, 1);
    program.data(&Packet { from: addr("[2001:db9::1]:443"), ..v6.clone() }.frame());
    assert_eq!(program.counters().untracked, 2);

    program.data(&udp(2152));
    assert_eq!((program.counters().gtp_u, program.counters().other), (1, 0));
    program.ack(&udp(2152));
    assert_eq!(program.counters().gtp_u, 2);
    program.data(&udp(443));
    program.data(&[ethernet(&[], 0x0806), vec![0; 46]].concat());
    program.data(&Packet { tags: vec![0x8100; 3], ..v4.clone() }.frame());
    assert_eq!(program.counters().other, 3);

    for (place, value) in [(20, 0x20), (21, 0x10)] {
        let mut fragment = v4.frame();
        fragment[place] |= value;
        program.data(&fragment);
    }
    let header = |number| Packet { extensions: vec![(number, vec![0; 8])], ..v6.clone() }.frame();
    program.data(&header(44));
    assert_eq!(program.counters().fragments, 3);
    program.data(&header(43));
    program.data(&header(51));
    assert_eq!(program.counters().extensions, 2);
    assert_eq!((program.flow_count(), program.counters().malformed), (0, 0));
}

struct IpServer(std::net::Ipv4Addr);

impl IpServer {
    fn of(text: &str) -> Self {
        match addr(text).ip() {
            std::net::IpAddr::V4(ip) => Self(ip),
            std::net::IpAddr::V6(_) => panic!("no IPv4"),
        }
    }
}

#[test]
fn packets_cut_short_or_with_lengths_that_cannot_be_pass_unread() {
    let Some(program) = program("malformed", PATIENT) else { return };
    let tags = vec![0x8100];
    let v4 = Packet { tags: tags.clone(), ..Packet::data(addr(SERVER), client(0), 1000, 10) }.frame();
    let v6 = Packet { tags, ..Packet::data(addr(SERVER_V6), addr(CLIENT_V6), 1000, 10) }.frame();
    for frame in [&v4, &v6] {
        for length in TAGGED_HEADER..frame.len() {
            program.data(&frame[..length]);
            program.ack(&frame[..length]);
        }
    }
    assert_eq!(program.counters().malformed as usize, v4.len() + v6.len() - 2 * TAGGED_HEADER);
    let spoilt = [(18, 0x44), (18, 0x65), (21, 39), (20, 0x7f), (50, 0x40), (50, 0xf0)];
    for (place, value) in spoilt {
        let mut frame = v4.clone();
        frame[place] = value;
        program.data(&frame);
    }
    assert_eq!(program.counters().malformed as usize, v4.len() + v6.len() - 2 * TAGGED_HEADER + spoilt.len());
    assert_eq!(program.flow_count(), 0);
}

/// Returns the counters of packets that are not tracked, with their names.
fn untracked(c: &Counters) -> [(&'static str, u64); 5] {
    [
        ("other", c.other),
        ("fragments", c.fragments),
        ("extensions", c.extensions),
        ("malformed", c.malformed),
        ("gtp_u", c.gtp_u),
    ]
}

/// Returns the counter of a frame, or `None` if it is a readable segment.
fn counted(frame: &[u8], gso_size: u16) -> Option<&'static str> {
    let byte = |at: usize| frame.get(at).copied().map(usize::from);
    let word = |at: usize| Some(byte(at)? << 8 | byte(at + 1)?);
    let udp = |at: usize| if byte(at + 3).is_some() && word(at + 2) == Some(2152) { "gtp_u" } else { "other" };
    let (mut at, mut kind) = (14, word(12)?);
    for _ in 0..2 {
        if [0x8100, 0x88a8].contains(&kind) && byte(at + 3).is_some() {
            (kind, at) = (word(at + 2)?, at + 4);
        }
    }
    let is_v4 = kind == 0x0800;
    if !is_v4 && kind != 0x86dd {
        return Some("other");
    }
    // of IPv4 with a protocol other than TCP, the IP header is enough
    let is_short = byte(at + 39).is_none();
    if byte(at + 19).is_none() || is_short && (!is_v4 || byte(at + 9) == Some(6)) {
        return Some("malformed");
    }
    let (version, words) = (byte(at)? >> 4, byte(at)? & 15);
    let (tcp, end) = if is_v4 {
        match byte(at + 9)? {
            6 if version != 4 || words < 5 => return Some("malformed"),
            6 if word(at + 6)? & 0x3fff != 0 => return Some("fragments"),
            6 => (at + words * 4, at + word(at + 2)?),
            17 if is_short || word(at + 6)? & 0x1fff == 0 => return Some(udp(at + words * 4)),
            44 if !is_short && word(at + 6)? & 0x1fff == 0 => return Some("fragments"),
            _ => return Some("other"),
        }
    } else {
        if version != 6 {
            return Some("malformed");
        }
        let (mut next, mut to) = (byte(at + 6)?, at + 40);
        for _ in 0..4 {
            if [0, 60].contains(&next) && byte(to + 1).is_some() {
                (next, to) = (byte(to)?, to + (byte(to + 1)? + 1) * 8);
            }
        }
        match next {
            6 => (to, at + 40 + word(at + 4)?),
            17 => return Some(udp(to)),
            44 => return Some("fragments"),
            0 | 43 | 51 | 60 | 135 => return Some("extensions"),
            _ => return Some("other"),
        }
    };
    let is_said = word(at + if is_v4 { 2 } else { 4 })? != 0;
    let end = if is_said || gso_size == 0 { end } else { frame.len() };
    let header = byte(tcp + 19).and_then(|_| byte(tcp + 12)).map_or(0, |offset| (offset >> 4) * 4);
    (header < 20 || end > frame.len() || tcp + header > end).then_some("malformed")
}

/// The harness checks that each packet passes unchanged.
#[test]
fn random_and_mutated_packets_pass_and_are_counted_as_what_they_are() {
    let Some(program) = program("fuzz", PATIENT) else { return };
    let v4 = Packet { ip_options: vec![1; 8], tags: vec![0x8100], ..Packet::data(addr(SERVER), client(0), 1000, 40) };
    let extensions = vec![(0, vec![0; 8]), (60, vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])];
    let v6 = Packet { extensions, ..Packet::data(addr(SERVER_V6), addr(CLIENT_V6), 1000, 40) };
    let (IpServer(from), IpServer(to)) = (IpServer::of(SERVER), IpServer::of("10.0.0.1:1"));
    let gtp_u = [&[0x10, 0, 0x08, 0x68][..], &[0; 40]].concat(); // to port 2152
    let other = |next| Packet { extensions: vec![(next, vec![0; 8])], ..v6.clone() }.frame();
    let mut fragment = Packet::data(addr(SERVER), client(1), 5, 60).frame();
    fragment[20] = 0x20;
    let valid = prop::sample::select(vec![
        v4.frame(),
        v6.frame(),
        Packet::data(addr(SERVER), client(1), 5, 99).frame(),
        [ethernet(&[], 0x0800), ipv4(from, to, 17, &[], &gtp_u)].concat(),
        other(17),
        other(43),
        other(44),
        fragment,
    ]);
    let mutated = (valid, prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), SHORTEST..200);
    let mutated = mutated.prop_map(|(mut frame, changes, length)| {
        changes.iter().for_each(|(place, value)| *place.get_mut(&mut frame) = *value);
        frame.truncate(length);
        frame
    });
    let random = prop::collection::vec(any::<u8>(), SHORTEST..200);
    let typed =
        (random.clone(), prop::sample::select(vec![[8, 0], [0x86, 0xdd], [0x81, 0]])).prop_map(|(mut f, kind)| {
            f[12..14].copy_from_slice(&kind);
            f
        });
    let frames = prop_oneof![4 => mutated, 1 => random, 2 => typed];
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() });
    let outcome = runner.run(&(frames, any::<(bool, u8, u16)>()), |(frame, (is_ack, segments, size))| {
        let before = untracked(&program.counters());
        let (is_run, size) = match (is_ack, segments) {
            (true, _) => (program.ack(&frame), 0),
            (false, 0..200) => (program.data(&frame), 0),
            _ => (program.super_packet(&frame, (segments - 200).into(), size.into()), size),
        };
        let after = untracked(&program.counters());
        let more: Vec<_> = after.iter().zip(before).filter(|(a, b)| a.1 > b.1).map(|(a, _)| a.0).collect();
        // of packets from the clients, nothing else is counted
        let kind = counted(&frame, size).filter(|kind| is_run && (!is_ack || *kind == "gtp_u"));
        prop_assert_eq!(more, kind.into_iter().collect::<Vec<_>>());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let counters = program.counters();
    let places = untracked(&counters).map(|(_, count)| count);
    assert!(places.iter().all(|n| *n > 20), "every way was taken: {counters:?}");
    assert!(counters.tracked > 20 && counters.untracked > 20, "every way was taken: {counters:?}");
}

#[test]
fn a_million_forged_flows_take_no_more_room_than_there_is() {
    const FORGED: u32 = 1_000_000;
    const REAL_EVERY: u32 = 100;
    let settings = Settings { flows: 4096, segments: 1, delay_us: 500, ring_bytes: 1 << 16 };
    let Some(mut program) = program("forged", settings) else { return };
    let mut frame = Packet::data(addr(SERVER), client(0), 1000, 10).frame();
    let real = SocketAddr::from(([198, 51, 100, 1], 5000));
    for number in 0..FORGED {
        if number % REAL_EVERY == 0 {
            program.segment(real, number, REAL_EVERY as usize);
        }
        let SocketAddr::V4(to) = client(number) else { panic!("not IPv4") };
        frame[30..34].copy_from_slice(&to.ip().octets());
        frame[36..38].copy_from_slice(&to.port().to_be_bytes());
        program.data(&frame);
    }
    let counters = program.counters();
    assert!(program.flow_count() <= 4096, "{} flows", program.flow_count());
    // the least recently seen flows were evicted: the real one, which is seen now and then, stayed
    assert_eq!(program.flow(addr(SERVER), real).map(|f| (f.in_order, f.segments)), Some((FORGED, FORGED / REAL_EVERY)));
    assert_eq!((counters.flows_new, counters.flows_refused), (u64::from(FORGED) + 1, 0));
    let packets = u64::from(FORGED + FORGED / REAL_EVERY);
    assert_eq!(counters.packets, packets);
    // the ring was not emptied: dropped reports are counted, and no packet waited
    let kept = program.reports().len() as u64;
    assert!(kept > 100 && counters.reports_lost > 900_000, "{counters:?}");
    assert_eq!(counters.reports.iter().sum::<u64>(), kept);
    assert_eq!(counters.reports.iter().sum::<u64>() + counters.reports_lost, packets);
    // the next flow is tracked as usual
    program.segment(client(FORGED + 1), 500, 100);
    assert_eq!(program.flow(addr(SERVER), client(FORGED + 1)).map(|f| f.in_order), Some(600));
}
