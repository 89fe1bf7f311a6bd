//! What `hotcc-bench lab` reports about files and selections before anything runs.

use crate::VALID;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

pub fn lab(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    command
        .env_remove("HOTCC_TRACES")
        .env("HOTCC_CACHE", directory.join("cache"))
        .arg("lab")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Runs another command. Returns its exit code and what it says.
pub fn bench(arguments: &[&str], directory: &Path) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotcc-bench"));
    let done = command.args(arguments).current_dir(directory).output().unwrap();
    (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn every_file_is_checked_and_how_much_there_is_to_run_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write("right.toml", &VALID.replace("seeds = [1]", "seeds = [1, 2]"));
    write("wrong.toml", &VALID.replace("mtu", "mru"));
    write("empty.toml", "");
    let checked =
        lab(&["--check", "--jobs", "2", "wrong.toml", "right.toml", "empty.toml", "none.toml"], directory.path());
    assert_eq!(checked.status.code(), Some(1));
    let (stdout, stderr) = (String::from_utf8(checked.stdout).unwrap(), String::from_utf8(checked.stderr).unwrap());
    let estimate_s = |stdout: &str, before: &str, jobs: &str| -> f64 {
        let rest = stdout.strip_prefix(before).unwrap_or_else(|| panic!("{stdout}"));
        rest.strip_suffix(jobs).unwrap_or_else(|| panic!("{stdout}")).parse().unwrap()
    };
    let before = "right.toml: valid, 1 case, 2 runs; 20 s of guest time in total, about ";
    let two_at_once_s = estimate_s(&stdout, before, " s of real time with 2 at a time\n");
    for problem in ["wrong.toml:19: unknown field `mru`", "empty.toml:1: missing field", "cannot read none.toml"] {
        assert!(stderr.contains(problem), "{stderr}");
    }
    write("again.toml", &VALID.replace("seeds = [1]", "seeds = [1, 2]"));
    let checked = lab(&["--check", "--one-seed", "right.toml", "again.toml"], directory.path());
    assert!(checked.status.success());
    let stdout = String::from_utf8(checked.stdout).unwrap();
    assert!(stdout.contains("1 of 2 runs of the scenario: first seed only; 10 s of guest time in total"), "{stdout}");
    assert!(stdout.contains("2 scenarios, 2 runs; 20 s of guest time in total, about "), "{stdout}");
    let checked = lab(&["--check", "--jobs", "1", "right.toml"], directory.path());
    let stdout = String::from_utf8(checked.stdout).unwrap();
    let one_at_once_s = estimate_s(&stdout, before, " s of real time with 1 at a time\n");
    assert!(
        (2.0 * two_at_once_s - one_at_once_s).abs() <= 1.0,
        "{one_at_once_s} s alone, {two_at_once_s} s two at once"
    );
    fs::create_dir(directory.path().join("below")).unwrap();
    write("below/right.toml", VALID);
    let checked = lab(&["--check", "right.toml", "below/right.toml"], directory.path());
    let stderr = String::from_utf8(checked.stderr).unwrap();
    assert!(stderr.contains("below/right.toml: its results would replace those of right.toml"), "{stderr}");
    assert_eq!(checked.status.code(), Some(1));
}

#[test]
fn a_choice_that_leaves_nothing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("x.toml"), VALID).unwrap();
    for (arguments, code, why) in [
        (["--case", "loss=0.5"], 1, "x.toml: cannot select `loss=0.5`: unknown value: expected 0.01"),
        (["--case", "cc=dtcp"], 1, "x.toml: cannot select `cc=dtcp`: `cc` is not swept: expected loss"),
        (["--case", "dtcp"], 2, "expected KEY=VALUE"),
        (["--lab", "vm:"], 2, "invalid value 'vm:' for '--lab"),
        (["--jobs", "0"], 2, "invalid value '0' for '--jobs"),
    ] {
        let refused = lab(&[arguments[0], arguments[1], "x.toml"], directory.path());
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    assert!(!directory.path().join("lab-results").exists());
}

#[test]
fn the_simulator_refuses_what_it_lacks_by_line() {
    let directory = tempfile::tempdir().unwrap();
    let sim = |arguments: &[&str], right: &str, other: &str| {
        fs::write(directory.path().join("x.toml"), VALID.replace(right, other)).unwrap();
        let done = lab(&[&["--sim", "x.toml"], arguments].concat(), directory.path());
        (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let only = "the simulator has only net.ipv4.tcp_ecn and net.ipv4.tcp_rmem; use --lab vm";
    for (right, wrong, what) in [
        (
            "seeds = [1]",
            "seeds = [1]\n[sysctl]\n\"net.ipv4.tcp_ecn\" = 1\n\"net.ipv4.tcp_wmem\" = \"4096 65536 65536\"\n",
            &format!("x.toml:5: sysctl `net.ipv4.tcp_wmem`: of sysctls, {only}"),
        ),
        (
            "name = \"ue\"",
            "name = \"ue\"\nsysctl = { \"net.ipv4.tcp_sack\" = 0 }",
            &format!("x.toml:12: sysctl `net.ipv4.tcp_sack`: of sysctls, {only}"),
        ),
        (
            "name = \"ue\"",
            "name = \"ue\"\nrx = \"arwa\"",
            &"x.toml:12: host `ue`: the simulator has no receiver programs; use --lab vm".to_owned(),
        ),
    ] {
        let (code, said) = sim(&["--check"], right, wrong);
        assert!(code == 1 && said.contains(what), "{said}");
        assert_eq!(sim(&[], right, wrong), (code, said), "a run refuses what --check refuses");
    }
    assert!(!directory.path().join("lab-results").exists());
    let known = "seeds = [1]\n[sysctl]\n\"net.ipv4.tcp_ecn\" = 1\n\"net.ipv4.tcp_rmem\" = \"4096 65536 65536\"\n";
    for arguments in [&["--check"][..], &[]] {
        let (code, said) = sim(arguments, "seeds = [1]", known);
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn a_limit_that_does_not_hold_is_a_failure_unless_it_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let (scenario, _) = VALID.split_once("[[expected]]").unwrap(); // this also removes the PEP
    let run = |limit: &str| {
        let expected = format!("\n[[expected]]\nmetric = \"utilisation\"\n{limit}\nsource = \"this project\"\n");
        fs::write(directory.path().join("limit.toml"), scenario.to_owned() + &expected).unwrap();
        let ended = lab(&["--sim", "limit.toml"], directory.path());
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    assert_eq!(run("at_least = 0.1").0, Some(0));
    assert_eq!(run("at_least = 1.1\nmissed = true").0, Some(0));
    let (code, told) = run("at_least = 1.1");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("does not hold: all: utilisation is 0.") && told.contains("not at least 1.1"), "{told}");
}
