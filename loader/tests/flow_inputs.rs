//! Tests how algorithms read what agents write into a flow's socket storage: they use it, but do not trust it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc_abi::hint::ArwaHint;
use hotcc_abi::pep::PepFlow;
use hotcc_abi::{clock, pins};
use nix::libc;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const MSS: u32 = 1448;
/// Flags of mdcubic's state.
const PEP_USED: i64 = 1;
const PEP_CLOCKED: i64 = 2;

/// Creates a namespace whose loopback has segments of Ethernet size, and is slow enough that data are always in flight.
fn slow_loopback(name: &'static str) -> NetNs {
    let ns = NetNs::new(name);
    ns.sh("ip link set lo mtu 1500 gso_max_segs 1; tc qdisc add dev lo root tbf rate 100mbit burst 64kb limit 4mb");
    ns
}

/// A connection that sends continuously.
struct Transfer {
    cc: &'static str,
    sockets: Connection,
    /// Sequence number of its first byte.
    first: u32,
    threads: Vec<JoinHandle<()>>,
}

impl Transfer {
    fn new(cc: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Connection::to(&listener, Some(cc));
        let first = next_to_write(&sockets.client);
        let (mut client, mut server) = (sockets.client.try_clone().unwrap(), sockets.server.try_clone().unwrap());
        let threads = vec![
            std::thread::spawn(move || while client.write_all(&[7; 1 << 14]).is_ok() {}),
            std::thread::spawn(move || while server.read(&mut [0; 1 << 16]).is_ok_and(|n| n > 0) {}),
        ];
        Self { cc, sockets, first, threads }
    }

    /// Returns the connection and its algorithm's state, as `hotcc flows` shows them.
    fn flow(&self) -> Value {
        json(&["flows", "--cc", self.cc, "--json"])[0].clone()
    }

    fn state(&self, field: &str) -> i64 {
        let flow = self.flow();
        let found = flow["state"].as_array().unwrap().iter().find(|f| f["name"] == field).unwrap();
        found["value"].as_i64().unwrap()
    }

    fn wait(&self, for_what: &str, ready: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !ready(self) {
            assert!(began.elapsed() < PATIENCE, "{for_what} does not come: {:#}", self.flow());
            sleep(Duration::from_millis(1));
        }
    }

    fn acked_bytes(&self) -> u64 {
        self.flow()["acked_bytes"].as_u64().unwrap()
    }

    /// Makes the receiver drop three segments, and waits for the recovery and its end.
    fn lose_three_segments(&self) {
        const AHEAD: u64 = 4 << 20;
        let recoveries = |t: &Self| t.state("losses_d1") + t.state("losses_d2");
        let before = recoveries(self);
        while recoveries(self) == before {
            let from = self.acked_bytes() + AHEAD;
            let filter = DropSegments::new(&self.sockets, self.first.wrapping_add(from as u32), 3 * MSS);
            // on a busy machine, the segments may pass before the filter works
            self.wait("a recovery", |t| recoveries(t) > before || t.acked_bytes() > from + AHEAD);
            drop(filter);
        }
        self.wait("its end", |t| t.flow()["ca_state"] == "open");
    }

    /// Writes the record of a PEP that saw everything that was sent.
    fn pep_saw_all(&self, updates: u32, age: Duration) {
        let record = PepFlow {
            updates,
            in_order: self.first.wrapping_add(1 << 30), // only what was sent counts
            time_ns: clock::monotonic_ns() - age.as_nanos() as u64,
            ..PepFlow::default()
        };
        write_storage(pins::PEP_FLOW, &self.sockets.client, &record);
    }

    fn hint(&self, sequence: u32, hint: u8, age_ms: i64) {
        let time_ns = clock::monotonic_ns().wrapping_sub((age_ms * 1_000_000) as u64);
        let value = ArwaHint { time_ns, sequence, hint, ..ArwaHint::default() };
        write_storage(pins::ARWA_HINT, &self.sockets.client, &value);
        self.wait("the ACK that finds it", |t| t.state("hint_sequence") == i64::from(sequence));
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // both threads then end; either socket may already be closed
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

/// Returns the sequence number of the next byte that will be written.
fn next_to_write(socket: &impl AsFd) -> u32 {
    const SEND_QUEUE: libc::c_int = 2;
    const OFF_WITHOUT_PROBE: libc::c_int = -1;
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, &1);
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, &SEND_QUEUE);
    let sequence = u32::from_ne_bytes(option(socket, libc::TCP_QUEUE_SEQ));
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, &OFF_WITHOUT_PROBE);
    sequence
}

/// A filter at the receiver that drops the segments that begin within a range of sequence numbers; dropping the value
/// removes it.
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
fn arwa_follows_hints_that_are_young_and_mean_something() {
    let name = "arwa_follows_hints_that_are_young_and_mean_something";
    let Some(_test) = kernel_test(name, &["arwa_one", "arwa_two"]) else { return };
    slow_loopback("hotcc-test-hints").enter(|| {
        // the second name uses the map that the first one created
        ok(&["load", "arwa", "--as", "arwa_one"]);
        ok(&["load", "arwa", "--as", "arwa_two", "--set", "max_age_ms=30000"]);
        let transfer = Transfer::new("arwa_two");
        transfer.wait("an RTT", |t| t.flow()["srtt_us"].is_u64());
        let ignored = [(0, 0), (71, 0), (100, 0), (121, 0), (255, 0), (50, 40_000), (50, -1000)];
        for (sequence, (hint, age_ms)) in (1..).zip(ignored) {
            transfer.hint(sequence, hint, age_ms);
            assert_eq!(transfer.state("last_hint"), 0, "hint {hint}, {age_ms} ms old");
        }
        // a hint may arrive during a recovery, in which the kernel controls the window
        let taken = (20..200).find(|sequence| {
            transfer.hint(*sequence, 50, 0);
            transfer.state("last_hint") == 50
        });
        assert!(taken.is_some(), "{:#}", transfer.flow());
        assert!(transfer.flow()["ssthresh"].is_u64(), "a cut sets it: {:#}", transfer.flow());
    });
}

#[test]
fn mdcubic_distinguishes_losses_by_the_peps_reports() {
    let name = "mdcubic_distinguishes_losses_by_the_peps_reports";
    let Some(_test) = kernel_test(name, &["mdcubic_loss"]) else { return };
    slow_loopback("hotcc-test-loss").enter(|| {
        let set = ["--set", "pep_clock=0", "--set", "pep_max_age_ms=30000", "--set", "d2_loss_events=1000"];
        ok(&[&["load", "mdcubic", "--as", "mdcubic_loss"][..], &set].concat());
        let transfer = Transfer::new("mdcubic_loss");
        let losses = |t: &Transfer| (t.state("losses_d1"), t.state("losses_d2"));
        transfer.lose_three_segments();
        let (first, none) = losses(&transfer);
        assert!(first >= 1 && none == 0, "without a PEP all are domain 1's");
        transfer.pep_saw_all(2, Duration::ZERO);
        transfer.wait("its use", |t| t.state("flags") & PEP_USED != 0);
        transfer.wait("the open state", |t| t.flow()["ca_state"] == "open");
        let before = losses(&transfer);
        transfer.lose_three_segments();
        let after = losses(&transfer);
        assert!(after.1 > before.1 && after.0 == before.0, "{before:?} {after:?}");
    });
}

#[test]
fn mdcubic_uses_no_record_that_is_old_or_half_written() {
    let name = "mdcubic_uses_no_record_that_is_old_or_half_written";
    let Some(_test) = kernel_test(name, &["mdcubic_use"]) else { return };
    slow_loopback("hotcc-test-use").enter(|| {
        ok(&["load", "mdcubic", "--as", "mdcubic_use", "--set", "pep_max_age_ms=30000"]);
        let transfer = Transfer::new("mdcubic_use");
        for (updates, age_s, used) in
            [(2, 0, true), (4, 31, false), (6, 0, true), (7, 0, false), (8, 0, true), (0, 0, false)]
        {
            transfer.pep_saw_all(updates, Duration::from_secs(age_s));
            let what = format!("record {updates}, {age_s} s old, used: {used}");
            transfer.wait(&what, |t| (t.state("flags") & PEP_CLOCKED != 0) == used);
            transfer.wait("D2", |t| (t.state("d2_segments") > 0) == used);
            let is_whole = updates != 0 && updates % 2 == 0;
            assert_eq!(transfer.flow()["pep"].is_object(), is_whole, "{what}");
            let shown = ok(&["flows", "--cc", "mdcubic_use"]).contains("    pep: all up to ");
            assert_eq!(shown, is_whole, "{what}");
        }
    });
}
