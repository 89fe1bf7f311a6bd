//! Tests commands that are killed, and concurrent commands: in each case, the next command finds a usable state.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
use common::*;
use hotcc::registry::{Algo, open_link};
use hotcc_testbed::command::failed;
use hotcc_testbed::soak;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

fn start(arguments: &[&str]) -> Child {
    Command::new(hotcc_path()).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Checks what must hold after a kill: the kernel and the pins agree, and commands and connections work.
fn usable(name: &str) {
    match status_of(name) {
        Some(status) => {
            assert_eq!(status["registered"], true, "pinned and registered go together: {status}");
            Connection::new(name).send(100_000);
        }
        None => assert!(!registered(name), "registered, and hotcc does not know it: {:?}", pins_of(name)),
    }
}

/// Kills the command at points spread over its duration, more of them towards its end, where it changes state.
fn kill_everywhere(name: &str, arguments: &[&str], restore: impl Fn()) {
    let kills = u32::try_from(soak::times(24)).unwrap();
    let started = Instant::now();
    assert!(start(arguments).wait().unwrap().success());
    let whole = started.elapsed();
    restore();
    let mut hits = 0;
    for n in 0..kills {
        let mut child = start(arguments);
        let share = f64::from(n) / f64::from(kills);
        std::thread::sleep(whole.mul_f64(share.sqrt()));
        child.kill().unwrap();
        hits += u32::from(!child.wait().unwrap().success());
        usable(name);
        restore();
        usable(name);
    }
    assert!(hits >= kills / 4, "only {hits} of {kills} kills came before the command's end");
    soak::report(&format!("{}: {kills} kills, {hits} before the command's end", arguments[0]));
}

#[test]
fn load_killed_anywhere() {
    let Some(_test) = kernel_test("load_killed_anywhere", &["kill_load"]) else { return };
    kill_everywhere("kill_load", &["load", "dtcp", "--as", "kill_load"], || {
        if status_of("kill_load").is_none() {
            ok(&["load", "westwoodp", "--as", "kill_load"]);
        }
        ok(&["unload", "kill_load"]);
        assert!(pins_of("kill_load").is_empty());
    });
}

#[test]
fn swap_killed_anywhere() {
    let Some(_test) = kernel_test("swap_killed_anywhere", &["kill_swap"]) else { return };
    ok(&["load", "westwoodp", "--as", "kill_swap"]);
    kill_everywhere("kill_swap", &["swap", "kill_swap", "dtcp", "--live"], || {
        // the killed swap may or may not have happened; another one works, and can be rolled back
        let before = status_of("kill_swap").unwrap()["object"].clone();
        ok(&["swap", "kill_swap", "westwoodp", "--set", "min_sample_us=60000"]);
        ok(&["rollback", "kill_swap"]);
        assert_eq!(status_of("kill_swap").unwrap()["object"], before);
        ok(&["swap", "kill_swap", "westwoodp"]);
        let versions = std::fs::read_dir(hotcc_abi::pins::algo_dir("kill_swap")).unwrap().count();
        assert!(versions <= 5, "link, stats, defaults and two versions, not {versions} entries");
    });
}

#[test]
fn unload_and_rollback_killed_anywhere() {
    let Some(_test) = kernel_test("unload_and_rollback_killed_anywhere", &["kill_undo"]) else { return };
    let prepare = || {
        if status_of("kill_undo").is_none() {
            ok(&["load", "westwoodp", "--as", "kill_undo"]);
        }
        ok(&["swap", "kill_undo", "dtcp"]);
    };
    prepare();
    kill_everywhere("kill_undo", &["rollback", "kill_undo"], prepare);
    kill_everywhere("kill_undo", &["unload", "kill_undo"], prepare);
}

/// Checks that a new connection that uses the namespace's default runs the serving version, not an older one.
fn default_runs_current(ns: &NetNs, name: &str) {
    let connection = ns.enter(|| Connection::to(&TcpListener::bind("127.0.0.1:0").unwrap(), None));
    assert_eq!(connection.cc(), name);
    let status = status_of(name).unwrap();
    assert!(status["connections_current"].as_u64().unwrap() >= 1, "{status}");
    assert_eq!(status["connections_older"], 0, "a new connection on the default runs an old version");
}

/// Kills at every place between two changes of the kernel's state, with and without links.
#[test]
fn killed_between_any_two_changes() {
    let Some(_test) = kernel_test("killed_between_any_two_changes", &["kill_at"]) else { return };
    let ns = NetNs::new("hotcc-test-kill");
    for links in [true, false] {
        let hotcc = |arguments: &[&str], place: &str| {
            let mut command = Command::new(hotcc_path());
            command.args(arguments).env("HOTCC_KILL_AT", place).stdout(Stdio::null());
            if !links {
                command.env("HOTCC_NO_LINKS", "1");
            }
            command.status().unwrap()
        };
        let done = |arguments: &[&str]| assert!(hotcc(arguments, "").success(), "{arguments:?}");
        let commands: [(&[&str], &[&str]); 4] = [
            (
                &["load", "westwoodp", "--as", "kill_at"],
                &["pinned", "registered", "switched", "defaults", "moved", "noted"],
            ),
            (
                &["swap", "kill_at", "dtcp", "--profile", "paper", "--live"],
                &["pinned", "switched", "defaults", "moved", "noted"],
            ),
            (&["rollback", "kill_at", "--live"], &["pinned", "switched", "defaults", "moved", "noted"]),
            (&["unload", "kill_at"], &["defaults", "unlinked"]),
        ];
        for (command, places) in commands {
            for place in places {
                if status_of("kill_at").is_some() {
                    done(&["unload", "kill_at"]);
                }
                if command[0] != "load" {
                    done(&["load", "westwoodp", "--as", "kill_at"]);
                    done(&["swap", "kill_at", "dtcp"]);
                    ns.sh("echo kill_at > /proc/sys/net/ipv4/tcp_congestion_control");
                }
                let killed = hotcc(command, place);
                assert!(!killed.success(), "{command:?} was not killed at {place}");
                usable("kill_at");
                match command[0] {
                    // the next command finishes the work: the default refers to the serving version again
                    "swap" | "rollback" => {
                        done(&["set", "kill_at"].iter().copied().chain([tunable("kill_at")]).collect::<Vec<_>>());
                        default_runs_current(&ns, "kill_at");
                    }
                    _ if status_of("kill_at").is_some() => done(&["unload", "kill_at"]),
                    _ => done(&["load", "dtcp", "--as", "kill_at"]),
                }
            }
        }
        done(&["unload", "kill_at"]);
    }
}

/// Returns an assignment that is valid for the serving object.
fn tunable(name: &str) -> &'static str {
    let object = status_of(name).unwrap()["object"].clone();
    if object == "builtin:dtcp" { "eta=2" } else { "min_sample_us=50000" }
}

#[test]
fn one_of_two_concurrent_loads_succeeds() {
    let Some(_test) = kernel_test("one_of_two_concurrent_loads_succeeds", &["two_loads"]) else { return };
    for _ in 0..5 {
        let children =
            [start(&["load", "dtcp", "--as", "two_loads"]), start(&["load", "westwoodp", "--as", "two_loads"])];
        let outputs: Vec<_> = children.into_iter().map(|c| c.wait_with_output().unwrap()).collect();
        let (won, lost): (Vec<_>, Vec<_>) = outputs.iter().partition(|o| o.status.success());
        assert_eq!((won.len(), lost.len()), (1, 1));
        assert!(failed(1, lost[0]).contains("already registered"));
        usable("two_loads");
        ok(&["unload", "two_loads"]);
    }
}

#[test]
fn an_unload_removes_what_a_killed_one_left() {
    let Some(_test) = kernel_test("an_unload_removes_what_a_killed_one_left", &["kill_half"]) else { return };
    ok(&["load", "westwoodp", "--as", "kill_half"]);
    let mut unload = Command::new(hotcc_path());
    let killed = unload.args(["unload", "kill_half"]).env("HOTCC_KILL_AT", "unlinked").status().unwrap();
    assert!(!killed.success() && !pins_of("kill_half").is_empty());
    let message = fails(1, &["unload", "kill_half"]);
    assert!(message.contains("what a killed command had left of it was removed"), "{message}");
    assert_eq!(pins_of("kill_half"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_load_prints_why_what_a_killed_run_left_is_still_registered() {
    let name = "a_load_prints_why_what_a_killed_run_left_is_still_registered";
    let Some(_test) = kernel_test(name, &["crest"]) else { return };
    let mut run = Command::new(hotcc_path());
    let killed = run.args(["run", "--cc", "crest", "--", "true"]).env("HOTCC_KILL_AT", "noted").status().unwrap();
    assert!(!killed.success());
    let held = open_link(&Algo::named("crest")).unwrap().unwrap();
    let message = fails(1, &["load", "crest"]);
    drop(held);
    let reason =
        "; `crest` is still registered after 5 s: another process holds it, or the kernel is still unregistering it";
    assert!(message.contains("is already registered") && message.contains(reason), "{message}");
}
