//! Tests hints: that they are agreed on, made, sent, received and followed.

use crate::common::{kernel_test, ok};
use crate::path::*;
use nix::libc;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, listen, socket};
use std::io::{Read, Write};
use std::time::Duration;

const MSS: u64 = 1448;

#[test]
fn hints_keep_the_queue_short_on_ipv4_and_ipv6() {
    let Some(_test) = kernel_test("hints_keep_the_queue_short_on_ipv4_and_ipv6", &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let plain = {
        let flow = Flow::open(&path, &cgroup, Enrolled::Both, RECEIVER_V4, "arwa_rx");
        let transfer = Transfer::start(flow, "arwa_rx");
        std::thread::sleep(Duration::from_secs(1));
        transfer.observe(15)
    };
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    for (to, scaling) in [(RECEIVER_V4, true), (RECEIVER_V6, true), (RECEIVER_V4, false)] {
        let before = Before::now();
        path.sender.sh(&format!("sysctl -qw net.ipv4.tcp_window_scaling={}", u8::from(scaling)));
        let flow = Flow::open(&path, &cgroup, Enrolled::Both, to, "arwa_rx");
        assert_eq!(flow.scales_windows(), scaling);
        let transfer = Transfer::start(flow, "arwa_rx");
        std::thread::sleep(Duration::from_secs(1));
        let (rtt_us, bytes_per_s) = transfer.observe(15);
        let segments = transfer.received() / MSS;
        println!("{to}, scaled windows {scaling}: without {plain:?}, with {:?}", (rtt_us, bytes_per_s));
        assert_eq!(before.added("flows_agreed"), 2, "both ends");
        let [made, sent, taken, applied] =
            before.added_all(["hints_made", "hints_sent", "hints_received", "hints_applied"]);
        assert!(0 < applied && applied <= taken && taken <= made && made <= sent, "{applied} {taken} {made} {sent}");
        // 16 segments take 5 ms here, less than a period, so they give one estimate; some estimates give no hint
        assert!(made * 16 * 10 > segments * 7, "{made} hints of {segments} segments: GRO's are not told apart");
        assert!(rtt_us * 4 < plain.0, "{to}: {rtt_us} us, {} us without", plain.0);
        assert!(bytes_per_s > plain.1 * 0.7, "{to}: {bytes_per_s} bytes/s, {} without", plain.1);
    }
}

#[test]
fn one_connection_has_hints_both_ways() {
    let Some(_test) = kernel_test("one_connection_has_hints_both_ways", &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    path.router.sh("tc qdisc add dev snd root tbf rate 40mbit burst 16kb limit 2mb");
    let Flow { client, server } = Flow::open(&path, &cgroup, Enrolled::Both, RECEIVER_V4, "reno");
    let data = vec![7; 4 << 20];
    for (mut from, mut to) in [(&client, &server), (&server, &client)] {
        let before = Before::now();
        std::thread::scope(|scope| {
            scope.spawn(|| from.write_all(&data).unwrap());
            to.read_exact(&mut vec![0; data.len()]).unwrap();
        });
        let [made, taken] = before.added_all(["hints_made", "hints_received"]);
        assert!(taken > 10 && taken <= made, "{taken} of {made}");
    }
}

#[test]
fn a_peer_that_knows_no_hints_sees_an_ordinary_connection() {
    let name = "a_peer_that_knows_no_hints_sees_an_ordinary_connection";
    let Some(_test) = kernel_test(name, &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    for enrolled in [Enrolled::SenderOnly, Enrolled::ReceiverOnly] {
        let before = Before::now();
        let flow = Flow::open(&path, &cgroup, enrolled, RECEIVER_V4, "cubic");
        let transfer = Transfer::start(flow, "cubic");
        wait("a megabyte", || transfer.received() > 1 << 20);
        for name in ["flows_agreed", "hints_made", "hints_sent", "hints_received", "hints_refused"] {
            assert_eq!(before.added(name), 0, "{name}");
        }
    }
}

#[test]
fn connections_outlive_the_receiver() {
    let Some(_test) = kernel_test("connections_outlive_the_receiver", &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let flow = Flow::open(&path, &cgroup, Enrolled::Both, RECEIVER_V4, "arwa_rx");
    let transfer = Transfer::start(flow, "arwa_rx");
    let before = Before::now();
    wait("a hint", || before.added("hints_applied") > 0);
    drop(loaded);
    let (after, received) = (Before::now(), transfer.received());
    wait("more data", || transfer.received() > received + (1 << 20));
    assert_eq!(after.added("hints_made"), 0);
    let _again = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let received = transfer.received();
    wait("more data", || transfer.received() > received + (1 << 20));
    assert_eq!(after.added("hints_made"), 0, "what it knew went with it");
}

#[test]
fn thousands_of_short_flows_each_have_a_state_that_goes_with_them() {
    let name = "thousands_of_short_flows_each_have_a_state_that_goes_with_them";
    let Some(_test) = kernel_test(name, &[]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    thousands_of_flows(&path, &cgroup, "arwa", "flows_agreed", ["rx_flows", "arwa_hint"]);
    thousands_of_flows(&path, &cgroup, "drwa", "flows_clamped", ["drwa_flows"]);
}

fn thousands_of_flows<const N: usize>(
    path: &Path,
    cgroup: &Cgroup,
    method: &'static str,
    counter: &str,
    maps: [&str; N],
) {
    const FLOWS: usize = 2000;
    let _loaded = Loaded::new(method, &["--cgroup", cgroup.path()]);
    let kept = || maps.map(states);
    let others = kept();
    let before = Before::now();
    let listener = cgroup.enter(|| path.receiver.enter(|| std::net::TcpListener::bind((RECEIVER_V4, 0)).unwrap()));
    let address = listener.local_addr().unwrap();
    let mut flows: Vec<_> = cgroup.enter(|| {
        path.sender.enter(|| {
            let open = |_| (std::net::TcpStream::connect(address).unwrap(), listener.accept().unwrap().0);
            (0..FLOWS).map(open).collect()
        })
    });
    let mut received = [0; 4000];
    for (client, server) in &mut flows {
        client.write_all(&[7; 4000]).unwrap();
        server.read_exact(&mut received).unwrap();
    }
    assert_eq!(before.added(counter), 2 * FLOWS as u64, "both ends of each, open at once");
    assert_eq!(before.added_all(["hints_refused", "hints_without_room"]), [0, 0]);
    assert_eq!(kept(), others.map(|n| n + 2 * FLOWS));
    drop(flows);
    wait("the end of all states", || kept() == others);
}

#[test]
fn without_a_cgroup_all_connections_are_enrolled() {
    let Some(_test) = kernel_test("without_a_cgroup_all_connections_are_enrolled", &["arwa_rx"]) else { return };
    let path = Path::new();
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let _loaded = Loaded::new("arwa", &[]);
    let before = Before::now();
    let flow = Flow::open_in(&path, None, None, RECEIVER_V4, "arwa_rx");
    let transfer = Transfer::start(flow, "arwa_rx");
    wait("a hint", || before.added("hints_applied") > 0);
    drop(transfer);
}

#[test]
fn an_applications_tcp_save_syn_option_is_kept() {
    let Some(_test) = kernel_test("an_applications_tcp_save_syn_option_is_kept", &[]) else { return };
    let cgroup = Cgroup::new("hotcc-test-rx");
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    for (wish, stays) in [(0, 1), (1, 1), (2, 2)] {
        let listener = cgroup.enter(|| {
            let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
            set_socket_option(&socket, libc::TCP_SAVE_SYN, wish);
            listen(&socket, Backlog::new(1).unwrap()).unwrap();
            socket
        });
        assert_eq!(socket_option::<i32>(&listener, libc::TCP_SAVE_SYN), stays);
    }
}
