//! The command, as users and service managers see it.

use crate::sandbox::sandbox;
use hotcc_testbed::command::stderr;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Returns a trace with ten readings per second, 10 to 19 dB.
fn readings(seconds: u32) -> String {
    let rows = (0..seconds * 10).map(|i| format!("{}.{},{}\n", i / 10, i % 10, 10 + i % 10));
    format!("time_s,sinr_db\n{}", rows.collect::<String>())
}

#[test]
fn killed_feeder_is_followed_by_another_in_the_same_slot() {
    let Some(sandbox) = sandbox("killed_feeder_is_followed_by_another_in_the_same_slot") else { return };
    let source = sandbox.trace("t.csv", &readings(2));
    let args = ["--source", &source, "--link", "10.1.0.0/16", "--loop"];
    let mut first = sandbox.feeder(&args);
    let before = sandbox.wait_for(|l| l["state"] == "fresh");
    assert_eq!((before["owner_pid"].as_u64(), &before["owner_alive"]), (Some(first.0.id().into()), &true.into()));

    let second = sandbox.output(&[&["run"], &args[..]].concat());
    assert_eq!(second.status.code(), Some(1));
    let text = stderr(&second);
    assert!(text.contains(&format!("cannot take 10.1.0.0/16: process {} feeds it", first.0.id())), "{text}");
    let removal = sandbox.output(&["remove", "--link", "10.1.0.0/16"]);
    assert_eq!(removal.status.code(), Some(1), "{}", stderr(&removal));

    first.0.kill().unwrap(); // SIGKILL
    first.0.wait().unwrap();
    let orphan = sandbox.wait_for(|l| l["owner_alive"] == false);
    assert_eq!(orphan["slot"], before["slot"]);
    sandbox.wait_for(|l| l["state"] == "stale");
    let third = sandbox.feeder(&args);
    let after = sandbox.wait_for(|l| l["state"] == "fresh");
    assert_eq!((&after["slot"], after["owner_pid"].as_u64()), (&before["slot"], Some(third.0.id().into())));
    assert_eq!(sandbox.links().len(), 1);
}

#[test]
fn a_trace_without_sinr_is_warned_of() {
    let Some(sandbox) = sandbox("a_trace_without_sinr_is_warned_of") else { return };
    let run = |source: &str| {
        let done = sandbox.output(&["run", "--source", source, "--link", "10.5.0.0/16", "--speed", "100"]);
        assert!(done.status.success(), "{}", stderr(&done));
        stderr(&done)
    };
    let without = sandbox.trace("capacity.csv", "time_s,sinr_db,capacity_bps\n0,,1000000\n0.1,,2000000\n");
    let said = run(&without);
    assert!(said.contains("capacity.csv holds no SINR: algorithms that read only the SINR run without"), "{said}");
    let link = &sandbox.links()[0];
    assert_eq!((&link["sinr_state"], &link["sinr_age_ms"]), (&json!("never"), &json!(null)));
    assert_eq!(
        (&link["state"], &link["capacity_state"], &link["capacity_origin"]),
        (&json!("fresh"), &json!("fresh"), &json!("measured")),
        "the latest reading of either kind is fresh"
    );
    assert_eq!(link["capacity_bps"], 2_000_000);
    let said = run(&sandbox.trace("power.csv", "time_s,sinr_db,rsrp_dbm\n0,,-90\n0.1,,-91\n"));
    assert!(said.contains("power.csv holds no SINR: algorithms will find no reading"), "{said}");
    let said = run(&sandbox.trace("one.csv", "time_s,sinr_db\n0,\n0.1,7\n"));
    assert!(!said.contains("no SINR"), "{said}");
}

/// Flows look up their peer's address, so a link with an address of the sender's has no effect.
#[test]
fn an_address_of_this_host_as_a_link_is_warned_of() {
    let Some(sandbox) = sandbox("an_address_of_this_host_as_a_link_is_warned_of") else { return };
    let source = sandbox.trace("t.csv", &readings(1));
    let run = |link: &str| {
        let feeder = sandbox.command(&["run", "--source", &source, "--link", link, "--speed", "100"]);
        let mut alone = Command::new("unshare");
        alone.args(["--net", "sh", "-c", "ip address add 192.0.2.9/32 dev lo && exec \"$@\"", "sh"]);
        let done = alone.arg(feeder.get_program()).args(feeder.get_args()).env_remove("RUST_LOG").output().unwrap();
        assert!(done.status.success(), "{}", stderr(&done));
        stderr(&done)
    };
    let warning = "192.0.2.9/32 is an address of this host; flows look up the address of their peer";
    let said = run("192.0.2.9");
    assert!(said.contains(warning), "{said}");
    for link in ["192.0.2.8", "192.0.2.0/24"] {
        let said = run(link);
        assert!(!said.contains("address of this host"), "{said}");
    }
}

#[test]
fn taking_over_stops_the_other_feeder() {
    let Some(sandbox) = sandbox("taking_over_stops_the_other_feeder") else { return };
    let source = sandbox.trace("t.csv", &readings(2));
    let args = ["--source", &source, "--link", "2001:db8::/32", "--loop"];
    let mut first = sandbox.feeder(&args);
    sandbox.wait_for(|l| l["state"] == "fresh");
    let second = sandbox.feeder(&[&args[..], &["--take-over"]].concat());
    assert_eq!(first.0.wait().unwrap().code(), Some(1));
    let link = sandbox.wait_for(|l| l["state"] == "fresh");
    assert_eq!(link["owner_pid"].as_u64(), Some(second.0.id().into()));
}

#[test]
fn stopped_feeder_leaves_a_value_that_goes_stale() {
    let Some(sandbox) = sandbox("stopped_feeder_leaves_a_value_that_goes_stale") else { return };
    let source = sandbox.trace("t.csv", &readings(2));
    let mut feeder = sandbox.feeder(&["--source", &source, "--link", "10.2.0.1:4096/6", "--loop"]);
    let link = sandbox.wait_for(|l| l["state"] == "fresh");
    assert_eq!(
        (&link["link"], &link["max_age_ms"], &link["period_ms"]),
        (&"10.2.0.1:4096/6".into(), &500.into(), &100.into())
    );
    assert!(link["sinr_db"].as_f64().is_some_and(|db| (10.0..20.0).contains(&db)), "{link}");
    assert!(link["average_db"].as_f64().is_some_and(|db| (10.0..20.0).contains(&db)), "{link}");
    kill(Pid::from_raw(feeder.0.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(feeder.0.wait().unwrap().code(), Some(0));
    let stale = sandbox.wait_for(|l| l["state"] == "stale");
    assert!(stale["age_ms"].as_u64() > Some(500) && stale["owner_pid"].is_null(), "{stale}");
    let table = String::from_utf8(sandbox.output(&["show"]).stdout).unwrap();
    assert!(table.contains("10.2.0.1:4096/6") && table.contains("stale"), "{table}");
    let removed = sandbox.output(&["remove", "--link", "10.2.0.1:4096/6"]);
    assert!(removed.status.success(), "{}", stderr(&removed));
    assert_eq!(String::from_utf8(removed.stdout).unwrap(), "removed 10.2.0.1:4096/6\n");
    assert!(sandbox.links().is_empty());
    let again = sandbox.output(&["remove", "--link", "10.2.0.1:4096/6"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("it is not in the radio map"), "{}", stderr(&again));
}

#[test]
fn links_that_nobody_feeds_are_removed_at_once() {
    let Some(sandbox) = sandbox("links_that_nobody_feeds_are_removed_at_once") else { return };
    let source = sandbox.trace("t.csv", &readings(2));
    let ended = sandbox.output(&["run", "--source", &source, "--link", "10.1.0.0/16", "--speed", "100"]);
    assert!(ended.status.success(), "{}", stderr(&ended));
    let mut killed = sandbox.feeder(&["--source", &source, "--link", "10.2.0.0/16", "--loop"]);
    let _fed = sandbox.feeder(&["--source", &source, "--link", "10.3.0.0/16", "--loop"]);
    let state = |link: &str| sandbox.links().into_iter().find(|l| l["link"] == link).map(|l| l["state"].clone());
    let wait = |link: &str, wanted: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        while state(link) != Some(wanted.into()) {
            assert!(Instant::now() < end, "{link}: {:?}", state(link));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait("10.2.0.0/16", "fresh");
    killed.0.kill().unwrap();
    killed.0.wait().unwrap();
    ["10.1.0.0/16", "10.2.0.0/16"].into_iter().for_each(|link| wait(link, "stale"));
    wait("10.3.0.0/16", "fresh");
    let remove = |more: &[&str]| {
        let done = sandbox.output(&[&["remove", "--stale"], more].concat());
        assert!(done.status.success(), "{}", stderr(&done));
        String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let said = |what: &str| ["10.1.0.0/16", "10.2.0.0/16"].map(|link| format!("{what} {link}")).into();
    assert_eq!(remove(&["--dry-run"]), said("would remove"));
    assert_eq!(sandbox.links().len(), 3);
    assert_eq!(remove(&[]), said("removed"));
    assert_eq!(sandbox.links().len(), 1);
    assert!(remove(&[]).is_empty());
}

#[test]
fn end_of_the_trace_is_success() {
    let Some(sandbox) = sandbox("end_of_the_trace_is_success") else { return };
    let source = sandbox.trace("t.csv", &readings(2));
    let start = Instant::now();
    let run = |speed, more: &[&str]| {
        let args = ["run", "--source", &source, "--link", "10.0.0.1", "--link", "10.0.0.2", "--speed", speed];
        sandbox.output(&[&args, more].concat())
    };
    assert!(run("2", &[]).status.success());
    // The last of 20 readings is due after 0.95 s.
    assert!(start.elapsed() >= Duration::from_millis(950), "{:?}", start.elapsed());
    let links = sandbox.links();
    assert_eq!(links.iter().map(|l| l["updates"].as_u64()).collect::<Vec<_>>(), [Some(20), Some(20)]);
    assert!(run("100", &["--remove-on-exit"]).status.success());
    assert!(sandbox.links().is_empty());
}

#[test]
fn a_link_that_cannot_be_claimed_leaves_no_other_behind() {
    let Some(sandbox) = sandbox("a_link_that_cannot_be_claimed_leaves_no_other_behind") else { return };
    let source = sandbox.trace("t.csv", &readings(2));
    let _first = sandbox.feeder(&["--source", &source, "--link", "10.0.0.2", "--loop"]);
    sandbox.wait_for(|l| l["state"] == "fresh");
    let second = sandbox.output(&["run", "--source", &source, "--link", "10.0.0.1", "--link", "10.0.0.2"]);
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(sandbox.links().len(), 1);
}

#[test]
fn malformed_input_leaves_nothing_behind() {
    let Some(sandbox) = sandbox("malformed_input_leaves_nothing_behind") else { return };
    let source = sandbox.trace("bad.csv", "time_s,sinr_db\n0,1\n0.1,loud\n");
    let run = sandbox.output(&["run", "--source", &source, "--link", "10.0.0.1"]);
    assert_eq!(run.status.code(), Some(1));
    let text = stderr(&run);
    assert!(text.starts_with("sinr-feeder: cannot use the trace: "), "{text}");
    assert!(text.contains("bad.csv:3: sinr_db 'loud' is not a finite number"), "{text}");
    assert!(!sandbox.root.exists());

    let run = sandbox.output(&["run", "--source", &source, "--link", "10.0.0.1/8"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(stderr(&run).contains("did you mean 10.0.0.0/8?"), "{}", stderr(&run));
    let show = sandbox.output(&["show"]);
    assert_eq!(show.status.code(), Some(1));
    assert_eq!(
        stderr(&show),
        "sinr-feeder: the radio map does not exist yet; `sinr-feeder run` or a loaded algorithm that reads it creates it\n"
    );
    assert!(!sandbox.root.exists());
}

#[test]
fn missing_prerequisites_are_reported() {
    let Some(sandbox) = sandbox("missing_prerequisites_are_reported") else { return };
    let source = sandbox.trace("t.csv", &readings(1));
    let command = || {
        // A copy, because another user may not be able to reach the build directory. This process does not write it
        // itself: another test's child process would hold the file open for a moment, and then it cannot be executed.
        let copy = sandbox.files.path().join("sinr-feeder");
        assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_sinr-feeder")).arg(&copy).status().unwrap().success());
        fs::set_permissions(sandbox.files.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Command::new(copy)
    };
    let elsewhere = sandbox.files.path().join("pins");
    let run = |command: &mut Command, root: &std::path::Path| {
        command.arg("--pin-root").arg(root).args(["run", "--source", &source, "--link", "10.0.0.1"]).output().unwrap()
    };
    let unmounted = run(&mut command(), &elsewhere);
    assert_eq!(unmounted.status.code(), Some(1));
    assert!(
        stderr(&unmounted).contains("mount it: mount -t bpf -o mode=0755 bpf /sys/fs/bpf"),
        "{}",
        stderr(&unmounted)
    );
    fs::create_dir(&sandbox.root).unwrap();
    let nobody = run(command().uid(65_534).gid(65_534), &sandbox.root);
    assert_eq!(nobody.status.code(), Some(4), "{}", stderr(&nobody));
    assert!(stderr(&nobody).contains("run as root"), "{}", stderr(&nobody));
}
