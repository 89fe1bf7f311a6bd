//! The headers of `bpf/include/hotcc` only need each other, algorithms need each of them, and no source has a second version
//! of its code for the host.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn bpf() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf")
}

fn include() -> PathBuf {
    bpf().join("include")
}

/// Returns the headers' names as a source includes them: `hotcc/kernel.h`.
fn public_headers() -> BTreeSet<String> {
    let files = fs::read_dir(include().join("hotcc")).unwrap().map(|e| e.unwrap().file_name());
    let headers: BTreeSet<String> = files.map(|name| format!("hotcc/{}", name.to_str().unwrap())).collect();
    assert!(headers.contains("hotcc/kernel.h"), "{headers:?}");
    headers
}

/// Returns the build's compiler, set up to find the public headers and no others of this tree.
fn clang() -> Command {
    let mut clang = Command::new(hotcc_bpf::CLANG);
    clang.args(hotcc_bpf::CLANG_FLAGS).arg("-I").arg(include());
    clang
}

fn compiles(headers: &[&String]) -> Result<(), String> {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("outside.bpf.c");
    let lines: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    fs::write(&source, lines).unwrap();
    let output = clang().arg("-c").arg(&source).arg("-o").arg(directory.path().join("outside.o")).output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn public_headers_need_no_other_ones() {
    let headers = public_headers();
    let all: Vec<&String> = headers.iter().collect();
    compiles(&all).unwrap();
    for header in &headers {
        let alone = compiles(&[header]);
        assert!(alone.is_ok(), "{header} alone:\n{}", alone.unwrap_err());
    }
}

#[test]
fn algorithms_include_every_public_header() {
    let mut included = BTreeSet::new();
    for entry in fs::read_dir(bpf().join("algos")).unwrap() {
        let source = entry.unwrap().path();
        if !source.to_string_lossy().ends_with(".bpf.c") {
            continue;
        }
        let output = clang().arg("-I").arg(bpf()).arg("-M").arg(&source).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let rule = String::from_utf8(output.stdout).unwrap();
        let prefix = format!("{}/", include().display());
        included.extend(rule.split_whitespace().filter_map(|file| file.strip_prefix(&prefix)).map(str::to_owned));
    }
    assert_eq!(included, public_headers());
}

/// All C files below a folder.
fn c_files(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| if path.is_dir() { c_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|ending| ending == "c" || ending == "h"))
        .collect()
}

/// Host builds replace headers (`crates/host-algo/host`); the sources are the same in both.
#[test]
fn conditionals_only_give_defaults() {
    let sources: Vec<PathBuf> =
        [bpf(), bpf().join("../bench/peers")].iter().flat_map(|folder| c_files(folder)).collect();
    assert!(sources.len() > 50, "{sources:?}");
    for source in sources {
        let text = fs::read_to_string(&source).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if !line.starts_with("#if") {
                continue;
            }
            let default = line.strip_prefix("#ifndef ").map(|name| format!("#define {name} "));
            let follows = default.zip(lines.next()).is_some_and(|(default, next)| next.starts_with(&default));
            assert!(follows, "{}: `{line}` is no default", source.display());
        }
    }
}
