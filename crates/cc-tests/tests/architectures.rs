//! The sources build for x86-64 and for arm64, and their assertions about the sizes of their state hold on both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn bpf() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf")
}

fn host() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-algo/host")
}

/// Returns the compiler's options for our own headers.
fn include() -> [String; 2] {
    [bpf().join("include"), bpf()].map(|dir| format!("-I{}", dir.display()))
}

fn sources(dir: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(bpf().join(dir)).unwrap().map(|e| e.unwrap().path());
    files.filter(|p| p.to_string_lossy().ends_with(".bpf.c")).collect()
}

#[test]
fn every_source_compiles_to_bpf_with_either_architecture_named() {
    let out = tempfile::tempdir().unwrap();
    let mut compiled = 0;
    for source in ["algos", "progs", "test-objects"].into_iter().flat_map(sources) {
        for architecture in ["x86", "arm64"] {
            let output = Command::new(hotcc_bpf::CLANG)
                .args(hotcc_bpf::CLANG_FLAGS)
                .arg(format!("-D__TARGET_ARCH_{architecture}"))
                .args(include())
                .arg("-c")
                .arg(&source)
                .arg("-o")
                .arg(out.path().join("object.o"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{} for {architecture}:\n{text}", source.display());
        }
        compiled += 1;
    }
    assert!(compiled >= 7, "only {compiled} sources found");
}

/// Compiles an algorithm in the host harness for `target`; returns the compiler's messages if it rejects the algorithm.
fn check_for_host(algorithm: &Path, target: &str) -> Result<(), String> {
    let name = algorithm.file_name().unwrap().to_string_lossy().trim_end_matches(".bpf.c").to_owned();
    let output = Command::new(hotcc_bpf::CLANG)
        .arg(format!("--target={target}"))
        .args(["-fsyntax-only", "-ffreestanding", "-nostdinc", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .arg(format!("-DHOTCC_ALGO_FILE=\"{}\"", algorithm.display()))
        .arg(format!("-DHOTCC_ALGO={name}"))
        .arg("-I")
        .arg(host()) // first: its <hotcc/bpf.h>
        .args(include())
        .arg(host().join("harness.c"))
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn every_algorithm_keeps_its_layout_on_x86_64_and_arm64() {
    let algorithms = sources("algos");
    assert!(algorithms.len() >= 2, "only {algorithms:?} found");
    for algorithm in algorithms {
        for target in ["x86_64-linux-gnu", "aarch64-linux-gnu"] {
            let checked = check_for_host(&algorithm, target);
            assert!(checked.is_ok(), "{} for {target}:\n{}", algorithm.display(), checked.unwrap_err());
        }
        // and the assertions are evaluated for the target: 32 bits are rejected
        let refusal = check_for_host(&algorithm, "armv7-linux-gnueabihf").unwrap_err();
        assert!(refusal.contains("static assertion failed"), "{refusal}");
    }
}
