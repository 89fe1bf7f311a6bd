//! Tests object files that are not regular files or are too large, and signals to a run that has not started its
//! command.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc_abi::pins;
use hotcc_testbed::command::failed;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs the command, which must fail soon and without using much memory; returns its message.
fn fails_soon(arguments: &[&str]) -> String {
    let limited = "ulimit -v 4000000; exec timeout --signal KILL 20 \"$@\"";
    let mut command = Command::new("bash");
    command.args(["-c", limited, "bash", hotcc_path()]).args(arguments);
    failed(1, &command.output().unwrap())
}

#[test]
fn only_regular_files_of_some_size_are_read() {
    let Some(test) = kernel_test("only_regular_files_of_some_size_are_read", &["kept"]) else { return };
    ok(&["load", "dtcp", "--as", "kept"]);
    let fifo = test.dir.path().join("fifo.o").display().to_string();
    nix::unistd::mkfifo(fifo.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let large = test.dir.path().join("large.o");
    let mut file = File::create(&large).unwrap();
    file.write_all(hotcc_bpf::algo("dtcp").unwrap().bytes).unwrap();
    file.set_len(1 << 34).unwrap();
    let large = large.display().to_string();
    let directory = test.dir.path().join("directory.o");
    std::fs::create_dir(&directory).unwrap();
    let directory = directory.display().to_string();
    for (file, why) in [
        (&*fifo, "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        (&directory, "it is not a regular file"),
        (&large, "it is larger than 16 MiB"),
    ] {
        for arguments in
            [&["load", file][..], &["swap", "kept", file], &["list", file], &["run", "--cc", file, "--", "true"]]
        {
            let message = fails_soon(arguments);
            assert_eq!(message, format!("hotcc: cannot read {file}: {why}\n"), "{arguments:?}");
        }
        let declared = test.file("declared.toml", format!("[[algorithm]]\nobject = \"{file}\"\n").as_bytes());
        for command in ["apply", "diff"] {
            let message = fails_soon(&[command, &declared]);
            assert_eq!(message, format!("hotcc: {declared}:2: cannot read {file}: {why}\n"), "{command}");
        }
    }
}

fn run(cc: &str) -> Child {
    let mut command = Command::new(hotcc_path());
    command.args(["run", "--cc", cc, "--", "sleep", "60"]).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Sends a signal to a run, which must end soon, and returns its exit status.
fn ended_by(mut run: Child, signal: Signal) -> std::process::ExitStatus {
    kill(Pid::from_raw(run.id() as i32), signal).unwrap();
    let started = Instant::now();
    loop {
        if let Some(status) = run.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > Duration::from_secs(5) {
            run.kill().unwrap();
            run.wait().unwrap();
            panic!("{signal} did not end a run in 5 s");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_a_run_at_any_point() {
    let Some(_test) = kernel_test("a_signal_ends_a_run_at_any_point", &["dtcp"]) else { return };
    let lock = File::open(Path::new(pins::RUN).join("lock")).unwrap();
    let lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, why)| why).unwrap();
    let waiting = run("dtcp");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(ended_by(waiting, Signal::SIGTERM).signal(), Some(Signal::SIGTERM as i32));
    drop(lock);
    for wait_ms in (0..600).step_by(60) {
        let run = run("dtcp");
        std::thread::sleep(Duration::from_millis(wait_ms));
        let status = ended_by(run, Signal::SIGINT);
        assert!(!status.success(), "{wait_ms} ms: {status}");
        assert!(!registered("dtcp"), "{wait_ms} ms: what was loaded for the run stayed");
    }
}
