//! Tests how `hotcc canary` promotes and aborts.

use crate::canary::{Canary, HALF, RULE, state, status, until, with};
use crate::common::*;
use crate::ruled::Ruled;
use hotcc_abi::pins;
use hotcc_host::lock::PATIENCE;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Opens connections without pause while `work` runs, and returns the congestion controls of their clients, in order,
/// from the first client of the canary.
fn opened_while(ruled: &Ruled, work: impl FnOnce()) -> Vec<String> {
    // only the clients' ends match
    ruled.ns.sh("ip route replace local 10.2.0.1 dev lo table local src 10.1.0.1");
    let listener = ruled.listen("10.2.0.1:0");
    let stop = AtomicBool::new(false);
    let opened: Vec<String> = std::thread::scope(|scope| {
        let opened = scope.spawn(|| {
            let mut opened = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                opened.push(ruled.ends(&listener).0);
            }
            opened
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed); // also if `work` failed: otherwise the test would never end
        let opened = opened.join().unwrap();
        worked.unwrap();
        opened
    });
    opened.into_iter().skip_while(|cc| cc != "po_west").collect()
}

/// Returns the length of the longest run of connections without the canary's congestion control.
fn longest_without(opened: &[String]) -> usize {
    opened.split(|cc| cc == "po_west").map(<[String]>::len).max().unwrap_or(0)
}

#[test]
fn a_promotion_gives_no_new_connection_the_former_one() {
    // at a share of 50 %, the probability of a longer run is 2^-40
    const LONGEST_BY_CHANCE: usize = 40;
    let Some(ruled) = Ruled::new("a_promotion_gives_no_new_connection_the_former_one") else { return };
    ruled.apply(&[RULE]);
    let by_hand = opened_while(&ruled, || {
        let _canary = Canary::running(&ruled, "po_west", &HALF);
        ok(&["canary", "promote"]);
    });
    ruled.apply(&[RULE]);
    let always_holds = ["--guard", "duration_p50 <= 1000 * control", "--min-connections", "50"];
    let by_itself = opened_while(&ruled, || {
        let end = Canary::spawn(&ruled, "po_west", &[&HALF[..], &always_holds].concat(), "").ended();
        assert_eq!(end.0.code(), Some(0), "{}", end.1);
    });
    for opened in [by_hand, by_itself] {
        let longest = longest_without(&opened);
        println!("{} connections, at most {longest} in a row without it", opened.len());
        assert!(opened.len() > 100 && longest <= LONGEST_BY_CHANCE, "{longest} of {}", opened.len());
    }
}

#[test]
fn promote_and_abort_print_an_object() {
    let Some(ruled) = Ruled::new("promote_and_abort_print_an_object") else { return };
    ruled.apply(&[RULE]);
    let aborted = |was: &str| serde_json::json!({ "state": "aborted", "was": was, "from": "reno", "to": "po_west", "policy": "" });
    let _canary = Canary::running(&ruled, "po_west", &HALF);
    assert_eq!(json(&["canary", "abort", "--json"]), aborted("running"));
    let canary = Canary::running(&ruled, "po_west", &[&HALF[..], &["--expiry", "1s"]].concat());
    canary.signal(Signal::SIGKILL);
    until("it expires", || state() == "expired");
    assert_eq!(json(&["canary", "abort", "--json"]), aborted("expired"));
    let mut canary = Canary::running(&ruled, "po_west", &HALF);
    let printed = json(&["canary", "promote", "--json"]);
    assert_eq!(
        (&printed["state"], &printed["was"], &printed["to"]),
        (&"promoted".into(), &"running".into(), &"po_west".into())
    );
    let policy = printed["policy"].as_str().unwrap();
    assert!(policy.starts_with("[[policy]]\n") && policy.contains("congestion_control = \"po_west\""), "{printed}");
    assert_eq!(canary.ended().1["state"], "promoted");
}

#[test]
fn the_next_step_begins_when_no_other_command_holds_the_lock() {
    let Some(ruled) = Ruled::new("the_next_step_begins_when_no_other_command_holds_the_lock") else { return };
    ruled.apply(&[RULE]);
    let always_holds = ["--guard", "duration_p50 <= 1000 * control", "--min-connections", "50"];
    let options = [&["--share", "20%", "--for", "1h"][..], &always_holds].concat();
    let mut canary = Canary::running(&ruled, "po_west", &options);
    let lock = File::open(Path::new(pins::RUN).join("lock")).unwrap();
    let held = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, why)| why).unwrap();
    with(&ruled, "po_west", 1000); // enough for the first step to pass
    std::thread::sleep(PATIENCE + Duration::from_secs(1));
    assert_eq!(status()["step"], 1);
    drop(held);
    until("it goes on or ends", || status()["step"] == 2 || state() != "running");
    assert_eq!(state(), "running");
    ok(&["canary", "abort"]);
    assert_eq!(canary.ended().1["state"], "aborted");
}

#[test]
fn a_promotion_stays_though_start_would_abort() {
    let Some(ruled) = Ruled::new("a_promotion_stays_though_start_would_abort") else { return };
    ruled.apply(&[RULE]);
    let mut canary = Canary::running(&ruled, "po_west", &["--share", "50%", "--for", "2s"]);
    canary.signal(Signal::SIGSTOP);
    ok(&["canary", "promote"]);
    std::thread::sleep(Duration::from_secs(2)); // so that its time is over when it goes on
    canary.signal(Signal::SIGCONT);
    let (exit, end) = canary.ended();
    assert_eq!((exit.code(), &end["state"]), (Some(0), &"promoted".into()), "{end}");
    assert_eq!((state(), with(&ruled, "po_west", 20)), ("promoted".to_owned(), 20));
}

#[test]
fn a_canary_that_was_killed_at_its_beginning_has_its_own_names() {
    let Some(ruled) = Ruled::new("a_canary_that_was_killed_at_its_beginning_has_its_own_names") else { return };
    ruled.apply(&[RULE]);
    drop(Canary::running(&ruled, "po_dtcp", &HALF)); // an earlier one
    let mut killed = Canary::spawn(&ruled, "po_west", &HALF, "canary-installed");
    killed.ended();
    assert_eq!((state(), &status()["to"]), ("expired".to_owned(), &"po_west".into()));
    ok(&["canary", "abort"]);
    let left = status();
    assert_eq!((&left["from"], &left["to"]), (&"reno".into(), &"po_west".into()), "{left}");
}

#[test]
fn an_abort_that_was_killed_is_finished_with_its_reason() {
    let Some(ruled) = Ruled::new("an_abort_that_was_killed_is_finished_with_its_reason") else { return };
    ruled.apply(&[RULE]);
    let mut canary = Canary::running(&ruled, "po_west", &HALF);
    let abort = Command::new(hotcc_path()).args(["canary", "abort"]).env("HOTCC_KILL_AT", "canary-concluded").status();
    assert_eq!(abort.unwrap().signal(), Some(9));
    let (exit, end) = canary.ended();
    assert_eq!((exit.code(), &end["state"]), (Some(1), &"aborted".into()), "{end}");
    assert!(end["reason"].as_str().unwrap().contains("another command began to end the canary"), "{end}");
    assert_eq!(state(), "aborted");
}
