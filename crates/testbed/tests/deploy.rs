//! The systemd units: they are valid and hardened, and explain each remaining exposure.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use hotcc_testbed::command::{build, json, stderr};
use hotcc_testbed::kernel::skipped;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Worst exposure that a unit may have according to `systemd-analyze security`, in tenths.
const WORST_EXPOSURE_TENTHS: u32 = 35;

const PROGRAMS: [&str; 3] = ["hotcc", "sinr-feeder", "pep-agent"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Returns the path and the text of each unit; nothing if systemd's tool is missing, which skips the test.
fn units(test: &str) -> Vec<(PathBuf, String)> {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        skipped(test, "systemd-analyze is not installed");
        return Vec::new();
    }
    let files = fs::read_dir(deploy()).unwrap().map(|entry| entry.unwrap().path());
    let units = files.filter(|path| path.extension().is_some_and(|extension| extension == "service"));
    let units: Vec<_> = units.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    assert!(units.len() >= 5, "{units:?}");
    units
}

#[test]
fn units_are_valid_and_start_commands_that_exist() {
    let units = units("units_are_valid_and_start_commands_that_exist");
    build(&PROGRAMS);
    let own = std::env::current_exe().unwrap(); // DIRECTORY/debug/deps/NAME
    let built = own.ancestors().nth(2).unwrap().display().to_string();
    let files = tempfile::tempdir().unwrap();
    for (path, unit) in units {
        let copy = files.path().join(path.file_name().unwrap());
        let unit = PROGRAMS.iter().fold(unit, |unit, program| {
            let unit = unit.replace(&format!("={program} "), &format!("={built}/{program} "));
            unit.replace(&format!("=+{program} "), &format!("=+{built}/{program} "))
        });
        fs::write(&copy, &unit).unwrap();
        let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output().unwrap();
        assert!(verified.status.success() && verified.stderr.is_empty(), "{}", stderr(&verified));
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
        let (program, arguments) = start.split_once(' ').unwrap();
        let help = Command::new(program).args(arguments.split(' ')).arg("--help").output().unwrap();
        assert!(help.status.success(), "{start}: {}", stderr(&help));
    }
}

#[test]
fn units_are_hardened_and_explain_what_they_leave_open() {
    for (path, unit) in units("units_are_hardened_and_explain_what_they_leave_open") {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(["security", "--offline=true", "--json=short"]).arg(&path);
        let findings = json(&mut analyze);
        let open = findings.as_array().unwrap().iter().filter(|finding| finding["set"] == Value::Bool(false));
        let names: Vec<&str> = open.map(|finding| finding["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"PrivateNetwork="), "the tool no longer prints what is open: {names:?}");
        for name in names {
            // of a name such as `RootDirectory=/RootImage=` or `SystemCallFilter=~@resources`, only the first setting
            // is looked for
            let setting = name.split_inclusive('=').next().unwrap();
            assert!(unit.contains(setting), "{} leaves {setting} open without a reason", path.display());
        }
        let threshold = format!("--threshold={WORST_EXPOSURE_TENTHS}");
        let mut analyze = Command::new("systemd-analyze");
        let judged = analyze.args(["security", "--offline=true", &threshold]).arg(&path).output().unwrap();
        assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
    }
}

/// An address or an interface may come late. By default, systemd gives up after five starts.
#[test]
fn units_of_the_network_start_again_until_it_is_there() {
    for name in ["hotcc-exporter.service", "sinr-feeder.service", "pep-border.service", "pep-server.service"] {
        let unit = fs::read_to_string(deploy().join(name)).unwrap();
        for line in ["StartLimitIntervalSec=0", "Restart=on-failure", "RestartSec=2"] {
            assert!(unit.lines().any(|found| found == line), "{name} lacks {line}");
        }
        let last = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).unwrap();
        assert!(last.split(' ').all(|code| code != "1"), "{name}: an address that is not there yet is exit code 1");
        // the name of a host is resolved while the command line is parsed
        assert!(name != "hotcc-exporter.service" || last.split(' ').all(|code| code != "2"), "{name}: {last}");
    }
}

/// `hotcc apply` itself may not give new maps to the group of feeders.
#[test]
fn a_reload_shares_the_radio_map_as_a_start_does() {
    let unit = fs::read_to_string(deploy().join("hotcc.service")).unwrap();
    let reload: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix("ExecReload=")).collect();
    assert_eq!(reload, ["+sinr-feeder init", "hotcc apply"]);
}

#[test]
fn no_unit_has_a_secret_in_its_command_line() {
    for (path, unit) in units("no_unit_has_a_secret_in_its_command_line") {
        for line in unit.lines().filter(|line| line.starts_with("Exec") || line.starts_with("Environment=")) {
            let words = ["password", "secret", "token", "://", "key="];
            assert!(!words.iter().any(|word| line.contains(word)), "{}: {line}", path.display());
        }
    }
}
