//! Every algorithm under libFuzzer, for a short time; `just fuzz NAME` runs for any length of time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_bpf::CLANG;
use hotcc_testbed::soak;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns the number of inputs. The same seed gives the same inputs.
fn runs() -> u64 {
    soak::times(20_000)
}

fn bpf() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf")
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/peers")
}

/// Builds the fuzzer of one algorithm.
fn build(name: &str, source: &Path, directory: &Path) -> PathBuf {
    let program = directory.join(name);
    let output = Command::new("sh")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("host/build-fuzzer.sh"))
        .args([CLANG, name])
        .args([source, &program])
        .output()
        .unwrap();
    assert!(output.status.success(), "{name}:\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn fuzz(program: &Path) -> Output {
    let (runs, seed) =
        (format!("-runs={}", runs()), format!("-seed={}", soak::seeds(1, 0).start % u64::from(u32::MAX)));
    let options = [runs.as_str(), seed.as_str(), "-max_len=4096", "-len_control=0", "-timeout=10"];
    Command::new(program).args(options).current_dir(program.parent().unwrap()).output().unwrap()
}

#[test]
fn no_input_breaks_an_algorithm() {
    let scratch = tempfile::tempdir().unwrap();
    let mut fuzzed = 0;
    for entry in [bpf().join("algos"), peers()].iter().flat_map(|folder| fs::read_dir(folder).unwrap()) {
        let path = entry.unwrap().path();
        let Some(name) = path.file_name().unwrap().to_str().unwrap().strip_suffix(".bpf.c") else { continue };
        let output = fuzz(&build(name, &path, scratch.path()));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}:\n{text}");
        assert!(text.contains(&format!("Done {} runs", runs())), "{name}:\n{text}");
        fuzzed += 1;
    }
    assert!(fuzzed >= 2);
    soak::report(&format!("{fuzzed} algorithms, {} inputs each, no finding", runs()));
}

/// Shows that the fuzzer finds errors.
#[test]
fn a_missing_limit_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(bpf().join("algos")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "h") {
            fs::copy(&path, scratch.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    for (file, right, wrong) in [
        (
            "dtcp.bpf.c",
            "return max(tp->snd_cwnd * (divisor - eta) / divisor, 2ULL);",
            "return tp->snd_cwnd * (divisor - eta) / divisor;",
        ),
        ("dtcp_rules.h", "(alpha_permille ?: 1)", "(alpha_permille - 1)"), // divides by zero
    ] {
        let text = fs::read_to_string(bpf().join("algos").join(file)).unwrap();
        assert_eq!(text.matches(right).count(), 1, "{right}");
        let source = scratch.path().join("dtcp.bpf.c");
        fs::copy(bpf().join("algos/dtcp.bpf.c"), &source).unwrap();
        fs::write(scratch.path().join(file), text.replace(right, wrong)).unwrap();
        let output = fuzz(&build("dtcp", &source, scratch.path()));
        assert!(!output.status.success(), "not found: {wrong}");
    }
}
