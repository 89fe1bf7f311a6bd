//! `hotcc-bench report`, and its errors for directories that are not valid results.

use crate::fixture::{self, case, flow, run};
use std::fs;
use std::process::Command;

fn hotcc_bench(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_hotcc-bench")).args(arguments).output().unwrap()
}

#[test]
fn the_command_writes_and_tells() {
    let dir = tempfile::tempdir().unwrap();
    fixture::write_comparison(dir.path());
    let directory = dir.path().to_str().unwrap();
    let told = hotcc_bench(&["report", directory]);
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    assert!(String::from_utf8_lossy(&told.stdout).starts_with("All 45 runs have finished, none is invalid. "));
    let elsewhere = dir.path().join("elsewhere.html");
    let told = hotcc_bench(&["report", directory, "--json", "--out", elsewhere.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(json["page"], elsewhere.to_str().unwrap());
    assert_eq!(json["by_cc"].as_array().unwrap().len(), 9);
    assert_eq!(json["by_cc"][0]["metrics"]["throughput_mbps"]["n"], 5);
    assert_eq!(json["papers"].as_array().unwrap().len(), 3);
    assert_eq!(fs::read(&elsewhere).unwrap(), fs::read(dir.path().join("report.html")).unwrap());
}

#[test]
fn a_directory_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused = hotcc_bench(&["report", dir.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot read"));
    assert!(!dir.path().join("report.html").exists());
    let one = run(case(&[]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)]);
    fixture::write(dir.path(), &[one]);
    fs::write(dir.path().join("all/seed-1/summary.json"), "{\"run\": {}").unwrap();
    let refused = hotcc_bench(&["report", dir.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("summary.json: another version of the lab wrote it"));
}

#[test]
fn the_only_results_below_a_directory_are_meant() {
    let dir = tempfile::tempdir().unwrap();
    let at = |place: &str| dir.path().join(place);
    fixture::write(&at("out/small/6.12"), &[run(case(&[]), 1, vec![flow("bulk", "dtcp", 10.0, 40.0)])]);
    for place in ["out", "out/small", "out/small/6.12"] {
        let told = hotcc_bench(&["report", at(place).to_str().unwrap()]);
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        assert!(String::from_utf8_lossy(&told.stdout).trim_end().ends_with("out/small/6.12/report.html"));
    }
    let same = hotcc_bench(&["diff", at("out").to_str().unwrap(), at("out/small").to_str().unwrap()]);
    assert_eq!(same.status.code(), Some(0), "{}", String::from_utf8_lossy(&same.stderr));
    fixture::write(&at("out/small/6.1"), &[]);
    for arguments in [&["report", "out"][..], &["diff", "out", "out"]] {
        let refused =
            Command::new(env!("CARGO_BIN_EXE_hotcc-bench")).args(arguments).current_dir(&dir).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("out contains several results: name one of out/small/6.1, "), "{said}");
    }
}
