//! Shared code of the tests on stock kernels in the lab.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod machine;
pub mod routes;

use hotcc_lab::results::{Results, locate};
use hotcc_testbed::command::succeed;
use machine::Processor;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a scenario to `directory`, made smaller by the replacements in `less`. Returns its path.
pub fn smaller(name: &str, less: &[(&str, &str)], directory: &Path) -> PathBuf {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let mut scenario = fs::read_to_string(whole).unwrap();
    for (from, to) in less {
        assert!(scenario.contains(from), "the scenario has no {from}");
        scenario = scenario.replace(from, to);
    }
    let path = directory.join(name);
    fs::write(&path, scenario).unwrap();
    path
}

/// Runs a scenario on that kernel in the lab: all of its cases, or those named (`axis=value`). Returns the results.
pub fn run_lab<'a>(lab: &str, cases: impl IntoIterator<Item = &'a str>, scenario: &Path, out: &Path) -> Results {
    let _processor = Processor::take();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command.args(["lab", "--lab", lab, "--jobs", "1"]);
    command.args(cases.into_iter().flat_map(|case| ["--case", case]));
    // `lab` also fails if a guest panics, which leaves no result, and if a run is invalid
    succeed(command.arg("--out").arg(out).arg(scenario));
    Results::read(&locate(out).unwrap()).unwrap()
}
