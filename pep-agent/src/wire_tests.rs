//! Tests of the format: what is written is read, and nothing else is.

use super::*;
use hotcc_keys::KEY_BYTES;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::RefCell;

const TIME_US: u64 = 5_000_000_000;

fn key() -> Key {
    Key::new(7, &[9; KEY_BYTES])
}

fn address(v4: bool, bits: u128, port: u16) -> SocketAddr {
    let ip = if v4 { Ipv4Addr::from(bits as u32).into() } else { Ipv6Addr::from(bits).into() };
    SocketAddr::new(ip, port)
}

prop_compose! {
    fn any_report()(
        v4 in any::<bool>(),
        addresses in any::<(u128, u16, u128, u16)>(),
        in_order: u32,
        steps in proptest::collection::vec((1u32..1 << 20, 1u32..1 << 20), 0..=RANGES),
        segments: u32,
        age_us: u32,
    ) -> FlowReport {
        let (server, server_port, client, client_port) = addresses;
        let mut at = in_order;
        let ranges = steps.iter().map(|(gap, length)| {
            let start = at.wrapping_add(*gap);
            at = start.wrapping_add(*length);
            SeqRange { start, end: at }
        });
        FlowReport {
            key: FlowKey { server: address(v4, server, server_port), client: address(v4, client, client_port) },
            in_order,
            ranges: ranges.collect(),
            segments,
            seen_at_us: TIME_US - u64::from(age_us),
        }
    }
}

fn write(reports: &[FlowReport]) -> (Vec<u8>, usize) {
    let mut writer = ReportWriter::new(0xe, TIME_US);
    let fitting = reports.iter().take_while(|r| writer.push(r)).count();
    (writer.finish(&key(), 42), fitting)
}

fn is_refused(bytes: &[u8]) -> bool {
    Datagram::parse(bytes).map_or(true, |d| !d.is_signed_by(&key()) || d.reports().is_err())
}

proptest! {
    #[test]
    fn written_values_are_read_back(reports in proptest::collection::vec(any_report(), 1..60)) {
        let (bytes, fitting) = write(&reports);
        prop_assert!(bytes.len() <= MAX_DATAGRAM_BYTES);
        let longest = FLOW_FIXED_BYTES + 32 + RANGES * RANGE_BYTES;
        prop_assert!(fitting == reports.len() || bytes.len() + longest > MAX_DATAGRAM_BYTES);
        let datagram = Datagram::parse(&bytes).unwrap();
        prop_assert!(datagram.is_signed_by(&key()));
        prop_assert!(!datagram.is_signed_by(&Key::new(7, &[8; KEY_BYTES])));
        let header = Header { kind: Kind::Report, key_id: 7, epoch: 0xe, counter: 42, time_us: TIME_US };
        prop_assert_eq!(datagram.header, header);
        prop_assert_eq!(datagram.reports().unwrap(), &reports[..fitting]);
    }

    #[test]
    fn changed_datagrams_are_rejected(
        reports in proptest::collection::vec(any_report(), 1..10),
        at: proptest::sample::Index,
        flip in 1u8..,
        cut: proptest::sample::Index,
    ) {
        let (bytes, _) = write(&reports);
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] ^= flip;
        prop_assert!(is_refused(&changed));
        prop_assert!(is_refused(&bytes[..cut.index(bytes.len())]));
        prop_assert!(is_refused(&[&bytes[..], &[0]].concat()));
    }
}

/// Even with a valid code: the reader must cope with anything that a holder of the key sends. What it accepts has only
/// one encoding: written again, it yields the same bytes.
#[test]
fn what_was_changed_and_signed_again_is_refused_or_read_as_it_stands() {
    let bytes = prop_oneof![any::<u8>().prop_map(|byte| vec![byte]), Just(vec![0; 4]), Just(vec![u8::MAX; 4])];
    let changes = proptest::collection::vec((any::<proptest::sample::Index>(), bytes), 0..4);
    let cut = prop_oneof![9 => Just(0usize), 1 => 0..40usize];
    let counts = RefCell::new([0; 2]);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() });
    let outcome =
        runner.run(&(proptest::collection::vec(any_report(), 1..10), changes, cut), |(reports, changes, cut)| {
            let (mut bytes, _) = write(&reports);
            for (place, change) in changes {
                let at = place.index(bytes.len() - change.len());
                bytes[at..at + change.len()].copy_from_slice(&change);
            }
            bytes.truncate(bytes.len() - MAC_BYTES - cut);
            let signed = sign(bytes, &key());
            let read = Datagram::parse(&signed).and_then(|datagram| Ok((datagram, datagram.reports()?)));
            counts.borrow_mut()[usize::from(read.is_ok())] += 1;
            let Ok((Datagram { header, .. }, reports)) = read else { return Ok(()) };
            prop_assert!(reports.iter().all(|r| r.ranges.len() <= RANGES && r.seen_at_us <= header.time_us));
            let mut writer = ReportWriter::new(header.epoch, header.time_us);
            prop_assert!(reports.iter().all(|report| writer.push(report)));
            let again = writer.finish(&Key::new(header.key_id, &[9; KEY_BYTES]), header.counter);
            prop_assert_eq!(again, signed);
            Ok(())
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(counts.borrow().iter().all(|count| *count > 1000), "refused and read: {counts:?}");
}

#[test]
fn each_refusal_has_its_reason() {
    let report = FlowReport {
        key: FlowKey { server: address(true, 1, 80), client: address(true, 2, 9) },
        in_order: 100,
        ranges: vec![SeqRange { start: 200, end: 300 }],
        segments: 5,
        seen_at_us: TIME_US,
    };
    let (good, _) = write(std::slice::from_ref(&report));
    let why = |bytes: &[u8]| Datagram::parse(bytes).and_then(|d| d.reports()).unwrap_err();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(why(&[]), WireError::Truncated);
    assert_eq!(why(&good[..40]), WireError::Truncated);
    assert_eq!(why(&good[..good.len() - 1]), WireError::Truncated);
    assert_eq!(why(&[&good[..], &[0]].concat()), WireError::Oversized);
    assert_eq!(why(&[0; MAX_DATAGRAM_BYTES + 1]), WireError::Oversized);
    assert_eq!(why(&with(0, b'X')), WireError::NotOurs);
    assert_eq!(why(&with(2, 2)), WireError::Version);
    let first_flow = HEADER_BYTES;
    for malformed in [with(3, 0), with(3, 4), with(5, 0), with(6, 1), with(first_flow, 5), with(first_flow + 1, 5)] {
        assert_eq!(why(&malformed), WireError::Malformed);
    }
    let old = FlowReport { seen_at_us: 0, ..report };
    let mut writer = ReportWriter::new(1, 10);
    assert!(writer.push(&old));
    let mut bytes = writer.finish(&key(), 1);
    bytes[TIME_AT + 7] = 9; // seen before the border's clock started
    assert_eq!(why(&bytes), WireError::Malformed);
}

#[test]
fn a_probe_is_answered_by_an_echo_of_the_same_length() {
    let header = Header { kind: Kind::Probe, key_id: 0, epoch: 3, counter: 0, time_us: TIME_US };
    let sent = probe(&header, 99, &key());
    let answer = probe(&Header { kind: Kind::Echo, counter: 12, ..header }, 99, &key());
    assert_eq!(sent.len(), answer.len());
    for (bytes, kind) in [(&sent, Kind::Probe), (&answer, Kind::Echo)] {
        let datagram = Datagram::parse(bytes).unwrap();
        assert_eq!((datagram.header.kind, datagram.header.key_id, datagram.nonce()), (kind, 7, Ok(99)));
        assert!(datagram.is_signed_by(&key()));
        assert!(Datagram::parse(&bytes[..bytes.len() - 1]).is_err());
        assert!(Datagram::parse(&[&bytes[..], &[0]].concat()).is_err());
    }
}

#[test]
fn a_datagram_holds_forty_four_flows_of_ipv4() {
    let report = FlowReport {
        key: FlowKey { server: address(true, 1, 80), client: address(true, 2, 9) },
        in_order: 1,
        ranges: Vec::new(),
        segments: 0,
        seen_at_us: TIME_US,
    };
    assert_eq!(write(&vec![report; 100]).1, 44);
}

#[test]
fn ends_of_two_families_are_refused() {
    let end = |text: &str| text.parse::<SocketAddr>().unwrap();
    let key = FlowKey { server: end("[::ffff:32.1.13.184]:443"), client: end("[2001:db8:9::1]:9") };
    let report = FlowReport { key, in_order: 0, ranges: Vec::new(), segments: 0, seen_at_us: TIME_US };
    let (bytes, _) = write(&[report]);
    assert_eq!(Datagram::parse(&bytes).unwrap().reports(), Err(WireError::Malformed));
}
