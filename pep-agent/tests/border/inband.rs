//! Valid and invalid frames of every kind, given to the program that takes in-band reports out of the packets
//! (BPF_PROG_TEST_RUN): it takes exactly the frames that have the form of a report and belong to a connection, and
//! passes all others.

use crate::packet::{Packet, ethernet, ipv4};
use crate::program::{PASS, given};
use aya::maps::{MapData, RingBuf};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};
use bytemuck::Zeroable;
use hotcc_abi::pep::{INBAND_BYTES, Inband};
use hotcc_testbed::kernel::is_root_with_bpffs;
use hotcc_testbed::netlab::Lab;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use pep_agent::inband::OPTION_HEADER;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

const SHOT: u32 = 2;
/// Both ends of each open connection: the client, then the server.
const CONNECTIONS: [[&str; 2]; 2] =
    [["198.51.100.7:5000", "192.0.2.1:443"], ["[2001:db8:f::9]:5000", "[2001:db8::1]:443"]];

/// Runs `work` on a host that has both ends of the connections.
fn with_connections(name: &str, work: impl FnOnce() + Send) {
    let lab = Lab::new(name).unwrap();
    let host = lab.namespace("host").unwrap();
    for address in CONNECTIONS.as_flattened() {
        let address: SocketAddr = address.parse().unwrap();
        host.ip(&format!("address add {} dev lo nodad", address.ip())).unwrap();
    }
    host.enter(|| {
        let _ends = CONNECTIONS.map(|ends| connected(ends.map(|end| end.parse().unwrap())));
        work();
    })
    .unwrap();
}

fn connected([client, server]: [SocketAddr; 2]) -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind(server).unwrap();
    let family = if client.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let end = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(end.as_raw_fd(), &SockaddrStorage::from(client)).unwrap();
    connect(end.as_raw_fd(), &SockaddrStorage::from(server)).unwrap();
    (end, listener.accept().unwrap().0)
}

fn report(from: &str, to: &str) -> Packet {
    let tcp_options = OPTION_HEADER.into_iter().chain(1..=INBAND_BYTES as u8).collect();
    Packet { tcp_options, ..Packet::data(from.parse().unwrap(), to.parse().unwrap(), 0, 0) }
}

fn reports() -> [Packet; 2] {
    CONNECTIONS.map(|[client, server]| report(client, server))
}

/// Returns the report that the program must pass on for this frame, if any.
fn taken(frame: &[u8]) -> Option<Inband> {
    let is = |place: usize, bytes: &[u8]| frame.get(place..place + bytes.len()) == Some(bytes);
    let (family, tcp, addresses, length) = if is(12, &[8, 0]) && is(14, &[0x45]) && is(16, &[0, 80]) && is(23, &[6]) {
        (4, 34, 26, 4)
    } else if is(12, &[0x86, 0xdd]) && is(18, &[0, 60]) && is(20, &[6]) {
        (6, 54, 22, 16)
    } else {
        return None;
    };
    let segment = frame.get(tcp..tcp + 60)?;
    if segment[12] != 0xf0 || segment[13] != 0x10 || segment[20..24] != OPTION_HEADER {
        return None;
    }
    let mut report = Inband { family, ..Inband::zeroed() };
    report.client[..length].copy_from_slice(&frame[addresses..addresses + length]);
    report.server[..length].copy_from_slice(&frame[addresses + length..addresses + 2 * length]);
    report.client_port.copy_from_slice(&segment[..2]);
    report.server_port.copy_from_slice(&segment[2..4]);
    report.option.copy_from_slice(&segment[24..]);
    is_connected(&report).then_some(report)
}

fn is_connected(report: &Inband) -> bool {
    let is = |address: &[u8; 16], port: [u8; 2], end: &str| {
        let end: SocketAddr = end.parse().unwrap();
        let same = match end.ip() {
            IpAddr::V4(ip) => report.family == 4 && address[..4] == ip.octets(),
            IpAddr::V6(ip) => report.family == 6 && *address == ip.octets(),
        };
        same && port == end.port().to_be_bytes()
    };
    CONNECTIONS.iter().any(|[client, server]| {
        is(&report.client, report.client_port, client) && is(&report.server, report.server_port, server)
    })
}

struct Program {
    ebpf: Ebpf,
    ring: RingBuf<MapData>,
}

impl Program {
    fn load() -> Self {
        let mut ebpf = EbpfLoader::new().load(hotcc_bpf::prog("pep_inband").unwrap().bytes).unwrap();
        let program: &mut SchedClassifier = ebpf.program_mut("inband").unwrap().try_into().unwrap();
        program.load().unwrap();
        let ring = RingBuf::try_from(ebpf.take_map("inband_reports").unwrap()).unwrap();
        Self { ebpf, ring }
    }

    /// Runs the program on a frame and checks the result against [`taken`]. Returns whether the frame is a report, or
    /// `None` if the kernel does not run programs on such a frame.
    fn check(&mut self, frame: &[u8]) -> Option<bool> {
        let program: &SchedClassifier = self.ebpf.program("inband").unwrap().try_into().unwrap();
        let verdict = given(program, frame, None)?;
        let expected = taken(frame);
        assert_eq!(verdict, if expected.is_some() { SHOT } else { PASS }, "{frame:02x?}");
        let told = self.ring.next().map(|item| item.to_vec());
        assert_eq!(told, expected.map(|report| bytemuck::bytes_of(&report).to_vec()));
        assert!(self.ring.next().is_none(), "one report of one frame");
        Some(expected.is_some())
    }
}

#[test]
fn only_what_has_a_reports_form_is_taken_and_as_it_stands() {
    if !is_root_with_bpffs("only_what_has_a_reports_form_is_taken_and_as_it_stands") {
        return;
    }
    with_connections("hotcc-inband-form", forms);
}

fn forms() {
    let mut program = Program::load();
    for packet in reports() {
        let frame = packet.frame();
        assert_eq!(program.check(&frame), Some(true), "{packet:?}");
        for length in 15..frame.len() {
            assert_ne!(program.check(&frame[..length]), Some(true), "cut to {length}");
        }
        let others = [
            Packet { payload: 1, ..packet.clone() },
            Packet { flags: 0x18, ..packet.clone() },
            Packet { flags: 0x11, ..packet.clone() },
            Packet { tags: vec![0x8100], ..packet.clone() },
            Packet { tcp_options: vec![1; 40], ..packet.clone() },
            Packet { tcp_options: packet.tcp_options[..36].to_vec(), ..packet.clone() },
        ];
        for other in others {
            assert_eq!(program.check(&other.frame()), Some(false), "{other:?}");
        }
        assert_eq!(program.check(&Packet { padding: 6, ..packet.clone() }.frame()), Some(true));
    }
    for [client, server] in CONNECTIONS {
        let other_port = |end: &str| end.replace("5000", "5001").replace("443", "444");
        for of_none in [report(&other_port(client), server), report(client, &other_port(server))] {
            assert_eq!(program.check(&of_none.frame()), Some(false), "{of_none:?}");
        }
    }
    let [v4, v6] = reports();
    assert_eq!(program.check(&Packet { ip_options: vec![1; 4], ..v4 }.frame()), Some(false));
    assert_eq!(program.check(&Packet { extensions: vec![(0, vec![0; 8])], ..v6 }.frame()), Some(false));
    let datagram = ipv4([198, 51, 100, 7].into(), [192, 0, 2, 1].into(), 17, &[], &[0; 60]);
    let frame = [ethernet(&[], 0x0800), datagram].concat();
    assert_eq!(program.check(&frame), Some(false));
}

#[test]
fn random_and_mutated_frames_are_taken_by_their_form_alone() {
    if !is_root_with_bpffs("random_and_mutated_frames_are_taken_by_their_form_alone") {
        return;
    }
    with_connections("hotcc-inband-random", random_frames);
}

fn random_frames() {
    let valid = prop::sample::select(reports().map(|packet| packet.frame()).to_vec());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let mutated = (valid, changes, 15..160usize).prop_map(|(mut frame, changes, length)| {
        changes.iter().for_each(|(place, value)| *place.get_mut(&mut frame) = *value);
        frame.truncate(length);
        frame
    });
    let random = prop::collection::vec(any::<u8>(), 15..200);
    let program = RefCell::new((Program::load(), [0; 2]));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() });
    let outcome = runner.run(&prop_oneof![8 => mutated, 1 => random], |frame| {
        let (program, counts) = &mut *program.borrow_mut();
        if let Some(is_taken) = program.check(&frame) {
            counts[usize::from(is_taken)] += 1;
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let counts = program.into_inner().1;
    assert!(counts.iter().all(|count| *count > 1000), "left and taken: {counts:?}");
}
