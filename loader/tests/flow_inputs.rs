//! What agents write into a flow's socket storage, on its way into an algorithm: used, and never trusted.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use bytemuck::{Pod, bytes_of};
use common::*;
use hotcc_abi::hint::ArwaHint;
use hotcc_abi::pep::PepFlow;
use hotcc_abi::{clock, pins};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::Priority, sockopt::RcvBuf};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const MSS: u32 = 1448;
const OPEN: u8 = 0;
/// What CUBIC leaves of [`CLAMP`] after a loss; its `beta` is 717/1024 in the kernel.
const CUBICS_SSTHRESH: u32 = CLAMP * 717 / 1024;

/// Where windows rest in [`narrow_loopback`], in segments.
const CLAMP: u32 = 100;
/// The class of packets that are slow on [`slow_loopback`], as a socket's priority.
const SLOW: libc::c_int = 0x1_0010;

/// A slow loopback on which no window exceeds [`CLAMP`].
fn narrow_loopback(name: &'static str) -> NetNs {
    let ns = slow_loopback(name);
    ns.sh(&format!("ip route change local 127.0.0.1 dev lo table local cwnd lock {CLAMP}"));
    ns
}

/// A loopback with segments of an Ethernet's size. The ACKs are what is slow: data that wait in this machine's own queue
/// would hold the sender back by their number, whatever its window.
fn slow_loopback(name: &'static str) -> NetNs {
    let ns = NetNs::new(name);
    ns.sh("ip link set lo mtu 1500 gso_max_segs 1; tc qdisc add dev lo root handle 1: htb default 20
        tc class add dev lo parent 1: classid 1:10 htb rate 1mbit
        tc class add dev lo parent 1: classid 1:20 htb rate 10gbit");
    ns
}

/// The storage that a map pinned by `hotcc load` is for a socket.
fn write_storage<T: Pod>(map: &str, socket: &impl AsFd, value: &T) {
    let map = MapHandle::from_pinned_path(pins::shared(map).unwrap()).unwrap();
    map.update(&socket.as_fd().as_raw_fd().to_ne_bytes(), bytes_of(value), MapFlags::ANY).unwrap();
}

/// `struct tcp_info`, as far as it is of interest.
#[derive(Clone, Copy, Debug)]
struct TcpInfo {
    ca_state: u8,
    rtt: Duration,
    ssthresh: u32,
    window: u32,
    retransmits: u32,
    bytes_acked: u64,
}

/// A connection that sends without end.
struct Transfer {
    sockets: Connection,
    /// Sequence number of its first byte.
    first: u32,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    fn new(cc: &str) -> Self {
        Self::to(&TcpListener::bind("127.0.0.1:0").unwrap(), cc)
    }

    fn to(listener: &TcpListener, cc: &str) -> Self {
        let sockets = Connection::to(listener, Some(cc));
        setsockopt(&sockets.server, Priority, &SLOW).unwrap();
        let first = next_to_write(&sockets.client);
        let (mut client, mut server) = (sockets.client.try_clone().unwrap(), sockets.server.try_clone().unwrap());
        let threads = vec![
            std::thread::spawn(move || while client.write_all(&[7; 1 << 14]).is_ok() {}),
            std::thread::spawn(move || while server.read(&mut [0; 1 << 16]).is_ok_and(|n| n > 0) {}),
        ];
        Self { sockets, first, threads }
    }

    fn info(&self) -> TcpInfo {
        let bytes: [u8; 232] = option(&self.sockets.client, libc::TCP_INFO);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        TcpInfo {
            ca_state: bytes[1],
            rtt: Duration::from_micros(word(68).into()),
            ssthresh: word(76),
            window: word(80),
            retransmits: word(100),
            bytes_acked: u64::from_ne_bytes(bytes[120..128].try_into().unwrap()),
        }
    }

    fn wait(&self, for_what: &str, ready: impl Fn(&TcpInfo) -> bool) -> TcpInfo {
        let began = Instant::now();
        loop {
            let info = self.info();
            if ready(&info) {
                return info;
            }
            assert!(began.elapsed() < PATIENCE, "{for_what} does not come: {info:?}");
            sleep(Duration::from_micros(500));
        }
    }

    /// Waits until the window rests at [`CLAMP`].
    fn settled(&self) -> TcpInfo {
        self.wait("the largest window", |i| i.window == CLAMP && i.ca_state == OPEN)
    }

    /// Lets the receiver lose three segments; returns the state after the recovery. None of their retransmissions is
    /// lost if this process runs within an RTT.
    fn lose_three_segments(&self) -> TcpInfo {
        let before = self.info();
        let lost = self.first.wrapping_add(before.bytes_acked as u32).wrapping_add(4 * CLAMP * MSS);
        let filter = DropSegments::new(&self.sockets, lost, 3 * MSS);
        self.wait("a retransmission", |i| i.retransmits > before.retransmits);
        drop(filter);
        let end = before.bytes_acked + u64::from(6 * CLAMP * MSS);
        self.wait("the end of the recovery", |i| i.ca_state == OPEN && i.bytes_acked > end)
    }

    /// A record of a PEP that saw everything there is.
    fn pep_saw_all(&self, updates: u32, age: Duration) {
        let record = PepFlow {
            updates,
            in_order: self.first.wrapping_add(1 << 30), // no more counts than what was sent
            time_ns: clock::monotonic_ns() - age.as_nanos() as u64,
            ..PepFlow::default()
        };
        write_storage(pins::PEP_FLOW, &self.sockets.client, &record);
    }

    fn hint(&self, sequence: u32, hint: u8, age_ms: i64) {
        let time_ns = clock::monotonic_ns().wrapping_sub((age_ms * 1_000_000) as u64);
        let value = ArwaHint { time_ns, sequence, hint, ..ArwaHint::default() };
        write_storage(pins::ARWA_HINT, &self.sockets.client, &value);
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // both threads then see an end; either socket may be gone already
        let _ = self.sockets.client.shutdown(Shutdown::Both);
        let _ = self.sockets.server.shutdown(Shutdown::Both);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn option<const N: usize>(socket: &impl AsFd, name: libc::c_int) -> [u8; N] {
    let mut value = [0u8; N];
    let mut length = N as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes to `value`, and both live through the call.
    let result = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, name, value.as_mut_ptr().cast(), &raw mut length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    value
}

fn set_option<T>(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: &T) {
    let (fd, length) = (socket.as_fd().as_raw_fd(), size_of::<T>() as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes of `value`, which lives through the call.
    let result = unsafe { libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), length) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// The sequence number of what will be written next.
fn next_to_write(socket: &impl AsFd) -> u32 {
    const SEND_QUEUE: libc::c_int = 2;
    const OFF_WITHOUT_PROBE: libc::c_int = -1;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, &1);
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &SEND_QUEUE);
    let sequence = u32::from_ne_bytes(option(socket, libc::TCP_QUEUE_SEQ));
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, &OFF_WITHOUT_PROBE);
    sequence
}

/// A filter at the receiver that loses the segments that begin within some sequence numbers, until it is dropped.
struct DropSegments<'a>(&'a Connection);

impl<'a> DropSegments<'a> {
    fn new(sockets: &'a Connection, from: u32, bytes: u32) -> Self {
        const SEQUENCE_AT: u32 = 4;
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, SEQUENCE_AT),
            step(libc::BPF_ALU | libc::BPF_SUB | libc::BPF_K, 0, 0, from),
            step(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 1, 0, bytes),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        set_option(&sockets.server, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program);
        Self(sockets)
    }
}

impl Drop for DropSegments<'_> {
    fn drop(&mut self) {
        set_option(&self.0.server, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
    }
}

#[test]
fn arwas_window_follows_hints() {
    let Some(_test) = kernel_test("arwas_window_follows_hints", &["arwa_one", "arwa_two"]) else { return };
    narrow_loopback("hotcc-test-hints").enter(hints);
}

fn hints() {
    // the second name takes the map that the first one left
    ok(&["load", "arwa", "--as", "arwa_one"]);
    ok(&["load", "arwa", "--as", "arwa_two"]);
    let transfer = Transfer::new("arwa_two");
    let before = transfer.settled();
    let ignored = [(0, 0), (71, 0), (100, 0), (121, 0), (255, 0), (50, 1001), (50, 60_000), (50, -1000)];
    for (sequence, (hint, age_ms)) in (1..).zip(ignored) {
        transfer.hint(sequence, hint, age_ms);
        sleep(Duration::from_millis(50)); // many ACKs
        let after = transfer.info();
        assert_eq!((after.window, after.ssthresh), (CLAMP, before.ssthresh), "hint {hint}, {age_ms} ms old");
    }
    // it sets ssthresh too; the window begins to grow from there at once
    transfer.hint(20, 10, 0);
    transfer.wait("the smaller window", |i| (90..CLAMP).contains(&i.window) && i.ssthresh == 90);
    transfer.settled();
    transfer.hint(20, 50, 0); // that one was seen
    sleep(Duration::from_millis(50));
    assert_eq!(transfer.info().ssthresh, 90);
    assert!((0..20).any(|n| grows_at_once(&transfer, 30 + 2 * n)), "{:?}", transfer.info());
}

/// Whether the window grows by a tenth within half of the time that NewReno takes for that.
fn grows_at_once(transfer: &Transfer, sequence: u32) -> bool {
    transfer.settled();
    transfer.hint(sequence, 70, 0);
    transfer.wait("a much smaller window", |i| i.window < 40);
    sleep(Duration::from_millis(100)); // more than an RTT, before which no other hint is acted on
    let (began, before) = (Instant::now(), transfer.info());
    transfer.hint(sequence + 1, 120, 0);
    let growth = before.window * 20 / 200;
    let after = transfer.wait("a larger window", |i| i.window >= before.window + growth);
    began.elapsed() < before.rtt.min(after.rtt) * growth / 2
}

#[test]
fn mdcubic_without_a_pep_is_cubic() {
    let Some(_test) = kernel_test("mdcubic_without_a_pep_is_cubic", &["mdcubic_alone"]) else { return };
    narrow_loopback("hotcc-test-alone").enter(|| {
        ok(&["load", "mdcubic", "--as", "mdcubic_alone"]);
        for cc in ["cubic", "mdcubic_alone"] {
            let transfer = Transfer::new(cc);
            for _ in 0..3 {
                transfer.settled();
                assert_eq!(transfer.lose_three_segments().ssthresh, CUBICS_SSTHRESH, "{cc}");
            }
        }
    });
}

#[test]
fn mdcubic_keeps_its_window_through_losses_that_the_pep_saw() {
    let name = "mdcubic_keeps_its_window_through_losses_that_the_pep_saw";
    let Some(_test) = kernel_test(name, &["mdcubic_keep"]) else { return };
    narrow_loopback("hotcc-test-keep").enter(losses);
}

fn losses() {
    ok(&["load", "mdcubic", "--as", "mdcubic_keep", "--set", "pep_clock=0", "--set", "pep_max_age_ms=30000"]);
    // a retransmission that is lost counts too
    ok(&["set", "mdcubic_keep", "d2_loss_events=1000"]);
    let transfer = Transfer::new("mdcubic_keep");
    transfer.pep_saw_all(2, Duration::ZERO);
    for _ in 0..3 {
        let before = transfer.settled();
        let after = transfer.lose_three_segments();
        assert_eq!((after.window, after.ssthresh), (CLAMP, before.ssthresh));
    }
    // one loss too many
    ok(&["set", "mdcubic_keep", "d2_loss_events=3"]);
    assert_eq!(transfer.lose_three_segments().ssthresh, CUBICS_SSTHRESH);
    ok(&["set", "mdcubic_keep", "d2_loss_events=1000"]);
    // records that are no good, and a good one between them
    for (updates, age, good) in [(4, 31, false), (6, 0, true), (7, 0, false), (8, 0, true), (0, 0, false)] {
        transfer.pep_saw_all(updates, Duration::from_secs(age));
        let before = transfer.settled();
        let after = transfer.lose_three_segments();
        let expected = if good { before.ssthresh } else { CUBICS_SSTHRESH };
        assert_eq!(after.ssthresh, expected, "record {updates}, {age} s old");
        assert_eq!(after.window == CLAMP, good, "record {updates}, {age} s old: {after:?}");
    }
}

#[test]
fn mdcubics_window_is_larger_by_what_is_beyond_the_pep() {
    let name = "mdcubics_window_is_larger_by_what_is_beyond_the_pep";
    let Some(_test) = kernel_test(name, &["mdcubic_clock"]) else { return };
    slow_loopback("hotcc-test-clock").enter(clocked);
}

fn clocked() {
    const BUFFER: usize = 128 << 10; // half of it, some 45 segments, is what may be in flight
    const CLEARLY: u32 = 20;
    ok(&["load", "mdcubic", "--as", "mdcubic_clock", "--set", "pep_max_age_ms=30000"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    setsockopt(&listener, RcvBuf, &BUFFER).unwrap();
    let transfer = Transfer::to(&listener, "mdcubic_clock");
    transfer.wait("some data", |i| i.bytes_acked > 1 << 20);
    let no_good = [(3, 0), (10, 31), (13, 0)];
    for (updates, (number, age)) in [2, 4, 12].into_iter().zip(no_good) {
        let alone = transfer.info();
        transfer.pep_saw_all(updates, Duration::ZERO);
        let both = transfer.wait("D2", |i| i.window > alone.window + CLEARLY);
        let beyond = both.window - alone.window;
        assert!((beyond * MSS) as usize <= 2 * BUFFER, "{beyond} segments are more than the receiver's buffer holds");
        transfer.pep_saw_all(number, Duration::from_secs(age));
        transfer.wait("the window without D2", |i| i.window < both.window - CLEARLY);
    }
}
