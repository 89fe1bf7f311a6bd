//! Hints across a router that removes or changes their TCP option, or drops segments with it; and in segments without
//! room for it.

use crate::common::{kernel_test, ok};
use crate::path::*;
use crate::wire::{captured, tools_are_there};
use bytemuck::{Pod, Zeroable};
use hotcc::object::prepare::set_job;
use libbpf_rs::{MapCore, MapFlags, Object, TC_INGRESS, TcHookBuilder};
use std::os::fd::AsFd;

const MEGABYTE: u64 = 1 << 20;
const SYN: u32 = 1;
const SYN_ACK: u32 = 2;
const OTHERS: u32 = 4;
const OVERWRITE: u32 = 1;
const DROP: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Job {
    segments: u32,
    action: u32,
    word: u32,
    value: u32,
    loss_period: u32,
    with_data: u32,
    seen: u32,
}

impl Job {
    /// Replaces each 16 bits of the option by two NOPs.
    fn strip(segments: u32) -> Self {
        Self { segments, ..Self::default() }
    }

    /// Replaces two bytes of the option in hints.
    fn overwrite(word: u32, bytes: [u8; 2]) -> Self {
        Self { segments: OTHERS, action: OVERWRITE, word, value: u16::from_ne_bytes(bytes).into(), ..Self::default() }
    }
}

/// A middlebox on the path's router, for both directions.
struct Middlebox<'a> {
    path: &'a Path,
    object: Object,
}

impl<'a> Middlebox<'a> {
    fn new(path: &'a Path, job: &Job) -> Self {
        let mut open = open_object("middlebox");
        set_job(&mut open, job).unwrap();
        let object = open.load().unwrap();
        let program = object.progs().next().unwrap();
        let program = program.as_fd();
        path.router.enter(|| {
            for device in ["snd", "rcv"] {
                let index = nix::net::if_::if_nametoindex(device).unwrap().cast_signed();
                let mut hook = TcHookBuilder::new(program).ifindex(index).replace(true).hook(TC_INGRESS);
                hook.create().unwrap();
                hook.attach().unwrap();
            }
        });
        Self { path, object }
    }

    /// Returns the number of segments that it changed or dropped because of the option.
    fn seen(&self) -> u32 {
        let data = self.object.maps().find(|m| m.name().to_string_lossy().ends_with(".data")).unwrap();
        let job: Job = bytemuck::pod_read_unaligned(&data.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap());
        job.seen
    }
}

impl Drop for Middlebox<'_> {
    fn drop(&mut self) {
        self.path.router.sh("for device in snd rcv; do tc qdisc del dev $device clsact; done");
    }
}

/// Runs a transfer across a middlebox; both ends support hints. Returns how many ends agreed on hints, and how many
/// hints were sent and received.
fn transfer_across(what: &str, path: &Path, cgroup: &Cgroup, job: &Job) -> [u64; 3] {
    let middlebox = Middlebox::new(path, job);
    let before = Before::now();
    let transfer = Transfer::start(Flow::open(path, cgroup, Enrolled::Both, RECEIVER_V4, "arwa_rx"), "arwa_rx");
    wait(what, || transfer.received() > 3 * MEGABYTE);
    let counts = before.added_all(["flows_agreed", "hints_sent", "hints_received"]);
    println!("{what}: {counts:?} agreed, sent, received; {} segments changed", middlebox.seen());
    assert!(middlebox.seen() > 0, "{what}");
    counts
}

#[test]
fn removing_or_changing_the_option_only_disables_hints() {
    let name = "removing_or_changing_the_option_only_disables_hints";
    let Some(_test) = kernel_test(name, &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    for (what, segments) in [("off all", SYN | SYN_ACK | OTHERS), ("off the SYN", SYN)] {
        assert_eq!(transfer_across(what, &path, &cgroup, &Job::strip(segments)), [0, 0, 0], "{what}");
    }
    let what = "off the SYN-ACK";
    let [agreed, _, received] = transfer_across(what, &path, &cgroup, &Job::strip(SYN_ACK));
    assert_eq!((agreed, received), (1, 0), "an end without an answer uses no hints: {what}");
    for (what, job) in [
        ("off ACKs", Job::strip(OTHERS)),
        ("another experiment's number", Job::overwrite(1, [0xa2, 0x7b])),
        ("a hint without meaning", Job::overwrite(2, [255, 1])),
        ("longer than the header", Job::overwrite(0, [254, 40])),
        ("shorter than an option can be", Job::overwrite(0, [254, 1])),
    ] {
        let [agreed, sent, received] = transfer_across(what, &path, &cgroup, &job);
        assert!(sent > 0, "{what}");
        assert_eq!((agreed, received), (2, 0), "{what}");
    }
}

#[test]
fn a_syn_dropped_for_its_option_is_retransmitted_without_it() {
    let Some(_test) = kernel_test("a_syn_dropped_for_its_option_is_retransmitted_without_it", &["arwa_rx"]) else {
        return;
    };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let job = Job { segments: SYN, action: DROP, ..Job::default() };
    assert_eq!(transfer_across("SYNs with it are lost", &path, &cgroup, &job), [0, 0, 0]);
}

#[test]
fn sack_takes_precedence_over_hints_if_there_is_no_room_for_both() {
    let name = "sack_takes_precedence_over_hints_if_there_is_no_room_for_both";
    let Some(test) = kernel_test(name, &[]) else { return };
    if !tools_are_there(name) {
        return;
    }
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let _middlebox = Middlebox::new(&path, &Job { loss_period: 200, ..Job::default() });
    let before = Before::now();
    let segments = captured(&test, || {
        // not `arwa`: it would follow the hints, and its window would be too small for three holes
        let transfer = Transfer::start(Flow::open(&path, &cgroup, Enrolled::Both, RECEIVER_V4, "reno"), "reno");
        wait("an ACK without room", || before.added("hints_without_room") > 0);
        let received = transfer.received();
        wait("more data", || transfer.received() > received + MEGABYTE);
    });
    let acks: Vec<_> = segments.iter().filter(|s| s.from_receiver && !s.syn).collect();
    let (full, others): (Vec<_>, Vec<_>) = acks.into_iter().partition(|s| s.sack_blocks == 3);
    println!("{} ACKs without room, {} others", full.len(), others.len());
    assert!(!full.is_empty() && full.iter().all(|s| s.option.is_none()), "{full:?}");
    assert!(others.iter().any(|s| s.option.is_some()), "ACKs with room still carry hints");
}

#[test]
fn without_time_stamps_there_are_no_hints() {
    let Some(_test) = kernel_test("without_time_stamps_there_are_no_hints", &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    path.receiver.sh("sysctl -qw net.ipv4.tcp_timestamps=0");
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let before = Before::now();
    let transfer = Transfer::start(Flow::open(&path, &cgroup, Enrolled::Both, RECEIVER_V4, "arwa_rx"), "arwa_rx");
    wait("three megabytes", || transfer.received() > 3 * MEGABYTE);
    assert_eq!(before.added_all(["flows_agreed", "hints_made", "hints_sent"]), [2, 0, 0]);
}
