//! Shared code of the tests on stock kernels in the lab.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod machine;
pub mod routes;
pub mod systemd;

use hotcc_lab::results::{Results, locate};
use hotcc_testbed::command::succeed;
use machine::Processor;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a scenario with these replacements, which reduce its runs, to `directory`. Returns its path.
pub fn reduced_scenario(name: &str, replacements: &[(&str, &str)], directory: &Path) -> PathBuf {
    let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let mut scenario = fs::read_to_string(original).unwrap();
    for (from, to) in replacements {
        assert!(scenario.contains(from), "the scenario has no {from}");
        scenario = scenario.replace(from, to);
    }
    let path = directory.join(name);
    fs::write(&path, scenario).unwrap();
    path
}

/// Simulates a scenario, with these options of `lab`. Returns the results.
pub fn simulate<'a>(options: impl IntoIterator<Item = &'a str>, scenario: &Path, out: &Path) -> Results {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["lab", "--sim"]).args(options);
    succeed(command.arg("--out").arg(out).arg(scenario));
    Results::read(&locate(out).unwrap()).unwrap()
}

/// Runs a scenario on a backend (`--lab`): all its cases, or those with these swept values (`key=value`). Returns the
/// results.
pub fn run_lab<'a>(backend: &str, cases: impl IntoIterator<Item = &'a str>, scenario: &Path, out: &Path) -> Results {
    let _processor = Processor::take();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["lab", "--lab", backend, "--jobs", "1"]);
    command.args(cases.into_iter().flat_map(|case| ["--case", case]));
    // `lab` also fails if a guest panics, which leaves no result, and if a run is invalid
    succeed(command.arg("--out").arg(out).arg(scenario));
    Results::read(&locate(out).unwrap()).unwrap()
}
