//! Tests `hotcc rx`: its output, what it rejects, and what it leaves.

use crate::common::{fails, json, kernel_test, ok, pins_below};
use crate::path::*;
use hotcc_abi::pins;
use std::path::Path as FilePath;

fn pins_of(method: &str) -> usize {
    pins_below(&FilePath::new(pins::RX).join(method)).len()
}

#[test]
fn a_loaded_receiver_is_shown_and_unloaded() {
    let Some(_test) = kernel_test("a_loaded_receiver_is_shown_and_unloaded", &[]) else { return };
    let cgroup = Cgroup::new("hotcc-test-rx");
    for (method, tunable) in [("arwa", "hint_copies=2"), ("drwa", "lambda_permille=2000")] {
        let _loaded = Loaded::new(method, &["--cgroup", cgroup.path(), "--profile", "paper", "--set", tunable]);
        assert_eq!(pins_of(method), 4, "the directory, tunables, and two links");
        let status = json(&["rx", "status", "--json"]);
        let receiver = &status["receivers"].as_array().unwrap()[0];
        assert_eq!((receiver["method"].as_str(), receiver["cgroup"].as_str()), (Some(method), Some(cgroup.path())));
        let tunables = receiver["tunables"].as_array().unwrap();
        assert!(tunables.iter().all(|t| t["settable"] == false), "there is no `rx set`");
        let shown = |name: &str| tunables.iter().find(|t| t["name"] == name).map(|t| t["value"].clone());
        let (name, value) = tunable.split_once('=').unwrap();
        assert_eq!(shown(name).unwrap(), value);
        if method == "arwa" {
            assert_eq!(shown("least_window_ms").unwrap(), "0", "the paper's");
        }
        let again = fails(1, &["rx", "load", method]);
        assert!(again.contains("already loaded") && again.contains(cgroup.path()), "{again}");
        let other = if method == "arwa" { "drwa" } else { "arwa" };
        let refused = fails(1, &["rx", "load", other]);
        assert!(refused.contains(&format!("rx unload {method}")), "both would be on the same sockets: {refused}");
        assert_eq!(pins_of(other), 0);
        let told = ok(&["rx", "unload", method]);
        assert!(told.contains(cgroup.path()), "{told}");
        assert_eq!(pins_of(method), 0);
        let gone = fails(1, &["rx", "unload", method]);
        assert!(gone.contains("is not loaded"), "{gone}");
    }
}

#[test]
fn a_kernel_that_loads_them_has_what_doctor_looks_for() {
    let Some(_test) = kernel_test("a_kernel_that_loads_them_has_what_doctor_looks_for", &[]) else { return };
    let cgroup = Cgroup::new("hotcc-test-rx");
    drop(Loaded::new("arwa", &["--cgroup", cgroup.path()]));
    let report = json(&["doctor", "--json"]);
    for what in ["TCP options by BPF", "tcp_probe", "cgroup v2", "socket storage"] {
        let finding = report["findings"].as_array().unwrap().iter().find(|f| f["what"] == what).unwrap();
        assert_eq!(finding["verdict"], "ok", "{finding}");
    }
}

#[test]
fn both_methods_serve_side_by_side() {
    let Some(_test) = kernel_test("both_methods_serve_side_by_side", &[]) else { return };
    let (one, two) = (Cgroup::new("hotcc-test-rx1"), Cgroup::new("hotcc-test-rx2"));
    for no_cgroup in ["/nowhere", "/tmp"] {
        let told = fails(1, &["rx", "load", "arwa", "--cgroup", no_cgroup]);
        assert!(told.contains(no_cgroup) && told.contains("create one: mkdir "), "{told}");
    }
    let _arwa = Loaded::new("arwa", &["--cgroup", one.path()]);
    let _drwa = Loaded::new("drwa", &["--cgroup", two.path()]);
    let status = json(&["rx", "status", "--json"]);
    let cgroups: Vec<_> = status["receivers"].as_array().unwrap().iter().map(|r| r["cgroup"].clone()).collect();
    assert_eq!(cgroups, [one.path(), two.path()]);
    drop(one);
    let status = json(&["rx", "status", "--json"]);
    assert!(status["receivers"][0]["cgroup"].is_null(), "a cgroup that is gone: {status:#}");
}

#[test]
fn mistakes_change_nothing() {
    let Some(test) = kernel_test("mistakes_change_nothing", &[]) else { return };
    let cgroup = Cgroup::new("hotcc-test-rx");
    let plain = test.dir.path().to_str().unwrap();
    let refused = fails(1, &["rx", "load", "arwa", "--cgroup", plain]);
    assert!(refused.contains("is not a cgroup (v2)"), "{refused}");
    fails(1, &["rx", "load", "arwa", "--cgroup", "/nowhere"]);
    let refused = fails(2, &["rx", "load", "arwa", "--cgroup", cgroup.path(), "--set", "period_us=1"]);
    assert!(refused.contains("period_us"), "{refused}");
    fails(2, &["rx", "load", "arwa", "--cgroup", cgroup.path(), "--set", "nothing=1"]);
    fails(2, &["rx", "load", "tcp"]);
    assert_eq!((pins_of("arwa"), pins_of("drwa")), (0, 0));
    // as left by a killed command
    let left = FilePath::new(pins::RX).join("arwa");
    std::fs::create_dir_all(&left).unwrap();
    let gone = fails(1, &["rx", "unload", "arwa"]);
    assert!(gone.contains("is not loaded") && !left.exists(), "{gone}");
    std::fs::create_dir_all(&left).unwrap();
    let _loaded = Loaded::new("arwa", &["--cgroup", cgroup.path()]);
    assert_eq!(pins_of("arwa"), 4);
}
