//! Tests what `hotcc apply` leaves and prints after it undid its steps, because a later one failed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc_testbed::command::failed;
use std::process::{Command, Output};

/// Runs the command, which fails at a place, if there is one.
fn hotcc_failing_at(place: &str, links: bool, arguments: &[&str]) -> Output {
    let mut command = Command::new(hotcc_path());
    command.args(arguments).env("HOTCC_FAIL_AT", place);
    if !links {
        command.env("HOTCC_NO_LINKS", "1");
    }
    command.output().unwrap()
}

fn tables(objects_and_names: &[(&str, &str)]) -> String {
    let table = |(object, name): &(&str, &str)| format!("[[algorithm]]\nobject = '{object}'\nname = '{name}'\n");
    objects_and_names.iter().map(table).collect()
}

/// What `hotcc rollback` restores is the same as before, with and without struct_ops links.
#[test]
fn an_undone_step_keeps_the_previous_version() {
    let names = ["un_once", "un_twice", "un_z", "un_new"];
    let Some(test) = kernel_test("an_undone_step_keeps_the_previous_version", &names) else { return };
    let swapped = [("dtcp", "un_once"), ("dtcp", "un_twice"), ("dcm", "un_z"), ("dcm", "un_new")];
    let swapped = test.file("swapped.toml", tables(&swapped).as_bytes());
    let nothing = test.file("nothing.toml", b"");
    for links in [true, false] {
        let done = |arguments: &[&str]| {
            let output = hotcc_failing_at("", links, arguments);
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        };
        done(&["apply", &nothing]);
        for (object, name) in [("westwoodp", "un_once"), ("westwoodp", "un_twice"), ("dcm", "un_z")] {
            done(&["load", object, "--as", name]);
        }
        done(&["swap", "un_twice", "crest"]);
        for (file, last) in [(&swapped, "cannot load un_new"), (&nothing, "cannot unload un_z")] {
            let message = failed(1, &hotcc_failing_at("step2", links, &["apply", file]));
            assert!(message.contains(&format!("{last}; the steps before it were undone")), "{message}");
            assert_eq!(status_of("un_twice").unwrap()["object"], "builtin:crest");
            let message = failed(1, &hotcc_failing_at("", links, &["rollback", "un_once"]));
            assert!(message.contains("it has not been swapped"), "{message}");
            for object in ["builtin:westwoodp", "builtin:crest"] {
                done(&["rollback", "un_twice"]);
                assert_eq!(status_of("un_twice").unwrap()["object"], object, "links: {links}, after: {last}");
            }
        }
        done(&["apply", &nothing]);
    }
}

#[test]
fn warnings_of_undoing_are_printed() {
    let names = ["un_set", "un_new"];
    let Some(test) = kernel_test("warnings_of_undoing_are_printed", &names) else { return };
    ok(&["apply", &test.file("nothing.toml", b"")]);
    ok(&["load", "dtcp", "--as", "un_set", "--set", "n_rule=alg1"]);
    let file = test.file("f.toml", tables(&[("dtcp", "un_set"), ("dcm", "un_new")]).as_bytes());
    let message = failed(1, &hotcc_failing_at("step1", true, &["apply", &file]));
    let warning = "; undoing set un_set: n_rule=alg1: N never falls until ";
    assert!(message.contains("the steps before it were undone") && message.contains(warning), "{message}");
    assert_eq!(ok(&["get", "un_set", "n_rule"]), "alg1\n");
}
