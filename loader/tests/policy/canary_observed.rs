//! Tests what `hotcc canary status`, the log and the exporter report of a canary.

use crate::canary::{Canary, HALF, RULE, log, status, until, with};
use crate::common::*;
use crate::exported::{exporter, scrape, value};
use crate::ruled::Ruled;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::net::TcpStream;

/// Records that fit the ring: its size is 2^20 - 1 bytes, and a record with its header takes 88.
const RING: u64 = ((1 << 20) - 1) / 88;

const DROPPED: &str = "hotcc_canary_dropped_records_total";

/// Opens and closes connections of which both ends match.
fn open(ruled: &Ruled, connections: usize) {
    let listener = ruled.listen("10.2.0.1:0");
    let address = listener.local_addr().unwrap();
    ruled.ns.enter(|| {
        for _ in 0..connections {
            let client = TcpStream::connect(address).unwrap();
            drop((listener.accept().unwrap(), client));
        }
    });
}

/// Returns how many connections of both cohorts have ended, and of how many the records were dropped.
fn ended_and_dropped() -> (u64, u64) {
    let status = status();
    let count = |value: &Value| value.as_u64().unwrap();
    let ended = &status["connections"];
    (count(&ended["canary"]) + count(&ended["control"]), count(&status["dropped_records"]))
}

#[test]
fn the_exporter_shows_a_canary() {
    let Some(ruled) = Ruled::new("the_exporter_shows_a_canary") else { return };
    ruled.apply(&[RULE]);
    let (_exporter, address) = exporter(&[]);
    let is = |page: &str, state: &str| value(page, &format!("hotcc_canary_state{{state=\"{state}\"}}")) == Some(1.0);
    let ended = |page: &str| {
        ["canary", "control"]
            .map(|cohort| value(page, &format!("hotcc_canary_ended_connections_total{{cohort=\"{cohort}\"}}")))
            .map(Option::unwrap)
    };
    let id = json(&["policy", "show", "--json"])["rules"][0]["id"].as_str().unwrap().to_owned();
    let place = |page: &str, place: usize| {
        value(page, &format!("hotcc_policy_rule_info{{id=\"{id}\",cc=\"reno\",rule=\"{place}\"}}"))
    };
    let acked = format!("hotcc_policy_acked_bytes_total{{id=\"{id}\",cc=\"reno\"}}");
    let page = scrape(address);
    assert!(!is(&page, "running"));
    assert_eq!((place(&page, 1), value(&page, &acked)), (Some(1.0), Some(0.0)));

    let canary = Canary::running(&ruled, "po_west", &HALF);
    let page = scrape(address);
    assert!(is(&page, "running") && !is(&page, "none"), "{page}");
    assert_eq!(ended(&page), [0.0, 0.0]);
    assert_eq!((place(&page, 1), place(&page, 3), value(&page, &acked)), (None, Some(1.0), Some(0.0)));
    assert_eq!(value(&page, "hotcc_canary_share_ratio"), Some(0.5));
    assert_eq!(value(&page, "hotcc_canary_step"), Some(1.0));
    let expires = |page: &str| value(page, "hotcc_canary_expires_seconds");
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(expires(&page).is_some_and(|at_s| at_s > now_s && at_s < now_s + 60.0), "{page}");
    with(&ruled, "po_west", 50);
    until("connections end", || ended(&scrape(address)).iter().all(|count| *count > 0.0));
    assert_eq!(value(&page, DROPPED), Some(0.0));

    ok(&["canary", "abort"]);
    drop(canary);
    let page = scrape(address);
    assert!(is(&page, "aborted") && !is(&page, "running"), "{page}");
    assert_eq!((value(&page, "hotcc_canary_share_ratio"), expires(&page)), (Some(0.0), None));
    let before = ended(&page);
    with(&ruled, "po_west", 20);
    assert_eq!(ended(&scrape(address)), before, "no connection is the canary's any more");
}

/// While `start` does not run, more connections end than the ring of records has room for.
#[test]
fn dropped_records_are_counted_and_the_others_do_not_decide() {
    let Some(ruled) = Ruled::new("dropped_records_are_counted_and_the_others_do_not_decide") else { return };
    ruled.apply(&[RULE]);
    let (_exporter, address) = exporter(&[]);
    // half of what the ring holds would be enough for a decision
    let decides = ["--guard", "duration_p50 <= 1000 * control", "--min-connections", "2000", "--expiry", "60s"];
    let mut canary = Canary::running(&ruled, "po_west", &[&HALF[..], &decides].concat());
    canary.signal(Signal::SIGSTOP);
    open(&ruled, 7000);
    until("all have ended", || ended_and_dropped().0 == 14_000);
    let (ended, dropped) = ended_and_dropped();
    assert_eq!(ended, RING + dropped, "each record is in the ring, or counted as dropped");
    assert_eq!(value(&scrape(address), DROPPED), Some(dropped as f64));
    let table = ok(&["canary", "status"]);
    assert!(table.contains("of these, not compared") && table.contains(&dropped.to_string()), "{table}");

    // the ring is read, and the step begins again: only later connections decide
    canary.signal(Signal::SIGCONT);
    let has_room = || {
        let before = ended_and_dropped();
        open(&ruled, 1);
        ended_and_dropped() == (before.0 + 2, before.1)
    };
    until("the ring has room", has_room);
    std::thread::sleep(std::time::Duration::from_secs(1)); // several looks at the ring
    let (running, dropped) = (status(), ended_and_dropped().1);
    assert_eq!(running["state"], "running", "{running}");
    open(&ruled, 2500);
    let (exit, end) = canary.ended();
    assert_eq!((exit.code(), &end["state"]), (Some(0), &"promoted".into()), "{end}");
    assert_eq!(end["dropped_records"], dropped, "{end}");
    let said = format!(" {dropped} connections were not compared, ");
    assert!(end["reason"].as_str().unwrap().contains(&said), "{end}");
    let log = std::fs::read_to_string(log(&ruled)).unwrap();
    let mut events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let verdict = events.find(|event| event["event"] == "verdict").unwrap();
    let compared = ["canary_connections", "control_connections"].map(|of| verdict["findings"][0][of].as_u64().unwrap());
    assert!(compared.iter().all(|count| (2000..3000).contains(count)), "{verdict}");
}
