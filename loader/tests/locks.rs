//! Tests held locks: commands that change state give up in time, and commands that only read do not wait.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::held_file::{held_at_openings, opens_without_the_lock};
use common::*;
use hotcc_abi::pins;
use hotcc_testbed::command::failed;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time for a command: the time it may wait for others, and some for its own work.
const BOUND: Duration = Duration::from_secs(25);

fn hold(path: &Path) -> Flock<File> {
    Flock::lock(File::open(path).unwrap(), FlockArg::LockExclusive).map_err(|(_, why)| why).unwrap()
}

fn locks() -> [PathBuf; 2] {
    ["lock", pins::PATH_LOCK].map(|name| Path::new(pins::RUN).join(name))
}

/// A run that has begun; it is ended when the value is dropped.
struct Run(Child);

impl Run {
    fn new() -> Self {
        let run = Self(start(&["run", "--cc", "dtcp", "--", "sleep", "60"]));
        while status_of("dtcp").is_none_or(|status| status["loaded_for"] != "run") {
            std::thread::sleep(Duration::from_millis(20));
        }
        run
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str]) -> Child {
    Command::new(hotcc_path()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn held_locks_block_no_reader_and_writers_time_out() {
    let Some(test) = kernel_test("held_locks_block_no_reader_and_writers_time_out", &["lock_cc"]) else { return };
    ok(&["load", "westwoodp", "--as", "lock_cc"]);
    ok(&["paths", "bump", "192.0.2.1"]);
    let saved = test.file("saved.toml", b"");
    ok(&["save", &saved]);
    let _run = Run::new();
    let held = locks().map(|path| hold(&path));
    let started = Instant::now();
    let waiting =
        [&["load", "dtcp", "--as", "lock_2"][..], &["paths", "bump", "192.0.2.1"], &["apply", &saved]].map(start);
    for reader in [
        &["status"][..],
        &["get", "lock_cc"],
        &["flows"],
        &["list"],
        &["paths", "show"],
        &["rx", "status"],
        &["doctor"],
        &["migrate", "reno", "lock_cc", "--dry-run"],
        &["save", &saved],
        &["diff", &saved],
    ] {
        ok(reader);
    }
    assert_eq!(status_of("dtcp").unwrap()["loaded_for"], "run");
    assert!(started.elapsed() < Duration::from_secs(9), "a reader waited: {:?}", started.elapsed());
    for mut child in waiting {
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > BOUND {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let message = failed(1, &child.wait_with_output().unwrap());
        assert!(message.contains("has been running for 10 s"), "{message}");
    }
    drop(held); // before the run ends, because it needs the lock
}

/// Any user who can open a lock file, or another locked file, can hold the lock.
#[test]
fn other_users_hold_no_lock() {
    let Some(_test) = kernel_test("other_users_hold_no_lock", &["dtcp"]) else { return };
    ok(&["paths", "bump", "192.0.2.1"]);
    let _run = Run::new();
    let mark = pins::algo_dir("dtcp").join("run");
    for path in locks().iter().chain([&mark]) {
        let mode = path.metadata().unwrap().mode() & 0o7777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        let mut flock = Command::new("flock");
        let taken = flock.args(["--nonblock".as_ref(), path.as_os_str(), "true".as_ref()]).uid(65534).gid(65534);
        let output = taken.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("Permission denied"), "{}: {said}", path.display());
    }
}

/// Without struct_ops links, a version is loaded again from its file to come back.
#[test]
fn a_rollback_opens_files_without_the_lock() {
    let Some(test) = kernel_test("a_rollback_opens_files_without_the_lock", &["lock_back"]) else { return };
    let object = test.file("slow.bpf.o", hotcc_bpf::algo("westwoodp").unwrap().bytes);
    let hotcc = |arguments: &[&str]| {
        let mut command = Command::new(hotcc_path());
        command.args(arguments).env("HOTCC_NO_LINKS", "1");
        command
    };
    let succeeds = |arguments: &[&str]| {
        let output = hotcc(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let rollback = || hotcc(&["rollback", "lock_back"]);
    let serves = |object: &str| assert_eq!(status_of("lock_back").unwrap()["object"], object);
    succeeds(&["load", &object, "--as", "lock_back"]);
    succeeds(&["swap", "lock_back", "dtcp"]);
    let output = opens_without_the_lock(&mut rollback(), &object);
    assert!(output.status.success(), "{output:?}");
    serves(&object);
    succeeds(&["rollback", "lock_back"]);
    serves("builtin:dtcp");
    // another process swaps while the file is read
    let output = held_at_openings(&mut rollback(), &object, || {
        succeeds(&["swap", "lock_back", "crest"]);
        succeeds(&["swap", "lock_back", "dcm"]);
    });
    let message = failed(1, &output);
    assert!(
        message.contains("was loaded or swapped by another process in the meantime; see: hotcc status"),
        "{message}"
    );
    assert!(!message.contains("hotcc status lock_back"), "{message}");
    serves("builtin:dcm");
    succeeds(&["rollback", "lock_back"]);
    serves("builtin:crest");
}
