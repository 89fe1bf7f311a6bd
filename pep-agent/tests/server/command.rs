//! The command itself: signals, and what is left of it.

use crate::host::*;
use hotcc_bench::netlab::Process;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pep_agent::report::{FlowReport, Transport};
use pep_agent::server::RecordFate;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

fn start(hosts: &Hosts, keys: &Path) -> Process {
    let mut command = hosts.server.command(env!("CARGO_BIN_EXE_pep-agent"));
    command.args(["server", "--key-file"]).arg(keys).args(["--inband", "router"]);
    Process::start(&mut command).unwrap()
}

/// Reports until `hotcc flows` shows it: each with another number of segments.
fn is_heard(border: &mut impl Transport, flow: &Flow, segments: u32) {
    let shown = || flow.connection().pep.map(|seen| seen.segments);
    wait(
        "a record",
        || format!("{:?}", shown()),
        || {
            border.send(&[FlowReport { segments, ..flow.seen_to(flow.first) }], now_us());
            sleep(Duration::from_millis(20));
            shown() == Some(segments)
        },
    );
}

#[test]
fn the_command_ends_and_starts_again_however_it_ended() {
    let (name, cc) = ("the_command_ends_and_starts_again_however_it_ended", "mdcubic_cmd");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.border(&keys);
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut agent = start(&hosts, &keys);
    is_heard(&mut border, &flow, 1);
    // a file that makes no sense leaves the old keys; a new one takes their place
    let pid = Pid::from_raw(agent.id() as i32);
    std::fs::write(&keys, "nonsense").unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    is_heard(&mut border, &flow, 2);
    let mut other = hosts.border(&test.key_file(&[(2, "b6")]));
    kill(pid, Signal::SIGHUP).unwrap();
    is_heard(&mut other, &flow, 3);
    kill(pid, Signal::SIGKILL).unwrap();
    assert_eq!(agent.wait(PATIENCE).unwrap().signal(), Some(Signal::SIGKILL as i32));
    let mut agent = start(&hosts, &keys);
    is_heard(&mut other, &flow, 4);
    is_heard(&mut hosts.in_flow_border(&keys), &flow, 5);
    kill(Pid::from_raw(agent.id() as i32), Signal::SIGTERM).unwrap();
    assert!(agent.wait(PATIENCE).unwrap().success());
    let left = hosts.server.command("ip").args(["-details", "link", "show", "router"]).output();
    assert!(!String::from_utf8(left.unwrap().stdout).unwrap().contains("inband"));
}

/// Once it runs, the server needs no privilege: what it was given to hold is enough.
#[test]
fn the_agent_needs_no_capability_once_started() {
    let (name, cc) = ("the_agent_needs_no_capability_once_started", "mdcubic_caps");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let agent = Agent::start_unprivileged(&hosts, &keys, options());
    let mut border = hosts.border(&keys);
    let flow = Flow::open(&hosts, SERVER, cc);
    introduce(&mut border, &agent, &flow);
    hosts.hold_acks();
    flow.fill();
    sleep(Duration::from_millis(1100)); // it has looked at the interfaces again
    let clocked = agent.records(RecordFate::Clocked);
    border.send(&[flow.seen()], now_us());
    wait("a clocked record", || agent.told(), || agent.records(RecordFate::Clocked) > clocked);
}
