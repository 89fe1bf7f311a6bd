//! Snapshots of booted guests: whatever happens to a snapshot, a run has the same results.

use super::runs::results;
use crate::common::machine::{Processor, stock_kernel};
use hotcc_kernels::Architecture;
use hotcc_lab::vm;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SCENARIO: &str = r#"
duration_s = 1
[[host]]
name = "server"
[[host]]
name = "ue"
[[link]]
name = "air"
between = ["server", "ue"]
both = { delay_ms = 10 }
forward = { rate = "5Mbit/s", queue = "60kB" }
[[flow]]
name = "main"
from = "server"
to = "ue"
cc = "westwoodp"
[[flow]]
name = "module"
from = "server"
to = "ue"
cc = "westwood"
"#;

/// A lab with its own cache, which links to this user's kernels.
struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("cache")).unwrap();
        let kernels = hotcc_kernels::cache_directory().unwrap().join("kernels");
        symlink(kernels, directory.path().join("cache/kernels")).unwrap();
        fs::write(directory.path().join("small.toml"), SCENARIO).unwrap();
        Self { directory }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, out: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
        command.env("HOTCC_CACHE", self.at("cache")).args(["lab", "--lab", "vm:6.12", "--jobs", "1", "--out"]);
        command.arg(self.at(out)).arg(self.at("small.toml"));
        command
    }

    /// Returns the command that finds a script in QEMU's place, which runs `first`, then QEMU under `under`.
    fn command_with_qemu(&self, out: &str, first: &str, under: &str) -> Command {
        let qemu = vm::qemu_path(Architecture::Amd64).unwrap();
        let directory = self.at(&format!("qemu-{out}"));
        fs::create_dir(&directory).unwrap();
        let script = directory.join(qemu.file_name().unwrap());
        fs::write(&script, format!("#!/bin/sh\n{first}\nexec {under} {} \"$@\"\n", qemu.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = self.command(out);
        command.env("PATH", format!("{}:{}", directory.display(), std::env::var("PATH").unwrap()));
        command
    }

    /// Runs the lab. Returns its messages and its results.
    fn run(&self, out: &str) -> (String, BTreeMap<String, Vec<u8>>) {
        let output = self.command(out).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        (said, results(&self.at(out)))
    }

    fn snapshots(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.at("cache/snapshots"));
        entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }

    fn only_snapshot(&self) -> PathBuf {
        let found = self.snapshots();
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(has_extension(one, "snapshot"), "{found:?}");
        one.clone()
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

#[test]
fn a_run_has_the_same_results_from_a_new_a_kept_and_a_repaired_snapshot() {
    const NAME: &str = "a_run_has_the_same_results_from_a_new_a_kept_and_a_repaired_snapshot";
    const BOOTS: &str = "booting a guest once";
    let Some(_) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let lab = Lab::new();
    let (said, new) = lab.run("new");
    assert!(said.contains(BOOTS), "{said}");
    assert!(new.keys().any(|path| path.ends_with("summary.json")), "{said}");
    let snapshot = lab.only_snapshot();
    let (said, kept) = lab.run("kept");
    assert!(!said.contains(BOOTS), "{said}");
    assert!(new == kept, "from a kept snapshot");

    // a snapshot with a changed byte in the guest's memory; below, one whose end is missing
    let file = fs::File::options().read(true).write(true).open(&snapshot).unwrap();
    let (mut byte, at) = ([0], 16 << 20);
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
    let (said, repaired) = lab.run("repaired");
    assert!(said.contains(BOOTS), "{said}");
    assert!(new == repaired, "from a snapshot that was damaged");
    let file = fs::File::options().write(true).open(lab.only_snapshot()).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let (said, completed) = lab.run("completed");
    assert!(said.contains(BOOTS), "{said}");
    assert!(new == completed, "from a snapshot that had no end");

    fs::remove_dir_all(lab.at("cache/snapshots")).unwrap();
    fs::write(lab.at("cache/snapshots"), "").unwrap();
    let (said, temporary) = lab.run("temporary");
    assert!(said.contains("using a temporary snapshot"), "{said}");
    assert!(new == temporary, "from a temporary snapshot");
}

#[test]
fn a_run_has_the_same_results_however_qemus_threads_take_turns() {
    const NAME: &str = "a_run_has_the_same_results_however_qemus_threads_take_turns";
    let Some(_) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let lab = Lab::new();
    // with one policy, a thread that wakes interrupts the thread that woke it; with the other, it waits
    let found = ["--other", "--batch"].map(|policy| {
        let output = lab.command_with_qemu(policy, "", &format!("chrt {policy} 0")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::remove_dir_all(lab.at("cache/snapshots")).unwrap(); // the other boots, too
        let mut results = results(&lab.at(policy));
        results.retain(|path, _| path.ends_with(".csv"));
        assert!(!results.is_empty());
        results
    });
    assert!(found[0] == found[1]);
}

#[test]
fn an_interrupted_snapshot_leaves_nothing_that_is_used() {
    const NAME: &str = "an_interrupted_snapshot_leaves_nothing_that_is_used";
    let Some(_) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let lab = Lab::new();
    for (signal, leaves) in [("INT", 0), ("KILL", 1)] {
        let mut child = lab.command("out").stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(300);
        while !lab.snapshots().iter().any(|path| has_extension(path, "part")) {
            assert!(Instant::now() < end, "no snapshot was begun");
            sleep(Duration::from_millis(20));
        }
        let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        child.wait().unwrap();
        let left = lab.snapshots();
        assert_eq!(left.len(), leaves, "{signal}: {left:?}");
        assert!(left.iter().all(|path| has_extension(path, "part")), "{signal}: {left:?}");
    }
    let (killed, unrelated) = (lab.snapshots().remove(0), lab.at("cache/snapshots/of-another-key.part"));
    fs::write(&unrelated, "left by a process that was killed").unwrap();
    // two labs at the same time: one makes the snapshot, the other waits for it
    let children = ["one", "other"].map(|out| lab.command(out).stderr(Stdio::piped()).spawn().unwrap());
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(lab.only_snapshot(), killed.with_extension("snapshot"));
    let found = ["one", "other"].map(|out| results(&lab.at(out).join("small")));
    assert!(found[0] == found[1], "the same results");
}

#[test]
fn runs_boot_if_qemu_cannot_resume_a_guest() {
    const NAME: &str = "runs_boot_if_qemu_cannot_resume_a_guest";
    let Some(_) = stock_kernel(NAME, "6.12") else { return };
    let _processor = Processor::take();
    let lab = Lab::new();
    let refuse = "case \" $* \" in *\" -incoming \"*) exit 1;; esac";
    let output = lab.command_with_qemu("out", refuse, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("booting the guest for each run"), "{said}");
}
