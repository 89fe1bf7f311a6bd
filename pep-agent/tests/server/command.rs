//! The command itself: signals, and what it leaves behind.

use crate::common::bounded_as;
use crate::host::*;
use aya::programs::{SchedClassifier, TcAttachType};
use hotcc_testbed::kernel::skipped;
use hotcc_testbed::netlab::Process;
use nix::net::if_::if_nametoindex;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pep_agent::report::{FlowReport, Transport};
use pep_agent::server::RecordFate;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

fn start(hosts: &Hosts, keys: &Path, attach: &str) -> Process {
    let mut command = hosts.server.command(env!("CARGO_BIN_EXE_pep-agent"));
    command.args(["server", "--key-file"]).arg(keys).args(["--inband", "router", "--attach", attach]);
    Process::start(&mut command).unwrap()
}

/// Returns the number of our programs on the interface: by TCX, and by clsact.
fn attached(hosts: &Hosts) -> [usize; 2] {
    let read = || {
        let (_, tcx) = SchedClassifier::query_tcx("router", TcAttachType::Ingress).unwrap();
        let index = if_nametoindex("router").unwrap();
        let filters = pep_agent::netlink::filters(index, TcAttachType::Ingress).unwrap();
        [
            tcx.iter().filter(|program| program.name_as_str() == Some("inband")).count(),
            filters.iter().filter(|filter| filter.name == "inband").count(),
        ]
    };
    hosts.server.enter(read).unwrap()
}

/// Sends reports until `hotcc flows` shows one with this number of segments.
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
fn what_takes_reports_off_an_interface_is_there_once_however_the_command_ended() {
    let (name, cc) = ("what_takes_reports_off_an_interface_is_there_once_however_the_command_ended", "mdcubic_twice");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut border = hosts.inband_border(&keys);
    let (tcx, clsact) = ([1, 0], [0, 1]);
    for (method, one, left_by_kill, next, then) in [
        ("tcx", tcx, [0; 2], "tcx", tcx),
        ("clsact", clsact, clsact, "clsact", clsact),
        ("clsact", clsact, clsact, "tcx", tcx),
    ] {
        let mut killed = start(&hosts, &keys, method);
        is_heard(&mut border, &flow, 1);
        assert_eq!(attached(&hosts), one);
        kill(Pid::from_raw(killed.id() as i32), Signal::SIGKILL).unwrap();
        killed.wait(PATIENCE).unwrap();
        assert_eq!(attached(&hosts), left_by_kill, "{method}");
        let mut agent = start(&hosts, &keys, next);
        is_heard(&mut border, &flow, 2);
        assert_eq!(attached(&hosts), then, "no second copy");
        kill(Pid::from_raw(agent.id() as i32), Signal::SIGTERM).unwrap();
        assert!(agent.wait(PATIENCE).unwrap().success());
        assert_eq!(attached(&hosts), [0; 2], "{method}");
    }
    // a server without in-band reports also removes it
    let mut killed = start(&hosts, &keys, "clsact");
    is_heard(&mut border, &flow, 1);
    kill(Pid::from_raw(killed.id() as i32), Signal::SIGKILL).unwrap();
    killed.wait(PATIENCE).unwrap();
    let _agent = Agent::start(&hosts, &keys, options());
    assert_eq!(attached(&hosts), [0; 2]);
}

#[test]
fn the_command_ends_and_starts_again_however_it_ended() {
    let (name, cc) = ("the_command_ends_and_starts_again_however_it_ended", "mdcubic_cmd");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let mut border = hosts.border(&keys);
    let flow = Flow::open(&hosts, SERVER, cc);
    let mut agent = start(&hosts, &keys, "auto");
    is_heard(&mut border, &flow, 1);
    // an invalid file leaves the old keys in use; a valid one replaces them
    let pid = Pid::from_raw(agent.id() as i32);
    std::fs::write(&keys, "nonsense").unwrap();
    kill(pid, Signal::SIGHUP).unwrap();
    is_heard(&mut border, &flow, 2);
    let mut other = hosts.border(&test.key_file(&[(2, "b6")]));
    kill(pid, Signal::SIGHUP).unwrap();
    is_heard(&mut other, &flow, 3);
    kill(pid, Signal::SIGKILL).unwrap();
    assert_eq!(agent.wait(PATIENCE).unwrap().signal(), Some(Signal::SIGKILL as i32));
    let mut agent = start(&hosts, &keys, "auto");
    is_heard(&mut other, &flow, 4);
    is_heard(&mut hosts.inband_border(&keys), &flow, 5);
    kill(Pid::from_raw(agent.id() as i32), Signal::SIGTERM).unwrap();
    assert!(agent.wait(PATIENCE).unwrap().success());
}

#[test]
fn its_unit_and_a_file_of_options_leave_it_what_it_needs() {
    let (name, cc) = ("its_unit_and_a_file_of_options_leave_it_what_it_needs", "mdcubic_unit");
    let Some(test) = kernel_test(name, cc, &[]) else { return };
    let hosts = Hosts::new();
    let keys = test.key_file(&[(1, "a5")]);
    let flow = Flow::open(&hosts, SERVER, cc);
    let file = test.dir.path().join("pep-server.toml");
    let unit = include_str!("../../../deploy/pep-server.service");
    for (segments, attach) in [(1, "clsact"), (3, "auto")] {
        let options =
            format!("key_file = {keys:?}\ninband = ['router']\nattach = '{attach}'\nlisten = '127.0.0.1:0'\n");
        std::fs::write(&file, options).unwrap();
        let mut command = hosts.server.command(env!("CARGO_BIN_EXE_pep-agent"));
        bounded_as(unit, &mut command);
        let mut agent = Process::start(command.args(["server", "--config"]).arg(&file)).unwrap();
        is_heard(&mut hosts.border(&keys), &flow, segments);
        is_heard(&mut hosts.inband_border(&keys), &flow, segments + 1);
        kill(Pid::from_raw(agent.id() as i32), Signal::SIGTERM).unwrap();
        assert!(agent.wait(PATIENCE).unwrap().success());
        assert_eq!(attached(&hosts), [0; 2], "{attach}");
    }
}

#[test]
fn an_interface_without_an_ethernet_header_is_refused_by_its_name() {
    let name = "an_interface_without_an_ethernet_header_is_refused_by_its_name";
    if !Path::new("/dev/net/tun").exists() {
        skipped(name, "needs /dev/net/tun");
        return;
    }
    let Some(test) = kernel_test(name, "mdcubic_tun", &[]) else { return };
    let hosts = Hosts::new();
    hosts.server.ip("tuntap add dev tun0 mode tun").unwrap();
    let mut command = hosts.server.command(env!("CARGO_BIN_EXE_pep-agent"));
    command.args(["server", "--key-file"]).arg(test.key_file(&[(1, "a5")])).args(["--listen", "127.0.0.1:0"]);
    let log = test.dir.path().join("log");
    command.args(["--inband", "router", "--inband", "tun0"]).stderr(std::fs::File::create(&log).unwrap());
    let status = Process::start(&mut command).unwrap().wait(PATIENCE);
    let said = std::fs::read_to_string(log).unwrap();
    assert_eq!(status.expect("an end").code(), Some(1), "{said}");
    assert!(said.contains("from `tun0`") && said.contains("no Ethernet header"), "{said}");
    assert_eq!(attached(&hosts), [0; 2]);
}

/// Once started, the server needs no privilege: its open descriptors are enough.
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
    sleep(Duration::from_millis(1100)); // it has read the list of interfaces again
    let clocked = agent.records(RecordFate::Clocked);
    border.send(&[flow.seen()], now_us());
    wait("a clocked record", || agent.told(), || agent.records(RecordFate::Clocked) > clocked);
}

#[test]
fn a_kernel_without_btf_is_told_by_the_exit_code() {
    let Some(test) = kernel_test("a_kernel_without_btf_is_told_by_the_exit_code", "mdcubic_btf", &[]) else { return };
    let script = r#"mount -t tmpfs none /sys/kernel/btf &&
        exec "$0" server --key-file "$1" --listen 127.0.0.1:0 --receive 127.0.0.1:0"#;
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_pep-agent")]).arg(test.key_file(&[(1, "a5")]));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}
