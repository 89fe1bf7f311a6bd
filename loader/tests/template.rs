//! Tests that the algorithm in CONTRIBUTING.md, built as that page says, compiles and works.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn page() -> String {
    std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap()
}

/// Returns the first fenced block of this language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("\n```\n").unwrap().0
}

/// Compiles an object as the build does, with warnings as errors. Returns its path, or the compiler's messages.
fn compile(test: &KernelTest, name: &str, source: &str) -> Result<String, String> {
    let source = test.file(&format!("{name}.bpf.c"), source.as_bytes());
    let object = test.dir.path().join(format!("{name}.bpf.o")).display().to_string();
    let done = Command::new(hotcc_bpf::CLANG)
        .args(hotcc_bpf::CLANG_FLAGS)
        .arg("-I")
        .arg(root().join("bpf/include"))
        .args(["-c", &source, "-o", &object])
        .output()
        .unwrap();
    if done.status.success() { Ok(object) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
}

/// Replaces `piece`, which must occur exactly once, in a text.
fn replaced(text: &str, piece: &str, by: &str) -> String {
    assert_eq!(text.matches(piece).count(), 1, "{piece}");
    text.replace(piece, by)
}

/// Returns the path of a program.
fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|p| p.exists()).unwrap()
}

#[test]
fn the_algorithm_of_the_manual_builds_and_works() {
    let Some(test) = kernel_test("the_algorithm_of_the_manual_builds_and_works", &["mine"]) else { return };
    let root = root();
    let page = page();
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
        // setup.sh installs another version if the distribution does not have this one
        std::os::unix::fs::symlink(on_path(hotcc_bpf::CLANG), bin.join(clang)).unwrap();
    }
    compile(&test, "strict", block(&page, "c")).unwrap();
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

#[test]
fn values_out_of_their_own_range_are_refused() {
    let Some(test) = kernel_test("values_out_of_their_own_range_are_refused", &["mine"]) else { return };
    let page = page();
    let source = block(&page, "c");
    const VALUES: &str = "700, 500, 100, 900";
    for (values, what) in [
        ("700, 99, 100, 900", "paper value of keep_permille is out of range"),
        ("901, 500, 100, 900", "default of keep_permille is out of its range"),
    ] {
        let said = compile(&test, "macro", &replaced(source, VALUES, values)).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    compile(&test, "zero", &replaced(source, VALUES, "0, 4294967295, 0, 4294967295")).unwrap();
    // an object whose tags were written without the macros, which would reject these values
    let object = std::fs::read(compile(&test, "tags", source).unwrap()).unwrap();
    for (values, contradiction) in [
        ("|min=100|max=900|default=700|paper=099|", "the paper value 99, outside its range 100..900"),
        ("|min=100|max=900|default=901|paper=500|", "the default value 901, outside its range 100..900"),
        ("|min=990|max=900|default=700|paper=500|", "the range 990..900, but its variable holds 0..4294967295"),
        ("|min=-10|max=900|default=700|paper=500|", "the range -10..900, but its variable holds 0..4294967295"),
    ] {
        let declared = b"|min=100|max=900|default=700|paper=500|";
        assert_eq!(declared.len(), values.len());
        let mut other = object.clone();
        // both in the BTF and in the debug information
        while let Some(at) = other.windows(declared.len()).position(|w| w == declared) {
            other[at..at + declared.len()].copy_from_slice(values.as_bytes());
        }
        let path = test.file("other.bpf.o", &other);
        for command in ["list", "load"] {
            let message = fails(1, &[command, &path]);
            let expected =
                format!("other.bpf.o: its description is inconsistent: tunable keep_permille has {contradiction}");
            assert!(message.contains(&expected), "{message}");
        }
    }
    assert!(!registered("mine"));
}

#[test]
fn operations_that_the_kernel_asks_for_are_named() {
    let Some(test) = kernel_test("operations_that_the_kernel_asks_for_are_named", &["mine"]) else { return };
    let page = page();
    let source = block(&page, "c");
    let without = |operations: &[&str]| {
        let take_out = |source: String, operation: &&str| {
            replaced(&source, &format!("\t.{operation} = (void *)mine_{operation},\n"), "")
        };
        operations.iter().fold(source.to_owned(), take_out)
    };
    for (operations, lacking) in [
        (&["ssthresh"][..], "lacks ssthresh, which"),
        (&["undo_cwnd"], "lacks undo_cwnd, which"),
        (&["cong_avoid"], "lacks cong_avoid (or cong_control), which"),
        (&["ssthresh", "undo_cwnd", "cong_avoid"], "lacks ssthresh, undo_cwnd, cong_avoid (or cong_control), which"),
    ] {
        let object = compile(&test, "lacking", &without(operations)).unwrap();
        let message = fails(1, &["load", &object]);
        assert!(message.contains(lacking) && message.contains("cannot load mine ("), "{message}");
        assert!(!registered("mine"));
    }
}
