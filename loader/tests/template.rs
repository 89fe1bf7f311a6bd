//! The algorithm that CONTRIBUTING.md shows, built as it says: compiles, and works.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::path::Path;
use std::process::Command;

const MIB: usize = 1 << 20;

/// The first fenced block of that language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0
}

#[test]
fn the_algorithm_of_the_manual_builds_and_works() {
    let Some(test) = kernel_test("the_algorithm_of_the_manual_builds_and_works", &["mine"]) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let lines = block(&page, "sh");
    for flag in hotcc_bpf::CLANG_FLAGS.iter().filter(|flag| !flag.starts_with("-W")) {
        assert!(lines.contains(flag), "the build uses {flag}, too");
    }
    test.file("mine.bpf.c", block(&page, "c").as_bytes());
    let bin = test.dir.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(hotcc_path(), bin.join("hotcc")).unwrap();
    // the clang of the build, which may be called otherwise here
    let wrapper = test.file(
        "bin/clang",
        format!("#!/bin/sh\nexec {} -Wall -Wextra -Werror -Wno-unused-parameter \"$@\"\n", hotcc_bpf::CLANG).as_bytes(),
    );
    std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let done = Command::new("sh")
        .args(["-ec", lines])
        .current_dir(test.dir.path())
        .envs([("PATH", &*path), ("HOTCC", root.to_str().unwrap())])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("Reno that keeps a share of its window") && text.contains("keep_permille"), "{text}");
    assert!(text.contains("reductions") && text.contains("times the window shrank so far"), "{text}");
    ok(&["set", "mine", "keep_permille=600"]);
    assert_eq!(ok(&["get", "mine", "keep_permille"]), "600\n");
    let mut connection = Connection::new("mine");
    connection.send(10 * MIB);
    assert_eq!(status_of("mine").unwrap()["connections_current"], 1, "counted, though it keeps no counters");
    assert!(hotcc::registry::Algo::named("mine").stats().unwrap().is_none());
    ok(&["unload", "mine"]);
    assert!(!registered("mine"));
    connection.send(MIB);
}
