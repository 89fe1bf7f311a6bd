//! `validate`: which results are comparable, and what it says of those that are not.

use crate::command::{bench, lab};
use crate::directory::write_scenario;
use hotcc_lab::results::Manifest;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Makes results of a kernel out of the simulator's.
fn copy_as_a_kernels(results: &Path) {
    let (from, to) = (results.join("simulator"), results.join("6.12.1"));
    let copied = Command::new("cp").arg("-r").args([&from, &to]).status().unwrap();
    assert!(copied.success());
    change(&to, |manifest| {
        manifest.backend = "vm".to_owned();
        manifest.kernel = "6.12.1".to_owned();
    });
}

fn change(results: &Path, edit: impl FnOnce(&mut Manifest)) {
    let path = results.join("manifest.json");
    let mut manifest: Manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

#[test]
fn results_of_other_algorithms_are_refused_and_runs_without_a_twin_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    write_scenario(directory.path(), "[1, 2]");
    let done = lab(&["--sim", "x.toml"], directory.path());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results = directory.path().join("lab-results/x");
    copy_as_a_kernels(&results);
    let validate = || bench(&["validate", "--page", "page.md", "lab-results/x"], directory.path());
    assert_eq!(validate(), (0, "2 of 2 runs are within the bounds\n".to_owned()));

    change(&results.join("simulator"), |manifest| {
        manifest.runs.pop();
        manifest.results.pop_last();
    });
    let left_out = "1 run of the lab is not compared: it is invalid, or was not simulated";
    assert_eq!(validate(), (0, format!("1 of 1 runs are within the bounds\n{left_out}\n")));
    let page = fs::read_to_string(directory.path().join("page.md")).unwrap();
    assert!(page.contains(left_out), "{page}");

    change(&results.join("6.12.1"), |manifest| {
        manifest.objects.insert("dtcp".to_owned(), "0".repeat(64));
    });
    let (code, said) = validate();
    assert!(code == 1 && said.contains("another version of dtcp; run one of them again"), "{code}: {said}");
}
