//! Scenarios on the running kernel: the figures match the path, and nothing is left however a run ends.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test, as it should")]

mod common;

use common::machine::{names, traces_in_the_kernel};
use hotcc_lab::results::{Results, RunSummary};
use hotcc_testbed::kernel::{exclusive, skipped};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

const BENCH: &str = env!("CARGO_BIN_EXE_hotcc-bench");
const NOBODY: u32 = 65534;
const SCENARIO: &str = r#"
duration_s = 6

[[host]]
name = "server"

[[host]]
name = "phone"

[[radio]]
name = "nr"
model = "constant"
sinr_db = 15
capacity_bps = 10e6

[[link]]
name = "air"
between = ["server", "phone"]
both = { delay_ms = 10 }
forward = { radio = "nr", queue = "2BDP", loss = 0.002 }

[[feeder]]
radio = "nr"
towards = "phone"
readings = { period_ms = 100 }

[[flow]]
name = "up"
from = "server"
to = "phone"
cc = "dtcp"
watch = "epochs_fresh"

[[flow]]
name = "cubic"
from = "server"
to = "phone"
cc = "cubic"
start_s = 1

[[event]]
at_s = 3
swap = { cc = "dtcp", new = "westwoodp" }
"#;

/// A receiver that slows its sender down.
const RECEIVER: &str = r#"
duration_s = 3

[[host]]
name = "server"

[[host]]
name = "phone"
rx = "drwa"

[[link]]
name = "air"
between = ["server", "phone"]
both = { delay_ms = 10, rate = 10e6, queue = "2BDP" }

[[flow]]
name = "bulk"
from = "server"
to = "phone"
cc = "reno"
"#;

/// Returns everything that a run could leave: namespaces, pins, congestion controls, radio links, processes.
fn traces() -> BTreeSet<String> {
    let mut found = traces_in_the_kernel("hotcc-lab-");
    let programs = names("/proc")
        .filter(|p| fs::read_link(p.join("exe")).is_ok_and(|program| program == Path::new(BENCH)))
        // other tests may run virtual machines meanwhile
        .filter(|p| !fs::read_to_string(p.join("cmdline")).is_ok_and(|arguments| arguments.contains("\0vm:")));
    found.extend(programs.map(|p| p.display().to_string()));
    found
}

/// Returns the command that runs the scenario natively.
fn lab(directory: &Path) -> Command {
    lab_with(directory, SCENARIO)
}

fn lab_with(directory: &Path, scenario: &str) -> Command {
    let file = directory.join("small.toml");
    fs::write(&file, scenario).unwrap();
    let mut command = Command::new(BENCH);
    command.args(["lab", "--lab", "native", "--out"]).arg(directory.join("out")).arg(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn summary(directory: &Path) -> RunSummary {
    let place = names(directory.join("out/small").to_str().unwrap()).next().unwrap();
    let results = Results::read(&place).unwrap();
    assert_eq!(results.manifest.backend, "native");
    assert_eq!(results.manifest.kernel, nix::sys::utsname::uname().unwrap().release().to_str().unwrap());
    results.runs.into_iter().next().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Returns what the command prints from then on.
fn wait_until_it_runs(child: &mut Child) -> BufReader<ChildStderr> {
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("running") {
        line.clear();
        assert_ne!(progress.read_line(&mut line).unwrap(), 0, "it ended before it ran");
    }
    progress
}

#[test]
fn a_run_shows_the_path_and_leaves_nothing() {
    let Some(_lock) = exclusive("a_run_shows_the_path_and_leaves_nothing") else { return };
    let directory = tempfile::tempdir().unwrap();
    let before = traces();
    let output = lab(directory.path()).output().unwrap();
    let said = said(&output);
    assert_eq!(traces(), before, "{said}");
    assert!(said.contains("Figures depend on this machine"), "{said}");
    let run = summary(directory.path());
    // on a machine that is busy with other tests the links may be late; the run then reports it, and fails
    assert_eq!(output.status.code(), Some(i32::from(!run.invalid.is_empty())), "{said}");
    assert!(run.invalid.iter().all(|why| why.contains("too busy")), "{run:?}");
    assert_eq!((run.busy_max, run.busy_mean), (0.0, 0.0));
    for flow in &run.flows {
        assert!(flow.throughput_bps > 1e6, "{flow:?}");
        assert!((20.0..40.0).contains(&flow.rtt_ms.min), "{flow:?}");
        // the smoothed RTT, and at least 200 ms
        assert!((215.0..1000.0).contains(&flow.rto_ms.min), "{flow:?}");
        assert!(flow.packets > 500 && flow.queue_delay_ms.max > 0.0, "{flow:?}");
    }
    assert!(run.flows.iter().map(|f| f.losses).sum::<u64>() > 0);
    let total: f64 = run.flows.iter().map(|f| f.bytes as f64 * 8.0).sum();
    // on a busy machine the run may end late, but never exceeds the rate
    let end_s = run.flows.iter().map(|f| f.end_s).fold(0.0, f64::max);
    let share = total / (10e6 * end_s);
    assert!((0.4..1448.0 / 1500.0 + 0.005).contains(&share), "{total} bits over 10 Mbit/s in {end_s} s: {share}");
    println!("{share:.3} of the rate for payload, in {end_s:.3} s");
    assert_eq!(run.events, ["3 swap dtcp -> westwoodp: 1 connections moved"]);
    let place = names(directory.path().join("out/small").to_str().unwrap()).next().unwrap();
    let series = fs::read_to_string(place.join(run.run.path()).join("flows.csv")).unwrap();
    let fresh = series.lines().filter(|l| l.contains(",up,")).filter_map(|l| l.rsplit(',').next()?.parse::<u64>().ok());
    assert!(fresh.max().unwrap() > 0, "dtcp saw the radio");
}

#[test]
fn a_machine_that_has_the_algorithm_keeps_it() {
    let Some(_lock) = exclusive("a_machine_that_has_the_algorithm_keeps_it") else { return };
    let request = |object: &str| hotcc::ops::Request {
        object: object.to_owned(),
        cc_name: None,
        profile: "default".to_owned(),
        set: vec!["eta=3".to_owned()],
    };
    hotcc::ops::load(&request("dtcp")).unwrap();
    let result = std::panic::catch_unwind(|| {
        let directory = tempfile::tempdir().unwrap();
        let before = traces();
        let output = lab(directory.path()).output().unwrap();
        let said = said(&output);
        assert_eq!(traces(), before, "{said}");
        assert!(said.contains("the run uses `lab_dtcp`"), "{said}");
        let run = summary(directory.path());
        assert_eq!(run.flows[0].cc, "dtcp", "as the scenario calls it");
        assert!(run.events[0].starts_with("3 swap lab_dtcp -> westwoodp: 1 "), "{run:?}");
        let eta = hotcc::ops::tune::get("dtcp").unwrap().into_iter().find(|v| v.name == "eta").unwrap();
        assert_eq!(eta.value, "3");
    });
    hotcc::ops::unload("dtcp", None).unwrap();
    result.unwrap();
}

#[test]
fn an_interrupt_or_a_kill_leaves_nothing() {
    let Some(_lock) = exclusive("an_interrupt_or_a_kill_leaves_nothing") else { return };
    let before = traces();
    for (signal, code) in [(Signal::SIGINT, Some(130)), (Signal::SIGKILL, None)] {
        let directory = tempfile::tempdir().unwrap();
        let mut child = lab(directory.path()).process_group(0).spawn().unwrap();
        let mut progress = wait_until_it_runs(&mut child);
        kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), code);
        let mut rest = String::new();
        progress.read_to_string(&mut rest).unwrap(); // until the end of the run's process, which has the pipe, too
        assert_eq!(traces(), before, "{signal}: {rest}");
        if signal == Signal::SIGINT {
            let told: Vec<&str> = rest.lines().filter(|line| !line.starts_with('[')).collect();
            assert_eq!(told, ["hotcc-bench: interrupted; run the same command again to resume"]);
            let place = names(directory.path().join("out/small").to_str().unwrap()).next().unwrap();
            assert!(!place.join(".unfinished").exists());
        }
    }
}

#[test]
fn a_receiver_that_a_killed_run_left_is_in_no_later_run_s_way() {
    let Some(_lock) = exclusive("a_receiver_that_a_killed_run_left_is_in_no_later_run_s_way") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut child = lab_with(directory.path(), RECEIVER).spawn().unwrap();
    let mut progress = wait_until_it_runs(&mut child);
    let groups = || {
        let root = hotcc::cgroup::cgroup2_root().unwrap();
        let ours = |path: &PathBuf| path.to_string_lossy().contains("/hotcc-lab-");
        names(root.to_str().unwrap()).filter(ours).collect::<Vec<_>>()
    };
    let loaded = || (groups().len(), hotcc::rx::status().unwrap().receivers.len());
    while loaded() != (1, 1) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the receiver was loaded");
        sleep(Duration::from_millis(5));
    }
    // as the kernel does when memory runs out
    let run = groups()[0].file_name().unwrap().to_string_lossy().split('-').nth(2).unwrap().parse().unwrap();
    kill(Pid::from_raw(run), Signal::SIGKILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    progress.read_to_string(&mut String::new()).unwrap();
    assert_eq!(loaded(), (1, 1), "it left what this test is about");
    let output = lab_with(directory.path(), RECEIVER).output().unwrap();
    let run = summary(directory.path());
    assert_eq!(output.status.code(), Some(i32::from(!run.invalid.is_empty())), "{}", said(&output));
    assert!(run.flows[0].throughput_bps > 1e6, "{run:?}");
    assert_eq!(loaded(), (0, 0));
}

#[test]
fn missing_kernel_features_are_reported_before_anything_runs() {
    let Some(_lock) = exclusive("missing_kernel_features_are_reported_before_anything_runs") else { return };
    if hotcc_lab::algorithms::is_usable("illinois").unwrap() {
        skipped("missing_kernel_features_are_reported_before_anything_runs", "this kernel has illinois");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = lab(directory.path());
    let file = directory.path().join("small.toml");
    fs::write(&file, SCENARIO.replace("cc = \"cubic\"", "cc = \"illinois\"")).unwrap();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("no `illinois`"), "{}", said(&output));
}

#[test]
fn the_native_lab_without_root_reports_why() {
    // the other tests look for processes that are left, and only run as root
    let _lock = nix::unistd::geteuid().is_root().then(|| exclusive("the_native_lab_without_root_reports_why"));
    let directory = tempfile::tempdir().unwrap();
    let mut command = lab(directory.path());
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(NOBODY).gid(NOBODY).current_dir("/");
    }
    let output = match command.output() {
        Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
            skipped("the_native_lab_without_root_reports_why", "only root can run programs from this build directory");
            return;
        }
        output => output.unwrap(),
    };
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("needs root"), "{}", said(&output));
}
