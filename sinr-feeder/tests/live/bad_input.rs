//! Invalid input of all kinds: it is counted by reason, logged once per burst, and never applied.

use crate::sandbox::sandbox;
use crate::tools::{Process, Sender, free_port, local, metrics, rejected, wait};
use std::time::Duration;

#[test]
fn bad_readings_are_counted_and_never_applied() {
    let Some(sandbox) = sandbox("bad_readings_are_counted_and_never_applied") else { return };
    let (port, http) = (free_port(), free_port());
    let source = format!("udp:{}", local(port));
    let feeder = Process::feeder(
        &sandbox,
        &[
            "--source",
            &source,
            "--link",
            "10.0.0.1",
            "--ue",
            "car=10.0.0.2",
            "--within",
            "10.1.0.0/16",
            "--max-age-ms",
            "20000",
            "--listen",
            &local(http).to_string(),
        ],
    );
    let sender = Sender::new(port);
    let good = || {
        sender.sinr(10.0);
        !sandbox.links().is_empty() && metrics(http).values().any(|v| *v > 0.0) && sandbox.links()[0]["sinr_db"] == 10.0
    };
    wait("a first reading", good, || feeder.all_said());
    // Each in a datagram of its own, three times; none may be applied.
    let cases = [
        ("malformed", r#"{"sinr_db": NaN}"#),
        ("malformed", r#"{"sinr_db": 1e999}"#),
        ("malformed", "\u{0}\u{1}garbage"),
        ("malformed", r#"{"sinr_db": 9"#),
        ("malformed", r#"{"snr": 9}"#),
        ("malformed", r#"{"link": "10.0.0.1", "ue": "car", "sinr_db": 9}"#),
        ("range", r#"{"sinr_db": 1000}"#),
        ("range", r#"{"sinr_db": 9, "rsrp_dbm": 900}"#),
        ("range", r#"{"sinr_db": 9, "cqi": 16}"#),
        ("range", r#"{"sinr_db": 9, "age_ms": -5}"#),
        ("nothing", "{}"),
        ("stale", r#"{"sinr_db": 9, "age_ms": 20001}"#),
        ("backwards", r#"{"sinr_db": 9, "age_ms": 15000}"#),
        ("unknown-ue", r#"{"sinr_db": 9, "ue": "truck"}"#),
        ("forbidden", r#"{"sinr_db": 9, "link": "10.0.0.1"}"#),
        ("forbidden", r#"{"sinr_db": 9, "link": "10.0.0.0/8"}"#),
    ];
    let mut expected = rejected(http);
    for (reason, line) in cases {
        (0..3).for_each(|_| sender.send(line));
        *expected.entry(reason.to_owned()).or_default() += 3;
        wait(line, || rejected(http) == expected, || format!("{:?}\n{expected:?}", rejected(http)));
    }
    // If a datagram names a link twice, only the first reading is applied.
    sender.send("{\"ue\":\"car\",\"sinr_db\":9}\n{\"ue\":\"car\",\"sinr_db\":8}\n\n");
    *expected.entry("duplicate".to_owned()).or_default() += 1;
    wait("a duplicate", || rejected(http) == expected, || format!("{:?}", rejected(http)));
    // A spike, and a value that does not confirm it.
    sender.sinr(10.0);
    sender.sinr(45.0);
    sender.sinr(10.5);
    *expected.entry("outlier".to_owned()).or_default() += 1;
    wait("an outlier", || rejected(http) == expected, || format!("{:?}", rejected(http)));
    let links = sandbox.links();
    let sinr: Vec<_> = links.iter().map(|l| (l["link"].as_str().unwrap(), l["sinr_db"].as_f64().unwrap())).collect();
    assert_eq!(sinr, [("10.0.0.1/32", 10.5), ("10.0.0.2/32", 9.0)]);
    for reason in expected.keys() {
        feeder.wait_to_say(&format!("reading not applied: {reason}:"));
        assert_eq!(feeder.said(&format!("reading not applied: {reason}:")), 1, "{reason}: {}", feeder.all_said());
    }
}

#[test]
fn a_flood_changes_nothing_for_others() {
    let Some(sandbox) = sandbox("a_flood_changes_nothing_for_others") else { return };
    let (port, http) = (free_port(), free_port());
    let source = format!("udp:{}", local(port));
    let feeder = Process::feeder(
        &sandbox,
        &["--source", &source, "--ue", "loud=10.0.0.1", "--ue", "quiet=10.0.0.2", "--listen", &local(http).to_string()],
    );
    let sender = Sender::new(port);
    wait("links", || sandbox.links().len() == 2, || feeder.all_said());
    let mut sent = 0u64;
    let flooded = || rejected(http).get("flood").copied().unwrap_or(0) > 20_000;
    wait(
        "a flood",
        || {
            for _ in 0..2000 {
                sender.send(r#"{"ue":"loud","sinr_db":3}"#);
            }
            sent += 2000;
            sender.send(r#"{"ue":"quiet","sinr_db":12}"#);
            flooded()
        },
        || format!("{:?}", rejected(http)),
    );
    let (links, applied) = (sandbox.links(), metrics(http));
    assert!(links[0]["updates"].as_u64().unwrap() < sent / 2, "{links:?}");
    assert!(links[1]["updates"].as_u64() > Some(0) && links[1]["sinr_db"] == 12.0, "{links:?} {applied:?}");
    assert_eq!(feeder.said("reading not applied: flood:"), 1);
    std::thread::sleep(Duration::from_millis(50));
    assert!(sandbox.wait_for(|l| l["link"] == "10.0.0.2/32")["sinr_db"] == 12.0);
}
