//! `validate`: which results are comparable, and what it says of those that are not.

use crate::command::{bench, lab};
use crate::common::{reduced_scenario, simulate};
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

/// The columns of the lab are compared with nothing: `just validate` takes minutes in virtual machines.
#[test]
fn the_page_says_what_the_simulator_says() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/simulator.md");
    let page = fs::read_to_string(PAGE).unwrap();
    let column = |row: &str, n: usize| row.split('|').nth(n + 1).unwrap().trim().to_owned();
    // the scenarios without a recorded trace
    for name in ["dtcp-lte-loss", "dtcp-intra-fairness"] {
        let rows = page.lines().filter(|line| line.starts_with(&format!("| {name} |")));
        let of_page: Vec<_> =
            rows.map(|row| [2, 3, 5, 8].map(|n| column(row, n)).join(" ").replace("**", "")).collect();
        let scratch = tempfile::tempdir().unwrap();
        let scenario = reduced_scenario(&format!("{name}.toml"), &[], scratch.path());
        let runs = simulate(["--one-seed"], &scenario, scratch.path()).runs;
        let simulated: Vec<_> = runs
            .iter()
            .map(|run| {
                let metric = |name| run.metric(name, None).unwrap();
                let (mbps, p95_ms) = (metric("throughput_mbps_total"), metric("queue_delay_p95_ms"));
                format!("{} {} {mbps:.3} {p95_ms:.2}", run.run.case_name(), run.run.seed)
            })
            .collect();
        assert!(!simulated.is_empty());
        assert_eq!(of_page, simulated, "{name}: run `just validate`");
    }
}
