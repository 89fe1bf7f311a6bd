//! Receivers that lie: a new hint on every ACK, true or not.

use crate::common::{hotcc, kernel_test, ok};
use crate::path::*;
use bytemuck::{Pod, Zeroable};
use hotcc::flows::set_job;
use libbpf_rs::{Link, Object};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ANY: u32 = 256;
const MSS: u64 = 1448;
const FLOOR_BYTES: u64 = 3000;
const PERIOD_US: u128 = 30_000;
const PERIOD_PACKETS: u64 = 16;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LiarJob {
    hint: u32,
    told: u32,
}

/// A lying receiver, on the sockets of a cgroup of its own.
struct Liar {
    cgroup: Cgroup,
    _program: (Link, Object),
}

impl Liar {
    fn new(hint: u32) -> Self {
        let cgroup = Cgroup::new("hotcc-test-liar");
        let mut open = open_object("liar");
        set_job(&mut open, &LiarJob { hint, told: 0 }).unwrap();
        let object = open.load().unwrap();
        let program = object.progs_mut().next().unwrap();
        let link = program.attach_cgroup(File::open(&cgroup.0).unwrap().as_raw_fd()).unwrap();
        Self { cgroup, _program: (link, object) }
    }
}

/// What a sender did for a liar, or for an honest receiver that says nothing.
struct Seen {
    windows: Vec<u64>,
    rtts_us: Vec<u64>,
    received: u64,
    taken: u64,
    refused: u64,
    applied: u64,
    /// As many hints as a receiver can have made in that time.
    at_most: u64,
}

fn watch(path: &Path, honest: &Cgroup, liar: Option<&Liar>, sender: &[&str]) -> Seen {
    let _ = hotcc(&["unload", "arwa_rx"]);
    ok(&[&["load", "arwa", "--as", "arwa_rx"][..], sender].concat());
    let before = Before::now();
    let receiver = liar.map_or(honest, |liar| &liar.cgroup);
    let flow = Flow::open_in(path, Some(honest), liar.map(|_| receiver), RECEIVER_V4, "arwa_rx");
    let began = Instant::now();
    let transfer = Transfer::start(flow, "arwa_rx");
    let (mut windows, mut rtts_us) = (Vec::new(), Vec::new());
    while began.elapsed() < Duration::from_secs(2) {
        let shown = transfer.shown();
        // of a window that the kernel has taken over, hints are ignored
        if shown["ca_state"] == "open" && shown["srtt_us"].is_u64() {
            windows.push(shown["cwnd"].as_u64().unwrap());
            rtts_us.push(shown["srtt_us"].as_u64().unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let [taken, refused, applied] = before.added_all(["hints_received", "hints_refused", "hints_applied"]);
    let received = transfer.received();
    let at_most = 1 + (began.elapsed().as_micros() / PERIOD_US) as u64 + received / (PERIOD_PACKETS * MSS);
    drop(transfer);
    Seen { windows, rtts_us, received, taken, refused, applied, at_most }
}

#[test]
fn the_window_stays_within_its_limits_whatever_a_receiver_says() {
    let name = "the_window_stays_within_its_limits_whatever_a_receiver_says";
    let Some(_test) = kernel_test(name, &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let honest = watch(&path, &cgroup, None, &[]);
    let most = |of: &[u64]| *of.iter().max().unwrap();
    let tried = [0, 255, 1, 70, 71, 100, 101, 120, ANY].map(|hint| (hint, "paper")).into_iter();
    // the paper's sender acts on every hint that it gets, `default` on one per RTT
    for (hint, profile) in tried.chain([70, 120, ANY].map(|hint| (hint, "default"))) {
        let liar = Liar::new(hint);
        let seen = watch(&path, &cgroup, Some(&liar), &["--profile", profile]);
        let Seen { windows, rtts_us, taken, refused, applied, at_most, received } = &seen;
        let least = windows.iter().min().unwrap();
        println!(
            "{profile}, hint {hint}: W {least}..{}, {taken} taken of at most {at_most}, {applied} applied, {refused} \
             refused, {received} bytes, RTT to {} us",
            most(windows),
            most(rtts_us)
        );
        assert!(least * MSS >= FLOOR_BYTES, "{hint}: {least} segments");
        assert!(applied <= taken && taken <= at_most, "{hint}: {applied} {taken} {at_most}");
        match hint {
            0 | 71 | 100 | 255 => assert!(*taken == 0 && *refused > 100, "{hint}: {taken} {refused}"),
            _ => assert!(*applied > 2 && *refused > 0, "{hint}: {applied} {refused}"),
        }
        assert!(*received > 100_000, "{hint}: it goes on: {received} bytes");
        assert!(most(rtts_us) < most(&honest.rtts_us) * 3 / 2, "{hint}: no longer a queue than NewReno makes");
        if profile == "default" {
            assert!(most(windows) < most(&honest.windows) * 3 / 2, "{hint}: no larger a window than NewReno's");
        }
    }
}
