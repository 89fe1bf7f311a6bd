//! The demo as a user runs it: it must succeed, and leave nothing behind however it ends.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

#[path = "common/comparison.rs"]
mod comparison;
#[path = "../../cli/tests/common/machine.rs"]
mod machine;

use comparison::assert_compares_crest;
use hotcc_testbed::command::build;
use hotcc_testbed::kernel::exclusive;
use machine::{names, traces_in_the_kernel};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DEMO: &str = env!("CARGO_BIN_EXE_hotcc-demo");

/// Returns everything that a demo could leave behind: namespaces, pins, congestion controls, radio links, processes.
fn traces_of_a_demo() -> BTreeSet<String> {
    let mut found = traces_in_the_kernel("hotcc-demo-");
    let directory = Path::new(DEMO).parent().unwrap();
    for process in names("/proc") {
        let program = fs::read_link(process.join("exe")).unwrap_or_default();
        let ours = ["hotcc", "sinr-feeder", "hotcc-demo"].iter().any(|name| program == directory.join(name));
        if ours || program.ends_with("iperf3") {
            found.insert(format!("{} ({})", process.display(), program.display()));
        }
    }
    found
}

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(DEMO);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a demo, and reads its output until it prints `text`.
fn start_and_read_until(text: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    // a process group of its own, so that the test can send signals as a terminal does
    let mut child = demo(&["--seconds", "5"]).process_group(0).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the demo ended before it said {text:?}");
    }
    (child, output)
}

fn interrupt(child: &Child) {
    kill(Pid::from_raw(-child.id().cast_signed()), Signal::SIGINT).unwrap();
}

#[test]
fn the_demos_claims_hold_and_nothing_is_left_behind() {
    let Some(_lock) = exclusive("the_demos_claims_hold_and_nothing_is_left_behind") else { return };
    build(&["hotcc", "sinr-feeder"]);
    let before = traces_of_a_demo();
    let output = demo(&["--seconds", "3", "--json"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(traces_of_a_demo(), before, "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_compares_crest(&report, &text);
    assert!(report["facts"].as_array().unwrap().iter().all(|fact| fact["holds"] == true), "{report}");
    assert!(text.contains("cleaned up: "), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

#[test]
fn an_interrupt_leaves_nothing() {
    let Some(_lock) = exclusive("an_interrupt_leaves_nothing") else { return };
    build(&["hotcc", "sinr-feeder"]);
    let before = traces_of_a_demo();
    // at the first text, hosts are being created; at the second, a flow runs; at the third, a flow is being swapped
    for moment in ["Three hosts", "One flow each", "hotcc swap"] {
        let (mut child, mut output) = start_and_read_until(moment);
        interrupt(&child);
        interrupt(&child);
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
        assert!(rest.contains("cleaned up: "), "{rest}");
        assert_eq!(traces_of_a_demo(), before, "{rest}");
    }
}

#[test]
fn a_host_that_has_the_algorithm_keeps_it() {
    let Some(_lock) = exclusive("a_host_that_has_the_algorithm_keeps_it") else { return };
    build(&["hotcc", "sinr-feeder"]);
    let hotcc = |arguments: &[&str]| {
        let output = Command::new(Path::new(DEMO).with_file_name("hotcc")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    hotcc(&["load", "dtcp", "--set", "eta=3"]);
    let result = catch_unwind(|| {
        let before = traces_of_a_demo();
        let output = demo(&["--seconds", "2"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        assert!(text.contains("hotcc load dtcp --as demo_dtcp"), "{text}");
        assert_eq!(traces_of_a_demo(), before, "{text}");
        assert_eq!(hotcc(&["get", "dtcp", "eta"]).trim(), "3");
        assert_eq!(hotcc(&["get", "dtcp", "queue"]).trim(), "max");
    });
    hotcc(&["unload", "dtcp"]);
    result.unwrap();
}

#[test]
fn a_lab_that_panics_leaves_nothing() {
    let Some(_lock) = exclusive("a_lab_that_panics_leaves_nothing") else { return };
    use hotcc_testbed::netlab::{Lab, Process};
    let before = traces_of_a_demo();
    let mut id = 0;
    let panics = AssertUnwindSafe(|| {
        let lab = Lab::new("hotcc-demo-test").unwrap();
        let (a, b) = (lab.namespace("a").unwrap(), lab.namespace("b").unwrap());
        lab.veth(&a, "10.249.1.1/24", &b, "10.249.1.2/24").unwrap();
        let listener = b.enter(|| std::net::TcpListener::bind("10.249.1.2:0").unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        a.enter(|| std::net::TcpStream::connect(address).unwrap()).unwrap();
        let process = Process::start(a.command("sleep").arg("1000")).unwrap();
        id = process.id();
        panic!("on purpose");
    });
    let panic = catch_unwind(panics).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
    assert_eq!(traces_of_a_demo(), before);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
}
