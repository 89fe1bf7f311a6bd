//! Tests `hotcc list`, `hotcc doctor` and messages about wrong names. They need neither root nor a kernel with BTF.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_testbed::command::{failed, succeed};
use std::process::{Command, Output};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc"));
    command.args(arguments);
    command
}

fn hotcc(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn ok(arguments: &[&str]) -> String {
    succeed(&mut command(arguments))
}

/// Returns the words in a row of a table whose cells wrap.
fn entry<'a>(table: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = table.lines().skip_while(|line| line.split(' ').next() != Some(name));
    let first = lines.next().unwrap_or_else(|| panic!("no {name}: {table}"));
    std::iter::once(first).chain(lines.take_while(|l| l.starts_with(' '))).flat_map(str::split_whitespace).collect()
}

#[test]
fn the_overview_has_one_entry_per_algorithm_and_no_tunables() {
    let text = ok(&["list"]);
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    assert_eq!(text.lines().take_while(|line| !line.is_empty()).count(), 1 + hotcc_bpf::ALGOS.len(), "{text}");
    let header: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["name", "summary", "signals", "paper"]);
    for (name, signal, paper) in [
        ("dtcp", "radio,", "Kanagarathinam"),
        ("mdcubic", "PEP", "Mihaly"),
        ("dcm", "path", "Hamamreh"),
        ("arwa", "hint", "Renuka"),
        ("westwoodp", "-", "Grieco"),
    ] {
        let words = entry(&text, name);
        assert!(words.contains(&signal) && words.contains(&paper), "{name}: {words:?}");
    }
    let names = hotcc_bpf::ALGOS.iter().filter(|o| text.lines().any(|line| line.starts_with(&format!("{} ", o.name))));
    assert_eq!(names.count(), hotcc_bpf::ALGOS.len(), "{text}");
    assert!(!text.contains("epoch_us") && text.contains("hotcc list NAME"), "{text}");
}

#[test]
fn a_full_disk_is_an_error_in_one_line() {
    let full = || std::fs::File::create("/dev/full").unwrap();
    let message = failed(1, &command(&["list"]).stdout(full()).output().unwrap());
    assert_eq!(message, "hotcc: cannot write to standard output: No space left on device (os error 28)\n");
}

#[test]
fn a_forecast_that_is_computed_from_the_state_is_listed() {
    let crest = ok(&["list", "crest"]);
    assert!(crest.lines().any(|line| line.starts_with("  forecast ") && line.contains("bit/s")), "{crest}");
    assert!(ok(&["list", "crest", "--json"]).contains(r#""name": "forecast""#));
    assert!(ok(&["list", "dtcp", "--json"]).contains(r#""computed": []"#));
}

#[test]
fn tunables_come_with_a_name_or_all() {
    let one = ok(&["list", "dtcp"]);
    assert!(one.contains("epoch_us") && one.contains("n_q16") && one.contains("  signals: radio, path\n"), "{one}");
    assert!(!one.contains("Westwood"), "{one}");
    let all = ok(&["list", "--all"]);
    assert!(all.contains("epoch_us") && all.contains("n_q16") && all.contains("Westwood+"), "{all}");
    assert_eq!(hotcc(&["list", "dtcp", "--all"]).status.code(), Some(2));
}

#[test]
fn the_signals_of_a_file_are_read_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("strange.bpf.o");
    std::fs::write(&path, hotcc_bpf::algo("dcm").unwrap().bytes).unwrap();
    let path = path.to_str().unwrap();
    assert!(ok(&["list", path]).contains("  signals: path\n"));
    let listed: serde_json::Value = serde_json::from_str(&ok(&["list", path, "--json"])).unwrap();
    assert_eq!(listed[0]["signals"], serde_json::json!(["path"]));
    let keys: Vec<&String> = listed[0].as_object().unwrap().keys().collect();
    for key in ["name", "cc_name", "summary", "paper", "signals", "tunables", "state"] {
        assert!(keys.iter().any(|k| *k == key), "no {key}: {keys:?}");
    }
}

#[test]
fn a_wrong_algorithm_names_the_nearest_right_one() {
    let message = failed(1, &hotcc(&["list", "dctp"]));
    assert!(message.contains("no built-in algorithm `dctp`; did you mean `dtcp`? Available: "), "{message}");
}

#[test]
fn doctor_ends_with_its_verdict() {
    let output = hotcc(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout);
    let verdict = text.lines().last().unwrap().strip_prefix("verdict: ").unwrap_or_else(|| panic!("{text}"));
    let loads = verdict == "everything works here" || verdict.starts_with("algorithms load; ");
    assert_eq!(loads, output.status.success(), "{text}");
    assert!(loads || verdict.starts_with("algorithms cannot be loaded: "), "{text}");
}
