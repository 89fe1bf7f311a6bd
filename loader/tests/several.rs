//! Tests third parties' objects: with several congestion controls, with programs that no table refers to, and with maps
//! to be pinned.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc_testbed::command::failed;
use std::path::Path;
use std::process::Command;

#[test]
fn each_of_several_congestion_controls_in_an_object_can_be_used() {
    let names = ["cc_several_1", "cc_several_2", "cc_wrong"];
    let test = kernel_test("each_of_several_congestion_controls_in_an_object_can_be_used", &names);
    let Some(test) = test else { return };
    let object = test.object("several");
    let of = |table: &str| format!("{object}:{table}");
    let listed = json(&["list", &object, "--json"]);
    let listed: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["cc_name"].as_str().unwrap()).collect();
    assert_eq!(listed, names);
    let message = fails(1, &["load", &object]);
    assert!(message.contains("several congestion controls: cc_several_1, cc_several_2, cc_wrong"), "{message}");
    let example = message.trim().rsplit(' ').next().unwrap();
    assert_eq!(json(&["load", example, "--json"])["name"], "cc_several_1");
    Connection::new("cc_several_1").send(100_000);
    assert!(fails(1, &["load", &of("cc_several_3")]).contains("no congestion control `cc_several_3`"));
    // a variable's name selects a table, too; `served_already` takes the table into account
    assert_eq!(json(&["swap", "cc_several_1", &of("several_second"), "--json"])["served_already"], false);
    assert_eq!(json(&["swap", "cc_several_1", &of("several_second"), "--json"])["served_already"], true);
    ok(&["rollback", "cc_several_1"]);
    ok(&["run", "--cc", &of("cc_several_2"), "--", "true"]);
    let declared =
        test.file("declared.toml", format!("[[algorithm]]\nobject = \"{}\"\n", of("cc_several_1")).as_bytes());
    let steps = json(&["diff", &declared, "--json"])["steps"].clone();
    let about = |step: &serde_json::Value| step["name"] == "cc_several_1";
    assert!(!steps.as_array().unwrap().iter().any(about), "{steps}");
}

#[test]
fn only_the_programs_that_the_chosen_table_names_are_loaded() {
    let test = kernel_test("only_the_programs_that_the_chosen_table_names_are_loaded", &["cc_several_1", "cc_wrong"]);
    let Some(test) = test else { return };
    let object = test.object("several");
    ok(&["load", &format!("{object}:cc_several_1")]); // the verifier would reject programs that this table lacks
    let message = fails(1, &["load", &format!("{object}:cc_wrong")]);
    assert!(message.contains("prog 'several_wrong_ssthresh': BPF program load failed: "), "{message}");
    assert!(!message.contains("several_unused"), "{message}");
    assert!(pins_of("cc_wrong").is_empty());
}

#[test]
fn running_out_of_file_descriptors_is_reported_as_such() {
    let Some(_test) = kernel_test("running_out_of_file_descriptors_is_reported_as_such", &["cc_few"]) else { return };
    let limited = "ulimit -n $1; shift; exec \"$@\"";
    let mut failures = 0;
    for files in 6..64 {
        let files = files.to_string();
        let mut command = Command::new("bash");
        command.args(["-c", limited, "bash", &files, hotcc_path(), "load", "dtcp", "--as", "cc_few"]);
        let output = command.output().unwrap();
        if output.status.success() {
            ok(&["unload", "cc_few"]);
            continue;
        }
        failures += 1;
        let message = failed(1, &output);
        assert!(message.contains("Too many open files") && !message.contains("rejects"), "{files}: {message}");
    }
    assert!((10..58).contains(&failures), "{failures} of 58 loads failed");
}

#[test]
fn maps_that_an_object_pins_go_with_it() {
    let test = kernel_test("maps_that_an_object_pins_go_with_it", &["cc_several_1"]);
    let Some(test) = test else { return };
    let object = test.object("several");
    let elsewhere = Path::new("/sys/fs/bpf/several_acks");
    let pin = hotcc_abi::pins::algo_dir("cc_several_1").join("pins/several_acks");
    ok(&["load", &format!("{object}:cc_several_1")]);
    assert!(!elsewhere.exists() && pin.exists());
    ok(&["swap", "cc_several_1", &format!("{object}:cc_several_2")]);
    assert!(!elsewhere.exists() && pin.exists());
    ok(&["unload", "cc_several_1"]);
    assert!(pins_of("cc_several_1").is_empty());
}
