//! The demo without root: it runs in the lab by itself, says so, and its claims hold.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/comparison.rs"]
mod comparison;
#[path = "../../cli/tests/common/machine.rs"]
mod machine;

use comparison::assert_compares_crest;
use hotcc_lab::vm::DEFAULT_KERNEL;
use hotcc_testbed::command::build;
use hotcc_testbed::kernel::skipped;
use machine::stock_kernel;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const NAME: &str = "without_root_the_demo_runs_in_the_lab";
const NOBODY: u32 = 65534;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn without_root_the_demo_runs_in_the_lab() {
    let Some(kernel) = stock_kernel(NAME, DEFAULT_KERNEL) else { return };
    build(&["hotcc-guest"]);
    // the user `nobody` has no home directory, and cannot read root's cache
    let cache = tempfile::tempdir().unwrap();
    fs::set_permissions(cache.path(), Permissions::from_mode(0o755)).unwrap();
    copy(&kernel.dir, &cache.path().join("kernels").join(&kernel.release));
    let mut demo = Command::new(env!("CARGO_BIN_EXE_hotcc-demo"));
    demo.args(["--seconds", "3", "--json"]).env("HOTCC_CACHE", cache.path()).current_dir("/");
    demo.stdout(Stdio::piped()).stderr(Stdio::piped());
    if nix::unistd::geteuid().is_root() {
        demo.uid(NOBODY).gid(NOBODY);
    }
    let demo = match demo.spawn() {
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            skipped(NAME, "only root can run programs from this build directory");
            return;
        }
        started => started.unwrap(),
    };
    let output = demo.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("In the lab") && text.contains("needs root"), "{text}");
    assert!(text.contains("swap dtcp -> crest: 1 connections moved"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kernel"], *kernel.release);
    assert!(report["lab"].as_str().unwrap().contains("root"), "{report}");
    assert_compares_crest(&report, &text);
    let p95_rtt_ms = |at: usize| report["flows"][at]["p95_rtt_ms"].as_f64().unwrap();
    assert!(p95_rtt_ms(0) < p95_rtt_ms(1), "crest's queue is not shorter than BBR's: {report}");
    for flow in report["flows"].as_array().unwrap() {
        assert!(flow["mbit_per_s"].as_f64().unwrap() > 1.0, "{flow}");
        assert!(flow["mean_rtt_ms"].as_f64().unwrap() > 40.0, "{flow}");
        assert!(flow["p95_rtt_ms"].as_f64() > flow["mean_rtt_ms"].as_f64(), "{flow}");
    }
    assert!(report["facts"].as_array().unwrap().iter().all(|fact| fact["holds"] == true), "{report}");
}
