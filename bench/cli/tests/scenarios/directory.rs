//! Result directories: only one process writes to each, and results that were changed after their run are refused.

use crate::VALID;
use crate::command::{bench, lab};
use hotcc_lab::results::{Manifest, RunSummary};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Writes `x.toml`, a scenario for the simulator, with these seeds.
pub fn write_scenario(directory: &Path, seeds: &str) {
    let (without_pep, _) = VALID.split_once("[[pep]]").unwrap();
    fs::write(directory.join("x.toml"), without_pep.replace("seeds = [1]", &format!("seeds = {seeds}"))).unwrap();
}

/// A process that is killed when the value is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_lab_is_refused_until_the_first_ends() {
    let directory = tempfile::tempdir().unwrap();
    let seeds: Vec<u32> = (1..=2_000).collect();
    write_scenario(directory.path(), &format!("{seeds:?}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["lab", "--sim", "--jobs", "1", "x.toml"]).current_dir(directory.path());
    let first = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let summary = directory.path().join("lab-results/x/simulator/loss=0.01/seed-1/summary.json");
    let end = Instant::now() + Duration::from_secs(60);
    while !summary.exists() {
        assert!(Instant::now() < end, "the first result did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = || {
        let done = lab(&["--sim", "--one-seed", "x.toml"], directory.path());
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, said) = second();
    assert_eq!(code, Some(1), "{said}");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("hotcc-bench: ")).collect();
    let expected = "hotcc-bench: x.toml: cannot write results to lab-results/x/simulator: another `hotcc-bench lab` is \
                    using it; wait, or use another --out";
    assert_eq!(errors, [expected], "{said}");
    drop(first); // killed
    let (code, said) = second();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("already complete"), "{said}");
}

#[test]
fn a_summary_that_has_changed_since_its_run_is_refused_and_its_run_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    write_scenario(directory.path(), "[1, 2]");
    let simulate = || {
        let done = lab(&["--sim", "x.toml"], directory.path());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    simulate();
    let summaries = ["loss=0.01/seed-1/summary.json", "loss=0.01/seed-2/summary.json"];
    let [kept, changed] = summaries.map(|path| at("lab-results/x/simulator").join(path));
    let manifest = fs::read(at("lab-results/x/simulator/manifest.json")).unwrap();
    let manifest: Manifest = serde_json::from_slice(&manifest).unwrap();
    let sha256 = |path: &Path| data_encoding::HEXLOWER.encode(&Sha256::digest(fs::read(path).unwrap()));
    let listed: Vec<(&str, &str)> = manifest.results.iter().map(|(path, hash)| (&**path, &**hash)).collect();
    let [of_kept, of_changed] = [&kept, &changed].map(|path| sha256(path));
    assert_eq!(listed, [(summaries[0], &*of_kept), (summaries[1], &*of_changed)]);

    fs::write(&changed, [&fs::read(&changed).unwrap()[..], b"\n"].concat()).unwrap();
    fs::write(at("page.md"), "<!-- figures: x -->\n<!-- end of figures -->\n").unwrap();
    let run = |arguments: &[&str]| bench(arguments, directory.path());
    let commands: [(&[&str], i32); 4] = [
        (&["report", "lab-results/x"], 2),
        (&["diff", "lab-results/x", "lab-results/x"], 2),
        (&["figures", "page.md"], 1),
        (&["validate", "lab-results/x"], 1),
    ];
    for (arguments, refused) in commands {
        let (code, said) = run(arguments);
        let what =
            format!("cannot use lab-results/x/simulator/{}: its SHA-256 is not the one in manifest.json", summaries[1]);
        assert!(code == refused && said.contains(&what), "{arguments:?}: {code}: {said}");
    }

    let made = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let (before, changed_before) = (made(&kept), made(&changed));
    simulate();
    assert!(made(&kept) == before && made(&changed) != changed_before, "only the changed one is made again");
    assert_eq!(sha256(&changed), of_changed);
    assert_eq!(run(&["report", "lab-results/x"]).0, 0);
}

#[test]
fn a_run_is_repeated_only_if_its_inputs_have_changed() {
    let directory = tempfile::tempdir().unwrap();
    write_scenario(directory.path(), "[1]");
    let path = directory.path().join("x.toml");
    let first = fs::read_to_string(&path).unwrap();
    let simulate = |scenario: &str, runs: usize| {
        fs::write(&path, scenario).unwrap();
        let done = lab(&["--sim", "x.toml"], directory.path());
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{said}");
        assert_eq!(fs::read_dir(directory.path().join("lab-results/x/simulator")).unwrap().count(), 3 + runs, "{said}");
        (said.contains("already complete"), said.contains("moved them to"))
    };
    let result = |case: &str| -> RunSummary {
        let path = directory.path().join(format!("lab-results/x/simulator/{case}/seed-1/summary.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    assert_eq!(simulate(&first, 1), (false, false));
    let inputs = result("loss=0.01").inputs;
    assert!(
        ["plan", "kernel image", "dtcp", "hotcc-bench"].iter().all(|name| inputs.contains_key(*name)),
        "{inputs:?}"
    );

    let described = format!("# of another value\n{}", first.replace("value = 3.5", "value = 3.6"));
    assert_eq!(simulate(&described, 1), (true, false), "no input of the run");
    let swept = described.replace("loss = [0.01]", "loss = [0.01, 0.02]");
    assert_eq!(simulate(&swept, 2), (true, false), "a new case");
    let of_another_loss = result("loss=0.02").inputs;
    let differing: Vec<_> =
        inputs.iter().filter(|input| !of_another_loss.iter().any(|other| other == *input)).collect();
    assert_eq!(differing.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["plan"]);
    assert_eq!(result("loss=0.01").inputs, inputs);
    let longer = swept.replace("delay_ms = 20", "delay_ms = 21");
    assert_eq!(simulate(&longer, 2), (false, true), "the plan of both runs");
    assert!(directory.path().join("lab-results/x.1/simulator/loss=0.02/seed-1/summary.json").exists());
}

#[test]
fn quick_simulates_the_first_seed() {
    let directory = tempfile::tempdir().unwrap();
    write_scenario(directory.path(), "[7, 2]");
    let done = lab(&["--quick", "x.toml"], directory.path());
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("1 of 2 runs of the scenario: first seed only"), "{said}");
    let case = directory.path().join("lab-results/x/simulator/loss=0.01");
    let seeds: Vec<_> = fs::read_dir(case).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(seeds, ["seed-7"]);
    let refused = lab(&["--quick", "--lab", "vm", "x.toml"], directory.path());
    assert_eq!(refused.status.code(), Some(2));
}
