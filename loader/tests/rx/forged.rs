//! Tests forged segments: segments that TCP discards must not affect the measurement of the path.

use crate::common::{kernel_test, ok};
use crate::path::*;
use hotcc_cc_tests::random::Random;
use hotcc_testbed::sequence::next_to_receive;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, socket};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;
use std::time::Duration;

const MSS: usize = 1448;
const ACK: u8 = 0x10;
const TCP: u8 = 6;

/// Returns a full segment with a time stamp and a valid checksum.
fn segment([source, dest]: [SocketAddrV4; 2], sequence: u32, stamp: u32) -> Vec<u8> {
    let mut tcp = [source.port().to_be_bytes(), dest.port().to_be_bytes()].concat();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 1, 8 << 4, ACK, 1, 0, 0, 0, 0, 0]);
    tcp.extend([1, 1, 8, 10]);
    tcp.extend(stamp.to_be_bytes());
    tcp.extend([0; 4]);
    tcp.resize(tcp.len() + MSS, 7);
    let mut sum = u32::from(TCP) + tcp.len() as u32;
    for pair in [source.ip().octets(), dest.ip().octets()].concat().chunks(2).chain(tcp.chunks(2)) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    tcp[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    tcp
}

#[test]
fn forged_segments_change_no_hint() {
    let Some(_test) = kernel_test("forged_segments_change_no_hint", &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let flow = Flow::open(&path, &cgroup, Enrolled::Both, RECEIVER_V4, "arwa_rx");
    let ends = [flow.client.local_addr(), flow.client.peer_addr()].map(|end| match end.unwrap() {
        SocketAddr::V4(end) => end,
        end @ SocketAddr::V6(_) => panic!("{end}"),
    });
    let transfer = Transfer::start(flow, "arwa_rx");
    std::thread::sleep(Duration::from_secs(1));
    let window = || {
        let look = |_| {
            std::thread::sleep(Duration::from_millis(20));
            transfer.number("cwnd")
        };
        (0..40).map(look).sum::<u64>()
    };
    let plain = window();
    // a raw socket sends TCP segments unchanged
    let raw = || socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Tcp).unwrap();
    let raw = path.sender.enter(raw);
    let to = SockaddrIn::from(SocketAddrV4::new(*ends[1].ip(), 0));
    let mut random = Random::new(1);
    // time stamps over the whole range: half of them are ahead of the sender's; half of the sequence numbers are in the
    // window, but no ACK's number is right
    for number in 0..64 {
        let in_window = next_to_receive(&transfer.flow.server).unwrap().wrapping_add(100_000);
        let sequence = if number % 2 == 0 { in_window } else { random.bits() as u32 };
        let forged = segment(ends, sequence, number << 26);
        assert_eq!(sendto(raw.as_raw_fd(), &forged, &to, MsgFlags::empty()).unwrap(), forged.len());
        std::thread::sleep(Duration::from_millis(5));
    }
    let then = window();
    println!("40 windows' sum: {plain}, {then} after forged segments");
    assert!(5 * then > 4 * plain, "{plain}, {then}");
}
