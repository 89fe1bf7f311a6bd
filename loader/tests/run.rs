//! Tests `hotcc run`: signals, concurrent runs, kills, and what it reports about the command.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const SIGNALS: [Signal; 5] = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGUSR1];

fn default_disposition(of: Signal) -> std::io::Result<()> {
    // SAFETY: no handler of this program runs.
    unsafe { signal(of, SigHandler::SigDfl) }?;
    Ok(())
}

/// A `hotcc run` whose command is a shell script that has printed `ready PID`.
struct Run {
    hotcc: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The shell.
    command: Pid,
}

impl Run {
    fn start(cc: &str, script: &str) -> Self {
        Self::start_with(cc, script, &[])
    }

    fn start_with(cc: &str, script: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(hotcc_path());
        command.args(["run", "--cc", cc, "--", "bash", "-c", &format!("echo ready $$; {script}")]);
        command.envs(environment.iter().copied());
        // if the tests run in the background or under nohup, some of the signals are ignored
        let usual = || SIGNALS.into_iter().try_for_each(default_disposition);
        // SAFETY: between fork and exec the closure only sets signal dispositions.
        unsafe { command.pre_exec(usual) };
        let mut hotcc = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(hotcc.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let command = line.trim().strip_prefix("ready ").and_then(|pid| pid.parse().ok());
        let Some(command) = command else {
            let mut text = String::new();
            hotcc.stderr.take().unwrap().read_to_string(&mut text).unwrap();
            panic!("no command runs: {line}{text}");
        };
        Self { stdin: hotcc.stdin.take(), hotcc, stdout, command: Pid::from_raw(command) }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.hotcc.id() as i32), signal).unwrap();
    }

    /// Lets a script that waits in `read` continue.
    fn go_on(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits for the run's end; returns the exit code, the rest of the output, and hotcc's messages.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut output, mut said) = (String::new(), String::new());
        self.stdout.read_to_string(&mut output).unwrap();
        self.hotcc.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.hotcc.wait().unwrap().code(), output, said)
    }

    /// Kills hotcc, but not the command.
    fn kill(mut self) -> Pid {
        self.hotcc.kill().unwrap();
        self.hotcc.wait().unwrap();
        self.command
    }
}

/// Cleans up after a failed test.
impl Drop for Run {
    fn drop(&mut self) {
        if self.hotcc.try_wait().unwrap().is_none() {
            let _ = kill(self.command, Signal::SIGKILL);
            let _ = self.hotcc.wait();
        }
    }
}

fn groups() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(hotcc::cgroup::own().unwrap()).unwrap().flatten().map(|e| e.path());
    entries.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("hotcc-run-")).collect()
}

fn nothing_left(name: &str) {
    assert!(!registered(name), "{name} is still registered");
    assert_eq!(pins_of(name), Vec::<PathBuf>::new());
    assert_eq!(groups(), Vec::<PathBuf>::new());
}

fn wait_for_end_of(process: Pid) {
    let started = Instant::now();
    while kill(process, None).is_ok() {
        assert!(started.elapsed() < Duration::from_secs(5), "{process} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn signals_to_hotcc_reach_the_command_and_it_cleans_up_after() {
    let Some(_test) = kernel_test("signals_to_hotcc_reach_the_command_and_it_cleans_up_after", &["dtcp"]) else {
        return;
    };
    for signal in SIGNALS {
        let handling = Run::start(
            "dtcp",
            "trap 'echo got; sleep 0.3; exit 9' TERM HUP INT QUIT USR1; for i in {1..200}; do sleep 0.05; done",
        );
        std::thread::sleep(Duration::from_millis(200)); // until the trap is set
        handling.signal(signal);
        let (code, output, said) = handling.end();
        assert_eq!((code, &*output), (Some(9), "got\n"), "{signal}: {said}");
        nothing_left("dtcp");
        let ended = Run::start("dtcp", "exec sleep 20");
        let command = ended.command;
        std::thread::sleep(Duration::from_millis(200)); // until `exec` has replaced the shell
        ended.signal(signal);
        assert_eq!(ended.end().0, Some(128 + signal as i32));
        wait_for_end_of(command);
        nothing_left("dtcp");
    }
}

#[test]
fn an_interrupt_from_the_terminal_reaches_the_command_once() {
    let Some(test) = kernel_test("an_interrupt_from_the_terminal_reaches_the_command_once", &["dtcp"]) else { return };
    // perl counts signals; a shell merges several into one
    let script = test.file(
        "command.pl",
        br#"$SIG{INT} = sub { syswrite STDOUT, "interrupted\n" };
            syswrite STDOUT, "ready\n";
            select undef, undef, undef, 0.1 for 1 .. 10;"#,
    );
    // `script` provides a terminal, and types its input there; `exec`, because a remaining shell would be interrupted,
    // too
    let mut terminal = Command::new("script")
        .args(["-qec", &format!("exec {} run --cc dtcp -- perl {script}", hotcc_path()), "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(terminal.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the command did not start");
    }
    terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(terminal.wait().unwrap().success(), "{rest}");
    assert_eq!(rest.matches("interrupted").count(), 1, "{rest}");
    assert!(rest.contains("0 sockets used dtcp"), "hotcc outlives it, and says: {rest}");
    nothing_left("dtcp");
}

/// Returns a script that waits, connects to the test, prints the socket's state, and waits again.
fn connecting(port: u16) -> String {
    format!("read; exec 3<>/dev/tcp/127.0.0.1/{port}; ss -Htin dst 127.0.0.1:{port}; read")
}

#[test]
fn the_last_of_several_runs_unloads() {
    let Some(_test) = kernel_test("the_last_of_several_runs_unloads", &["dtcp"]) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = connecting(listener.local_addr().unwrap().port());
    for environment in [&[][..], &[("HOTCC_NO_LINKS", "1")]] {
        for kill_first in [false, true] {
            let mut first = Run::start_with("dtcp", "read", environment);
            let mut second = Run::start_with("dtcp", &script, environment);
            assert_eq!(status_of("dtcp").unwrap()["loaded_for"], "run");
            if kill_first {
                let orphan = first.kill();
                kill(orphan, Signal::SIGKILL).unwrap();
            } else {
                first.go_on();
                assert_eq!(first.end().0, Some(0));
            }
            assert!(registered("dtcp"), "the second still uses it");
            second.go_on();
            let (server, _) = listener.accept().unwrap();
            second.go_on();
            let (code, output, said) = second.end();
            drop(server);
            assert_eq!(code, Some(0), "{said}");
            assert!(output.contains("dtcp"), "a new socket gets it: {output}");
            assert!(said.contains("1 socket used dtcp, loaded for this run"), "{said}");
            // the next run removes the killed run's cgroup
            assert!(Command::new(hotcc_path()).args(["run", "--cc", "reno", "--", "true"]).status().unwrap().success());
            nothing_left("dtcp");
        }
    }
}

#[test]
fn runs_that_start_and_end_at_once_do_not_disturb_each_other() {
    let Some(_test) = kernel_test("runs_that_start_and_end_at_once_do_not_disturb_each_other", &["dtcp"]) else {
        return;
    };
    for _ in 0..3 {
        let runs: Vec<_> = (0..6).map(|n| Run::start("dtcp", &format!("sleep 0.{n}"))).collect();
        for run in runs {
            let (code, _, said) = run.end();
            assert_eq!(code, Some(0), "{said}");
        }
        nothing_left("dtcp");
    }
    // the empty cgroup of a live run, as there is for a moment at its start, is not removed
    let root = hotcc::cgroup::cgroup2_root().unwrap();
    let mut empty = Run::start("dtcp", &format!("echo $$ > {}/cgroup.procs; echo moved; read", root.display()));
    let mut line = String::new();
    empty.stdout.read_line(&mut line).unwrap();
    let before = groups();
    ok(&["run", "--cc", "dtcp", "--", "true"]);
    assert_eq!((before.len(), groups()), (1, before));
    empty.go_on();
    assert_eq!(empty.end().0, Some(0));
    nothing_left("dtcp");
}

#[test]
fn a_killed_run_leaves_a_usable_state() {
    let Some(_test) = kernel_test("a_killed_run_leaves_a_usable_state", &["dtcp"]) else { return };
    let orphan = Run::start("dtcp", "exec sleep 20").kill();
    let status = status_of("dtcp").unwrap();
    assert_eq!((&status["registered"], &status["loaded_for"]), (&true.into(), &"killed run".into()));
    assert!(ok(&["status"]).contains("left by a killed `hotcc run`"));
    // beside the orphan, which continues to run
    ok(&["set", "dtcp", "eta=9"]);
    let mut again = Run::start("dtcp", "read");
    assert_eq!(ok(&["get", "dtcp", "eta"]), "2\n", "loaded anew");
    again.go_on();
    assert_eq!(again.end().0, Some(0));
    assert!(!registered("dtcp"));
    kill(orphan, Signal::SIGKILL).unwrap();
    wait_for_end_of(orphan);
    let orphan = Run::start("dtcp", "exec sleep 20").kill();
    fails(2, &["load", "dtcp", "--set", "eta=99"]);
    assert!(registered("dtcp"), "a load that fails unloads nothing");
    ok(&["unload", "--all"]);
    assert!(!registered("dtcp"));
    kill(orphan, Signal::SIGKILL).unwrap();
    wait_for_end_of(orphan);
    // killed between any two changes of the kernel's state
    for place in ["pinned", "registered", "switched", "noted"] {
        for next in [&["run", "--cc", "dtcp", "--", "true"][..], &["load", "dtcp"]] {
            let mut command = Command::new(hotcc_path());
            let killed = command.args(["run", "--cc", "dtcp", "--", "true"]).env("HOTCC_KILL_AT", place).status();
            assert!(!killed.unwrap().success(), "not killed at {place}");
            ok(&["status"]);
            ok(next);
            if next[0] == "load" {
                assert_eq!(status_of("dtcp").unwrap()["loaded_for"], "load");
                ok(&["unload", "dtcp"]);
            }
            nothing_left("dtcp");
        }
    }
}

/// By its name alone, hotcc cannot load it again.
#[test]
fn what_a_killed_run_left_of_a_file_is_run_by_its_name() {
    let Some(test) = kernel_test("what_a_killed_run_left_of_a_file_is_run_by_its_name", &["stranger"]) else { return };
    let orphan = Run::start(&test.object("stranger"), "exec sleep 20").kill();
    let ran = hotcc(&["run", "--cc", "stranger", "--", "true"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("0 sockets used stranger, loaded for this run\n"), "{said}");
    kill(orphan, Signal::SIGKILL).unwrap();
    wait_for_end_of(orphan);
    ok(&["run", "--cc", "reno", "--", "true"]); // removes the killed run's cgroup
    nothing_left("stranger");
}

#[test]
fn unloading_everything_leaves_and_names_what_a_run_uses() {
    let Some(_test) = kernel_test("unloading_everything_leaves_and_names_what_a_run_uses", &["dtcp"]) else { return };
    let mut running = Run::start("dtcp", "read");
    let told = ok(&["unload", "--all"]);
    assert!(told.ends_with("; in use by `hotcc run`, and so still loaded: dtcp\n"), "{told}");
    let emptied = json(&["unload", "--all", "--json"]);
    assert_eq!(emptied["in_use"], serde_json::json!(["dtcp"]), "{emptied}");
    assert!(registered("dtcp"));
    running.go_on();
    assert_eq!(running.end().0, Some(0));
    assert!(ok(&["unload", "--all"]).ends_with("; nothing is loaded\n"));
}

/// It would be unloaded under the canary.
#[test]
fn a_canary_does_not_compare_what_a_run_loaded() {
    let Some(test) = kernel_test("a_canary_does_not_compare_what_a_run_loaded", &["dtcp"]) else { return };
    let log = test.dir.path().join("canary.log").display().to_string();
    let mut running = Run::start("dtcp", "read");
    for (from, to) in [("reno", "dtcp"), ("dtcp", "reno")] {
        for more in [&["--dry-run"][..], &["--for", "1s", "--log", &log]] {
            let refused = fails(1, &[&["canary", "start", "--from", from, "--to", to][..], more].concat());
            assert!(refused.contains("cannot compare dtcp: it was loaded for a `hotcc run`"), "{refused}");
        }
    }
    running.go_on();
    assert_eq!(running.end().0, Some(0));
    nothing_left("dtcp");
}

#[test]
fn algorithms_loaded_before_a_run_stay_loaded() {
    let Some(_test) = kernel_test("algorithms_loaded_before_a_run_stay_loaded", &["dtcp"]) else { return };
    ok(&["load", "dtcp"]);
    let ran = hotcc(&["run", "--cc", "dtcp", "--", "true"]);
    assert!(String::from_utf8_lossy(&ran.stderr).contains("0 sockets used dtcp\n"));
    assert_eq!(status_of("dtcp").unwrap()["loaded_for"], "load");
    ok(&["unload", "dtcp"]);
    // the advice does not lead in a circle
    let mut running = Run::start("dtcp", "read");
    let message = fails(1, &["load", "dtcp"]);
    assert!(message.contains("already registered for a `hotcc run`, until that ends"), "{message}");
    // another command unloads it and loads it again: it no longer belongs to the run
    ok(&["unload", "dtcp"]);
    ok(&["load", "dtcp"]);
    running.go_on();
    assert_eq!(running.end().0, Some(0));
    assert!(registered("dtcp"));
}

#[test]
fn a_path_is_loaded_for_the_run() {
    let Some(test) = kernel_test("a_path_is_loaded_for_the_run", &["stranger"]) else { return };
    let path = test.object("stranger");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = connecting(listener.local_addr().unwrap().port());
    let mut first = Run::start(&path, &script);
    let mut second = Run::start(&path, "read");
    first.go_on();
    let (_server, _) = listener.accept().unwrap();
    first.go_on();
    let (code, output, said) = first.end();
    assert_eq!(code, Some(0));
    assert!(output.contains("stranger") && said.contains("1 socket used stranger, loaded for this run"), "{said}");
    let other = test.dir.path().join("other.bpf.o");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([0; 8]);
    std::fs::write(&other, bytes).unwrap();
    let message = fails(1, &["run", "--cc", other.to_str().unwrap(), "--", "true"]);
    assert!(message.contains("`stranger` is already loaded from another object than"), "{message}");
    second.go_on();
    assert_eq!(second.end().0, Some(0));
    nothing_left("stranger");
    fails(1, &["run", "--cc", "./nowhere.bpf.o", "--", "true"]);
}

#[test]
fn a_run_only_tunes_algorithms_that_it_loads() {
    let Some(_test) = kernel_test("a_run_only_tunes_algorithms_that_it_loads", &["dtcp"]) else { return };
    let with = |options: &[&'static str]| {
        [&["run", "--cc", "dtcp"][..], options, &["--", hotcc_path(), "get", "dtcp", "eta"]].concat()
    };
    assert_eq!(ok(&with(&["--profile", "paper", "--set", "eta=3"])), "3\n");
    nothing_left("dtcp");
    fails(2, &with(&["--set", "eta=99"]));
    fails(2, &with(&["--profile", "racing"]));
    nothing_left("dtcp");
    let mut first = Run::start("dtcp", "read");
    let message = fails(1, &with(&["--set", "eta=3"]));
    assert!(message.contains("already loaded by another `hotcc run` with other values: eta is 2, not 3"), "{message}");
    assert_eq!(ok(&with(&["--set", "eta=2"])), "2\n");
    first.go_on();
    assert_eq!(first.end().0, Some(0));
    nothing_left("dtcp");
    ok(&["load", "dtcp", "--profile", "paper"]);
    let message = fails(1, &with(&["--profile", "default"]));
    assert!(message.contains("`dtcp` is already loaded with other values: epoch_us is 500000, not 0;"), "{message}");
    assert_eq!(ok(&with(&["--profile", "paper"])), "2\n");
    assert_eq!(ok(&with(&["--set", "eta=2"])), "2\n", "no profile was asked for");
    ok(&["set", "dtcp", "eta=4"]);
    assert_eq!(ok(&with(&[])), "4\n", "nothing was asked for");
    let message = fails(1, &["run", "--cc", "reno", "--set", "eta=3", "--", "true"]);
    assert!(message.contains("`reno` is registered, but not by hotcc"), "{message}");
}

#[test]
fn a_run_ends_with_a_summary_of_its_connections() {
    let Some(test) = kernel_test("a_run_ends_with_a_summary_of_its_connections", &["dtcp"]) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = test.file(
        "command.pl",
        format!(
            r#"use IO::Socket;
            for (1 .. 2) {{
                my $s = IO::Socket::INET->new("127.0.0.1:{}") or die;
                print $s "x" x 500000;
                shutdown $s, 1;
                read $s, my $all, 1;
            }}"#,
            listener.local_addr().unwrap().port()
        )
        .as_bytes(),
    );
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut from, _) = listener.accept().unwrap();
            std::io::copy(&mut from, &mut std::io::sink()).unwrap();
        }
    });
    let ran = hotcc(&["run", "--cc", "dtcp", "--", "perl", &script]);
    server.join().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    let line = said.lines().find_map(|line| line.strip_prefix("hotcc: ")?.split_once(" MB acknowledged in "));
    let (megabytes, rest) = line.unwrap_or_else(|| panic!("{said}"));
    let megabytes: f64 = megabytes.parse().unwrap();
    assert!((0.999..=1.001).contains(&megabytes), "{said}");
    assert!(rest.contains(" Mbit/s; RTT ") && rest.ends_with(" segments sent again"), "{said}");
}

#[test]
fn sockets_that_took_another_are_counted() {
    let Some(test) = kernel_test("sockets_that_took_another_are_counted", &["dtcp"]) else { return };
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = test.file(
        "command.pl",
        format!(
            r#"use Socket;
            for my $wanted ("reno", "", "dtcp") {{
                socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
                connect($s, sockaddr_in({}, INADDR_LOOPBACK)) or die;
                setsockopt($s, 6, 13, $wanted) or die if $wanted;
            }}"#,
            listener.local_addr().unwrap().port()
        )
        .as_bytes(),
    );
    let ran = hotcc(&["run", "--cc", "dtcp", "--", "perl", &script]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    assert!(said.contains("3 sockets used dtcp, loaded for this run\n"), "{said}");
    assert!(said.contains("1 of 3 sockets changed to another congestion control later\n"), "{said}");
    nothing_left("dtcp");
}

#[test]
fn commands_that_cannot_be_run() {
    let Some(test) = kernel_test("commands_that_cannot_be_run", &["dtcp"]) else { return };
    let plain = test.file("plain", b"no program");
    let message = fails(127, &["run", "--cc", "dtcp", "--", "/no/such/command"]);
    assert!(message.contains("cannot run /no/such/command: No such file"), "{message}");
    fails(126, &["run", "--cc", "dtcp", "--", &plain]);
    fails(126, &["run", "--cc", "dtcp", "--", "/tmp"]);
    nothing_left("dtcp");
}

#[test]
fn a_command_stays_below_its_callers_cgroup() {
    let Some(_test) = kernel_test("a_command_stays_below_its_callers_cgroup", &["dtcp"]) else { return };
    let own = hotcc::cgroup::own().unwrap().join("hotcc-test-caller");
    std::fs::create_dir(&own).unwrap();
    let hotcc = hotcc_path();
    let script = format!(
        "echo 0 > {}/cgroup.procs && {hotcc} run --cc dtcp -- sh -c 'grep ^0:: /proc/self/cgroup; \
         {hotcc} run --cc reno -- grep ^0:: /proc/self/cgroup'",
        own.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    std::fs::remove_dir(&own).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let groups = String::from_utf8(output.stdout).unwrap();
    assert_eq!(groups.lines().count(), 2, "{groups}");
    for group in groups.lines() {
        let (_, below) = group.split_once("hotcc-test-caller/").unwrap_or_else(|| panic!("{groups}"));
        assert!(below.starts_with("hotcc-run-") && !below.contains('/'), "{groups}");
    }
}
