//! The algorithm that CONTRIBUTING.md shows, built as it says: compiles, and works.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;

/// The first fenced block of that language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0
}

/// Where a program is.
fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|p| p.exists()).unwrap()
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
    let clang = lines.split_whitespace().next().unwrap();
    let setup = std::fs::read_to_string(root.join("setup.sh")).unwrap();
    let preferred = setup.lines().find_map(|l| l.strip_prefix("readonly PREFERRED_CLANG=")).unwrap();
    assert_eq!(clang, format!("clang-{preferred}"), "the page calls the clang that setup.sh installs");
    if Command::new(clang).arg("--version").output().is_err() {
        // setup.sh takes another where the distribution has none of this version
        std::os::unix::fs::symlink(on_path(hotcc_bpf::CLANG), bin.join(clang)).unwrap();
    }
    let strict = Command::new(hotcc_bpf::CLANG)
        .args(hotcc_bpf::CLANG_FLAGS)
        .args(["-fsyntax-only", "-I", root.join("bpf/lib").to_str().unwrap(), "mine.bpf.c"])
        .current_dir(test.dir.path())
        .output()
        .unwrap();
    assert!(strict.status.success(), "{}", String::from_utf8_lossy(&strict.stderr));
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
