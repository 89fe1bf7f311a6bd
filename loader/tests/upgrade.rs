//! Tests an upgrade of hotcc on a running host: this build shows, tunes, swaps and rolls back what an earlier build
//! loaded.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The last revision that had one crate for each program.
const EARLIER: &str = "4f20ec48d8e3c8f8657d310271063026596af160";

/// Returns the `hotcc` of the earlier revision, which is built once and then kept in the cache. Returns `None`, after
/// printing a notice, if the repository does not contain the revision.
fn earlier_hotcc(test: &str) -> Option<PathBuf> {
    let cache = env::var_os("HOTCC_CACHE")
        .map_or_else(|| Path::new(&env::var_os("HOME").unwrap()).join(".cache/hotcc"), PathBuf::from);
    let program = cache.join("earlier").join(EARLIER).join("hotcc");
    if program.exists() {
        return Some(program);
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(repository).args(arguments);
        command
    };
    if !git(&["cat-file", "-e", EARLIER]).stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
        println!("SKIPPED {test}: this checkout does not contain revision {EARLIER}");
        return None;
    }
    let source = tempfile::tempdir().unwrap();
    let mut archive = git(&["archive", EARLIER]).stdout(Stdio::piped()).spawn().unwrap();
    let unpacked = Command::new("tar").arg("-xC").arg(source.path()).stdin(archive.stdout.take().unwrap()).status();
    assert!(unpacked.unwrap().success() && archive.wait().unwrap().success());
    let target = source.path().join("target");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--quiet", "--package", "hotcc", "--bin", "hotcc", "--target-dir"])
        .arg(&target)
        .current_dir(source.path())
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    // under another name first, so that a killed test leaves no incomplete program
    let (directory, partial) = (program.parent().unwrap(), program.with_extension(std::process::id().to_string()));
    fs::create_dir_all(directory).unwrap();
    fs::copy(target.join("debug/hotcc"), &partial).unwrap();
    fs::rename(partial, &program).unwrap();
    Some(program)
}

#[test]
fn an_upgrade_serves_swaps_and_rolls_back_what_the_earlier_build_loaded() {
    let test = "an_upgrade_serves_swaps_and_rolls_back_what_the_earlier_build_loaded";
    // built before the lock is taken, so that other tests do not wait for the compiler
    let earlier = if nix::unistd::geteuid().is_root() { earlier_hotcc(test) } else { None };
    let Some(_test) = kernel_test(test, &["upgraded"]) else { return };
    let Some(earlier) = earlier else { return };
    let with_earlier = |arguments: &[&str]| {
        let output = Command::new(&earlier).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let alpha = || json(&["get", "upgraded", "alpha_permille", "--json"]);

    with_earlier(&["load", "dtcp", "--as", "upgraded", "--set", "alpha_permille=300"]);
    let mut connection = Connection::new("upgraded");
    connection.send(1_000_000);
    let loaded = status_of("upgraded").unwrap();
    let set = alpha();
    assert!(set.to_string().contains("300"), "{set}");
    assert_eq!(loaded["registered"], true);

    // this build swaps under the open connection, and its rollback restores the earlier version with its values
    ok(&["swap", "upgraded", "westwoodp", "--live"]);
    connection.send(1_000_000);
    assert_eq!(connection.cc(), "upgraded");
    assert_ne!(status_of("upgraded").unwrap()["object"], loaded["object"]);
    ok(&["rollback", "upgraded", "--live"]);
    connection.send(1_000_000);
    assert_eq!(status_of("upgraded").unwrap()["object"], loaded["object"]);
    assert_eq!(alpha(), set);
    ok(&["set", "upgraded", "alpha_permille=250"]);

    // and downwards: the earlier build reads and swaps what this one left
    assert!(with_earlier(&["get", "upgraded"]).contains("250"));
    with_earlier(&["swap", "upgraded", "dtcp", "--keep-tunables", "--live"]);
    connection.send(1_000_000);
    ok(&["unload", "upgraded"]);
    assert!(pins_of("upgraded").is_empty());
    assert!(!registered("upgraded"));
}
