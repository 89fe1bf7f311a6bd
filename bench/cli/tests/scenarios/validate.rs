//! `validate`: which results are comparable, what it says of those that are not, and the page that it writes.

use crate::command::{bench, lab};
use crate::common::{reduced_scenario, simulate};
use crate::directory::write_scenario;
use crate::files;
use hotcc_lab::results::{Manifest, RunSummary};
use hotcc_lab::scenario::Source;
use hotcc_lab::selection::{Draw, Selection};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The top of this project's tree.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Simulates two runs, and makes results of a kernel out of the simulator's. Returns the directory of both.
fn results_of_both(directory: &Path) -> PathBuf {
    write_scenario(directory, "[1, 2]");
    let done = lab(&["--sim", "x.toml"], directory);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let results = directory.join("lab-results/x");
    let (from, to) = (results.join("simulator"), results.join("6.12.1"));
    let copied = Command::new("cp").arg("-r").args([&from, &to]).status().unwrap();
    assert!(copied.success());
    change(&to, |manifest| {
        manifest.backend = "vm".to_owned();
        manifest.kernel = "6.12.1".to_owned();
    });
    results
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
    let results = results_of_both(directory.path());
    let validate = || bench(&["validate", "--page", "page.md", "lab-results/x"], directory.path());
    assert_eq!(validate(), (0, "2 of 2 runs are within the bounds\n".to_owned()));
    let manifest = fs::read(results.join("simulator/manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    let page = fs::read_to_string(directory.path().join("page.md")).unwrap();
    let (_, versions) = page.split_once("\n| algorithm | object |\n").unwrap();
    let of_dtcp = format!("| dtcp | `{}` |\n", &manifest.objects["dtcp"][..12]);
    assert!(versions.contains(&of_dtcp), "no {of_dtcp}{page}");

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

#[test]
fn each_run_beyond_the_bounds_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let results = results_of_both(directory.path());
    let name = "loss=0.01/seed-2/summary.json";
    let path = results.join("6.12.1").join(name);
    let mut measured: RunSummary = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let simulated_mbps = measured.metric("throughput_mbps_total", None).unwrap();
    measured.flows.iter_mut().for_each(|flow| flow.throughput_bps *= 0.98);
    let text = serde_json::to_vec(&measured).unwrap();
    fs::write(&path, &text).unwrap();
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(&text));
    change(&results.join("6.12.1"), |manifest| {
        manifest.results.insert(name.to_owned(), sha256);
    });
    let (code, said) = bench(&["validate", "lab-results/x"], directory.path());
    let lines: Vec<&str> = said.lines().collect();
    let [beyond, count] = lines[..] else { panic!("{said}") };
    let measured_mbps = simulated_mbps * 0.98;
    let expected = format!("x loss=0.01 seed 2: {simulated_mbps:.3} Mbit/s, lab {measured_mbps:.3}; p95 ");
    assert!(code == 1 && beyond.starts_with(&expected), "{code}: {said}");
    assert_eq!(count, "1 of 2 runs are within the bounds");
}

/// Returns the cells of each run on the page.
fn rows_of_page() -> Vec<Vec<String>> {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/reference/simulator.md")).unwrap();
    let table = page.lines().skip_while(|line| !line.starts_with("| scenario |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().replace("**", "")).collect()).collect()
}

/// Returns the scenario files that a parameter of the recipe `validate` names by default.
fn files_of_recipe(justfile: &str, parameter: &str) -> Vec<PathBuf> {
    let recipe = justfile.lines().find(|line| line.starts_with("validate ")).unwrap();
    let (_, rest) = recipe.split_once(&format!(" {parameter}=\"")).unwrap();
    let (patterns, _) = rest.split_once('"').unwrap();
    let mut found = Vec::new();
    for pattern in patterns.split(' ') {
        let matches = |file: &PathBuf| {
            let path = format!("bench/scenarios/{}", file.file_name().unwrap().to_str().unwrap());
            match pattern.split_once('*') {
                Some((start, end)) => path.starts_with(start) && path.ends_with(end),
                None => path == pattern,
            }
        };
        let before = found.len();
        found.extend(files().into_iter().filter(matches));
        assert!(found.len() > before, "no scenario is {pattern}");
    }
    found
}

/// Returns scenario, case and seed of the selected runs of these files.
fn planned(files: &[PathBuf], selection: &Selection) -> BTreeSet<[String; 3]> {
    let of_file = |file: &PathBuf| {
        let scenario = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let runs = selection.run_ids(&Source::read(file).unwrap()).unwrap();
        runs.into_iter().map(move |run| [scenario.clone(), run.case_name(), run.seed.to_string()])
    };
    files.iter().flat_map(of_file).collect()
}

/// The page omits no algorithm, no recorded link and no drawn case.
#[test]
fn the_page_has_every_run_of_the_recipe() {
    let justfile = fs::read_to_string(Path::new(ROOT).join("justfile")).unwrap();
    for options in ["--one-seed \"${scenarios[@]}\"", "--one-in 10 \"${grids[@]}\""] {
        assert!(justfile.contains(options), "the recipe has no {options}");
    }
    let draw = Draw { one_in: NonZeroU32::new(10).unwrap(), seed: 1 };
    let first_seeds = Selection { one_seed: true, ..Selection::default() };
    let drawn = Selection { drawn: Some(draw), ..Selection::default() };
    let mut expected = planned(&files_of_recipe(&justfile, "scenarios"), &first_seeds);
    expected.extend(planned(&files_of_recipe(&justfile, "grids"), &drawn));
    let mut by_kernel: BTreeMap<String, BTreeSet<[String; 3]>> = BTreeMap::new();
    for row in rows_of_page() {
        let [scenario, kernel, case, seed, ..] = row.as_slice() else { panic!("{row:?}") };
        by_kernel.entry(kernel.clone()).or_default().insert([scenario, case, seed].map(String::clone));
    }
    assert!(!by_kernel.is_empty());
    for (kernel, there) in by_kernel {
        let differing: Vec<_> = there.symmetric_difference(&expected).collect();
        assert!(
            differing.is_empty(),
            "{kernel}: only planned or only on the page: {differing:#?}: run `just validate`"
        );
    }
}

/// The columns of the lab are compared with nothing: `just validate` takes minutes in virtual machines.
#[test]
fn the_page_says_what_the_simulator_says() {
    let rows = rows_of_page();
    // the scenarios without a recorded trace
    for name in ["dtcp-lte-loss", "dtcp-intra-fairness"] {
        let of_scenario = rows.iter().filter(|row| row[0] == name);
        let of_page: Vec<_> = of_scenario.map(|row| [2, 3, 5, 8].map(|n| row[n].as_str()).join(" ")).collect();
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
