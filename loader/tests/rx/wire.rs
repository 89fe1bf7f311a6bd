//! Tests the option on the wire, with tcpdump and tshark.

use crate::common::{KernelTest, kernel_test, ok};
use crate::path::*;
use hotcc_abi::hint;
use hotcc_testbed::kernel::skipped;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const EXID: &str = "0xa27a";
const MSS: u64 = 1448;

/// A decoded segment.
#[derive(Debug)]
pub struct Segment {
    pub from_receiver: bool,
    pub syn: bool,
    pub data_bytes: u64,
    pub sack_blocks: usize,
    /// ExID and data of an experimental option.
    pub option: Option<(String, Vec<u8>)>,
}

/// Returns the segments that pass the receiver's interface while `work` runs.
pub fn captured(test: &KernelTest, work: impl FnOnce()) -> Vec<Segment> {
    let file = test.dir.path().join("capture.pcap");
    let mut tcpdump = Command::new("nsenter")
        .args([
            "--net=/run/netns/hotcc-rx-rcv",
            "tcpdump",
            "-Z",
            "root",
            "--immediate-mode",
            "-i",
            "wire",
            "-s",
            "128",
            "-U",
            "-w",
        ])
        .arg(&file)
        .arg("tcp")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(tcpdump.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump ends");
    }
    work();
    std::thread::sleep(std::time::Duration::from_millis(200)); // until it has written its buffer
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(tcpdump.id() as i32), nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(tcpdump.wait().unwrap().success());
    let fields = [
        "ip.src",
        "tcp.flags.syn",
        "tcp.len",
        "tcp.options.experimental.exid",
        "tcp.options.experimental.data",
        "tcp.options.sack_le",
    ];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
    let decoded = tshark.args(fields.iter().flat_map(|f| ["-e", f])).output().unwrap();
    assert!(decoded.status.success(), "{}", String::from_utf8_lossy(&decoded.stderr));
    String::from_utf8(decoded.stdout).unwrap().lines().map(segment).collect()
}

fn segment(line: &str) -> Segment {
    let fields: Vec<&str> = line.split('\t').collect();
    let data = fields[4].as_bytes().chunks(2).map(|hex| u8::from_str_radix(str::from_utf8(hex).unwrap(), 16).unwrap());
    Segment {
        from_receiver: fields[0] == RECEIVER_V4,
        syn: matches!(fields[1], "1" | "True"),
        data_bytes: fields[2].parse().unwrap(),
        sack_blocks: fields[5].split_terminator(',').count(),
        option: (!fields[3].is_empty()).then(|| (fields[3].to_owned(), data.collect())),
    }
}

pub fn tools_are_there(name: &str) -> bool {
    let missing = ["tcpdump", "tshark"].into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        skipped(name, format_args!("no {tool}"));
    }
    missing.is_none()
}

#[test]
fn hints_are_on_acks_and_only_between_peers_that_know_them() {
    let name = "hints_are_on_acks_and_only_between_peers_that_know_them";
    let Some(test) = kernel_test(name, &["arwa_rx"]) else { return };
    if !tools_are_there(name) {
        return;
    }
    let (path, cgroup) = (Path::new(), Cgroup::new("hotcc-test-rx"));
    ok(&["load", "arwa", "--as", "arwa_rx"]);
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    let transfer = |enrolled| {
        let transfer = Transfer::start(Flow::open(&path, &cgroup, enrolled, RECEIVER_V4, "arwa_rx"), "arwa_rx");
        wait("three megabytes", || transfer.received() > 3 << 20);
    };
    let segments = captured(&test, || transfer(Enrolled::Both));
    let with_option = || segments.iter().filter_map(|s| s.option.as_ref().map(|(exid, data)| (s, exid, data)));
    let handshake: Vec<_> = with_option().filter(|(s, ..)| s.syn).collect();
    assert_eq!(handshake.len(), 2, "SYN and SYN-ACK");
    assert!(handshake.iter().all(|(_, exid, data)| *exid == EXID && data.is_empty()), "{handshake:?}");
    let hints: Vec<_> = with_option().filter(|(s, ..)| !s.syn).collect();
    assert!(hints.len() > 20, "{hints:?}");
    for (segment, exid, data) in &hints {
        assert!(segment.from_receiver && segment.data_bytes == 0 && *exid == EXID, "{segment:?}");
        let [value, _sequence] = data[..] else { panic!("{segment:?}") };
        assert!(hint::SHRINK.contains(&value) || hint::GROW.contains(&value), "{segment:?}");
    }
    let copies = hints.chunk_by(|(.., a), (.., b)| a == b).map(<[_]>::len);
    assert!(copies.max().unwrap() <= 3, "a hint is on three ACKs at most");
    let data = || segments.iter().filter(|s| !s.from_receiver).map(|s| s.data_bytes);
    let longest = data().max().unwrap();
    assert_eq!(longest % MSS, 0, "segments are as long as without: {longest}");
    assert!(longest > MSS, "several came as one, as GRO merges them");
    let acks = segments.iter().filter(|s| s.from_receiver && !s.syn).count() as u64;
    let count: u64 = data().map(|bytes| bytes.div_ceil(MSS)).sum();
    assert!(acks * 3 < count * 2, "ACKs are delayed: {acks} of {count} segments");
    for enrolled in [Enrolled::SenderOnly, Enrolled::ReceiverOnly] {
        let segments = captured(&test, || transfer(enrolled));
        let with: Vec<_> = segments.iter().filter(|s| s.option.is_some()).collect();
        // a client that supports hints offers them in its SYN, and gets no answer; a server that supports them only
        // answers offers
        let expected = if enrolled == Enrolled::SenderOnly { 1 } else { 0 };
        assert_eq!(with.len(), expected, "{with:?}");
        assert!(with.iter().all(|s| s.syn && !s.from_receiver), "{with:?}");
    }
}
