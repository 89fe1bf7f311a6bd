//! Tests receivers that lie: they send a new hint on every ACK, whatever they measure.

use crate::common::{hotcc, kernel_test, ok};
use crate::path::*;
use bytemuck::{Pod, Zeroable};
use hotcc::object::prepare::set_job;
use hotcc_testbed::statistics::mean_ratio;
use libbpf_rs::{Link, Object, OpenObject};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const ANY: u32 = 256;
const MSS: u64 = 1448;
const FLOOR_BYTES: u64 = 3000;
/// Upper limit of the window. The queue has room for it, so the window also reaches it without hints.
const CLAMP: u64 = 1000;
const PERIOD_US: u128 = 30_000;
const PERIOD_PACKETS: u64 = 16;
const ATTEMPTS: u32 = 4;
/// Time for which a flow is watched.
const WHILE: Duration = Duration::from_secs(2);
/// Limits for the number of pairs of measurements: a single one may be off by half, e.g. if a flow has a timeout.
const MIN_TURNS: usize = 5;
const MAX_TURNS: usize = 15;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LiarJob {
    hint: u32,
    told: u32,
}

/// A program that is attached to a cgroup.
struct Attached {
    _program: (Link, Object),
}

impl Attached {
    fn new(name: &str, cgroup: &Cgroup, prepare: impl FnOnce(&mut OpenObject)) -> Self {
        let mut open = open_object(name);
        prepare(&mut open);
        let object = open.load().unwrap();
        let program = object.progs_mut().next().unwrap();
        let link = program.attach_cgroup(File::open(&cgroup.0).unwrap().as_raw_fd()).unwrap();
        Self { _program: (link, object) }
    }
}

/// A lying receiver, on the sockets of a separate cgroup.
struct Liar {
    cgroup: Cgroup,
    _program: Attached,
}

impl Liar {
    fn new(hint: u32) -> Self {
        let cgroup = Cgroup::new("hotcc-test-liar");
        let program = Attached::new("liar", &cgroup, |open| set_job(open, &LiarJob { hint, told: 0 }).unwrap());
        Self { cgroup, _program: program }
    }
}

/// What a sender did with a lying receiver.
struct Seen {
    windows: Vec<u64>,
    rtts_us: Vec<u64>,
    received: u64,
    taken: u64,
    refused: u64,
    applied: u64,
    /// Maximum number of hints that a receiver can have made in that time.
    at_most: u64,
}

/// Watches a flow for a while, and longer until its window reaches `limit`, if one is given.
fn watch(path: &Path, senders: &Cgroup, liar: &Liar, sender: &[&str], limit: Option<u64>) -> Seen {
    let _ = hotcc(&["unload", "arwa_rx"]);
    ok(&[&["load", "arwa", "--as", "arwa_rx"][..], sender].concat());
    let before = Before::now();
    let flow = Flow::open_in(path, Some(senders), Some(&liar.cgroup), RECEIVER_V4, "arwa_rx");
    let began = Instant::now();
    let transfer = Transfer::start(flow, "arwa_rx");
    let (mut windows, mut rtts_us) = (Vec::new(), Vec::new());
    let reached = |windows: &[u64]| limit.is_none_or(|limit| windows.iter().any(|window| *window >= limit));
    while began.elapsed() < WHILE || (began.elapsed() < PATIENCE && !reached(&windows)) {
        let shown = transfer.shown();
        // in other states the kernel controls the window, and hints are ignored
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

/// Returns which limit was violated, if any.
fn broken(Seen { windows, received, .. }: &Seen, floor_bytes: u64) -> Option<&'static str> {
    let limits = [
        (windows.iter().all(|window| window * MSS >= floor_bytes), "a window below the floor"),
        (windows.iter().all(|window| *window <= CLAMP), "a window beyond the clamp"),
        (*received > 100_000, "it does not go on"),
    ];
    limits.into_iter().find(|(is_kept, _)| !is_kept).map(|(_, what)| what)
}

/// Checks that at most one hint per interval is accepted, and no invalid one.
fn is_taken_as_it_may(hint: u32, seen: &Seen) {
    let Seen { taken, refused, applied, at_most, .. } = seen;
    assert!(applied <= taken && taken <= at_most, "{hint}: more hints than there can be");
    if [0, 71, 100, 255].contains(&hint) {
        assert!(*taken == 0 && *refused > 100, "{hint} has no meaning, and is not refused");
    } else {
        assert!(*applied > 2 && *refused > 0, "{hint}: not one for an interval");
    }
}

fn most(of: &[u64]) -> u64 {
    *of.iter().max().unwrap()
}

/// Returns how often process 1 was scheduled. The kernels of some virtual machines (Firecracker's 6.18) run no BPF
/// program in a softirq that interrupts process 1: if TCP calls `ssthresh` there, the window becomes whatever value is
/// on the stack.
fn turns_of_the_first_process() -> u64 {
    let turns = |thread: std::io::Result<fs::DirEntry>| -> Option<u64> {
        fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?.split_whitespace().nth(2)?.parse().ok()
    };
    fs::read_dir("/proc/1/task").unwrap().filter_map(turns).sum()
}

#[test]
fn the_window_stays_within_its_limits_whatever_a_receiver_says() {
    let name = "the_window_stays_within_its_limits_whatever_a_receiver_says";
    let Some(_test) = kernel_test(name, &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    let _clamp = Attached::new("clamp", &cgroup, |_| ());
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    // with the paper's profile, a sender follows every hint that it receives; with `default`, one per RTT
    let tried = [0, 255, 1, 70, 71, 100, 101, 120, ANY].map(|hint| (hint, ["--profile", "paper"], FLOOR_BYTES));
    let default = [70, 120, ANY].map(|hint| (hint, ["--profile", "default"], FLOOR_BYTES));
    // a floor that the window would be far below without it, and that it reaches
    let high = [(70, ["--set", "floor_bytes=20000"], 20_000)];
    for (hint, sender, floor_bytes) in tried.into_iter().chain(default).chain(high) {
        let liar = Liar::new(hint);
        for attempt in 1.. {
            let turns = turns_of_the_first_process();
            let seen = watch(&path, &cgroup, &liar, &sender, (hint == 120).then_some(CLAMP));
            let was_disturbed = turns_of_the_first_process() > turns;
            let Seen { windows, rtts_us, taken, refused, applied, at_most, received } = &seen;
            println!(
                "{}, hint {hint}: W {}..{}, {taken} taken of at most {at_most}, {applied} applied, {refused} \
                 refused, {received} bytes, RTT to {} us",
                sender[1],
                windows.iter().min().unwrap(),
                most(windows),
                most(rtts_us)
            );
            is_taken_as_it_may(hint, &seen);
            if let Some(broken) = broken(&seen, floor_bytes) {
                assert!(was_disturbed && attempt < ATTEMPTS, "{}, hint {hint}: {broken}", sender[1]);
                continue;
            }
            // a connection that waited for the processor may not come so far, and shows nothing of a limit
            let reaches_clamp = hint != 120 || most(windows) >= CLAMP;
            let reaches_floor = floor_bytes == FLOOR_BYTES || windows.contains(&floor_bytes.div_ceil(MSS));
            if reaches_clamp && reaches_floor {
                break;
            }
            assert!(attempt < ATTEMPTS, "{}, hint {hint}: the limit is not reached", sender[1]);
        }
    }
}

/// Returns the throughput of a flow whose receiver always asks for more, relative to a NewReno flow through the same
/// queue.
fn advantage(path: &Path, senders: &Cgroup, liar: &Liar, sender: &[&str]) -> f64 {
    let _ = hotcc(&["unload", "arwa_rx"]);
    ok(&[&["load", "arwa", "--as", "arwa_rx"][..], sender].concat());
    let receivers = [Some(&liar.cgroup), None];
    let flows = receivers.map(|receiver| Flow::open_in(path, Some(senders), receiver, RECEIVER_V4, "arwa_rx"));
    let transfers = flows.map(|flow| Transfer::start(flow, "arwa_rx"));
    let received = || transfers.each_ref().map(|transfer| transfer.received() as f64);
    std::thread::sleep(Duration::from_millis(500));
    let before = received();
    std::thread::sleep(Duration::from_millis(2500));
    let after = received();
    (after[0] - before[0]) / (after[1] - before[1])
}

#[test]
fn a_receiver_that_asks_for_more_gets_none_of_what_others_have() {
    let name = "a_receiver_that_asks_for_more_gets_none_of_what_others_have";
    let Some(_test) = kernel_test(name, &["arwa_rx"]) else { return };
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    // a queue of some 90 segments, so that there are losses several times a second
    path.router.sh("tc qdisc replace dev rcv root tbf rate 100mbit burst 16kb limit 128kb");
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let liar = Liar::new(120);
    // in turn, so that other load on this machine affects both, until the measurements are enough to exclude chance
    let [mut default, mut paper] = [const { Vec::new() }; 2];
    let [default, paper] = loop {
        default.push(advantage(&path, &cgroup, &liar, &["--profile", "default"]));
        paper.push(advantage(&path, &cgroup, &liar, &["--profile", "paper"]));
        if default.len() < MIN_TURNS {
            continue;
        }
        let means = [&default, &paper].map(|ratios| mean_ratio(ratios).expect("some bytes for each flow"));
        let is_clear = means[0].high < 1.3 && means[0].high < means[1].low;
        if is_clear || default.len() == MAX_TURNS {
            break means;
        }
    };
    println!("times as much as the other flow: {default:.2?}, with the paper's profile {paper:.2?}");
    assert!(default.mean < 1.3 && default.mean * 1.3 < paper.mean, "{default:.2?}, {paper:.2?}");
}
